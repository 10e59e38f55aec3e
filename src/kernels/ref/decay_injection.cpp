// Reference injection with a learned decay.
#include <algorithm>
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {

struct Channel {
  double delta, rate, keep;  ///< Delta, A, exp(-Delta A)
  Channel(float dt_bias, float a_log) {
    const double bias = static_cast<double>(dt_bias);
    delta = std::max(bias, 0.0) + std::log1p(std::exp(-std::abs(bias)));
    rate = std::exp(static_cast<double>(a_log));
    keep = std::exp(-delta * rate);
  }
};

}  // namespace

void decay_injection_forward(int64_t rows, int64_t width, const float* h, const float* injected, const float* dt_bias,
                             const float* a_log, float* out) {
  for (int64_t d = 0; d < width; ++d) {
    const Channel c(dt_bias[d], a_log[d]);
    for (int64_t i = d; i < rows * width; i += width)
      out[i] = static_cast<float>(c.keep * static_cast<double>(h[i]) + c.delta * static_cast<double>(injected[i]));
  }
}

void decay_injection_backward(int64_t rows, int64_t width, const float* h, const float* injected, const float* dt_bias,
                              const float* a_log, const float* dout, GradientOut dh, GradientOut dinjected,
                              GradientOut ddt_bias, GradientOut da_log) {
  for (int64_t d = 0; d < width; ++d) {
    const Channel c(dt_bias[d], a_log[d]);
    double ddelta = 0, drate = 0;
    for (int64_t i = d; i < rows * width; i += width) {
      const double gradient = static_cast<double>(dout[i]), state = static_cast<double>(h[i]);
      put(dh, i, c.keep * gradient);
      put(dinjected, i, c.delta * gradient);
      ddelta += gradient * (static_cast<double>(injected[i]) - c.rate * c.keep * state);
      drate -= gradient * c.delta * c.keep * state;
    }
    put(ddt_bias, d, ddelta / (1 + std::exp(-static_cast<double>(dt_bias[d]))));
    put(da_log, d, drate * c.rate);
  }
}

}  // namespace heddle::ref
