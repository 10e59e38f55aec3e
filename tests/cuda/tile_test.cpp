// Tiles in shared memory: copies that run on their own, fragments for tensor cores, and powers of two.
#include <cmath>
#include <limits>

#include "cuda/on_device.h"
#include "cuda/tile_kernels.h"

namespace heddle::cuda {

namespace {

using Tiles = OnDevice;

std::vector<__nv_bfloat16> small_integers(int factor, int modulus) {
  std::vector<__nv_bfloat16> values;
  for (int i = 0; i < 256; ++i)
    values.push_back(__float2bfloat16(static_cast<float>(i * factor % modulus - modulus / 2)));
  return values;
}

}  // namespace

TEST_F(Tiles, ProductsFromRowsAndFromTheirTranspose) {
  constexpr size_t kSize = 16, kRows = 11;
  const std::vector<__nv_bfloat16> a = small_integers(7, 13), b = small_integers(5, 11);
  DeviceArray<__nv_bfloat16> device_a(a), device_b(b);
  DeviceArray<float> by_rows(256), by_transpose(256);
  multiply_tiles_on_device(device_a.data(), device_b.data(), static_cast<int>(kRows), by_rows.data(),
                           by_transpose.data(), context().compute_stream());
  const std::vector<float> found = by_rows.values(), found_transpose = by_transpose.values();
  for (size_t row = 0; row < kSize; ++row)
    for (size_t column = 0; column < kSize; ++column) {
      float sum = 0, sum_transpose = 0;
      for (size_t i = 0; i < kSize && row < kRows; ++i) {
        sum += __bfloat162float(a[row * kSize + i]) * __bfloat162float(b[i * kSize + column]);
        sum_transpose += __bfloat162float(a[row * kSize + i]) * __bfloat162float(b[column * kSize + i]);
      }
      EXPECT_EQ(found[row * kSize + column], sum) << row << ", " << column;
      EXPECT_EQ(found_transpose[row * kSize + column], sum_transpose) << row << ", " << column;
    }
}

TEST_F(Tiles, PiecesOfThreeSizesAndZeros) {
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  DeviceArray<float> from(values), to(3 * 64);
  copy_in_pieces_on_device(from.data(), to.data(), context().compute_stream());
  const std::vector<float> found = to.values();
  for (size_t list = 0; list < 3; ++list)
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(found[64 * list + i], (i >> list) % 2 == 0 ? values[i] : 0.0f) << "list " << list << ", " << i;
}

TEST_F(Tiles, PowersOfTwo) {
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 4.3f - 100.0f;
  x[30] = -std::numeric_limits<float>::infinity();
  x[31] = std::numeric_limits<float>::quiet_NaN();
  DeviceArray<float> device_x(x), y(32);
  exp2_on_device(device_x.data(), y.data(), context().compute_stream());
  const std::vector<float> found = y.values();
  for (size_t i = 0; i < 30; ++i) {
    const double power = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(static_cast<double>(found[i]), power, 3e-7 * power) << x[i];
  }
  EXPECT_EQ(found[30], 0.0f);
  EXPECT_TRUE(std::isnan(found[31]));
}

}  // namespace heddle::cuda
