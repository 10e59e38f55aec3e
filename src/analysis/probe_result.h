// What `heddle probe` found, and its file: plain numbers, written by src/probe and read by reports and other tools.
// What each number means, and its limits: docs/probe.md. Loops, layers, experts and blocks count from 0; -1 is "not of
// this kind" or "all of them". A list whose part was not asked for, or that the model has no place for, is empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

/// Ratio of sums over documents: all nats (or changes of nats) over all counted targets. The standard error is that of
/// this ratio when documents are drawn anew; NaN (null in the file) with fewer than two documents.
struct Estimate {
  double mean = 0;
  double standard_error = 0;
};

/// Loss with an intervention minus loss of the intact model, paired by document; nats per token.
struct Effect {
  int64_t loop = -1;  ///< what was skipped, or whose router serves; of an expert: where loops have cores of their own
  int64_t other_loop = -1;  ///< of a swap: loop < other_loop
  int64_t layer = -1;       ///< of the core; -1: all layers, or no layer
  int64_t expert = -1;
  int64_t loops = -1;  ///< loops that were run
  int64_t slots = -1;  ///< of a skipped expert: token slots that contributed nothing, all visits
  Estimate change;
  int64_t documents = 0;
};

/// Loss with the head (re-injection, coda and final norm before it) after the first `loops` loops; nats per token.
struct LoopLoss {
  int64_t loops = 0;
  Estimate loss;
};

/// The stream after one block, decoded with final norm and head alone (logit lens).
struct DepthEntry {
  std::string part;    ///< "embedding" (entry 0), "prelude", "core" or "coda"
  int64_t loop = -1;   ///< core only
  int64_t layer = -1;  ///< within its part; -1: embedding
  Estimate kl;         ///< KL(final || this entry), nats per token
  Estimate loss;       ///< cross-entropy of this entry, nats per token
};

struct DepthCurve {
  std::vector<DepthEntry> entries;  ///< [blocks + 1]: the embedding, then every visited block in order
  double threshold = 2;             ///< nats
  int64_t peak = -1;                ///< entry of the largest KL (the first of equal ones)
  int64_t effective_depth = -1;     ///< first entry behind the peak with KL <= threshold; -1: none
};

/// Of the experts that a stored layer's routers chose, over all slots (token, loop, choice); nats. `chance`: the same
/// plug-in estimate with the labels permuted, which is what it gives where there is nothing to find.
struct MutualInformation {
  struct Value {
    double found = 0;
    double chance = 0;
  };
  std::string layer;  ///< stored layer, e.g. "core.0"
  int64_t slots = 0;
  double entropy = 0;  ///< of the expert
  Value token;         ///< expert with token id
  Value loop;          ///< expert with loop
  Value loop_given_token;
};

/// Gradient of the mean loss with respect to one tied matrix, apart for each visit.
struct MatrixGradient {
  std::string name;                 ///< of the parameter
  std::vector<int64_t> loops;       ///< visits that have a gradient, from 0
  std::vector<double> visit_norms;  ///< [visits] Frobenius
  double sum_norm = 0;              ///< of the sum over visits: the ordinary gradient
  double alignment = 0;             ///< |sum_t G_t|^2 / sum_t |G_t|^2; 1 orthogonal, R equal; NaN: no gradient
};

/// kappa = |sum U| |sum G| / (R_g max|U| max|G|) over the visits that training gives a gradient.
struct Kappa {
  std::string group;                    ///< "core", or one branch of a layer: "core.0.attn", "core.0.ffn"
  std::vector<int64_t> loops;           ///< gradient-visible visits, from 0
  std::vector<double> gradient_norms;   ///< [visits] |G_t|
  std::vector<double> read_back_norms;  ///< [visits] |U_t|: change of the final states per unit of update
  double kappa = 0;
  double bound = 0;  ///< M_g kappa s^2, M_g gradient-visible sub-layer visits; NaN where the scheme has no s
};

/// A shortened back-propagation against the full one, same documents, same weights, no step in between.
struct GradientCosine {
  std::string mode;  ///< "truncated" or "segmented"
  int64_t loops = 0;
  double core = 0;        ///< cosine over the parameters of the core
  double all = 0;         ///< cosine over all parameters
  double norm_ratio = 0;  ///< norm over that of the full gradient, all parameters
};

struct GradientProbe {
  std::vector<MatrixGradient> matrices;
  std::vector<Kappa> kappas;
  std::vector<GradientCosine> cosines;
};

struct ProbeResult {
  // What was probed.
  std::string checkpoint, store, part;
  int64_t step = 0;
  int64_t loops = 0;  ///< of the intact model
  int64_t layers = 0, prelude_layers = 0, coda_layers = 0;
  int64_t experts = 0, top_k = 0;                   ///< 0: dense core
  int64_t documents = 0, tokens = 0, sequence = 0;  ///< tokens: counted targets; sequence: longest row

  Estimate loss;  ///< of the intact model
  std::vector<LoopLoss> loss_by_loop;
  DepthCurve depth;
  std::vector<Effect> skipped_loops;    ///< loop
  std::vector<Effect> skipped_blocks;   ///< loop, layer
  std::vector<Effect> skipped_layers;   ///< layer, in all loops
  std::vector<Effect> skipped_experts;  ///< layer, expert, slots: the experts of most slots, in all loops
  std::vector<Effect> router_swaps;     ///< loop, other_loop: all layers at once
  std::vector<Effect> one_router;       ///< loop whose routers serve all loops
  std::vector<Effect> loop_counts;      ///< loops
  std::vector<MutualInformation> information;
  GradientProbe gradients;
};

/// Schema of the file; a reader refuses others.
inline constexpr const char* kProbeSchema = "heddle.probe";
inline constexpr int64_t kProbeVersion = 1;

/// The file's text. Numbers that are not finite become null.
std::string probe_json(const ProbeResult& result);
/// Reads such a file. Throws Error naming the path for one that is missing, damaged, of another kind or version, and
/// the key for what is missing or of the wrong kind.
ProbeResult read_probe_result(const std::string& path);

}  // namespace heddle
