// The shape of attention as kernels get it.
#pragma once

#include "kernels/attention.h"

namespace heddle::cuda {

struct AttentionSizes {
  int sequence, query_heads, kv_heads;
  int share;  ///< query heads per key-value head
  int head_dim;
  float scale;
};

/// For a shape that is not empty. Throws Error where a size does not fit.
AttentionSizes attention_sizes(const AttentionShape& shape);

/// Blocks for all tiles of `tile_rows` positions of `heads` heads. Throws Error where the number does not fit.
unsigned attention_blocks(const AttentionShape& shape, int64_t heads, int64_t tile_rows);

}  // namespace heddle::cuda
