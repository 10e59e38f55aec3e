// Reference EMA looping residual.
#include "kernels/ref/operations.h"

namespace heddle::ref {

void looping_residual_forward(int64_t count, const LoopingResidualCoefficients& c, const float* stream,
                              const float* branch, const float* n_local_in, const float* n_global_in,
                              float* n_local_out, float* n_global_out, float* stream_out) {
  for (int64_t i = 0; i < count; ++i) {
    const float local = (n_local_in == nullptr ? 0.0F : c.beta_local * n_local_in[i]) + c.branch_scale * branch[i];
    const float mean_local = local * c.inverse_d_local;
    const float global = (n_global_in == nullptr ? 0.0F : c.beta_global * n_global_in[i]) + mean_local;
    n_local_out[i] = local;
    n_global_out[i] = global;
    stream_out[i] = stream[i] + global * c.inverse_d_global + mean_local;
  }
}

void looping_residual_backward(int64_t count, const LoopingResidualCoefficients& c, const float* dstream_out,
                               const float* dn_local_out, const float* dn_global_out, float* dbranch,
                               float* dn_local_in, float* dn_global_in) {
  for (int64_t i = 0; i < count; ++i) {
    const float dglobal = dstream_out[i] * c.inverse_d_global + (dn_global_out == nullptr ? 0.0F : dn_global_out[i]);
    const float dlocal =
        (dstream_out[i] + dglobal) * c.inverse_d_local + (dn_local_out == nullptr ? 0.0F : dn_local_out[i]);
    dbranch[i] = c.branch_scale * dlocal;
    if (dn_local_in != nullptr) dn_local_in[i] = c.beta_local * dlocal;
    if (dn_global_in != nullptr) dn_global_in[i] = c.beta_global * dglobal;
  }
}

}  // namespace heddle::ref
