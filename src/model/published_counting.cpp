#include "model/published_counting.h"

namespace heddle {

namespace {

int64_t matrices(const LayerCount& layers) {
  return layers.total() - layers.norms;
}

/// Layer visits of a step, weighted by what a visit with gradient costs.
struct Visits {
  double prelude, core, loops, coda, head;
};
Visits visits_of(const ModelConfig& m, const LoopWork& work) {
  const auto entries = static_cast<double>(work.entries), exits = static_cast<double>(work.exits);
  const double loops = static_cast<double>(work.loops) - 2.0 / 3.0 * static_cast<double>(work.without_gradient);
  return {entries * static_cast<double>(m.prelude_layers), loops * static_cast<double>(m.layers), loops,
          exits * static_cast<double>(m.coda_layers), exits};
}

/// 6 operations per weight and visit, and `per_key` per query width, key and visit.
double training_flops(const ModelConfig& m, const LoopWork& work, double between, double per_key, double keys) {
  const Visits n = visits_of(m, work);
  const double query = static_cast<double>(m.query_heads * m.head_dim);
  const double weights = (n.prelude + n.coda) * weights_met_in_a_layer(m, m.outer_moe()) +
                         n.core * weights_met_in_a_layer(m, m.core_moe()) + n.loops * between +
                         n.head * static_cast<double>(m.vocabulary_size * m.hidden_size);
  return 6 * weights + per_key * (n.prelude + n.core + n.coda) * query * keys;
}

}  // namespace

int64_t IsoDepthCounting::parameters(const ModelConfig& m) {
  const ParameterCount count = count_parameters(m);
  const bool injects = m.loops > 1 || m.lanes > 0;
  return matrices(count.prelude) + matrices(count.core) + matrices(count.coda) + (injects ? count.boundary : 0);
}

double IsoDepthCounting::training_flops_per_token(const ModelConfig& m, int64_t sequence, const LoopWork& work) {
  const double between = m.loops > 1 || m.lanes > 0 ? products_between_loops(m) : 0;
  return training_flops(m, work, between, 12, static_cast<double>(sequence));
}

int64_t ExponentsCounting::parameters(const ModelConfig& m) {
  return count_parameters(m).total();
}

double ExponentsCounting::training_flops_per_token(const ModelConfig& m, int64_t sequence, const LoopWork& work) {
  return training_flops(m, work, 0, 6, static_cast<double>(sequence + 1));
}

}  // namespace heddle
