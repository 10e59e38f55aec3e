#include "model/counting.h"

namespace heddle {

namespace {

int64_t gain(NormKind kind, int64_t width) {
  return kind == NormKind::kGain ? width : 0;
}

int64_t dense_matrices(const ModelConfig& m) {
  return m.activation == DenseActivation::kSwiglu ? 3 : 2;
}

/// One stored layer. `loops`: rows of the tensors that a tied core has per loop; 0 for prelude, coda, untied cores.
LayerCount count_layer(const ModelConfig& m, bool experts, int64_t loops) {
  LayerCount count;
  const int64_t d = m.hidden_size, query = m.query_heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  count.attention = d * ((m.output_gate ? 3 : 2) * query + 2 * kv);
  const bool post = m.residual == ResidualScheme::kDeepNorm || m.residual == ResidualScheme::kSandwichOuter ||
                    m.residual == ResidualScheme::kSandwichBranch;
  count.norms = 2 * gain(m.norms.pre, d) + (post ? 2 * gain(m.norms.post, d) : 0) + gain(m.norms.block, d) +
                2 * gain(m.norms.query_key, m.head_dim);
  if (!experts) {
    count.dense = dense_matrices(m) * d * m.dense_intermediate;
    return count;
  }
  const int64_t expert = 3 * d * m.moe.intermediate;
  count.norms += gain(m.norms.moe_out, d);
  count.routed_experts = m.moe.experts * expert;
  count.shared_experts = m.moe.shared_experts * expert;
  const bool per_loop = loops > 0 && m.moe.router == RouterSharing::kPerLoop;
  const bool biases = loops > 0 && m.moe.router == RouterSharing::kSharedBias;
  count.routers = (per_loop ? loops : 1) * m.moe.experts * d + (biases ? loops * m.moe.experts : 0);
  return count;
}

LayerCount times(const LayerCount& one, int64_t n) {
  return {n * one.attention,      n * one.dense,          n * one.routers,
          n * one.routed_experts, n * one.shared_experts, n * one.norms};
}

/// Parameters of a layer that one token uses in one visit.
int64_t active(const ModelConfig& m, bool experts) {
  const LayerCount one = count_layer(m, experts, 0);
  return one.total() - (experts ? (m.moe.experts - m.moe.top_k) * 3 * m.hidden_size * m.moe.intermediate : 0);
}

int64_t count_boundary(const ModelConfig& m) {
  const int64_t d = m.hidden_size, h = m.lanes;
  int64_t count = m.loops * (2 * h + h * h);
  if (m.reinjection == Reinjection::kLinear) count += 2 * d * d;
  if (m.reinjection == Reinjection::kDecay) count += d * d + 2 * d;
  if (m.reinjection == Reinjection::kBoundary && m.reinjection_alpha_learned) count += 1;
  if (m.conditioning == Conditioning::kEmbedding) count += m.loops * d;
  if (m.conditioning == Conditioning::kModulation) count += m.conditioning_width * (3 * d + m.loops);
  return count;
}

/// Multiply-adds of one visit of a layer.
double visit_products(const ModelConfig& m, bool experts, int64_t sequence) {
  const double keys = static_cast<double>(sequence + 1) / 2;  // q.k and p.v over (S + 1) / 2 keys
  return weights_met_in_a_layer(m, experts) + 2 * static_cast<double>(m.query_heads * m.head_dim) * keys;
}

FlopCount weighted(const ModelConfig& m, int64_t sequence, double entries, double loops, double exits) {
  FlopCount count;
  const double outer = visit_products(m, m.outer_moe(), sequence);
  count.prelude = 2 * entries * static_cast<double>(m.prelude_layers) * outer;
  count.core = 2 * loops * static_cast<double>(m.layers) * visit_products(m, m.core_moe(), sequence);
  const double before_coda = m.before_coda == BeforeCoda::kFull ? exits : 0;  // counted with the exits
  count.boundary = 2 * (loops + before_coda) * products_between_loops(m);
  count.coda = 2 * exits * static_cast<double>(m.coda_layers) * outer;
  count.head = 2 * exits * static_cast<double>(m.vocabulary_size * m.hidden_size);
  return count;
}

}  // namespace

double weights_met_in_a_layer(const ModelConfig& m, bool experts) {
  const LayerCount one = count_layer(m, experts, 0);
  if (!experts) return static_cast<double>(one.attention + one.dense);
  const int64_t expert = 3 * m.hidden_size * m.moe.intermediate;
  return static_cast<double>(one.attention + m.moe.experts * m.hidden_size +
                             (m.moe.top_k + m.moe.shared_experts) * expert);
}

double products_between_loops(const ModelConfig& m) {
  const double d = static_cast<double>(m.hidden_size), h = static_cast<double>(m.lanes);
  double products = d * (2 * h + h * h);
  if (m.reinjection == Reinjection::kLinear) products += 2 * d * d;
  if (m.reinjection == Reinjection::kDecay) products += d * d;
  if (m.conditioning == Conditioning::kModulation) products += static_cast<double>(m.conditioning_width) * 3 * d;
  return products;
}

void FlopCount::add(const FlopCount& other, double share) {
  prelude += share * other.prelude;
  core += share * other.core;
  boundary += share * other.boundary;
  coda += share * other.coda;
  head += share * other.head;
}

void check_countable(const ModelConfig& m) {
  constexpr double kMost = 1e17;  // weights, gradients and two moments of four bytes each still fit
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double d = real(m.hidden_size);
  const auto layer = [&](bool experts, int64_t routers) {
    const double heads = real(3 * m.query_heads + 2 * m.kv_heads) * real(m.head_dim);
    const double inner = experts ? real(m.moe.experts + m.moe.shared_experts) * real(m.moe.intermediate) * 3 +
                                       real(routers * m.moe.experts)
                                 : real(m.dense_intermediate) * 3;
    return d * (heads + inner);
  };
  const double total = 2 * real(m.vocabulary_size) * d + real(m.conditioning_width) * 3 * d +
                       real(m.prelude_layers + m.coda_layers) * layer(m.outer_moe(), 1) +
                       real(m.stored_cores() * m.layers) * layer(m.core_moe(), m.tied ? m.loops : 1);
  if (total > kMost)
    throw UsageError(
        fmt::format("a model of about {:.2g} parameters is more than can be counted ({:.0g})", total, kMost),
        "lower model.layers, model.hidden_size, moe.experts or moe.intermediate");
}

ParameterCount count_parameters(const ModelConfig& m) {
  ParameterCount count;
  const int64_t d = m.hidden_size;
  count.embedding = m.vocabulary_size * d;
  count.head = m.embedding_tied ? 0 : m.vocabulary_size * d;
  count.prelude = times(count_layer(m, m.outer_moe(), 0), m.prelude_layers);
  count.coda = times(count_layer(m, m.outer_moe(), 0), m.coda_layers);
  count.core = m.tied ? times(count_layer(m, m.core_moe(), m.loops), m.layers)
                      : times(count_layer(m, m.core_moe(), 0), m.loops * m.layers);
  count.boundary = count_boundary(m);
  count.norms = gain(m.norms.embedding, d) + gain(m.norms.loop_end, d) + gain(m.norms.final, d);
  count.active = count.embedding + count.head + count.boundary + count.norms +
                 (m.prelude_layers + m.coda_layers) * active(m, m.outer_moe()) +
                 m.stored_cores() * m.layers * active(m, m.core_moe());
  return count;
}

FlopCount forward_flops_per_token(const ModelConfig& m, int64_t sequence, const LoopWork& work) {
  return weighted(m, sequence, static_cast<double>(work.entries), static_cast<double>(work.loops),
                  static_cast<double>(work.exits));
}

FlopCount training_flops_per_token(const ModelConfig& m, int64_t sequence, const LoopWork& work) {
  return weighted(m, sequence, 3 * static_cast<double>(work.entries),
                  3 * static_cast<double>(work.loops) - 2 * static_cast<double>(work.without_gradient),
                  3 * static_cast<double>(work.exits));
}

}  // namespace heddle
