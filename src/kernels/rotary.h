// Rotary position embedding, half layout: element i of a head is paired with element i + head_dim/2,
// (a, b) -> (a cos - b sin, b cos + a sin), angle = position * theta^(-2i/head_dim) (docs/loom.md section 3.4).
#pragma once

#include "kernels/types.h"

namespace heddle {

/// Fills cosine and sine [positions, head_dim/2]; angles are computed in double.
void fill_rotary_table(int64_t positions, int64_t head_dim, double theta, float* cosine, float* sine);

/// x, y [rows, heads*head_dim], y may be x. position [rows] indexes the tables' rows. inverse rotates back: that is the
/// gradient of the forward rotation.
using Rotary = void(int64_t rows, int64_t heads, int64_t head_dim, const int32_t* position, const float* cosine,
                    const float* sine, bool inverse, ConstReals x, Reals y);

}  // namespace heddle
