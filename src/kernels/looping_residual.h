// LOOM's EMA looping residual, one block (docs/loom.md section 3.5), with the branch multiplier in front:
//   o = branch_scale * branch
//   n_local  <- beta_local  * n_local  + o,         r_local  = n_local  * inverse_d_local
//   n_global <- beta_global * n_global + r_local,   r_global = n_global * inverse_d_global
//   stream_out = stream + r_global + r_local
// The scalars D are tracked by the caller. All tensors [count].
#pragma once

#include "kernels/types.h"

namespace heddle {

struct LoopingResidualCoefficients {
  float branch_scale = 1;
  float beta_local = 0;
  float inverse_d_local = 1;
  float beta_global = 0;
  float inverse_d_global = 1;
};

/// n_local_in / n_global_in are nullptr where the accumulator is empty (then beta is not used).
using LoopingResidualForward = void(int64_t count, const LoopingResidualCoefficients& c, ConstReals stream,
                                    ConstReals branch, const float* n_local_in, const float* n_global_in,
                                    float* n_local_out, float* n_global_out, Reals stream_out);
/// dstream_out [count] is the gradient of stream_out (its pass to `stream` is the identity and left to the caller).
/// dn_local_out, dn_global_out: gradients that later blocks sent back to the accumulators, nullptr if none.
/// Writes dbranch (overwrite), dn_local_in and dn_global_in (nullptr: not wanted; may be the memory of dn_local_out /
/// dn_global_out).
using LoopingResidualBackward = void(int64_t count, const LoopingResidualCoefficients& c, ConstReals dstream_out,
                                     const float* dn_local_out, const float* dn_global_out, Reals dbranch,
                                     float* dn_local_in, float* dn_global_in);

}  // namespace heddle
