// Reference linear combinations.
#include "kernels/ref/operations.h"

namespace heddle::ref {

void linear_combination(int64_t count, float alpha, const float* x, float beta, const float* y, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = alpha * x[i] + beta * y[i];
}

void scale(int64_t count, float alpha, const float* x, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = alpha * x[i];
}

double sum_of_squares(int64_t count, const float* x) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace heddle::ref
