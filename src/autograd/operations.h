// Differentiable operations on variables, one wrapper per kernel. Shapes: N tokens (rows), D width. "consumes x" means
// that the result takes over the memory of x.value, which must not be read again.
#pragma once

#include <span>
#include <vector>

#include "autograd/tape.h"

namespace heddle {

/// scale * table[tokens]; tokens int32 [N], table [V,D] -> [N,D].
Variable embedding(Tape& tape, const Tensor& tokens, const Variable& table, float scale);

/// x W^T: x [N,K], weight [M,K] -> [N,M].
Variable linear(Tape& tape, const Variable& x, const Variable& weight);
/// a W[:, :K]^T + b W[:, K:]^T: a and b [N,K], weight [M,2K] -> [N,M].
Variable linear_pair(Tape& tape, const Variable& a, const Variable& b, const Variable& weight);
/// Rows of group g times weight[g]^T: x [rows,K], weight [G,M,K], offsets G+1 ascending row numbers -> [rows,M].
Variable grouped_linear(Tape& tape, const Variable& x, const Variable& weight,
                        const std::shared_ptr<const std::vector<int64_t>>& offsets);

/// RMSNorm of stretches of `width` elements (0: the last axis), gain [width] or a default Variable (none). With the
/// head width, x [N, heads*dh] is normalised head by head. The result keeps x's shape; inverse_rms, if given, receives
/// [count / width].
Variable rmsnorm(Tape& tape, const Variable& x, const Variable& gain, float eps, Tensor* inverse_rms = nullptr,
                 int64_t width = 0);

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
/// Exact GELU or squared ReLU (kernels/activations.h).
Variable activation(Tape& tape, Activation kind, const Variable& x);
/// sigmoid(x); consumes x.
Variable sigmoid(Tape& tape, const Variable& x);
/// Softmax over the last axis of x [N,E]; consumes x.
Variable softmax(Tape& tape, const Variable& x);

/// alpha * x; consumes x.
Variable scale(Tape& tape, float alpha, const Variable& x);

/// alpha * x + beta * y, all of one shape.
Variable linear_combination(Tape& tape, float alpha, const Variable& x, float beta, const Variable& y);
/// stream + scale * branch; consumes branch.
Variable residual_add(Tape& tape, const Variable& stream, float scale, const Variable& branch);

/// x [N,M] plus row `row` of table, which has count / M rows (a vector [M] is one row). Only that row of the table gets
/// a gradient.
Variable add_row(Tape& tape, const Variable& x, const Variable& table, int64_t row);
/// Consecutive stretches of the rows of x, `counts` rows each and all of them together, as views of its memory.
std::vector<Variable> split_rows(Tape& tape, const Variable& x, const std::vector<int64_t>& counts);
/// `whole`, whose rows are those of the parts, in order, and lie in the memory of the parts' values.
Variable join_rows(Tape& tape, const Tensor& whole, const std::vector<Variable>& parts);
/// (1 + s) * x + b: x [N,D], modulation [N,2D] = [s | b].
Variable modulate(Tape& tape, const Variable& x, const Variable& modulation);

/// sum over k of weights[first + k] * xs[k]: xs of one shape, at least one; weights of any shape, counted flat. Only
/// the weights that were used get a gradient.
Variable weighted_sum(Tape& tape, std::span<const Variable> xs, const Variable& weights, int64_t first);
/// base + weights[index] * x, base and x of one shape.
Variable add_weighted(Tape& tape, const Variable& base, const Variable& weights, int64_t index, const Variable& x);
/// Injection with a learned decay per channel (kernels/decay_injection.h): h and injected [N,D], dt_bias and a_log [D].
Variable decay_injection(Tape& tape, const Variable& h, const Variable& injected, const Variable& dt_bias,
                         const Variable& a_log);

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

/// Share of each expert in the scores, summed over rows: scores [N,E] > 0 -> [E], sum_n scores[n,e] / sum_j
/// scores[n,j].
Variable expert_share(Tape& tape, const Variable& scores);
/// Sum over rows of logsumexp(logits)^2, logits [N,E]. A root of the tape: while it records, the gradient of
/// gradient_scale times that goes to `logits` at once, so call it before an operation that consumes them.
double router_z_loss(Tape& tape, const Variable& logits, float gradient_scale);

struct HeadOptions {
  float multiplier = 1;  ///< of x W^T
  float soft_cap = 0;    ///< c > 0: logits become c * tanh(logits / c)
  float z_weight = 0;    ///< of the squared logsumexp in the objective
};
/// Sums over the counted targets of this rank.
struct HeadSums {
  double cross_entropy = 0;  ///< logsumexp - logit of the target
  double logit_z = 0;        ///< logsumexp^2
};
/// Language-model head and loss in chunks of rows, so that logits of all rows never exist at once. A root of the tape:
/// while it records, the gradients of gradient_scale * (cross_entropy + z_weight * logit_z) go to `weight` and `x` at
/// once. x [N,D], weight [V,D], targets int32 [N] (kIgnoredTarget: does not count).
HeadSums cross_entropy_head(Tape& tape, const Variable& x, const Variable& weight, const Tensor& targets,
                            const HeadOptions& options, float gradient_scale);
/// x becomes c * tanh(x / c), c = `cap` > 0, for logits that are wanted as they are; no gradient.
void apply_soft_cap(const Kernels& kernels, float cap, const Tensor& x);

}  // namespace heddle
