// Parameters and operations as two published studies count them. Their numbers are only comparable in their own terms;
// model/counting.h has ours. Both count products of matrices, six operations per training token and weight (two
// forward, four backward), and a lookup as nothing.
#pragma once

#include "model/counting.h"

namespace heddle {

/// "How Much Is One Recurrence Worth? Iso-Depth Scaling Laws for Looped Language Models" (arXiv 2604.21106). With n_b
/// the matrices of a layer (12 D^2 there), n_i those between loops (2 D^2 of the linear injection), P / L / C layers, r
/// loops:
///
///   parameters         (P + L + C) n_b + n_i                   (n_i only for r > 1; L r in place of L where untied)
///   training, a token  6 [(P + r L + C) n_b + r n_i + V D] + 12 (P + r L + C) A S
///
/// A is the width of all query heads (D there), S the length of a sequence; attention is not halved for causality. Left
/// out: embedding, head (as parameters), gains. A loop without gradient costs 2 (r L n_b + r n_i) and 4 A S a layer.
/// Hyper-connections: their few weights as parameters, (H^2 + 2 H) D products a loop.
/// Beyond the study: a layer of experts has the k chosen ones, the shared ones and one router in n_b of the operations,
/// and all of them in n_b of the parameters; prelude and coda are multiplied by the passes that a schedule makes.
struct IsoDepthCounting {
  static int64_t parameters(const ModelConfig& model);
  static double training_flops_per_token(const ModelConfig& model, int64_t sequence, const LoopWork& work);
};

/// "How Model Growth, Recursion, and Boundary Operators Influence Scaling Exponents". With n_b as above (4 D^2 + 3 D F
/// there):
///
///   parameters         all that are stored, embedding and head included
///   training, a token  6 [(P + r L + C) n_b + V D] + 6 (P + r L + C) A (S + 1)
///
/// Attention is causal: (S + 1) / 2 keys on average. Boundary operators have no weights there; weights between loops
/// are counted as parameters here and left out of the operations, as the study's code would. Beyond the study as above.
struct ExponentsCounting {
  static int64_t parameters(const ModelConfig& model);
  static double training_flops_per_token(const ModelConfig& model, int64_t sequence, const LoopWork& work);
};

}  // namespace heddle
