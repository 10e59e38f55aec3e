// Attention: which way a call takes, and its sizes.
#include <initializer_list>

#include "cuda/launch_shape.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_sizes.h"
#include "kernels/cuda/operations.h"
#include "support/narrow.h"

namespace heddle::cuda {

namespace {

bool is_empty(const AttentionShape& s) {
  return s.batch == 0 || s.sequence == 0 || s.query_heads == 0 || s.head_dim == 0;
}

void require_one_type(std::initializer_list<ConstReals> tensors) {
  for (const ConstReals& x : tensors)
    require(x.type == tensors.begin()->type, "attention's tensors are all stored in the same type");
}

bool on_tensor_cores(const AttentionShape& s, std::initializer_list<ConstReals> tensors) {
  if (s.head_dim % 8 != 0 || s.head_dim > attention_on_tensor_cores::kMostHeadDim || !(s.scale > 0)) return false;
  for (const ConstReals& x : tensors)
    if (x.type != RealType::kBfloat16 || !in_whole_packs(x)) return false;
  return true;
}

}  // namespace

AttentionSizes attention_sizes(const AttentionShape& s) {
  return {narrow<int>(s.sequence), narrow<int>(s.query_heads),
          narrow<int>(s.kv_heads), narrow<int>(div_exact(s.query_heads, s.kv_heads, "query heads per key-value head")),
          narrow<int>(s.head_dim), s.scale};
}

unsigned attention_blocks(const AttentionShape& s, int64_t heads, int64_t tile_rows) {
  return block_count(s.batch * heads * div_up(s.sequence, tile_rows), 1);
}

int64_t attention_workspace(const AttentionShape& s) {
  return s.batch * s.query_heads * s.sequence;
}

void attention_forward(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v,
                       const int32_t* document_start, Reals out, float* lse, float* /*workspace*/) {
  require_one_type({q, k, v, out});
  if (is_empty(shape)) return;
  if (on_tensor_cores(shape, {q, k, v, out}))
    attention_on_tensor_cores::forward(shape, q, k, v, document_start, out, lse);
  else
    attention_plain::forward(shape, q, k, v, document_start, out, lse);
}

void attention_backward(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v,
                        const int32_t* document_start, ConstReals out, const float* lse, ConstReals dout, Reals dq,
                        Reals dk, Reals dv, float* workspace) {
  require_one_type({q, k, v, out, dout, dq, dk, dv});
  if (is_empty(shape)) return;
  attention_delta(shape, out, dout, workspace);
  const AttentionGradientInputs in = {q, k, v, dout, document_start, lse, workspace};
  if (on_tensor_cores(shape, {q, k, v, dout, dq, dk, dv})) {
    attention_on_tensor_cores::query_gradient(shape, in, dq);
    attention_on_tensor_cores::key_gradient(shape, in, dk, dv);
  } else {
    attention_plain::query_gradient(shape, in, dq);
    attention_plain::key_gradient(shape, in, dk, dv);
  }
}

}  // namespace heddle::cuda
