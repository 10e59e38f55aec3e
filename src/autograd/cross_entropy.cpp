// Head and loss together, a chunk of rows at a time: with V = 49152 the logits of a micro-batch would be the largest
// tensor of the whole step. The gradient of a chunk is made while its logits are in a processor's cache.
#include <algorithm>

#include "autograd/operations.h"

namespace heddle {

namespace {
/// In multiples of 16 rows.
int64_t chunk_rows(const Kernels& kernels, int64_t vocabulary) {
  return std::max<int64_t>(16, kernels.logits_at_once / vocabulary / 16 * 16);
}
}  // namespace

void apply_soft_cap(const Kernels& kernels, float cap, const Tensor& x) {
  kernels.soft_cap(x.count(), cap, x.f32(), x.f32());
}

HeadSums cross_entropy_head(Tape& tape, const Variable& x, const Variable& weight, const Tensor& targets,
                            const HeadOptions& options, float gradient_scale) {
  const Kernels& k = tape.kernels();
  const int64_t n = x.value.dim(0), width = x.value.dim(1), vocabulary = weight.value.dim(0);
  const int64_t chunk = std::min(n, chunk_rows(k, vocabulary));
  const bool wanted = tape.recording() && (x.wants_gradient() || weight.wants_gradient());
  const bool narrow = x.value.dtype() == DType::kBfloat16;
  const Reals w = (narrow ? weight.narrow : weight.value).reals();
  const Tensor logits = Tensor::empty({chunk, vocabulary}, Purpose::kWorkspace);
  // A gradient that is stored as the logits are takes their place.
  Tensor gradient;
  if (wanted) gradient = narrow ? Tensor::empty({chunk, vocabulary}, Purpose::kWorkspace, DType::kBfloat16) : logits;
  const Tensor losses = Tensor::empty({n}, Purpose::kWorkspace, DType::kFloat64);
  const Tensor log_totals = Tensor::empty({n}, Purpose::kWorkspace, DType::kFloat64);
  const CrossEntropyOptions loss{gradient_scale, options.soft_cap, options.z_weight};
  const RealsGradient dx = wanted ? gradient_out(x.slot) : RealsGradient{};
  RealsGradient dw = wanted ? gradient_out(weight.slot) : RealsGradient{};
  if (dw && n == 0)  // no rows: the gradient is zero, not missing
    k.matmul(Transpose::kYes, Transpose::kNo, vocabulary, width, 0, 1, gradient.reals(), vocabulary, x.value.reals(),
             width, dw.accumulate ? 1.0F : 0.0F, dw.data, width);
  for (int64_t first = 0; first < n; first += chunk) {
    const int64_t rows = std::min(chunk, n - first);
    const Reals x_rows = x.value.reals().at(first * width);
    k.matmul(Transpose::kNo, Transpose::kYes, rows, vocabulary, width, options.multiplier, x_rows, width, w, width, 0,
             logits.reals(), vocabulary);
    k.cross_entropy(rows, vocabulary, targets.i32() + first, loss, logits.f32(), gradient.reals(), losses.f64() + first,
                    log_totals.f64() + first);
    if (dx)
      k.matmul(Transpose::kNo, Transpose::kNo, rows, width, vocabulary, options.multiplier, gradient.reals(),
               vocabulary, w, width, dx.accumulate ? 1.0F : 0.0F, dx.data.at(first * width), width);
    if (dw) {
      k.matmul(Transpose::kYes, Transpose::kNo, vocabulary, width, rows, options.multiplier, gradient.reals(),
               vocabulary, x_rows, width, dw.accumulate ? 1.0F : 0.0F, dw.data, width);
      dw.accumulate = true;
    }
  }
  return {k.sum_doubles(n, losses.f64(), false), k.sum_doubles(n, log_totals.f64(), true)};
}

}  // namespace heddle
