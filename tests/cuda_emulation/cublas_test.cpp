// The emulated cuBLAS against sums in double, for every transposition, type and stride, and its refusals.
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <cmath>
#include <random>

#include "cuda/library_error.h"
#include "cuda/on_device.h"

namespace heddle::cuda {

namespace {

template <typename T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

template <typename T>
std::vector<T> random_values(size_t count, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<T> values(count);
  for (T& value : values) value = T(normal(generator));
  return values;
}

float as_float(float value) {
  return value;
}
float as_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

/// One product's sizes. Columns are `gap` longer than the matrices need.
struct Sizes {
  int m, n, k;
  cublasOperation_t transpose_a, transpose_b;
  int gap;

  int rows_a() const { return (transpose_a == CUBLAS_OP_T ? k : m) + gap; }
  int rows_b() const { return (transpose_b == CUBLAS_OP_T ? n : k) + gap; }
  int rows_c() const { return m + gap; }
  size_t size_a() const { return static_cast<size_t>(rows_a() * (transpose_a == CUBLAS_OP_T ? m : k)); }
  size_t size_b() const { return static_cast<size_t>(rows_b() * (transpose_b == CUBLAS_OP_T ? k : n)); }
  size_t size_c() const { return static_cast<size_t>(rows_c() * n); }
};

/// alpha op(A) op(B) + beta C at (row, column), from the first element of each matrix on.
template <typename In, typename Out>
double expected(const Sizes& s, const In* a, const In* b, const Out* c, float alpha, float beta, int row, int column) {
  double sum = 0.0;
  for (int i = 0; i < s.k; ++i) {
    const In x = s.transpose_a == CUBLAS_OP_T ? a[row * s.rows_a() + i] : a[i * s.rows_a() + row];
    const In y = s.transpose_b == CUBLAS_OP_T ? b[i * s.rows_b() + column] : b[column * s.rows_b() + i];
    sum += static_cast<double>(as_float(x)) * as_float(y);
  }
  return alpha * sum + (beta == 0.0f ? 0.0 : beta * static_cast<double>(as_float(c[column * s.rows_c() + row])));
}

template <typename In, typename Out>
void expect_strided_products(const Sizes& s, int products, float beta) {
  const std::vector<In> a = random_values<In>(s.size_a() * static_cast<size_t>(products), 1);
  const std::vector<In> b = random_values<In>(s.size_b() * static_cast<size_t>(products), 2);
  const std::vector<Out> c = random_values<Out>(s.size_c() * static_cast<size_t>(products), 3);
  DeviceArray<In> device_a(a), device_b(b);
  DeviceArray<Out> device_c(c);
  const float alpha = 0.5f;
  check(cublasGemmStridedBatchedEx(context().cublas(), s.transpose_a, s.transpose_b, s.m, s.n, s.k, &alpha,
                                   device_a.data(), kType<In>, s.rows_a(), static_cast<long long>(s.size_a()),
                                   device_b.data(), kType<In>, s.rows_b(), static_cast<long long>(s.size_b()), &beta,
                                   device_c.data(), kType<Out>, s.rows_c(), static_cast<long long>(s.size_c()),
                                   products, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  const std::vector<Out> result = device_c.values();
  const double precision = std::is_same_v<Out, float> ? 1e-5 : 1.0 / 128;
  for (int product = 0; product < products; ++product)
    for (int column = 0; column < s.n; ++column)
      for (int row = 0; row < s.rows_c(); ++row) {
        const auto p = static_cast<size_t>(product);
        const size_t i = p * s.size_c() + static_cast<size_t>(column * s.rows_c() + row);
        if (row >= s.m) {
          ASSERT_EQ(as_float(result[i]), as_float(c[i])) << "written between columns";
          continue;
        }
        const double e =
            expected(s, &a[p * s.size_a()], &b[p * s.size_b()], &c[p * s.size_c()], alpha, beta, row, column);
        ASSERT_NEAR(as_float(result[i]), e, precision * (std::abs(e) + 1.0)) << row << ", " << column;
      }
}

using EmulatedCublas = OnDevice;

}  // namespace

TEST_F(EmulatedCublas, MultipliesEveryTranspositionAndType) {
  for (const cublasOperation_t transpose_a : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (const cublasOperation_t transpose_b : {CUBLAS_OP_N, CUBLAS_OP_T})
      for (const int gap : {0, 3}) {
        const Sizes sizes = {33, 17, 29, transpose_a, transpose_b, gap};
        for (const float beta : {0.0f, 2.0f}) {
          expect_strided_products<float, float>(sizes, 3, beta);
          expect_strided_products<__nv_bfloat16, float>(sizes, 1, beta);
          expect_strided_products<__nv_bfloat16, __nv_bfloat16>(sizes, 2, beta);
        }
      }
}

TEST_F(EmulatedCublas, WithoutInnerDimensionOnlyBetaCounts) {
  const Sizes sizes = {5, 4, 0, CUBLAS_OP_T, CUBLAS_OP_T, 0};
  const float alpha = 1.0f;
  for (const float beta : {0.0f, 0.5f}) {
    DeviceArray<float> c(std::vector<float>(20, 4.0f));
    check(
        cublasGemmEx(context().cublas(), CUBLAS_OP_N, CUBLAS_OP_N, sizes.m, sizes.n, 0, &alpha, nullptr, CUDA_R_32F, 5,
                     nullptr, CUDA_R_32F, 1, &beta, c.data(), CUDA_R_32F, 5, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
    EXPECT_EQ(c.values(), std::vector<float>(20, 4.0f * beta));
  }
}

TEST_F(EmulatedCublas, GroupsHaveShapesOfTheirOwn) {
  // Three experts of 8 x 16 weights see 5, 0 and 9 rows of 16; the rows of an expert lie together.
  const std::vector<int> rows = {5, 0, 9}, outputs(3, 8), inputs(3, 16), one(3, 1), width(3, 16), width_out(3, 8);
  const std::vector<cublasOperation_t> transposed(3, CUBLAS_OP_T), plain(3, CUBLAS_OP_N);
  const std::vector<float> alpha(3, 1.0f), beta(3, 0.0f);
  const std::vector<__nv_bfloat16> x = random_values<__nv_bfloat16>(14 * 16, 4);
  const std::vector<__nv_bfloat16> w = random_values<__nv_bfloat16>(3 * 8 * 16, 5);
  DeviceArray<__nv_bfloat16> device_x(x), device_w(w), device_y(14 * 8);
  DeviceArray<const void*> a(std::vector<const void*>{device_w.data(), device_w.data() + 128, device_w.data() + 256});
  DeviceArray<const void*> b(std::vector<const void*>{device_x.data(), device_x.data() + 80, device_x.data() + 80});
  DeviceArray<void*> c(std::vector<void*>{device_y.data(), device_y.data() + 40, device_y.data() + 40});
  check(cublasGemmGroupedBatchedEx(context().cublas(), transposed.data(), plain.data(), outputs.data(), rows.data(),
                                   inputs.data(), alpha.data(), a.data(), CUDA_R_16BF, width.data(), b.data(),
                                   CUDA_R_16BF, width.data(), beta.data(), c.data(), CUDA_R_16BF, width_out.data(), 3,
                                   one.data(), CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
  const std::vector<__nv_bfloat16> y = device_y.values();
  for (size_t row = 0; row < 14; ++row)
    for (size_t output = 0; output < 8; ++output) {
      const size_t expert = row < 5 ? 0 : 2;
      double e = 0.0;
      for (size_t i = 0; i < 16; ++i)
        e += static_cast<double>(as_float(x[row * 16 + i])) * as_float(w[expert * 128 + output * 16 + i]);
      EXPECT_NEAR(as_float(y[row * 8 + output]), e, (std::abs(e) + 1.0) / 128);
    }
}

TEST_F(EmulatedCublas, RefusesWhatCublasRefuses) {
  const float alpha = 1.0f, beta = 0.0f;
  DeviceArray<float> memory(64);
  const auto product = [&](int m, int stride_a, cudaDataType type_a, cudaDataType type_c) {
    return cublasGemmEx(context().cublas(), CUBLAS_OP_N, CUBLAS_OP_N, m, 4, 4, &alpha, memory.data(), type_a, stride_a,
                        memory.data(), type_a, 4, &beta, memory.data(), type_c, 4, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  };
  EXPECT_EQ(product(-1, 4, CUDA_R_32F, CUDA_R_32F), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product(4, 3, CUDA_R_32F, CUDA_R_32F), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product(4, 4, CUDA_R_32F, CUDA_R_16BF), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(product(0, 4, CUDA_R_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  // The grouped call has no bfloat16 products with float results.
  EXPECT_EQ(cublasGemmGroupedBatchedEx(context().cublas(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                       nullptr, CUDA_R_16BF, nullptr, nullptr, CUDA_R_16BF, nullptr, nullptr, nullptr,
                                       CUDA_R_32F, nullptr, 0, nullptr, CUBLAS_COMPUTE_32F),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace heddle::cuda
