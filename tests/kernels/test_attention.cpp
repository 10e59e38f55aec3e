// Causal grouped-query attention inside documents.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/kernel_case.h"
#include "kernels/narrow_reals.h"

namespace heddle::test {
namespace {

struct Tensors {
  Array<float> q, k, v, dout, out, lse, dq, dk, dv, workspace;
  int64_t skipped = 0;  ///< elements in front of what is used of q to dv (but for lse)
};

Tensors make_tensors(const Kernels& kernels, const AttentionShape& s, int64_t skipped = 0) {
  const int64_t queries = s.batch * s.sequence * s.query_heads * s.head_dim + skipped;
  const int64_t keys = s.batch * s.sequence * s.kv_heads * s.head_dim + skipped;
  Tensors t;
  t.skipped = skipped;
  t.q = normal(queries, 1), t.k = normal(keys, 2), t.v = normal(keys, 3), t.dout = normal(queries, 4);
  t.out = blank(queries), t.lse = blank(s.batch * s.query_heads * s.sequence);
  t.dq = blank(queries), t.dk = blank(keys), t.dv = blank(keys);
  t.workspace = blank(kernels.attention_workspace(s));
  return t;
}

void forward(const Kernels& kernels, const AttentionShape& s, const int32_t* start, Tensors& t) {
  const int64_t n = t.skipped;
  kernels.attention_forward(s, t.q.data() + n, t.k.data() + n, t.v.data() + n, start, t.out.data() + n, t.lse.data(),
                            t.workspace.data());
}

void backward(const Kernels& kernels, const AttentionShape& s, const int32_t* start, Tensors& t) {
  const int64_t n = t.skipped;
  kernels.attention_backward(s, t.q.data() + n, t.k.data() + n, t.v.data() + n, start, t.out.data() + n, t.lse.data(),
                             t.dout.data() + n, t.dq.data() + n, t.dk.data() + n, t.dv.data() + n, t.workspace.data());
}

/// Documents of `length` positions; other rows of the batch are shifted so that borders fall inside tiles. 0: one
/// document, without a list.
Array<int32_t> document_starts(const AttentionShape& s, int64_t length) {
  Array<int32_t> start;
  for (int64_t b = 0; b < s.batch && length > 0; ++b)
    for (int64_t i = 0; i < s.sequence; ++i)
      start.push_back(static_cast<int32_t>(std::max<int64_t>(0, (i + b) / length * length - b)));
  return start;
}

AttentionShape shape(int64_t batch, int64_t sequence, int64_t query_heads, int64_t kv_heads, int64_t head_dim) {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
  return {batch, sequence, query_heads, kv_heads, head_dim, scale};
}

KernelCase attention_case(const AttentionShape& s, int64_t length, int64_t skipped = 0) {
  const auto run = [=](const Kernels& kernels) {
    const Array<int32_t> start = document_starts(s, length);
    const int32_t* const list = length == 0 ? nullptr : start.data();
    Tensors t = make_tensors(kernels, s, skipped);
    forward(kernels, s, list, t);
    backward(kernels, s, list, t);
    for (Array<float>* written : {&t.out, &t.dq, &t.dk, &t.dv})
      written->erase(written->begin(), written->begin() + skipped);
    return std::vector<Result>{result("out", t.out), result("lse", t.lse), result("dq", t.dq), result("dk", t.dk),
                               result("dv", t.dv)};
  };
  return {fmt::format("b{}_s{}_h{}_g{}_d{}_doc{}{}", s.batch, s.sequence, s.query_heads, s.kv_heads, s.head_dim, length,
                      skipped > 0 ? "_anywhere" : ""),
          run, 2e-6, true, 0.5};
}

std::vector<KernelCase> attention_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t length : {0, 1, 31, 100}) {
    for (const int64_t sequence : {1, 31, 33, 257})
      cases.push_back(attention_case(shape(3, sequence, 4, 2, 8), length));
    cases.push_back(attention_case(shape(1, 65, 3, 3, 33), length));
    cases.push_back(attention_case(shape(2, 64, 6, 1, 1), length));
  }
  // Sizes that a GPU gives to its tensor cores in bfloat16, and larger ones: no sequence is whole tiles, documents
  // begin inside of tiles, and some heads are narrower than what they are padded to.
  for (const int64_t length : {0, 45, 150}) {
    cases.push_back(attention_case(shape(1, 300, 4, 2, 64), length));
    cases.push_back(attention_case(shape(1, 171, 3, 1, 128), length));
  }
  cases.push_back(attention_case(shape(3, 70, 4, 1, 64), 45));
  cases.push_back(attention_case(shape(1, 139, 3, 3, 96), 45));
  cases.push_back(attention_case(shape(2, 130, 2, 1, 40), 45));
  cases.push_back(attention_case(shape(1, 90, 4, 2, 200), 45));
  cases.push_back(attention_case(shape(1, 65, 4, 1, 256), 33));
  cases.push_back(attention_case(shape(1, 70, 2, 1, 64), 31, 1));
  cases.push_back(attention_case(shape(0, 33, 4, 2, 8), 0));
  cases.push_back(attention_case(shape(2, 0, 4, 2, 8), 0));
  return cases;
}

HEDDLE_KERNEL_CASES(Attention, attention_cases());
HEDDLE_EACH_DEVICE(AttentionTest);

