// Matrix products of a D = 512 model: GFLOP/s of the kernel table's product beside a bare dnnl_sgemm in the same run.
//   GFLOP/s = 2 m n k / time, the best of several repetitions; both columns take turns, so a slow machine slows both.
// usage: OMP_NUM_THREADS=1 bench_matmul [rows]
#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "support/numbers.h"

namespace heddle {
namespace {

struct Shape {
  const char* use;
  Transpose a, b;
  int64_t m, n, k;
};

std::vector<Shape> model_shapes(int64_t rows) {
  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  constexpr int64_t kWidth = 512, kHidden = 1408, kExpertHidden = 256, kVocabulary = 8192, kExperts = 30;
  return {
      {"attention projection", kNo, kYes, rows, kWidth, kWidth},
      {"  its input gradient", kNo, kNo, rows, kWidth, kWidth},
      {"  its weight gradient", kYes, kNo, kWidth, kWidth, rows},
      {"dense feed-forward, up", kNo, kYes, rows, kHidden, kWidth},
      {"dense feed-forward, down", kNo, kYes, rows, kWidth, kHidden},
      {"router", kNo, kYes, rows, kExperts, kWidth},
      {"expert of 64 rows, up", kNo, kYes, 64, kExpertHidden, kWidth},
      {"  its weight gradient", kYes, kNo, kExpertHidden, kWidth, 64},
      {"expert of 7 rows, up", kNo, kYes, 7, kExpertHidden, kWidth},
      {"vocabulary", kNo, kYes, rows, kVocabulary, kWidth},
      {"  its weight gradient", kYes, kNo, kVocabulary, kWidth, rows},
  };
}

template <typename Product>
double seconds(Product product, int64_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) product();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(calls);
}

void measure(const Shape& s) {
  const std::vector<float> a(static_cast<size_t>(s.m * s.k), 0.5F), b(static_cast<size_t>(s.n * s.k), 0.25F);
  std::vector<float> c(static_cast<size_t>(s.m * s.n));
  const int64_t lda = s.a == Transpose::kYes ? s.m : s.k, ldb = s.b == Transpose::kYes ? s.k : s.n;
  const auto kernel = [&] {
    cpu::kernels().matmul(s.a, s.b, s.m, s.n, s.k, 1, a.data(), lda, b.data(), ldb, 0, c.data(), s.n);
  };
  const auto bare = [&] {
    dnnl_sgemm(s.a == Transpose::kYes ? 'T' : 'N', s.b == Transpose::kYes ? 'T' : 'N', s.m, s.n, s.k, 1, a.data(), lda,
               b.data(), ldb, 0, c.data(), s.n);
  };
  const double work = 2e-9 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(1 / work));  // about 10 ms a repetition
  double best_kernel = seconds(kernel, 1), best_bare = seconds(bare, 1);
  for (int repetition = 0; repetition < 5; ++repetition) {
    best_kernel = std::min(best_kernel, seconds(kernel, calls));
    best_bare = std::min(best_bare, seconds(bare, calls));
  }
  fmt::print("{:26} {:5} x {:5} x {:5}  {:8.1f}  {:8.1f}  {:6.3f}\n", s.use, s.m, s.n, s.k, work / best_kernel,
             work / best_bare, best_bare / best_kernel);
}

}  // namespace
}  // namespace heddle

int main(int count, char** arguments) {
  const auto rows = count > 1 ? heddle::parse_integer(arguments[1]) : std::optional<int64_t>(2048);
  if (count > 2 || !rows || *rows < 1 || *rows > 1'000'000) {
    fmt::print(stderr, "usage: bench_matmul [rows]   (rows of a micro-batch, 1 to 1000000, default 2048)\n");
    return 2;
  }
  fmt::print("{} thread(s); GFLOP/s = 2 m n k / time\n", omp_get_max_threads());
  fmt::print("{:26} {:>5}   {:>5}   {:>5}  {:>8}  {:>8}  {:>6}\n", "product", "m", "n", "k", "kernel", "bare", "ratio");
  for (const heddle::Shape& shape : heddle::model_shapes(*rows)) heddle::measure(shape);
  return 0;
}
