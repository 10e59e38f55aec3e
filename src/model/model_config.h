// What the model is: one point of the family of docs/model_family.md, as configuration keys. Defaults are LOOM.
#pragma once

#include <string>

#include "moe/moe_layer.h"
#include "support/config.h"

namespace heddle {

enum class NormKind { kOff, kPlain, kGain };  ///< plain: no gain
enum class FeedForwardKind { kDense, kMoe };
enum class DenseActivation { kSwiglu, kGelu, kRelu2 };
enum class InitialState { kEmbedding, kZero, kNoise };
enum class ResidualScheme { kPlain, kScaled, kLayerNormScaling, kDeepNorm, kSandwichOuter, kSandwichBranch };
enum class Reinjection { kNone, kConvex, kBoundary, kAdditive, kLinear, kDecay };
enum class FirstInjection { kE, kAlphaE };     ///< u of loop 1 under boundary
enum class InjectionOrder { kEh, kHe };        ///< linear: W [e ; h] or W [h ; e]
enum class BeforeCoda { kOff, kFull, kNorm };  ///< the operator once more in front of the coda
enum class Conditioning { kOff, kEmbedding, kModulation };
enum class Initialisation { kLoom, kIsoDepth, kExponents, kHuginn, kDeepNorm };

extern const Names<NormKind> kNormKinds;
extern const Names<FeedForwardKind> kFeedForwardKinds;
extern const Names<DenseActivation> kDenseActivations;
extern const Names<InitialState> kInitialStates;
extern const Names<ResidualScheme> kResidualSchemes;
extern const Names<Reinjection> kReinjections;
extern const Names<FirstInjection> kFirstInjections;
extern const Names<InjectionOrder> kInjectionOrders;
extern const Names<BeforeCoda> kBeforeCoda;
extern const Names<Conditioning> kConditionings;
extern const Names<Initialisation> kInitialisations;
extern const Names<RouterScore> kRouterScores;
extern const Names<RouterSharing> kRouterSharings;
extern const Names<BalanceScope> kBalanceScopes;
extern const Names<AuxScope> kAuxScopes;
extern const Names<CapacityScope> kCapacityScopes;
extern const Names<Gate> kGates;

struct NormPlaces {
  NormKind pre = NormKind::kPlain;       ///< before each branch; never off
  NormKind post = NormKind::kGain;       ///< of deepnorm and sandwich schemes; never off
  NormKind block = NormKind::kPlain;     ///< after every layer
  NormKind loop_end = NormKind::kPlain;  ///< after every loop, one for all loops
  NormKind embedding = NormKind::kOff;   ///< after the embedding
  NormKind final = NormKind::kOff;       ///< before the head
  NormKind moe_out = NormKind::kGain;    ///< on the output of the experts
  NormKind query_key = NormKind::kOff;   ///< on each head of q and k
};

struct ModelConfig {
  int64_t vocabulary_size = 0;  ///< V; 0 in a training configuration: taken from the token store
  int64_t hidden_size = 128;    ///< D
  int64_t prelude_layers = 0;   ///< P
  int64_t layers = 2;           ///< L, stored layers of the core (of each one, where untied)
  int64_t coda_layers = 0;      ///< C
  int64_t loops = 3;            ///< R, visits of the core: the final count, and the one in every constant
  bool tied = true;             ///< one core for all loops, or a core per loop
  InitialState initial_state = InitialState::kEmbedding;
  double noise_deviation = 0.6324555320336759;  ///< of the initial state "noise": sqrt(2/5)

  int64_t query_heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  double rope_theta = 10000;
  bool output_gate = true;
  double norm_eps = 1e-6;
  NormPlaces norms;

  bool embedding_tied = false;   ///< the head is the embedding
  bool embedding_scaled = true;  ///< rows times sqrt(D)
  double head_multiplier = 1;    ///< of the logits
  double soft_cap = 0;           ///< logits become cap tanh(logits / cap); 0: off
  double logit_z_loss = 0;       ///< coefficient of mean logsumexp(logits)^2

  FeedForwardKind core_feed_forward = FeedForwardKind::kMoe;
  FeedForwardKind outer_feed_forward = FeedForwardKind::kDense;  ///< prelude and coda
  DenseActivation activation = DenseActivation::kSwiglu;
  int64_t dense_intermediate = 512;  ///< I, width of a dense feed-forward
  MoeConfig moe{.experts = 8, .top_k = 2, .shared_experts = 1, .intermediate = 64};

  ResidualScheme residual = ResidualScheme::kScaled;
  double residual_lambda = 0.5;  ///< scaled: s = lambda / (R^loops_power L^layers_power)
  double residual_loops_power = 1;
  double residual_layers_power = 0.5;
  double residual_multiplier = 1;      ///< of both branches, where not scaled
  double deepnorm_power = 0.5;         ///< p of alpha = (2N)^p and beta = (8N)^-p
  bool count_gradient_visits = false;  ///< deepnorm: N counts the visits that get gradient
  int64_t gradient_loops = 0;          ///< loops that get gradient; 0: all. From the schedule of back-propagation
  bool looping_residual = true;
  double ema_beta_local = 0.5;
  double ema_beta_global = 0.5;

  Reinjection reinjection = Reinjection::kConvex;
  double reinjection_lambda = 0.5;  ///< convex: g_t = clip(lambda / (t sqrt(L)), 0, 1), t >= 2
  double reinjection_alpha = 1;     ///< boundary
  bool reinjection_alpha_learned = false;
  bool reinjection_norm = true;
  bool reinjection_inject = true;
  FirstInjection reinjection_first = FirstInjection::kE;
  InjectionOrder reinjection_order = InjectionOrder::kEh;
  BeforeCoda before_coda = BeforeCoda::kOff;
  int64_t lanes = 0;  ///< H of hyper-connections at the loop boundary; 0: off
  Conditioning conditioning = Conditioning::kOff;
  int64_t conditioning_width = 64;  ///< M of the modulation

  Initialisation initialisation = Initialisation::kLoom;
  double initial_embedding_std = 0.02;  ///< exponents: of the embedding (WTE)
  double initial_uniform_scale = 0.5;   ///< exponents: matrices are uniform within c / sqrt(D) (UIS)

  void declare(Config& config);
  void validate();  ///< throws UsageError naming key, value and a value that would work

  /// s of the scaled scheme for `loop_count` loops (the configured count, or that of an evaluation that rescales).
  double residual_scale(int64_t loop_count) const;
  /// g_t of the convex re-injection, t from 1; 0 for t = 1.
  double reinjection_gate(int64_t t) const;
  /// N of deepnorm: layer visits of the unrolled stack, or of its part with gradient.
  int64_t deepnorm_depth(int64_t loop_count) const;
  double deepnorm_alpha(int64_t loop_count) const;  ///< (2N)^p
  double deepnorm_beta() const;                     ///< (8N)^-p

  bool core_moe() const { return core_feed_forward == FeedForwardKind::kMoe; }
  bool outer_moe() const { return outer_feed_forward == FeedForwardKind::kMoe; }
  bool any_moe() const { return core_moe() || (outer_moe() && prelude_layers + coda_layers > 0); }
  int64_t stored_cores() const { return tied ? 1 : loops; }
};

}  // namespace heddle