TEST_P(AttentionTest, TwoPositionsByHand) {
  // q.k = 0 and ln 3 at the second position: weights 1/4 and 3/4.
  const AttentionShape s = {1, 2, 1, 1, 1, 1};
  Tensors t = make_tensors(*GetParam(), s);
  t.q = {5, static_cast<float>(std::log(3.0))}, t.k = {0, 1}, t.v = {4, 8};
  forward(*GetParam(), s, nullptr, t);
  expect_near(t.out, {4, 7}, 1e-6);
  expect_near(t.lse, {0, std::log(4.0)}, 1e-6);
  // p = (1/4, 3/4), dp = (4, 8), delta = 7: ds = p (dp - delta) = (-3/4, 3/4).
  t.dout = {0, 1};
  backward(*GetParam(), s, nullptr, t);
  expect_near(t.dv, {0.25, 0.75}, 1e-6);
  expect_near(t.dq, {0, 0.75}, 1e-6);
  expect_near(t.dk, {-0.75 * std::log(3.0), 0.75 * std::log(3.0)}, 1e-6);
}

TEST_P(AttentionTest, AnotherDocumentAndTheFutureDoNotExist) {
  const AttentionShape s = shape(1, 130, 2, 1, 16);
  Array<int32_t> start(130, 0);
  std::fill(start.begin() + 70, start.end(), 70);
  Tensors t = make_tensors(*GetParam(), s);
  forward(*GetParam(), s, start.data(), t);
  const Array<float> before = t.out;
  for (int64_t i = 0; i < 70 * 16; ++i) t.k[static_cast<size_t>(i)] = t.v[static_cast<size_t>(i)] = 1000;
  for (int64_t i = 110 * 16; i < 130 * 16; ++i) t.k[static_cast<size_t>(i)] = t.v[static_cast<size_t>(i)] = -1000;
  forward(*GetParam(), s, start.data(), t);
  for (size_t i = 70 * 32; i < 110 * 32; ++i) EXPECT_EQ(t.out[i], before[i]) << "element " << i;
}

TEST_P(AttentionTest, LargeScoresStayFinite) {
  const AttentionShape s = {1, 3, 1, 1, 1, 1};
  Tensors t = make_tensors(*GetParam(), s);
  t.q = {1000, 1000, 1000}, t.k = {-1000, 0, 1000}, t.v = {1, 2, 3};
  forward(*GetParam(), s, nullptr, t);
  expect_near(t.out, {1, 2, 3}, 1e-6);
  expect_near(t.lse, {-1e6, 0, 1e6}, 0.1);
}

TEST_P(AttentionTest, GradientsMatchDifferences) {
  const AttentionShape s = shape(2, 9, 4, 2, 4);
  const Array<int32_t> start = document_starts(s, 4);
  Tensors t = make_tensors(*GetParam(), s);
  const auto loss = [&] {
    forward(*GetParam(), s, start.data(), t);
    return weighted_sum(t.dout, t.out);
  };
  loss();
  backward(*GetParam(), s, start.data(), t);
  expect_gradient("q", t.q, t.dq, loss);
  expect_gradient("k", t.k, t.dk, loss);
  expect_gradient("v", t.v, t.dv, loss);
}

#ifdef HEDDLE_WITH_CUDA
TEST(AttentionInBfloat16, RepeatsItsBits) {
  const KernelCase one = attention_case(shape(1, 200, 4, 2, 64), 45),
                   other = attention_case(shape(1, 90, 2, 1, 128), 0);
  for (const Kernels* device : narrow_devices())
    for (const KernelCase* c : {&one, &other}) {
      const std::vector<Result> first = c->run(*device), second = c->run(*device);
      for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].values, second[i].values) << first[i].what;
    }
}

TEST(AttentionInBfloat16, AnotherDocumentAndTheFutureDoNotExist) {
  const AttentionShape s = shape(1, 130, 2, 1, 64);
  Array<int32_t> start(130, 0);
  std::fill(start.begin() + 70, start.end(), 70);
  for (const Kernels* device : narrow_devices()) {
    Tensors t = make_tensors(*device, s);
    forward(*device, s, start.data(), t);
    backward(*device, s, start.data(), t);
    const Array<float> out = t.out, dq = t.dq;
    for (size_t i = 0; i < 70 * 64; ++i) t.k[i] = t.v[i] = 1000;
    for (size_t i = 110 * 64; i < 130 * 64; ++i) t.k[i] = t.v[i] = -1000;
    forward(*device, s, start.data(), t);
    backward(*device, s, start.data(), t);
    for (size_t i = 70 * 128; i < 110 * 128; ++i) {
      EXPECT_EQ(t.out[i], out[i]) << "element " << i;
      EXPECT_EQ(t.dq[i], dq[i]) << "element " << i;
    }
  }
}

TEST(AttentionInBfloat16, LargeScoresStayFinite) {
  const AttentionShape s = {1, 3, 1, 1, 8, 1};
  for (const Kernels* device : narrow_devices()) {
    Tensors t = make_tensors(*device, s);
    t.q = Array<float>(24, 0), t.k = Array<float>(24, 0);
    for (size_t i = 0; i < 3; ++i) t.q[8 * i] = 1024, t.k[8 * i] = -1024 + 1024 * static_cast<float>(i);
    forward(*device, s, nullptr, t);
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(t.out[i], rounded(t.v[i])) << "element " << i;
    EXPECT_EQ(t.lse, (Array<float>{-1048576, 0, 1048576}));
  }
}
#endif

}  // namespace
}  // namespace heddle::test
