// Differentiable operations on variables, one wrapper per kernel. Shapes: N tokens (rows), D width. "consumes x" means
// that the result takes over the memory of x.value, which must not be read again.
#pragma once

#include "autograd/tape.h"

namespace heddle {

/// scale * table[tokens]; tokens int32 [N], table [V,D] -> [N,D].
Variable embedding(Tape& tape, const Tensor& tokens, const Variable& table, float scale);

/// x W^T: x [N,K], weight [M,K] -> [N,M].
Variable linear(Tape& tape, const Variable& x, const Variable& weight);
/// base + x W^T; consumes base [N,M].
Variable linear_add(Tape& tape, const Variable& base, const Variable& x, const Variable& weight);
/// Rows of group g times weight[g]^T: x [rows,K], weight [G,M,K], offsets G+1 ascending row numbers -> [rows,M].
Variable grouped_linear(Tape& tape, const Variable& x, const Variable& weight,
                        const std::shared_ptr<const std::vector<int64_t>>& offsets);

/// RMSNorm over the last axis; gain may be a default Variable (none). inverse_rms, if given, receives [N].
Variable rmsnorm(Tape& tape, const Variable& x, const Variable& gain, float eps, Tensor* inverse_rms = nullptr);

/// Cosine and sine tables [positions, head_dim/2].
struct RotaryTable {
  Tensor cosine, sine;
};
RotaryTable make_rotary_table(int64_t positions, int64_t head_dim, double theta);
/// Rotates q or k by position (int32 [N]); x [N, heads*head_dim]; consumes x.
Variable rotary(Tape& tape, const Variable& x, int64_t head_dim, const Tensor& position, const RotaryTable& table);

/// Causal attention (kernels/attention.h); document_start int32 [N], or undefined for one document per row.
Variable attention(Tape& tape, const AttentionShape& shape, const Variable& q, const Variable& k, const Variable& v,
                   const Tensor& document_start);

/// sigmoid(gate) * x.
Variable sigmoid_gate(Tape& tape, const Variable& gate, const Variable& x);
/// silu(gate) * up.
Variable swiglu(Tape& tape, const Variable& gate, const Variable& up);
/// sigmoid(x); consumes x.
Variable sigmoid(Tape& tape, const Variable& x);

/// alpha * x + beta * y, all of one shape.
Variable linear_combination(Tape& tape, float alpha, const Variable& x, float beta, const Variable& y);
/// stream + scale * branch; consumes branch.
Variable residual_add(Tape& tape, const Variable& stream, float scale, const Variable& branch);

/// EMA accumulators of the looping residual between two blocks: numerators on the tape, denominators as numbers.
/// An undefined numerator is an empty accumulator.
struct LoopingAccumulators {
  Variable n_local, n_global;
  double d_local = 0, d_global = 0;
  void reset_local() {
    n_local = {};
    d_local = 0;
  }
};
/// stream + r_global + r_local of one block, and the accumulators' update (kernels/looping_residual.h).
Variable looping_residual(Tape& tape, const Variable& stream, const Variable& branch, float branch_scale,
                          double beta_local, double beta_global, LoopingAccumulators& accumulators);

/// Mixing weights of the chosen experts: scores [N,E], index int32 [N,k], keep uint8 [N,k] or undefined -> [N,k].
Variable route_weights(Tape& tape, const Variable& scores, const Tensor& index, const Tensor& keep, bool renormalise);

/// Language-model head and loss in chunks of rows, so that logits of all rows never exist at once. A root of the tape:
/// while it records, the gradients of gradient_scale * (sum of the losses) go to `weight` and `x` at once.
/// x [N,D], weight [V,D], targets int32 [N] (kIgnoredTarget: does not count). Returns the sum of the losses over the
/// counted targets of this rank.
double cross_entropy_head(Tape& tape, const Variable& x, const Variable& weight, const Tensor& targets,
                          float gradient_scale);

}  // namespace heddle
