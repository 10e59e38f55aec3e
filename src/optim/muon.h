// Muon's direction for one matrix: what of a momentum is left when all its singular values are brought near 1
// (docs/model_family.md sections 5 and 9). The momentum and the step are the optimizer's.
#pragma once

#include <string>

#include "kernels/kernels.h"
#include "optim/matrices.h"

namespace heddle {

struct MuonConfig {
  double learning_rate = 0.02;
  double momentum = 0.95;
  double momentum_start = -1;                   ///< momentum of step 1; -1: `momentum`
  int64_t momentum_steps = 0;                   ///< steps until `momentum` is reached
  double weight_decay = 0.1;                    ///< not of muonh
  std::string orthogonalise = "newton_schulz";  ///< newton_schulz | polar_express
  int64_t ns_steps = 5;                         ///< polar_express: at most 5
  double ns_eps = 1e-7;                         ///< newton_schulz
  bool row_normalise = false;                   ///< before the orthogonalisation
  double second_moment = 0;                     ///< b2; 0: off
  bool cautious = false;                        ///< decay only where it agrees with the step; not of muonh
  bool routers = false;                         ///< routers too; else AdamW

  /// start + (momentum - start) min((n - 1) / momentum_steps, 1) of step n, from 1.
  double momentum_at(int64_t global_step) const;
};

/// Memory for the directions of the largest matrices reserved; it exists during a step only.
class MuonWorkspace {
 public:
  void reserve(const Matrices& m, const MuonConfig& config);
  bool wanted() const { return matrix_ > 0; }
  void allocate();
  void release();

  Tensor momentum;     ///< u of one unit
  Tensor piece;        ///< one matrix out of several that share their rows
  Tensor turned;       ///< the other X of an iteration
  Tensor gram, power;  ///< A and b A + c A A, [shorter side, shorter side]
  Tensor mean_square;  ///< [longer side]

 private:
  int64_t unit_ = 0, piece_ = 0, matrix_ = 0, gram_ = 0, mean_square_ = 0;
};

/// Turns u, a dense [m.rows,m.columns] matrix, into X in place: normalised rows, orthogonalisation, evened variance as
/// the configuration says. second: S of this matrix, [longer side], or null without second_moment.
void muon_direction(const MuonConfig& config, const Matrices& m, const Kernels& kernels, MuonWorkspace& workspace,
                    float* u, float* second);

}  // namespace heddle
