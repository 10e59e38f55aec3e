// Causal grouped-query attention inside documents, without ever storing a sequence x sequence matrix per head for the
// whole batch: probabilities live in tiles of query rows, and the backward pass recomputes them from `lse`.
#pragma once

#include "kernels/types.h"

namespace heddle {

struct AttentionShape {
  int64_t batch = 0;        ///< rows of the batch
  int64_t sequence = 0;     ///< positions of each row
  int64_t query_heads = 0;  ///< a multiple of kv_heads; query head h reads key-value head h / (query_heads / kv_heads)
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 0;  ///< multiplies q.k, usually 1/sqrt(head_dim)
};

/// Floats of scratch memory that forward and backward want (the larger of the two): a share for each of
/// parallel_workers(), so ask under the thread setting under which you call.
using AttentionWorkspace = int64_t(const AttentionShape& shape);

/// q [batch*sequence, query_heads*head_dim], k and v [batch*sequence, kv_heads*head_dim], out like q,
/// lse [batch, query_heads, sequence] = log of the sum of exp(scores).
/// document_start [batch*sequence]: first position (within the row) that position s may attend to, 0 <= start <= s and
/// not decreasing along a row; nullptr: 0 everywhere. Position s attends to start .. s.
using AttentionForward = void(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v,
                              const int32_t* document_start, Reals out, float* lse, float* workspace);
/// Overwrites dq, dk, dv.
using AttentionBackward = void(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v,
                               const int32_t* document_start, ConstReals out, const float* lse, ConstReals dout,
                               Reals dq, Reals dk, Reals dv, float* workspace);

}  // namespace heddle
