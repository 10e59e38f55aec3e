// EMA looping residual: all accumulators in one pass over memory.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

/// An empty accumulator is read as zeros.
struct Residual {
  LoopingResidualCoefficients c;
  __device__ void operator()(float stream, float branch, float n_local_in, float n_global_in, float& n_local_out,
                             float& n_global_out, float& stream_out) const {
    const float local = c.beta_local * n_local_in + c.branch_scale * branch;
    const float mean_local = local * c.inverse_d_local;
    const float global = c.beta_global * n_global_in + mean_local;
    n_local_out = local;
    n_global_out = global;
    stream_out = stream + global * c.inverse_d_global + mean_local;
  }
};

/// A gradient that did not come back is read as zeros.
struct ResidualGradient {
  LoopingResidualCoefficients c;
  __device__ void operator()(float dstream_out, float dn_local_out, float dn_global_out, float& dbranch,
                             float& dn_local_in, float& dn_global_in) const {
    const float dglobal = dstream_out * c.inverse_d_global + dn_global_out;
    const float dlocal = (dstream_out + dglobal) * c.inverse_d_local + dn_local_out;
    dbranch = c.branch_scale * dlocal;
    dn_local_in = c.beta_local * dlocal;
    dn_global_in = c.beta_global * dglobal;
  }
};

}  // namespace

void looping_residual_forward(int64_t count, const LoopingResidualCoefficients& c, ConstReals stream, ConstReals branch,
                              const float* n_local_in, const float* n_global_in, float* n_local_out,
                              float* n_global_out, Reals stream_out) {
  with_stored(common_type({stream, branch, stream_out}), [&]<typename T>(T) {
    for_each_element(count, Residual{c}, stored<T>(stream), stored<T>(branch), n_local_in, n_global_in, n_local_out,
                     n_global_out, stored<T>(stream_out));
  });
}

void looping_residual_backward(int64_t count, const LoopingResidualCoefficients& c, ConstReals dstream_out,
                               const float* dn_local_out, const float* dn_global_out, Reals dbranch, float* dn_local_in,
                               float* dn_global_in) {
  with_stored(common_type({dstream_out, dbranch}), [&]<typename T>(T) {
    for_each_element(count, ResidualGradient{c}, stored<T>(dstream_out), dn_local_out, dn_global_out,
                     stored<T>(dbranch), dn_local_in, dn_global_in);
  });
}

}  // namespace heddle::cuda
