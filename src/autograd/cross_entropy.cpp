// Head and loss together, a chunk of rows at a time: with V = 49152 the logits of a micro-batch would be the largest
// tensor of the whole step. The gradient of a chunk is made while its logits are in cache.
#include <algorithm>

#include "autograd/operations.h"

namespace heddle {

namespace {
/// About 4 MiB of logits at a time, in multiples of 16 rows.
int64_t chunk_rows(int64_t vocabulary) {
  constexpr int64_t kChunkElements = int64_t{1} << 20;
  return std::max<int64_t>(16, kChunkElements / vocabulary / 16 * 16);
}
}  // namespace

void apply_soft_cap(const Kernels& kernels, float cap, const Tensor& x) {
  kernels.soft_cap(x.count(), cap, x.f32(), x.f32());
}

HeadSums cross_entropy_head(Tape& tape, const Variable& x, const Variable& weight, const Tensor& targets,
                            const HeadOptions& options, float gradient_scale) {
  const Kernels& k = tape.kernels();
  const int64_t n = x.value.dim(0), width = x.value.dim(1), vocabulary = weight.value.dim(0);
  const int64_t chunk = std::min(n, chunk_rows(vocabulary));
  const bool gradient = tape.recording() && (x.wants_gradient() || weight.wants_gradient());
  const Tensor logits = Tensor::empty({chunk, vocabulary}, Purpose::kWorkspace);
  std::vector<double> losses(static_cast<size_t>(n)), log_totals(losses.size());
  const CrossEntropyOptions loss{gradient_scale, options.soft_cap, options.z_weight};
  const GradientOut dx = gradient ? gradient_out(x.slot) : GradientOut{};
  GradientOut dw = gradient ? gradient_out(weight.slot) : GradientOut{};
  if (dw && n == 0)  // no rows: the gradient is zero, not missing
    k.matmul(Transpose::kYes, Transpose::kNo, vocabulary, width, 0, 1, logits.f32(), vocabulary, x.value.f32(), width,
             dw.accumulate ? 1.0F : 0.0F, dw.data, width);
  for (int64_t first = 0; first < n; first += chunk) {
    const int64_t rows = std::min(chunk, n - first);
    const float* x_rows = x.value.f32() + first * width;
    k.matmul(Transpose::kNo, Transpose::kYes, rows, vocabulary, width, options.multiplier, x_rows, width,
             weight.value.f32(), width, 0, logits.f32(), vocabulary);
    k.cross_entropy(rows, vocabulary, targets.i32() + first, loss, gradient, logits.f32(), losses.data() + first,
                    log_totals.data() + first);
    if (dx)
      k.matmul(Transpose::kNo, Transpose::kNo, rows, width, vocabulary, options.multiplier, logits.f32(), vocabulary,
               weight.value.f32(), width, dx.accumulate ? 1.0F : 0.0F, dx.data + first * width, width);
    if (dw) {
      k.matmul(Transpose::kYes, Transpose::kNo, vocabulary, width, rows, options.multiplier, logits.f32(), vocabulary,
               x_rows, width, dw.accumulate ? 1.0F : 0.0F, dw.data, width);
      dw.accumulate = true;
    }
  }
  HeadSums sums;
  for (const double value : losses) sums.cross_entropy += value;
  for (const double value : log_totals) sums.logit_z += value * value;
  return sums;
}

}  // namespace heddle
