#include "optim/muon.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle {

namespace {

/// X <- a X + (b A + c A A) X with A = X X^T.
struct Quintic {
  double a, b, c;
};
constexpr Quintic kNewtonSchulz = {3.4445, -4.7750, 2.0315};
constexpr std::array<Quintic, 5> kPolarExpress = {{
    {8.156554524902461, -22.48329292557795, 15.878769915207462},
    {4.042929935166739, -2.808917465908714, 0.5000178451051316},
    {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
    {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
    {2.3465413258596377, -1.7097828382687081, 0.42323551169305323},
}};

double frobenius_norm(const Kernels& kernels, int64_t count, const float* x) {
  return std::sqrt(kernels.sum_of_squares(count, x));
}

/// One step of the iteration from x into `to`. With more rows than columns A = X^T X stands on the other side, which is
/// the same as turning X and back.
void iterate(const Quintic& q, const Matrices& m, const Kernels& kernels, MuonWorkspace& workspace, const float* x,
             float* to) {
  const int64_t side = m.shorter_side();
  const bool wide = m.rows <= m.columns;
  const auto a = static_cast<float>(q.a), b = static_cast<float>(q.b), c = static_cast<float>(q.c);
  float *const gram = workspace.gram.f32(), *const power = workspace.power.f32();
  kernels.matmul(wide ? Transpose::kNo : Transpose::kYes, wide ? Transpose::kYes : Transpose::kNo, side, side,
                 m.longer_side(), 1, x, m.columns, x, m.columns, 0, gram, side);
  kernels.scale(side * side, b, gram, power);
  kernels.matmul(Transpose::kNo, Transpose::kNo, side, side, side, c, gram, side, gram, side, 1, power, side);
  kernels.scale(m.elements(), a, x, to);
  if (wide)
    kernels.matmul(Transpose::kNo, Transpose::kNo, m.rows, m.columns, side, 1, power, side, x, m.columns, 1, to,
                   m.columns);
  else
    kernels.matmul(Transpose::kNo, Transpose::kNo, m.rows, m.columns, side, 1, x, m.columns, power, side, 1, to,
                   m.columns);
}

/// Brings the singular values of x near 1.
void orthogonalise(const MuonConfig& config, const Matrices& m, const Kernels& kernels, MuonWorkspace& workspace,
                   float* x) {
  const bool polar = config.orthogonalise == "polar_express";
  const double norm = frobenius_norm(kernels, m.elements(), x);
  const double divisor = polar ? 1.02 * norm + 1e-6 : norm + config.ns_eps;
  float *from = x, *to = workspace.turned.f32();
  kernels.scale(m.elements(), static_cast<float>(1 / divisor), from, from);
  for (int64_t step = 0; step < config.ns_steps; ++step) {
    iterate(polar ? kPolarExpress.at(static_cast<size_t>(step)) : kNewtonSchulz, m, kernels, workspace, from, to);
    std::swap(from, to);
  }
  if (from != x) kernels.scale(m.elements(), 1, from, x);
}

}  // namespace

double MuonConfig::momentum_at(int64_t global_step) const {
  if (momentum_steps == 0 || momentum_start < 0) return momentum;
  const double share = static_cast<double>(global_step - 1) / static_cast<double>(momentum_steps);
  return momentum_start + (momentum - momentum_start) * std::min(share, 1.0);
}

void MuonWorkspace::reserve(const Matrices& m, const MuonConfig& config) {
  unit_ = std::max(unit_, m.unit());
  if (!m.dense()) piece_ = std::max(piece_, m.elements());
  matrix_ = std::max(matrix_, m.elements());
  gram_ = std::max(gram_, m.shorter_side() * m.shorter_side());
  if (config.second_moment > 0) mean_square_ = std::max(mean_square_, m.longer_side());
}

void MuonWorkspace::allocate() {
  const auto make = [](int64_t count) { return Tensor::empty({count}, Purpose::kWorkspace); };
  momentum = make(unit_);
  piece = make(piece_);
  turned = make(matrix_);
  gram = make(gram_);
  power = make(gram_);
  mean_square = make(mean_square_);
}

void MuonWorkspace::release() {
  momentum = piece = turned = gram = power = mean_square = {};
}

void muon_direction(const MuonConfig& config, const Matrices& m, const Kernels& kernels, MuonWorkspace& workspace,
                    float* u, float* second) {
  if (config.row_normalise) kernels.normalise_rows(m.rows, m.columns, 1e-7F, u);
  orthogonalise(config, m, kernels, workspace, u);
  if (config.second_moment > 0)
    kernels.reduce_variance(m.rows, m.columns, static_cast<float>(config.second_moment), u, second,
                            workspace.mean_square.f32());
}

}  // namespace heddle
