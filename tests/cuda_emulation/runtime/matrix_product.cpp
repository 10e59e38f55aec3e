#include "runtime/matrix_product.h"

#include <bit>

#include "runtime/device_limits.h"

namespace cuda_emulation {

namespace {

float low_bfloat16(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}
float high_bfloat16(uint32_t bits) {
  return std::bit_cast<float>(bits & 0xffff0000u);
}

}  // namespace

void matrix_product(MatrixFragments* lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int group = lane / 4, pair = 2 * (lane % 4);
    for (int i = 0; i < 4; ++i) {
      const int row = group + 8 * (i % 2), column = pair + 8 * (i / 2);
      a[row][column] = low_bfloat16(lanes[lane].a[i]);
      a[row][column + 1] = high_bfloat16(lanes[lane].a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[pair + 8 * i][group] = low_bfloat16(lanes[lane].b[i]);
      b[pair + 8 * i + 1][group] = high_bfloat16(lanes[lane].b[i]);
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int group = lane / 4, pair = 2 * (lane % 4);
    for (int i = 0; i < 4; ++i) {
      const int row = group + 8 * (i / 2), column = pair + i % 2;
      for (int k = 0; k < 16; ++k) lanes[lane].d[i] += a[row][k] * b[k][column];
    }
  }
}

}  // namespace cuda_emulation
