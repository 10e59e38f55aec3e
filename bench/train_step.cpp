// How much of a training step is not matrix products? Times whole segmented steps of a model with D = 512, L = 4, R = 3
// against its own products replayed alone (same shapes, same order, same memory sizes), in turn within one run, and the
// replay against plain dnnl_sgemm on square matrices. Run with OMP_NUM_THREADS=1 for the one-thread figure.
#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "kernels/on_floats.h"
#include "model/counting.h"
#include "train/step.h"

namespace heddle {
namespace {

/// One recorded product.
struct Product {
  Transpose a, b;
  int64_t m, n, k;
};
std::vector<Product>* g_products = nullptr;

void record(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k) {
  if (g_products != nullptr && m > 0 && n > 0 && k > 0) g_products->push_back({a, b, m, n, k});
}

void recording_matmul(Transpose a_transpose, Transpose b_transpose, int64_t m, int64_t n, int64_t k, float alpha,
                      const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  record(a_transpose, b_transpose, m, n, k);
  cpu::kernels().matmul(a_transpose, b_transpose, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void recording_forward(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* x, const float* w,
                       float* y) {
  for (int64_t g = 0; g < groups; ++g) record(Transpose::kNo, Transpose::kYes, offsets[g + 1] - offsets[g], n, k);
  cpu::kernels().grouped_matmul_forward(groups, offsets, n, k, x, w, y);
}

void recording_input_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* dy,
                              const float* w, bool accumulate, float* dx) {
  for (int64_t g = 0; g < groups; ++g) record(Transpose::kNo, Transpose::kNo, offsets[g + 1] - offsets[g], k, n);
  cpu::kernels().grouped_matmul_input_gradient(groups, offsets, n, k, dy, w, accumulate, dx);
}

void recording_weight_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* dy,
                               const float* x, bool accumulate, float* dw) {
  for (int64_t g = 0; g < groups; ++g) record(Transpose::kYes, Transpose::kNo, n, k, offsets[g + 1] - offsets[g]);
  cpu::kernels().grouped_matmul_weight_gradient(groups, offsets, n, k, dy, x, accumulate, dw);
}

/// The products inside attention, by the tiles of 64 queries that the kernel works in.
constexpr int64_t kTile = 64;
void for_each_tile(const AttentionShape& s, const std::function<void(int64_t rows, int64_t keys)>& visit) {
  for (int64_t i = 0; i < s.batch * s.query_heads; ++i)
    for (int64_t first = 0; first < s.sequence; first += kTile) {
      const int64_t rows = std::min(kTile, s.sequence - first);
      visit(rows, first + rows);
    }
}

void recording_attention_forward(const AttentionShape& s, const float* q, const float* k, const float* v,
                                 const int32_t* document_start, float* out, float* lse, float* workspace) {
  for_each_tile(s, [&](int64_t rows, int64_t keys) {
    record(Transpose::kNo, Transpose::kYes, rows, keys, s.head_dim);
    record(Transpose::kNo, Transpose::kNo, rows, s.head_dim, keys);
  });
  cpu::kernels().attention_forward(s, q, k, v, document_start, out, lse, workspace);
}

void recording_attention_backward(const AttentionShape& s, const float* q, const float* k, const float* v,
                                  const int32_t* document_start, const float* out, const float* lse, const float* dout,
                                  float* dq, float* dk, float* dv, float* workspace) {
  for_each_tile(s, [&](int64_t rows, int64_t keys) {
    record(Transpose::kNo, Transpose::kYes, rows, keys, s.head_dim);
    record(Transpose::kNo, Transpose::kYes, rows, keys, s.head_dim);
    record(Transpose::kYes, Transpose::kNo, keys, s.head_dim, rows);
    record(Transpose::kNo, Transpose::kNo, rows, s.head_dim, keys);
    record(Transpose::kYes, Transpose::kNo, keys, s.head_dim, rows);
  });
  cpu::kernels().attention_backward(s, q, k, v, document_start, out, lse, dout, dq, dk, dv, workspace);
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double flops_of(const Product& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

void run() {
  ModelConfig config;
  config.vocabulary_size = 8192;
  config.hidden_size = 512;
  config.layers = 4;
  config.loops = 3;
  config.query_heads = 8;
  config.kv_heads = 4;
  config.head_dim = 64;
  config.moe = {.experts = 30, .top_k = 6, .shared_experts = 2, .intermediate = 512};
  constexpr int64_t kRows = 2, kSequence = 512;

  Kernels kernels = cpu::kernels();
  enter<recording_matmul>(kernels.matmul);
  enter<recording_forward>(kernels.grouped_matmul_forward);
  enter<recording_input_gradient>(kernels.grouped_matmul_input_gradient);
  enter<recording_weight_gradient>(kernels.grouped_matmul_weight_gradient);
  enter<recording_attention_forward>(kernels.attention_forward);
  enter<recording_attention_backward>(kernels.attention_backward);

  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  LoopedModel model(config, groups, kernels);
  model.initialise(1);
  model.parameters().allocate_gradients();
  Optimizer optimizer({}, model.parameters(), groups, kernels);
  TrainStep step(model, optimizer, {});
  TokenBatch batch{kRows, kSequence, {}, {}, {}, {}, {}};
  for (Tensor* t : {&batch.tokens, &batch.targets, &batch.position})
    *t = Tensor::zeros({kRows * kSequence}, Purpose::kActivations, DType::kInt32);
  for (int64_t i = 0; i < kRows * kSequence; ++i) {
    batch.tokens.i32()[i] = static_cast<int32_t>((i * 7919 + 13) % config.vocabulary_size);
    batch.targets.i32()[i] = static_cast<int32_t>((i * 104729 + 7) % config.vocabulary_size);
    batch.position.i32()[i] = static_cast<int32_t>(i % kSequence);
  }

  std::vector<Product> products;
  g_products = &products;
  step.run({batch}, {1, 0.1, 0});
  g_products = nullptr;

  int64_t largest_a = 0, largest_b = 0, largest_c = 0;
  double flops = 0;
  for (const Product& p : products) {
    largest_a = std::max(largest_a, p.m * p.k);
    largest_b = std::max(largest_b, p.k * p.n);
    largest_c = std::max(largest_c, p.m * p.n);
    flops += flops_of(p);
  }
  const Tensor a = Tensor::zeros({largest_a}, Purpose::kWorkspace), b = Tensor::zeros({largest_b}, Purpose::kWorkspace);
  const Tensor c = Tensor::zeros({largest_c}, Purpose::kWorkspace);
  const auto replay = [&] {
    for (const Product& p : products)
      cpu::kernels().matmul(p.a, p.b, p.m, p.n, p.k, 1, a.f32(), p.a == Transpose::kYes ? p.m : p.k, b.f32(),
                            p.b == Transpose::kYes ? p.k : p.n, 0, c.f32(), p.n);
  };
  constexpr int64_t kSquare = 1024;
  const Tensor x = Tensor::zeros({kSquare, kSquare}, Purpose::kWorkspace), y = x.clone(), z = x.clone();
  const auto square = [&] {
    dnnl_sgemm('N', 'N', kSquare, kSquare, kSquare, 1, x.f32(), kSquare, y.f32(), kSquare, 0, z.f32(), kSquare);
  };

  std::vector<double> ratios, step_seconds, replay_seconds, square_seconds, speed_ratios;
  replay();
  square();
  for (int round = 0; round < 7; ++round) {
    step_seconds.push_back(seconds_of([&] { step.run({batch}, {1, 0.1, 0}); }));
    replay_seconds.push_back(seconds_of(replay));
    square_seconds.push_back(seconds_of(square));
    ratios.push_back(step_seconds.back() / replay_seconds.back());
    speed_ratios.push_back(flops / replay_seconds.back() / (2.0 * kSquare * kSquare * kSquare / square_seconds.back()));
  }
  fmt::print("{} products, {:.1f} GFLOP in a step of {} tokens\n", products.size(), flops * 1e-9, kRows * kSequence);
  fmt::print("step      {:8.1f} ms\n", 1e3 * median(step_seconds));
  fmt::print("replay    {:8.1f} ms   {:.0f} GFLOP/s\n", 1e3 * median(replay_seconds),
             1e-9 * flops / median(replay_seconds));
  fmt::print("step / replay                     {:.2f}   (wanted: at most 2)\n", median(ratios));
  fmt::print("replay speed / plain dnnl_sgemm   {:.2f}   (wanted: at least 0.80; plain is {}^3)\n",
             median(speed_ratios), kSquare);
}

}  // namespace
}  // namespace heddle

int main() {
  heddle::run();
}
