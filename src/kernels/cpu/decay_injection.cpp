// Injection with a learned decay: the channels' constants first, then rows, then sums over rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/operations.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

/// Constants of every channel, in double for the few numbers that there are.
struct Channels {
  std::vector<float> keep, delta;  ///< exp(-Delta A) and Delta

  Channels(int64_t width, const float* dt_bias, const float* a_log)
      : keep(static_cast<size_t>(width)), delta(static_cast<size_t>(width)) {
    for (size_t d = 0; d < keep.size(); ++d) {
      const double step = softplus(dt_bias[d]);
      delta[d] = static_cast<float>(step);
      keep[d] = static_cast<float>(std::exp(-step * std::exp(static_cast<double>(a_log[d]))));
    }
  }
  static double softplus(float x) {
    const double value = static_cast<double>(x);
    return std::max(value, 0.0) + std::log1p(std::exp(-std::abs(value)));
  }
};

/// out = factor * dout by rows, or out += that.
void scale_channels(int64_t rows, int64_t width, const float* factor, const float* dout, GradientOut out) {
  if (!out) return;
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = dout + r * width;
    float* const to = out.data + r * width;
    if (out.accumulate) {
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] += factor[d] * from[d];
    } else {
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] = factor[d] * from[d];
    }
  });
}

}  // namespace

void decay_injection_forward(int64_t rows, int64_t width, const float* h, const float* injected, const float* dt_bias,
                             const float* a_log, float* out) {
  const Channels channels(width, dt_bias, a_log);
  const float* const keep = channels.keep.data();
  const float* const delta = channels.delta.data();
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const state = h + r * width;
    const float* const input = injected + r * width;
    float* const to = out + r * width;
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) to[d] = keep[d] * state[d] + delta[d] * input[d];
  });
}

void decay_injection_backward(int64_t rows, int64_t width, const float* h, const float* injected, const float* dt_bias,
                              const float* a_log, const float* dout, GradientOut dh, GradientOut dinjected,
                              GradientOut ddt_bias, GradientOut da_log) {
  const Channels channels(width, dt_bias, a_log);
  scale_channels(rows, width, channels.keep.data(), dout, dh);
  scale_channels(rows, width, channels.delta.data(), dout, dinjected);
  if (!ddt_bias && !da_log) return;
  sum_columns<2>(
      rows, width,
      [=](int64_t r, int64_t first, int64_t columns, std::array<Stripe<float>, 2>& sums) {
        const float* const gradient = dout + r * width + first;
        const float* const state = h + r * width + first;
        const float* const input = injected + r * width + first;
        float* const with_state = sums[0].data();
        float* const with_input = sums[1].data();
#pragma omp simd
        for (int64_t d = 0; d < columns; ++d) {
          with_state[d] += gradient[d] * state[d];
          with_input[d] += gradient[d] * input[d];
        }
      },
      [=](int64_t d, const std::array<double, 2>& total) {
        const double bias = static_cast<double>(dt_bias[d]), rate = std::exp(static_cast<double>(a_log[d]));
        const double delta = Channels::softplus(dt_bias[d]), keep = std::exp(-delta * rate);
        put(ddt_bias, d, (total[1] - rate * keep * total[0]) / (1 + std::exp(-bias)));
        put(da_log, d, -rate * delta * keep * total[0]);
      });
}

}  // namespace heddle::cpu
