// Injection with a learned decay: the channels' constants first, in double for the few numbers that there are; then
// rows, or rows and the sums over them in one pass.
#include "cuda/scratch.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

struct Channel {
  double delta, rate, keep;  ///< Delta, A, exp(-Delta A)
  __device__ Channel(float dt_bias, float a_log) {
    const double bias = static_cast<double>(dt_bias);
    delta = fmax(bias, 0.0) + log1p(exp(-fabs(bias)));
    rate = exp(static_cast<double>(a_log));
    keep = exp(-delta * rate);
  }
};

__global__ void __launch_bounds__(kThreads)
    channels_kernel(int64_t width, const float* __restrict__ dt_bias, const float* __restrict__ a_log,
                    float* __restrict__ keep, float* __restrict__ delta) {
  const int64_t d = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (d >= width) return;
  const Channel channel(dt_bias[d], a_log[d]);
  keep[d] = static_cast<float>(channel.keep);
  delta[d] = static_cast<float>(channel.delta);
}

/// exp(-Delta A) and Delta of every channel, in scratch memory.
struct Channels {
  const float *keep, *delta;
};
size_t bytes_of_channels(int64_t width) {
  return 2 * Scratch::bytes_of<float>(width);
}
Channels make_channels(Scratch& scratch, int64_t width, const float* dt_bias, const float* a_log) {
  auto* const keep = scratch.take<float>(width);
  auto* const delta = scratch.take<float>(width);
  launch(channels_kernel, {block_count(width, kThreads), kThreads}, context().compute_stream(), width, dt_bias, a_log,
         keep, delta);
  return {keep, delta};
}

/// A warp for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    inject_kernel(int64_t rows, int64_t width, const T* h, const T* injected, const float* __restrict__ keep,
                  const float* __restrict__ delta, T* out) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const auto state = load<kPack>(h + r * width, d, width);
    const auto input = load<kPack>(injected + r * width, d, width);
    const auto of_state = load<kPack>(keep, d, width);
    const auto of_input = load<kPack>(delta, d, width);
    float result[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) result[i] = of_state[i] * state[i] + of_input[i] * input[i];
    store(out + r * width, d, width, result);
  }
}

/// Results, and what they are added to, may be null. partials [part, 2, width]: sums over the part's rows of dout * h
/// and of dout * injected; null: not wanted, and then h and injected are not read.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    inject_gradient_kernel(int64_t rows, int64_t width, int64_t rows_of_part, const T* h, const T* injected,
                           const float* __restrict__ keep, const float* __restrict__ delta, const T* dout,
                           const T* old_dh, T* dh, const T* old_dinjected, T* dinjected, float* partials) {
  constexpr int kPack = kPackSize<T>;
  const int64_t strip = int64_t{blockIdx.x} * kWarpSize * kPack, part = blockIdx.y;
  const int64_t d = strip + lane_index() * kPack;
  const int64_t end = (part + 1) * rows_of_part < rows ? (part + 1) * rows_of_part : rows;
  const auto of_state = load<kPack>(keep, d, width);
  const auto of_input = load<kPack>(delta, d, width);
  if (partials == nullptr) h = injected = nullptr;
  float sums[2][kPack] = {};
  for (int64_t r = part * rows_of_part + warp_index(); r < end; r += kWarps) {
    const auto gradient = load<kPack>(dout + r * width, d, width);
    const auto state = load<kPack>(row_of(h, r, width), d, width);
    const auto input = load<kPack>(row_of(injected, r, width), d, width);
    const auto old_state = load<kPack>(row_of(old_dh, r, width), d, width);
    const auto old_input = load<kPack>(row_of(old_dinjected, r, width), d, width);
    float to_state[kPack], to_input[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      sums[0][i] += gradient[i] * state[i];
      sums[1][i] += gradient[i] * input[i];
      to_state[i] = old_state[i] + of_state[i] * gradient[i];
      to_input[i] = old_input[i] + of_input[i] * gradient[i];
    }
    store(row_of(dh, r, width), d, width, to_state);
    store(row_of(dinjected, r, width), d, width, to_input);
  }
  if (partials != nullptr) store_partial_sums(sums, part, strip, width, partials);
}

/// From the sums of dout * h and dout * injected to the gradients of a channel's parameters.
struct FinishChannel {
  const float *dt_bias, *a_log;
  GradientOut ddt_bias, da_log;
  __device__ void operator()(int64_t d, const double (&totals)[2]) const {
    const Channel c(dt_bias[d], a_log[d]);
    const double ddelta = totals[1] - c.rate * c.keep * totals[0];
    put(ddt_bias, d, ddelta / (1.0 + exp(-static_cast<double>(dt_bias[d]))));
    put(da_log, d, -c.rate * c.delta * c.keep * totals[0]);
  }
  static __device__ void put(const GradientOut& out, int64_t d, double value) {
    if (out.data != nullptr)
      out.data[d] = static_cast<float>(out.accumulate ? static_cast<double>(out.data[d]) + value : value);
  }
};

}  // namespace

void decay_injection_forward(int64_t rows, int64_t width, ConstReals h, ConstReals injected, const float* dt_bias,
                             const float* a_log, Reals out) {
  if (rows * width == 0) return;
  Scratch scratch(bytes_of_channels(width));
  const Channels channels = make_channels(scratch, width, dt_bias, a_log);
  with_stored(common_type({h, injected, out}), [&]<typename T>(T) {
    launch(inject_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width,
           stored<T>(h), stored<T>(injected), channels.keep, channels.delta, stored<T>(out));
  });
}

void decay_injection_backward(int64_t rows, int64_t width, ConstReals h, ConstReals injected, const float* dt_bias,
                              const float* a_log, ConstReals dout, RealsGradient dh, RealsGradient dinjected,
                              GradientOut ddt_bias, GradientOut da_log) {
  const bool sums = ddt_bias || da_log;
  if (width == 0 || (!dh && !dinjected && !sums)) return;
  with_stored(common_type({h, injected, dout, dh.data, dinjected.data}), [&]<typename T>(T) {
    constexpr int kPack = kPackSize<T>;
    const RowParts parts = cut_rows_for_strips<kPack>(rows, width);
    const int64_t partial_count = sums ? parts.count * 2 * width : 0;
    Scratch scratch(bytes_of_channels(width) + Scratch::bytes_of<float>(partial_count));
    const Channels channels = make_channels(scratch, width, dt_bias, a_log);
    float* const partials = sums ? scratch.take<float>(partial_count) : nullptr;
    T* const to_h = stored<T>(dh.data);
    T* const to_injected = stored<T>(dinjected.data);
    if (rows > 0)
      launch(inject_gradient_kernel<T>,
             {{block_count(width, kWarpSize * kPack), block_count(parts.count, 1)}, kThreads},
             context().compute_stream(), rows, width, parts.rows, stored<T>(h), stored<T>(injected), channels.keep,
             channels.delta, stored<T>(dout), dh.accumulate ? to_h : nullptr, to_h,
             dinjected.accumulate ? to_injected : nullptr, to_injected, partials);
    if (sums) finish_columns<2>(parts.count, width, partials, FinishChannel{dt_bias, a_log, ddt_bias, da_log});
  });
}

}  // namespace heddle::cuda
