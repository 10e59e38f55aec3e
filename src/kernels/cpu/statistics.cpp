#include "kernels/cpu/operations.h"

namespace heddle::cpu {

void add_squares(int64_t count, double scale, const float* x, double* sum) {
  *sum += scale * sum_of_squares(count, x);
}

}  // namespace heddle::cpu
