// Vectors that start at any element: views of larger ones, which 16 bytes at a time do not fit. Answers are right, sums
// have the same bits everywhere, and what lies around the vectors stays.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

/// A vector between elements that no kernel may write.
class View {
 public:
  View(const Array<float>& values, int64_t offset) : offset_(static_cast<size_t>(offset)), all_(blank(offset)) {
    all_.insert(all_.end(), values.begin(), values.end());
    all_.push_back(NAN);
  }
  float* data() { return all_.data() + offset_; }
  operator float*() { return data(); }  // NOLINT(google-explicit-constructor)

  Result result(const char* what) const {
    EXPECT_TRUE(std::isnan(all_.back())) << what;
    for (size_t i = 0; i < offset_; ++i) EXPECT_TRUE(std::isnan(all_[i])) << what;
    return {what, std::vector<double>(all_.begin() + static_cast<std::ptrdiff_t>(offset_), all_.end() - 1)};
  }

 private:
  size_t offset_;
  Array<float> all_;
};

/// Several blocks of the widest kernels, and rows of whole packs.
constexpr int64_t kRows = 130, kWidth = 48, kCount = kRows * kWidth;

std::vector<Result> elements_at(const Kernels& k, int64_t offset) {
  View x(normal(kCount, 1), offset), y(normal(kCount, 2), offset + 1), out(blank(kCount), offset + 2);
  View gate(normal(kCount, 3), offset), dgate(blank(kCount), offset), dup(blank(kCount), offset + 1);
  View local(blank(kCount), offset), global(blank(kCount), offset), stream(blank(kCount), offset);
  k.linear_combination(kCount, 2, x.data(), 3, y.data(), out.data());
  k.swiglu_backward(kCount, gate.data(), x.data(), y.data(), dgate.data(), dup.data());
  k.looping_residual_forward(kCount, {1, 0.5F, 0.5F, 0.5F, 0.5F}, x.data(), y.data(), gate.data(), nullptr,
                             local.data(), global.data(), stream.data());
  return {out.result("combination"), dgate.result("dgate"),     dup.result("dup"),
          local.result("n_local"),   global.result("n_global"), stream.result("stream")};
}

std::vector<Result> rows_at(const Kernels& k, int64_t offset) {
  View x(normal(kCount, 1), offset), dy(normal(kCount, 2), offset + 1), row(normal(kWidth, 3), offset);
  View y(blank(kCount), offset), dx(blank(kCount), offset + 1), inverse(blank(kRows), offset);
  View added(blank(kCount), offset), turned(blank(kCount), offset), modulation(normal(2 * kCount, 4), offset);
  View modulated(blank(kCount), offset), table(normal(7 * kWidth, 5), offset), looked_up(blank(kCount), offset);
  View cosine(normal(kWidth / 4, 6), offset), sine(normal(kWidth / 4, 7), offset);
  const Array<int32_t> zeros(kRows, 0), tokens(kRows, 5);
  k.rmsnorm_forward(kRows, kWidth, 1e-6F, x.data(), row, y.data(), inverse);
  k.rmsnorm_backward(kRows, kWidth, x.data(), row, inverse, dy.data(), {dx.data(), false}, {});
  k.add_row(kRows, kWidth, x.data(), row, added.data());
  k.rotary(kRows, 2, kWidth / 2, zeros.data(), cosine, sine, false, x.data(), turned.data());
  k.modulate_forward(kRows, kWidth, x.data(), modulation.data(), modulated.data());
  k.embedding_forward(kRows, kWidth, 2, tokens.data(), table, looked_up.data());
  return {y.result("rmsnorm"),          inverse.result("inverse_rms"), dx.result("dx"),
          added.result("added"),        turned.result("turned"),       modulated.result("modulated"),
          looked_up.result("embedding")};
}

std::vector<Result> sums_at(const Kernels& k, int64_t offset) {
  View x(normal(kCount, 1), offset), dy(normal(kCount, 2), offset + 1), inverse(normal(kRows, 3), offset);
  View sum(blank(kWidth), offset), dgain(blank(kWidth), offset), dweight(blank(1), offset),
      dtable(blank(7 * kWidth), 0);
  View dt_bias(normal(kWidth, 4), offset), a_log(normal(kWidth, 5), offset), da_log(blank(kWidth), offset);
  Array<int32_t> tokens(kRows);
  for (size_t r = 0; r < tokens.size(); ++r) tokens[r] = static_cast<int32_t>(r % 6);
  k.sum_rows(kRows, kWidth, x.data(), {sum, false});
  k.rmsnorm_backward(kRows, kWidth, x.data(), nullptr, inverse, dy.data(), {}, {dgain, false});
  k.weighted_term_backward(kCount, nullptr, x.data(), dy.data(), {}, {dweight, false});
  k.decay_injection_backward(kRows, kWidth, x.data(), dy.data(), dt_bias, a_log, x.data(), {}, {}, {}, {da_log, false});
  k.embedding_backward(kRows, kWidth, 7, 0.5F, tokens.data(), dy.data(), {dtable, false});
  return {sum.result("sum of rows"), dgain.result("dgain"),   dweight.result("dweight"),
          da_log.result("da_log"),   dtable.result("dtable"), {"squares", {k.sum_of_squares(kCount, x.data())}}};
}

