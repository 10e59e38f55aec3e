#include "probe/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle {

const Names<GradientDetail> kGradientDetails{"none", "norms", "kappa"};

namespace {

std::vector<int64_t> loops_of(const std::vector<VisitGradient>& gradients, const Parameter& p) {
  std::vector<int64_t> loops;
  for (const VisitGradient& g : gradients)
    if (g.parameter == &p) loops.push_back(g.loop);
  return loops;
}

void add_matrices(LoopedModel& model, const std::vector<VisitGradient>& gradients, GradientProbe& result) {
  for (const Parameter& p : model.parameters().all()) {
    if (p.role == Role::kVector || !p.name.starts_with("core.")) continue;
    const std::vector<int64_t> loops = loops_of(gradients, p);
    if (loops.empty()) continue;
    const Gram gram = gradient_gram(model, gradients, loops, [&](const Parameter& q) { return &q == &p; });
    MatrixGradient matrix{p.name, loops, {}, gram.sum_norm(), alignment(gram)};
    for (int64_t i = 0; i < gram.n; ++i) matrix.visit_norms.push_back(gram.norm(i));
    result.matrices.push_back(std::move(matrix));
  }
}

void add_kappas(LoopedModel& model, const ProbeDocuments& documents, const BackPropagation& schedule,
                const std::vector<VisitGradient>& gradients, GradientProbe& result) {
  const ModelConfig& config = model.config();
  const std::vector<int64_t> loops = gradient_visible_loops(schedule, model.active_loops());
  if (!config.tied || loops.size() < 2) return;
  std::vector<std::pair<std::string, std::function<bool(const Parameter&)>>> groups;
  groups.emplace_back("core", [](const Parameter& p) { return p.tied_core; });
  for (int64_t l = 0; l < config.layers; ++l)
    for (const bool attention : {true, false}) {
      const std::string prefix = fmt::format("core.{}.", l);
      groups.emplace_back(prefix + (attention ? "attn" : "ffn"), [prefix, attention](const Parameter& p) {
        const bool of_attention = p.name.starts_with(prefix + "attn");
        return p.tied_core && p.name.starts_with(prefix) && of_attention == attention;
      });
    }
  const auto visits = static_cast<double>(
      2 * (config.prelude_layers + static_cast<int64_t>(loops.size()) * config.layers + config.coda_layers));
  for (const auto& [name, group] : groups) {
    const Gram g = gradient_gram(model, gradients, loops, group);
    const Gram u = read_backs(model, documents, gradients, loops, group);
    Kappa k{name, loops, {}, {}, kappa(u, g), 0};
    for (int64_t i = 0; i < g.n; ++i) {
      k.gradient_norms.push_back(g.norm(i));
      k.read_back_norms.push_back(u.norm(i));
    }
    const double s = branch_to_stream(config);
    k.bound = visits * k.kappa * s * s;
    result.kappas.push_back(std::move(k));
  }
}

/// Host copies of all gradients of one schedule, empty where a parameter has none; summed over ranks. Collective.
std::vector<std::vector<float>> whole_gradient(LoopedModel& model, const ProbeDocuments& documents,
                                               const BackPropagation& schedule) {
  model.parameters().clear_gradients();
  const std::vector<double> last_only;
  const RouterLossConfig no_losses;
  for (const DocumentBatch& here : documents.batches()) {
    int64_t tokens = here.tokens.rows * here.tokens.sequence;
    model.groups().world().host().all_reduce_sum(std::span<int64_t>(&tokens, 1));
    const MicroStep micro_step{1 / static_cast<double>(documents.total_tokens()), tokens, 1};
    LoopCarry carry;
    const std::vector<Piece> pieces = pieces_of(schedule, model.active_loops());
    for (const Piece& piece : pieces) {
      PieceRun run(model, last_only, no_losses, nullptr);
      run.run(here.tokens, piece, micro_step, &carry, piece.last < model.active_loops());
    }
  }
  std::vector<std::vector<float>> gradients;
  for (const Parameter& p : model.parameters().all()) {
    gradients.push_back(p.has_gradient ? p.gradient.get<float>() : std::vector<float>());
    Communicator& ranks = p.sharing == Sharing::kExpert ? model.groups().expert_replicas() : model.groups().world();
    if (p.has_gradient) ranks.host().all_reduce_sum(std::span<float>(gradients.back()));
  }
  model.parameters().clear_gradients();
  return gradients;
}

struct Products {
  double core = 0, all = 0;
};

/// Inner product over parameters, every expert once. A parameter without gradient in either adds nothing. Collective.
Products inner_product(LoopedModel& model, const std::vector<std::vector<float>>& a,
                       const std::vector<std::vector<float>>& b) {
  double sums[2][2] = {};  // replicated, experts x core, others
  size_t i = 0;
  for (const Parameter& p : model.parameters().all()) {
    const std::vector<float>&x = a[i], &y = b[i];
    ++i;
    double& sum = sums[p.sharing == Sharing::kExpert][!p.name.starts_with("core.")];
    for (size_t e = 0; e < std::min(x.size(), y.size()); ++e)
      sum += static_cast<double>(x[e]) * static_cast<double>(y[e]);
  }
  model.groups().expert_parallel().host().all_reduce_sum(std::span<double>(sums[1], 2));
  const double core = sums[0][0] + sums[1][0];
  return {core, core + sums[0][1] + sums[1][1]};
}

void add_cosines(LoopedModel& model, const ProbeDocuments& documents, GradientProbe& result) {
  const int64_t loops = model.active_loops();
  if (loops < 2) return;
  const std::vector<std::vector<float>> full = whole_gradient(model, documents, {BackPropagationMode::kFull, 0, false});
  const Products full_norms = inner_product(model, full, full);
  for (const BackPropagationMode mode : {BackPropagationMode::kTruncated, BackPropagationMode::kSegmented})
    for (int64_t n = 1; n < loops; ++n) {
      // Hyper-connections have no truncated form: the lanes would lose their start.
      if (mode == BackPropagationMode::kTruncated && model.config().lanes > 0) continue;
      const std::vector<std::vector<float>> part = whole_gradient(model, documents, {mode, n, false});
      const Products product = inner_product(model, part, full), norms = inner_product(model, part, part);
      GradientCosine cosine;
      cosine.mode = mode == BackPropagationMode::kTruncated ? "truncated" : "segmented";
      cosine.loops = n;
      cosine.core = product.core / std::sqrt(norms.core * full_norms.core);
      cosine.all = product.all / std::sqrt(norms.all * full_norms.all);
      cosine.norm_ratio = std::sqrt(norms.all / full_norms.all);
      result.cosines.push_back(cosine);
    }
}

}  // namespace

