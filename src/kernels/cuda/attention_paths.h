// The two ways to calculate attention: on tensor cores, and plainly.
#pragma once

#include "kernels/attention.h"

namespace heddle::cuda {

/// Whether 16-byte accesses can reach these reals from their start.
inline bool in_whole_packs(const ConstReals& x) {
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

/// delta [batch, query_heads, sequence] = out . dout of each query.
void attention_delta(const AttentionShape& shape, ConstReals out, ConstReals dout, float* delta);

/// What both ways get for the gradients.
struct AttentionGradientInputs {
  ConstReals q, k, v, dout;
  const int32_t* document_start;
  const float *lse, *delta;
};

/// Products of bfloat16 with sums in float; probabilities are rounded to bfloat16 before they weigh values.
namespace attention_on_tensor_cores {
/// For bfloat16 at multiples of 16 bytes, head_dim a multiple of 8 up to kMostHeadDim, and a scale above 0.
constexpr int64_t kMostHeadDim = 128;

void forward(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v, const int32_t* document_start,
             Reals out, float* lse);
void query_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dq);
void key_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dk, Reals dv);
}  // namespace attention_on_tensor_cores

/// Everything in float, for any shape and either type.
namespace attention_plain {
void forward(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v, const int32_t* document_start,
             Reals out, float* lse);
void query_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dq);
void key_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dk, Reals dv);
}  // namespace attention_plain

}  // namespace heddle::cuda
