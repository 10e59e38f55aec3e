// LOOM's EMA looping residual.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

constexpr LoopingResidualCoefficients kCoefficients = {0.8F, 0.5F, 0.6F, 0.7F, 0.4F};

/// Which accumulators exist: not empty before the block, gradient sent back after it, gradient wanted before it.
KernelCase looping_case(int64_t count, bool local, bool global) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> stream = normal(count, 1), branch = normal(count, 2), n_local = normal(count, 3);
    const Array<float> n_global = normal(count, 4), dstream = normal(count, 5), dn_local = normal(count, 6);
    const Array<float> dn_global = normal(count, 7);
    Array<float> n_local_out = blank(count), n_global_out = blank(count), stream_out = blank(count);
    Array<float> dbranch = blank(count), dn_local_in = blank(count), dn_global_in = blank(count);
    kernels.looping_residual_forward(count, kCoefficients, stream.data(), branch.data(),
                                     local ? n_local.data() : nullptr, global ? n_global.data() : nullptr,
                                     n_local_out.data(), n_global_out.data(), stream_out.data());
    kernels.looping_residual_backward(count, kCoefficients, dstream.data(), local ? dn_local.data() : nullptr,
                                      global ? dn_global.data() : nullptr, dbranch.data(), dn_local_in.data(),
                                      dn_global_in.data());
    Array<float> dbranch_alone = blank(count);
    kernels.looping_residual_backward(count, kCoefficients, dstream.data(), local ? dn_local.data() : nullptr,
                                      global ? dn_global.data() : nullptr, dbranch_alone.data(), nullptr, nullptr);
    Array<float> dn_local_same = dn_local, dn_global_same = dn_global, dbranch_same = blank(count);
    kernels.looping_residual_backward(count, kCoefficients, dstream.data(), local ? dn_local_same.data() : nullptr,
                                      global ? dn_global_same.data() : nullptr, dbranch_same.data(),
                                      dn_local_same.data(), dn_global_same.data());
    EXPECT_EQ(dbranch_same, dbranch);
    EXPECT_EQ(dn_local_same, dn_local_in);
    EXPECT_EQ(dn_global_same, dn_global_in);
    return std::vector<Result>{result("n_local_out", n_local_out),     result("n_global_out", n_global_out),
                               result("stream_out", stream_out),       result("dbranch", dbranch),
                               result("dbranch alone", dbranch_alone), result("dn_local_in", dn_local_in),
                               result("dn_global_in", dn_global_in)};
  };
  return {fmt::format("n{}{}{}", count, local ? "_local" : "", global ? "_global" : ""), run, 2e-6, true, 0.5};
}

std::vector<KernelCase> looping_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t count : {0, 1, 31, 33, 257, 70001})
    for (const bool local : {false, true})
      for (const bool global : {false, true}) cases.push_back(looping_case(count, local, global));
  return cases;
}

HEDDLE_KERNEL_CASES(LoopingResidual, looping_cases());
HEDDLE_EACH_DEVICE(LoopingResidualTest);

/// A model of two layers and two loops, one channel, as the caller drives the kernel.
struct Chain {
  const Kernels& kernels;
  Array<float> branches;
  Array<float> n_local[4], n_global[4], stream[5];
  LoopingResidualCoefficients coefficients[4];

  explicit Chain(const Kernels& k, Array<float> o) : kernels(k), branches(std::move(o)) { forward(); }

  void forward() {
    double d_local = 0, d_global = 0;
    stream[0] = {0};
    for (size_t block = 0; block < 4; ++block) {
      const bool local_empty = block % 2 == 0;
      d_local = local_empty ? 1 : 0.5 * d_local + 1;
      d_global = block == 0 ? 1 : 0.5 * d_global + 1;
      coefficients[block] = {1, 0.5F, static_cast<float>(1 / d_local), 0.5F, static_cast<float>(1 / d_global)};
      n_local[block] = n_global[block] = stream[block + 1] = blank(1);
      kernels.looping_residual_forward(1, coefficients[block], stream[block].data(), &branches[block],
                                       local_empty ? nullptr : n_local[block - 1].data(),
                                       block == 0 ? nullptr : n_global[block - 1].data(), n_local[block].data(),
                                       n_global[block].data(), stream[block + 1].data());
    }
  }

  /// Gradient of weights[0] * stream[1] + ... + weights[3] * stream[4] with respect to the branches.
  Array<float> backward(const Array<float>& weights) {
    Array<float> dbranches = blank(4), dn_local = blank(1), dn_global = blank(1), dstream = {0};
    for (size_t block = 4; block-- > 0;) {
      const bool last_of_loop = block % 2 == 1, first_of_loop = !last_of_loop;
      dstream[0] += weights[block];
      kernels.looping_residual_backward(
          1, coefficients[block], dstream.data(), last_of_loop ? nullptr : dn_local.data(),
          block == 3 ? nullptr : dn_global.data(), &dbranches[block], first_of_loop ? nullptr : dn_local.data(),
          block == 0 ? nullptr : dn_global.data());
    }
    return dbranches;
  }
};

TEST_P(LoopingResidualTest, TwoLayersTwoLoopsByHand) {
  const Chain chain(*GetParam(), {1, 2, 3, 4});
  const std::vector<double> added = {2, 3.111111, 5.333333, 6.711111};
  for (size_t block = 0; block < 4; ++block)
    EXPECT_NEAR(chain.stream[block + 1][0] - chain.stream[block][0], added[block], 2e-6) << "block " << block;
}

TEST_P(LoopingResidualTest, GradientThroughBothAccumulatorsMatchesDifferences) {
  Chain chain(*GetParam(), {1, 2, 3, 4});
  const Array<float> weights = normal(4, 1);
  const Array<float> gradient = chain.backward(weights);
  expect_gradient("branches", chain.branches, gradient, [&] {
    chain.forward();
    return weighted_sum(weights, {chain.stream[1][0], chain.stream[2][0], chain.stream[3][0], chain.stream[4][0]});
  });
}

}  // namespace
}  // namespace heddle::test