std::vector<int64_t> gradient_visible_loops(const BackPropagation& schedule, int64_t loops) {
  const int64_t first = pieces_of(schedule, loops).front().gradient_from;
  std::vector<int64_t> visible;
  for (int64_t t = first; t < loops; ++t) visible.push_back(t);
  return visible;
}

double branch_to_stream(const ModelConfig& config) {
  switch (config.residual) {
    case ResidualScheme::kDeepNorm:
      return config.deepnorm_beta() / config.deepnorm_alpha(config.loops);
    case ResidualScheme::kScaled:
      return config.residual_scale(config.loops);
    case ResidualScheme::kPlain:
      return config.residual_multiplier;
    case ResidualScheme::kLayerNormScaling:
    case ResidualScheme::kSandwichOuter:
    case ResidualScheme::kSandwichBranch:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void probe_gradients(LoopedModel& model, const ProbeDocuments& documents, const BackPropagation& schedule,
                     GradientDetail detail, ProbeResult& result) {
  if (detail == GradientDetail::kNone) return;
  const std::vector<VisitGradient> gradients = visit_gradients(model, documents);
  add_matrices(model, gradients, result.gradients);
  add_cosines(model, documents, result.gradients);
  if (detail == GradientDetail::kKappa) add_kappas(model, documents, schedule, gradients, result.gradients);
}

}  // namespace heddle
