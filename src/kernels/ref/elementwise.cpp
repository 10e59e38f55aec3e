// Reference linear combinations.
#include "kernels/ref/operations.h"

namespace heddle::ref {

void linear_combination(int64_t count, float alpha, const float* x, float beta, const float* y, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = alpha * x[i] + beta * y[i];
}

void scale(int64_t count, float alpha, const float* x, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = alpha * x[i];
}

void fill_zero(int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] = 0;
}

double sum_of_squares(int64_t count, const float* x) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void sums_of_squares(int64_t stretches, const Stretch* list, double* sums) {
  for (int64_t s = 0; s < stretches; ++s) sums[s] = sum_of_squares(list[s].count, list[s].data);
}

double sum_doubles(int64_t count, const double* x, bool squares) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += squares ? x[i] * x[i] : x[i];
  return sum;
}

void weighted_sum_forward(int64_t count, int64_t terms, const float* base, const float* weights, const ConstReals* xs,
                          float* out) {
  for (int64_t i = 0; i < count; ++i) {
    double sum = base == nullptr ? 0 : static_cast<double>(base[i]);
    for (int64_t k = 0; k < terms; ++k)
      sum += static_cast<double>(weights[k]) * static_cast<double>(on_floats::plain(xs[k])[i]);
    out[i] = static_cast<float>(sum);
  }
}

void weighted_term_backward(int64_t count, const float* weight, const float* x, const float* dout, GradientOut dx,
                            GradientOut dweight) {
  for (int64_t i = 0; i < count && dx; ++i) put(dx, i, static_cast<double>(*weight) * static_cast<double>(dout[i]));
  double sum = 0;
  for (int64_t i = 0; i < count && dweight; ++i) sum += static_cast<double>(dout[i]) * static_cast<double>(x[i]);
  put(dweight, 0, sum);
}

}  // namespace heddle::ref
