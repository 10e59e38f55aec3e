// Token embedding: a scaled row lookup and its scatter-add.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// out[r,:] = scale * table[token[r],:]; out [rows,width], table [vocabulary,width]. Tokens are in range (the loader
/// checks them).
using EmbeddingForward = void(int64_t rows, int64_t width, float scale, const int32_t* tokens, const float* table,
                              Reals out);
/// dtable[token[r],:] += scale * dout[r,:], in row order for every token (same bits at any thread count). Without
/// accumulate the whole table [vocabulary,width] is cleared first.
using EmbeddingBackward = void(int64_t rows, int64_t width, int64_t vocabulary, float scale, const int32_t* tokens,
                               ConstReals dout, GradientOut dtable);

}  // namespace heddle
