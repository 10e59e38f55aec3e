// EMA looping residual: all accumulators in one pass over memory.
#include "kernels/cpu/operations.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

/// kLocal, kGlobal: the accumulator is not empty (forward), or a gradient came back to it (backward).
template <bool kLocal, bool kGlobal>
void forward(int64_t count, LoopingResidualCoefficients c, const float* stream, const float* branch,
             const float* n_local_in, const float* n_global_in, float* n_local_out, float* n_global_out,
             float* stream_out) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      float local = c.branch_scale * branch[i];
      if constexpr (kLocal) local += c.beta_local * n_local_in[i];
      const float mean_local = local * c.inverse_d_local;
      float global = mean_local;
      if constexpr (kGlobal) global += c.beta_global * n_global_in[i];
      n_local_out[i] = local;
      n_global_out[i] = global;
      stream_out[i] = stream[i] + global * c.inverse_d_global + mean_local;
    }
  });
}

template <bool kLocal, bool kGlobal>
void backward(int64_t count, const LoopingResidualCoefficients& c, const float* dstream_out, const float* dn_local_out,
              const float* dn_global_out, float* dbranch, float* dn_local_in, float* dn_global_in) {
  const bool want_local = dn_local_in != nullptr, want_global = dn_global_in != nullptr;
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      float dglobal = dstream_out[i] * c.inverse_d_global;
      if constexpr (kGlobal) dglobal += dn_global_out[i];
      float dlocal = (dstream_out[i] + dglobal) * c.inverse_d_local;
      if constexpr (kLocal) dlocal += dn_local_out[i];
      dbranch[i] = c.branch_scale * dlocal;
      if (want_local) dn_local_in[i] = c.beta_local * dlocal;
      if (want_global) dn_global_in[i] = c.beta_global * dglobal;
    }
  });
}

}  // namespace

void looping_residual_forward(int64_t count, const LoopingResidualCoefficients& c, const float* stream,
                              const float* branch, const float* n_local_in, const float* n_global_in,
                              float* n_local_out, float* n_global_out, float* stream_out) {
  auto* const variant = n_local_in != nullptr
                            ? (n_global_in != nullptr ? &forward<true, true> : &forward<true, false>)
                            : (n_global_in != nullptr ? &forward<false, true> : &forward<false, false>);
  variant(count, c, stream, branch, n_local_in, n_global_in, n_local_out, n_global_out, stream_out);
}

void looping_residual_backward(int64_t count, const LoopingResidualCoefficients& c, const float* dstream_out,
                               const float* dn_local_out, const float* dn_global_out, float* dbranch,
                               float* dn_local_in, float* dn_global_in) {
  auto* const variant = dn_local_out != nullptr
                            ? (dn_global_out != nullptr ? &backward<true, true> : &backward<true, false>)
                            : (dn_global_out != nullptr ? &backward<false, true> : &backward<false, false>);
  variant(count, c, dstream_out, dn_local_out, dn_global_out, dbranch, dn_local_in, dn_global_in);
}

}  // namespace heddle::cpu
