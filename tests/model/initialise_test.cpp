// Start values of every tensor under every initialiser, against the table of docs/model_family.md section 9, written
// here once more: mean, deviation, bound, copies, and tensors that are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "comm/dry_communicator.h"
#include "model/looped_model.h"

namespace heddle {
namespace {

constexpr double kD = 48, kI = 80, kF = 28;  // widths: stream, dense, expert
constexpr int64_t kLoops = 3;

/// P 1 and C 1 with experts or dense, L 2, R 3; shared experts and routers per loop.
ModelConfig base(Initialisation kind) {
  ModelConfig c;
  c.vocabulary_size = 211;
  c.hidden_size = static_cast<int64_t>(kD);
  c.prelude_layers = c.coda_layers = 1;
  c.layers = 2;
  c.loops = kLoops;
  c.kv_heads = 3;
  c.query_heads = 6;
  c.head_dim = 10;
  c.dense_intermediate = static_cast<int64_t>(kI);
  c.moe = {.experts = 6, .top_k = 2, .shared_experts = 2, .intermediate = static_cast<int64_t>(kF)};
  c.norms.post = c.norms.block = c.norms.loop_end = c.norms.embedding = c.norms.final = c.norms.query_key =
      NormKind::kGain;
  c.norms.pre = NormKind::kGain;
  c.initialisation = kind;
  c.initial_embedding_std = 0.013;
  c.initial_uniform_scale = 0.6;
  c.deepnorm_power = 0.3;
  return c;
}

struct Model {
  explicit Model(const ModelConfig& config, uint64_t seed = 1)
      : world(make_single_communicator()), groups(*world, 1), model(config, groups, cpu::kernels()) {
    // Whatever memory held before must not show.
    for (Parameter& p : model.parameters().all()) std::fill_n(p.value.f32(), p.value.count(), 7.0F);
    model.initialise(seed);
  }
  std::vector<float> operator[](const std::string& name) {
    const Tensor& t = model.parameters().find(name).value;
    return {t.f32(), t.f32() + t.count()};
  }
  std::unique_ptr<Communicator> world;
  ProcessGroups groups;
  LoopedModel model;
};

/// A distribution around zero: its deviation, the largest magnitude, and the share of draws within one deviation.
struct Distribution {
  double deviation = 0, bound = INFINITY, within_one = 0;
};
Distribution normal(double deviation) {
  return {deviation, INFINITY, 0.6827};
}
Distribution uniform(double bound) {
  return {bound / std::sqrt(3.0), bound, 1 / std::sqrt(3.0)};
}
/// docs/loom.md section 2: the tail beyond 3 wraps, and a factor restores the variance.
Distribution truncated(double deviation) {
  constexpr double kFactor = 1.014762601732121;
  return {deviation, 3 * kFactor * deviation, std::erf(1 / kFactor / std::numbers::sqrt2) + 0.0026};
}
Distribution zero() {
  return {0, 0, 1};
}

bool has(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

/// The table.
Distribution expected(Initialisation kind, const Parameter& p, const ModelConfig& c) {
  const std::string& n = p.name;
  const bool embedding = n == "embed_tokens.weight", head = n == "lm_head.weight", router = has(n, ".routers.");
  const bool value = has(n, "v_proj"), up = has(n, "up_proj"), out = has(n, "o_proj"), down = has(n, "down_proj");
  const double inner = has(n, ".moe.") ? kF : kI;
  const double by_width = 1 / std::sqrt(kD), visits = 1 + kLoops * 2 + 1;
  switch (kind) {
    case Initialisation::kLoom:
      if (router) return normal(by_width);
      return truncated(down ? 1 / std::sqrt(inner) : by_width);
    case Initialisation::kIsoDepth:
      if (embedding) return normal(1);
      if (head) return normal(0.001);
      return uniform(down ? std::sqrt(3 / (4 * kD)) : std::sqrt(3 / kD));
    case Initialisation::kExponents:
      if (embedding) return normal(0.013);
      if (head || out || down) return zero();
      return uniform(0.6 * by_width);
    case Initialisation::kHuginn: {
      const double sigma = std::sqrt(2 / (5 * kD));
      return normal(out || down ? sigma / std::sqrt(2 * visits) : sigma);
    }
    case Initialisation::kDeepNorm: {
      if (embedding || head) return normal(by_width);
      double rows = 0, columns = kD;
      if (has(n, "q_proj") || has(n, "g_proj") || out) rows = 60;
      if (has(n, "k_proj") || value) rows = 30;
      if (up || down || has(n, "gate_proj")) rows = inner;
      if (router) rows = 6;
      if (n == "condition.in.weight") rows = static_cast<double>(c.conditioning_width);
      const double xavier = std::sqrt(2 / (rows + columns)), beta = std::pow(8 * visits, -0.3);
      return normal(value || up || out || down ? beta * xavier : xavier);
    }
  }
  return {};
}

/// Tensors that start alike under every initialiser.
bool is_exact(const std::string& n) {
  return n.ends_with("norm.weight") || n.ends_with(".bias") || n.starts_with("hyper.") || n.starts_with("reinject.") ||
         n == "condition.embedding" || n == "condition.out.weight" || n == "condition.loop";
}

void expect_distribution(const std::string& name, const std::vector<float>& values, const Distribution& d) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0, largest = 0, within = 0;
  for (const float value : values) {
    const double x = static_cast<double>(value);
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::abs(x));
    within += std::abs(x) <= d.deviation ? 1 : 0;
  }
  if (d.deviation == 0) {
    EXPECT_EQ(largest, 0) << name;
    return;
  }
  EXPECT_NEAR(sum / n, 0, 5 * d.deviation / std::sqrt(n)) << name << ": mean";
  EXPECT_NEAR(std::sqrt(squares / n), d.deviation, 5 * d.deviation / std::sqrt(2 * n)) << name << ": deviation";
  EXPECT_LE(largest, d.bound * (1 + 1e-6)) << name << ": bound";
  EXPECT_NEAR(within / n, d.within_one, 5 * std::sqrt(d.within_one * (1 - d.within_one) / n)) << name << ": shape";
  if (std::isinf(d.bound)) {
    if (n > 1000) {
      EXPECT_GT(largest, 2.5 * d.deviation) << name << ": tails";
    }
  } else if (n > 1000) {
    EXPECT_GT(largest, (d.bound / d.deviation > 2 ? 0.8 : 0.99) * d.bound) << name << ": reaches its bound";
  }
}

const Initialisation kAll[] = {Initialisation::kLoom, Initialisation::kIsoDepth, Initialisation::kExponents,
                               Initialisation::kHuginn, Initialisation::kDeepNorm};

/// Variants that together have every tensor.
std::vector<ModelConfig> variants(Initialisation kind) {
  ModelConfig experts = base(kind);  // routers per loop
  experts.outer_feed_forward = FeedForwardKind::kMoe;
  experts.reinjection = Reinjection::kDecay;
  ModelConfig dense = base(kind);
  dense.core_feed_forward = FeedForwardKind::kDense;
  dense.looping_residual = false;
  dense.residual = ResidualScheme::kDeepNorm;
  dense.reinjection = Reinjection::kLinear;
  dense.conditioning = Conditioning::kModulation;
  dense.conditioning_width = 37;
  ModelConfig gelu = dense;
  gelu.activation = DenseActivation::kGelu;
  gelu.embedding_tied = true;
  gelu.reinjection_order = InjectionOrder::kHe;
  ModelConfig untied = base(kind);
  untied.tied = false;
  untied.reinjection = Reinjection::kNone;
  untied.lanes = 2;
  untied.conditioning = Conditioning::kEmbedding;
  ModelConfig biases = base(kind);
  biases.moe.router = RouterSharing::kSharedBias;
  biases.reinjection = Reinjection::kBoundary;
  biases.reinjection_alpha_learned = true;
  biases.reinjection_alpha = 0.25;
  return {experts, dense, gelu, untied, biases};
}

TEST(Initialise, EveryMatrixHasTheDistributionOfTheTable) {
  for (const Initialisation kind : kAll)
    for (const ModelConfig& config : variants(kind)) {
      SCOPED_TRACE(kInitialisations(kind));
      Model m(config);
      int64_t matrices = 0;
      for (const Parameter& p : m.model.parameters().all()) {
        if (is_exact(p.name)) continue;
        expect_distribution(p.name, m[p.name], expected(kind, p, config));
        ++matrices;
      }
      EXPECT_GT(matrices, 20);
    }
}

TEST(Initialise, TheOtherTensorsAreExactUnderEveryInitialiser) {
  for (const Initialisation kind : kAll)
    for (const ModelConfig& config : variants(kind)) {
      SCOPED_TRACE(kInitialisations(kind));
      Model m(config);
      for (const Parameter& p : m.model.parameters().all()) {
        const std::vector<float> values = m[p.name];
        const auto all = [&](float expected) {
          for (const float x : values) ASSERT_EQ(x, expected) << p.name;
        };
        const auto count = static_cast<int64_t>(values.size());
        if (p.name.ends_with("norm.weight")) all(1);
        if (p.name.ends_with(".bias")) all(0);
        if (p.name == "condition.embedding" || p.name == "condition.out.weight") all(0);
        if (p.name == "reinject.A_log") all(0);
        if (p.name == "reinject.alpha") all(0.25F);
        if (p.name == "hyper.write") all(1);
        if (p.name == "hyper.read") {  // row t - 1: the unit vector (t - 1) mod H
          EXPECT_EQ(values, (std::vector<float>{1, 0, 0, 1, 1, 0}));
        }
        if (p.name == "hyper.mix") {
          EXPECT_EQ(values, (std::vector<float>{1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1}));
        }
        if (p.name == "reinject.dt_bias") {
          for (const float x : values)
            EXPECT_NEAR(std::exp(-std::log(1 + std::exp(static_cast<double>(x)))), 0.447, 5e-4);
        }
        if (p.name == "condition.loop") expect_distribution(p.name, values, normal(1));
        if (p.name != "reinject.weight") continue;
        if (config.reinjection == Reinjection::kLinear && config.reinjection_order == InjectionOrder::kHe) {
          expect_distribution(p.name, values, normal(std::sqrt(2 / (5 * kD))));
          continue;
        }
        const int64_t columns = p.global_shape[1];
        for (int64_t i = 0; i < count; ++i)  // [I 0], or I for decay
          ASSERT_EQ(values[static_cast<size_t>(i)], i % columns == i / columns ? 1.0F : 0.0F) << "element " << i;
      }
      for (int64_t l = 0; l < m.model.stored_moe_layers(); ++l)
        for (const float bias : m.model.balance_bias(l).floats()) EXPECT_EQ(bias, 0.0F);
    }
}

TEST(Initialise, RoutersOfLoopsAreCopiesUnderLoomAndDrawnApartElsewhere) {
  for (const Initialisation kind : kAll) {
    Model m(base(kind));
    for (int64_t layer = 0; layer < 2; ++layer) {
      const auto router = [&](int64_t t) { return m[fmt::format("core.{}.moe.routers.{}.weight", layer, t)]; };
      for (int64_t t = 1; t < kLoops; ++t)
        EXPECT_EQ(router(t) == router(0), kind == Initialisation::kLoom) << kInitialisations(kind);
    }
    EXPECT_NE(m["core.0.moe.routers.0.weight"], m["core.1.moe.routers.0.weight"]);
  }
}

TEST(Initialise, TensorsAndSeedsAndUntiedCoresDiffer) {
  for (const Initialisation kind : kAll) {
    ModelConfig config = base(kind);
    config.tied = false;
    Model m(config), again(config), other(config, 2);
    const char* tensors[] = {"core.0.0.attn.q_proj.weight", "core.1.0.attn.q_proj.weight",
                             "core.0.1.attn.q_proj.weight", "core.0.0.attn.g_proj.weight", "coda.0.attn.q_proj.weight"};
    for (const char* a : tensors) {
      EXPECT_EQ(m[a], again[a]);
      EXPECT_NE(m[a], other[a]) << "another seed";
      for (const char* b : tensors) EXPECT_EQ(m[a] == m[b], a == b) << a << " and " << b;
    }
  }
}

TEST(Initialise, AnExpertDoesNotDependOnTheExpertParallelSize) {
  for (const Initialisation kind : kAll) {
    ModelConfig config = base(kind);
    config.outer_feed_forward = FeedForwardKind::kMoe;
    Model whole(config);
    for (const int width : {2, 3, 6})
      for (int rank = 0; rank < width; ++rank) {
        const auto world = make_dry_communicator(rank, width);
        ProcessGroups groups(*world, make_dry_communicator(rank, width), make_dry_communicator(0, 1));
        LoopedModel part(config, groups, cpu::kernels());
        part.initialise(1);
        int64_t split = 0;
        for (const Parameter& p : part.parameters().all()) {
          const Parameter& all = whole.model.parameters().find(p.name);
          split += p.value.count() < all.value.count();
          EXPECT_EQ(
              std::memcmp(p.value.f32(), all.value.f32() + p.global_offset(), static_cast<size_t>(p.value.bytes())), 0)
              << p.name << " on rank " << rank << " of " << width;
        }
        EXPECT_EQ(split, 4 * 3) << "three tensors of experts in each of four layers";
      }
  }
}

}  // namespace
}  // namespace heddle
