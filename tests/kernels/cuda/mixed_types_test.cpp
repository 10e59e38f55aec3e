// Operations of the GPU whose arguments are stored in different types, and the refusal of the others.
#include <cuda_bf16.h>
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"
#include "kernels/narrow_reals.h"

namespace heddle::test {
namespace {

/// A vector in either type of storage.
class Stored {
 public:
  Stored(const Array<float>& values, RealType type) : type_(type), floats_(values) {
    for (const float x : values) narrow_.push_back(__float2bfloat16(x));
  }
  Reals reals() {
    return type_ == RealType::kFloat32 ? Reals(floats_.data()) : Reals(narrow_.data(), RealType::kBfloat16);
  }
  Array<float> values() const {
    if (type_ == RealType::kFloat32) return floats_;
    Array<float> values;
    for (const __nv_bfloat16 x : narrow_) values.push_back(__bfloat162float(x));
    return values;
  }

 private:
  RealType type_;
  Array<float> floats_;
  Array<__nv_bfloat16> narrow_;
};

class MixedTypes : public testing::Test {
 protected:
  void SetUp() override {
    if (narrow_devices().empty()) GTEST_SKIP() << "no GPU";
  }
  const Kernels& kernels = cuda::waiting_kernels();
};

constexpr RealType kTypes[] = {RealType::kFloat32, RealType::kBfloat16};

/// A result of `type` may differ from the exact one by its own rounding, or a few units of float32.
void expect_stored(const Array<float>& actual, const std::vector<double>& exact, RealType type) {
  ASSERT_EQ(actual.size(), exact.size());
  const double unit = type == RealType::kFloat32 ? 4e-7 : 1.0 / 256;
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(static_cast<double>(actual[i]), exact[i], unit * std::abs(exact[i]) + 1e-6) << i;
}

TEST_F(MixedTypes, LinearCombinationsOfAllTypes) {
  constexpr int64_t kCount = 9001;
  for (const RealType x_type : kTypes)
    for (const RealType y_type : kTypes)
      for (const RealType out_type : kTypes) {
        Stored x(normal(kCount, 1), x_type), y(normal(kCount, 2), y_type), out(blank(kCount), out_type);
        kernels.linear_combination(kCount, 0.5F, x.reals(), -2, y.reals(), out.reals());
        const Array<float> xs = x.values(), ys = y.values();
        std::vector<double> exact;
        for (size_t i = 0; i < kCount; ++i)
          exact.push_back(0.5 * static_cast<double>(xs[i]) - 2 * static_cast<double>(ys[i]));
        expect_stored(out.values(), exact, out_type);
      }
}

TEST_F(MixedTypes, ScalingByOneConverts) {
  constexpr int64_t kCount = 5001;
  const Array<float> values = normal(kCount, 1, 100);
  Stored wide(values, RealType::kFloat32), narrow(blank(kCount), RealType::kBfloat16), back(values, RealType::kFloat32);
  kernels.scale(kCount, 1, wide.reals(), narrow.reals());
  kernels.scale(kCount, 1, narrow.reals(), back.reals());
  const Array<float> converted = back.values();
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(converted[i], rounded(values[i])) << i;
}

TEST_F(MixedTypes, NarrowFactorsHaveWideProducts) {
  constexpr int64_t kM = 33, kN = 17, kK = 40;
  const Array<float> before = normal(kM * kN, 3);
  for (const RealType type : kTypes)
    for (const float beta : {0.0F, 1.0F}) {
      Stored a(normal(kM * kK, 1), RealType::kBfloat16), b(normal(kN * kK, 2), RealType::kBfloat16);
      Stored c(beta == 0 ? blank(kM * kN) : before, type);
      const Array<float> a_values = a.values(), b_values = b.values(), c_before = c.values();
      kernels.matmul(Transpose::kNo, Transpose::kYes, kM, kN, kK, 2, a.reals(), kK, b.reals(), kK, beta, c.reals(), kN);
      std::vector<double> exact;
      for (size_t i = 0; i < kM; ++i)
        for (size_t j = 0; j < kN; ++j) {
          double sum = beta == 0 ? 0 : static_cast<double>(c_before[i * kN + j]);
          for (size_t p = 0; p < kK; ++p)
            sum += 2 * static_cast<double>(a_values[i * kK + p]) * static_cast<double>(b_values[j * kK + p]);
          exact.push_back(sum);
        }
      const Array<float> actual = c.values();
      const double precision = type == RealType::kFloat32 ? 1e-5 : 1.0 / 128;
      for (size_t i = 0; i < exact.size(); ++i)
        ASSERT_NEAR(static_cast<double>(actual[i]), exact[i], precision * (std::abs(exact[i]) + 1)) << i;
    }
}

TEST_F(MixedTypes, OtherOperationsRefuseThem) {
  Stored x(normal(8, 1), RealType::kFloat32), y(normal(8, 2), RealType::kBfloat16);
  EXPECT_THROW(kernels.swiglu_forward(8, x.reals(), x.reals(), y.reals()), std::logic_error);
  EXPECT_THROW(kernels.matmul(Transpose::kNo, Transpose::kYes, 1, 1, 8, 1, x.reals(), 8, y.reals(), 8, 0, x.reals(), 1),
               std::logic_error);
}

}  // namespace
}  // namespace heddle::test