std::vector<Result> moves_at(const Kernels& k, int64_t offset) {
  View x(normal(kCount, 1), offset), y(normal(kCount, 2), offset + 1), gathered(blank(kCount), offset + 2);
  View sum(normal(kCount, 3), offset), dy(blank(kCount), offset + 3), dweight(blank(kRows), offset),
      weight(normal(kRows, 4), offset);
  Array<int64_t> mirrored, row_begin;
  for (int64_t r = 0; r <= kRows; ++r) row_begin.push_back(std::min(2 * r, kRows));
  for (int64_t r = 0; r < kRows; ++r) mirrored.push_back(kRows - 1 - r);
  k.gather_rows(kRows, kWidth, mirrored.data(), x.data(), gathered.data());
  k.sum_slots(kRows, kWidth, row_begin.data(), mirrored.data(), weight, y.data(), true, sum.data());
  k.sum_slots_backward(kRows, kWidth, mirrored.data(), weight, y.data(), x.data(), dy.data(), dweight);
  return {gathered.result("gathered"), sum.result("sum"), dy.result("dy"), dweight.result("dweight")};
}

std::vector<Result> updates_at(const Kernels& k, int64_t offset) {
  View gradient(normal(kCount, 1), offset), p(normal(kCount, 2), offset + 1), first(normal(kCount, 3), offset);
  View second(Array<float>(kCount, 2.0F), offset + 2), q(normal(kCount, 4), offset),
      momentum(normal(kCount, 5), offset);
  View x(normal(kCount, 6), offset), running(Array<float>(kRows, 1.0F), offset), mean(blank(kRows), offset);
  View matrix(normal(kCount, 7), offset), copied(blank(kCount), offset + 1);
  k.adamw(kCount, {0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.5F, 1.3F, 1.1F}, gradient, p, first, second);
  k.sgd(kCount, {0.01F, 0.9F, 0.1F, 0.5F}, gradient, q, momentum);
  k.normalise_rows(kRows, kWidth, 1e-7F, x);
  k.reduce_variance(kRows, kWidth, 0.9F, x, running, mean);
  k.muon_update(kRows, kWidth, {0.02F, 0.5F, true}, x, matrix, kWidth);
  k.copy_matrix(kRows, kWidth, matrix, kWidth, copied, kWidth);
  return {p.result("adamw"), first.result("M"),   second.result("Q"), q.result("sgd"),       momentum.result("m"),
          x.result("x"),     running.result("S"), mean.result("v"),   matrix.result("muon"), copied.result("copy")};
}

std::vector<KernelCase> address_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t offset : {0, 1, 2, 3, 4}) {
    cases.push_back({fmt::format("elements_at_{}", offset), [=](const Kernels& k) { return elements_at(k, offset); }});
    cases.push_back({fmt::format("rows_at_{}", offset), [=](const Kernels& k) { return rows_at(k, offset); }});
    cases.push_back({fmt::format("sums_at_{}", offset), [=](const Kernels& k) { return sums_at(k, offset); }});
    cases.push_back({fmt::format("moves_at_{}", offset), [=](const Kernels& k) { return moves_at(k, offset); }});
    cases.push_back({fmt::format("updates_at_{}", offset), [=](const Kernels& k) { return updates_at(k, offset); }});
  }
  for (KernelCase& c : cases) c.cancelled = 0.5;
  return cases;
}

HEDDLE_KERNEL_CASES(Addresses, address_cases());
HEDDLE_EACH_DEVICE(AddressTest);

TEST_P(AddressTest, SumsHaveTheSameBitsEverywhere) {
  for (const auto& results_at : {sums_at, moves_at, updates_at}) {
    const std::vector<Result> aligned = results_at(*GetParam(), 0);
    for (const int64_t offset : {1, 2, 3, 4}) {
      const std::vector<Result> shifted = results_at(*GetParam(), offset);
      for (size_t i = 0; i < aligned.size(); ++i) EXPECT_EQ(shifted[i].values, aligned[i].values) << aligned[i].what;
    }
  }
}

}  // namespace
}  // namespace heddle::test
