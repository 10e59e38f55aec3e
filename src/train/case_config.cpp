#include "train/case_config.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace heddle {

namespace {

using Json = nlohmann::json;

/// More than any machine holds, and small enough for products of a few.
constexpr int64_t kMost = 1 << 24, kMostLayers = 65536;

template <typename T>
T value_of(const Json& json, const char* key, const std::string& path) {
  const auto found = json.find(key);
  if (found == json.end())
    throw Error(fmt::format("'{}' lacks the key \"{}\"", path, key), "see docs/reference_cases.md");
  try {
    // The library would cut 3.5 down to 3.
    if (std::is_same_v<T, int64_t> && !found->is_number_integer())
      fail("'{}': \"{}\" is {}, expected a whole number", path, key, found->dump());
    return found->get<T>();
  } catch (const Json::exception&) {
    fail("'{}': \"{}\" is {}, which is not of the expected kind", path, key, found->dump());
  }
}

int64_t positive(const Json& json, const char* key, const std::string& path, int64_t least = 1, int64_t most = kMost) {
  const auto value = value_of<int64_t>(json, key, path);
  if (value < least) fail("'{}': \"{}\" is {}, expected {} or more", path, key, value, least);
  if (value > most) fail("'{}': \"{}\" is {}, expected {} or less", path, key, value, most);
  return value;
}

/// Choices that a case may spell out but that LOOM fixes.
void check_recipe(const Json& config, const std::string& path) {
  const Json expected = {{"router_per_loop", true},
                         {"router_score", "sigmoid"},
                         {"tied_embeddings", false},
                         {"balance_bias_for_selection_only", true},
                         {"routed_weights", "renormalised"},
                         {"embedding_scale", "sqrt(hidden_size)"},
                         {"spike_guard", false},
                         {"world_size", 1},
                         {"micro_batches", 1},
                         {"router_z_loss", 0.0}};
  const Json recipe = config.value("recipe", Json::object());
  for (const auto& [key, value] : expected.items())
    if (recipe.contains(key) && recipe[key] != value)
      fail("'{}': recipe.{} is {}; this build computes {} only", path, key, recipe[key].dump(), value.dump());
  if (config.contains("rope_layout") && config["rope_layout"] != "half")
    fail("'{}': rope_layout is {}; this build computes \"half\" only", path, config["rope_layout"].dump());
}

CaseConfig read_version_1(const Json& json, const std::string& path) {
  check_recipe(json, path);
  CaseConfig c;
  c.name = json.value("case", std::string());
  c.batch = positive(json, "batch_size", path);
  c.sequence = positive(json, "seq_len", path);
  c.steps = positive(json, "steps", path);
  ModelConfig& m = c.model;
  m.vocabulary_size = positive(json, "vocab_size", path);
  m.hidden_size = positive(json, "hidden_size", path);
  m.head_dim = positive(json, "head_dim", path);
  m.query_heads = positive(json, "n_query_heads", path);
  m.kv_heads = positive(json, "n_kv_heads", path);
  m.layers = positive(json, "n_layers", path, 1, kMostLayers);
  m.loops = positive(json, "loops", path, 1, kMostLoops);
  m.norm_eps = value_of<double>(json, "norm_eps", path);
  m.rope_theta = value_of<double>(json, "rope_theta", path);
  m.residual_lambda = m.reinjection_lambda = value_of<double>(json, "residual_lambda", path);
  m.ema_beta_local = value_of<double>(json, "ema_beta_local", path);
  m.ema_beta_global = value_of<double>(json, "ema_beta_global", path);
  m.moe.experts = positive(json, "n_routed_experts", path);
  m.moe.top_k = positive(json, "top_k", path);
  m.moe.shared_experts = positive(json, "n_shared_experts", path, 0);
  m.moe.intermediate = positive(json, "expert_intermediate", path);
  m.moe.capacity_scope = CapacityScope::kGlobal;
  if (m.moe.top_k > m.moe.experts) fail("'{}': top_k {} of {} experts", path, m.moe.top_k, m.moe.experts);
  if (m.query_heads % m.kv_heads != 0 || m.head_dim % 2 != 0)
    fail("'{}': {} query heads, {} key-value heads of width {} do not fit together", path, m.query_heads, m.kv_heads,
         m.head_dim);
  c.capacity_factor = value_of<double>(json, "capacity_factor", path);
  c.capacity_in_training = value_of<bool>(json, "capacity_in_training", path);
  c.step.back_propagation = {BackPropagationMode::kSegmented, positive(json, "segment_len", path, 0), true};
  if (c.step.back_propagation.loops == 0) c.step.back_propagation.mode = BackPropagationMode::kFull;
  c.step.balance_rate = value_of<double>(json, "balance_bias_rate", path);

  const Json optimizer = value_of<Json>(json, "optimizer", path);
  c.optimizer.name = value_of<std::string>(optimizer, "name", path);
  if (c.optimizer.name != "adamw") fail("'{}': optimizer '{}'; this build verifies adamw", path, c.optimizer.name);
  c.optimizer.learning_rate = value_of<double>(optimizer, "lr", path);
  c.optimizer.beta1 = value_of<double>(optimizer, "beta1", path);
  c.optimizer.beta2 = value_of<double>(optimizer, "beta2", path);
  c.optimizer.eps = value_of<double>(optimizer, "eps", path);
  c.optimizer.weight_decay = value_of<double>(optimizer, "weight_decay", path);
  c.step.clip_norm = value_of<double>(optimizer, "clip_grad_norm", path);
  const Json schedule = value_of<Json>(json, "schedule", path);
  if (const auto name = value_of<std::string>(schedule, "name", path); name != "wsd")
    fail("'{}': schedule '{}'; this build computes wsd", path, name);
  c.schedule.total_steps = positive(schedule, "total_steps", path);
  c.schedule.warmup_ratio = value_of<double>(schedule, "warmup_ratio", path);
  c.schedule.decay_ratio = value_of<double>(schedule, "decay_ratio", path);
  c.schedule.min_ratio = value_of<double>(schedule, "min_ratio", path);
  return c;
}

/// A JSON object of a case, whose keys are read with their place in errors.
class Section {
 public:
  Section(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) fail("'{}': expected an object, found {}", path_, json.dump());
  }

  Section section(const char* key) const { return {value_of<Json>(json_, key, path_), path_ + "', section '" + key}; }
  const std::string& path() const { return path_; }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  template <typename T>
  void read(const char* key, T& target) const {
    target = value_of<T>(json_, key, path_);
  }
  template <typename T>
  void optional(const char* key, T& target) const {
    if (has(key)) read(key, target);
  }
  void count(const char* key, int64_t& target, int64_t least = 1, int64_t most = kMost) const {
    target = positive(json_, key, path_, least, most);
  }
  void optional_count(const char* key, int64_t& target, int64_t least = 1) const {
    if (has(key)) count(key, target, least);
  }
  template <typename Enumeration>
  void choice(const char* key, Enumeration& target, const Names<Enumeration>& names) const {
    const auto text = value_of<std::string>(json_, key, path_);
    const auto found = std::find(names.list().begin(), names.list().end(), text);
    if (found == names.list().end())
      fail("'{}': \"{}\" is \"{}\", expected one of: {}", path_, key, text, fmt::join(names.list(), ", "));
    target = static_cast<Enumeration>(found - names.list().begin());
  }
  template <typename Enumeration>
  void optional_choice(const char* key, Enumeration& target, const Names<Enumeration>& names) const {
    if (has(key)) choice(key, target, names);
  }
  void name(const char* key, std::string& target, std::initializer_list<const char*> names) const {
    read(key, target);
    if (std::find(names.begin(), names.end(), target) == names.end())
      fail("'{}': \"{}\" is \"{}\", expected one of: {}", path_, key, target, fmt::join(names, ", "));
  }

 private:
  Json json_;
  std::string path_;
};

void read_model(const Section& s, ModelConfig& m) {
  s.count("vocab_size", m.vocabulary_size);
  s.count("hidden_size", m.hidden_size);
  s.count("head_dim", m.head_dim, 2);
  s.count("n_query_heads", m.query_heads);
  s.count("n_kv_heads", m.kv_heads);
  s.count("n_prelude_layers", m.prelude_layers, 0, kMostLayers);
  s.count("n_layers", m.layers, 1, kMostLayers);
  s.count("n_coda_layers", m.coda_layers, 0, kMostLayers);
  s.count("loops", m.loops, 1, kMostLoops);
  s.read("tied", m.tied);
  s.read("norm_eps", m.norm_eps);
  s.read("rope_theta", m.rope_theta);
  std::string layout = "half";
  if (s.has("rope_layout")) s.name("rope_layout", layout, {"half"});
  s.choice("initial_state", m.initial_state, kInitialStates);
  const Section attention = s.section("attention"), ffn = s.section("feed_forward"), norms = s.section("norms");
  attention.choice("qk_norm", m.norms.query_key, kNormKinds);
  attention.read("output_gate", m.output_gate);
  ffn.choice("core", m.core_feed_forward, kFeedForwardKinds);
  ffn.choice("outer", m.outer_feed_forward, kFeedForwardKinds);
  ffn.choice("activation", m.activation, kDenseActivations);
  ffn.count("intermediate", m.dense_intermediate);
  norms.choice("pre", m.norms.pre, kNormKinds);
  norms.choice("post", m.norms.post, kNormKinds);
  norms.choice("block", m.norms.block, kNormKinds);
  norms.choice("loop_end", m.norms.loop_end, kNormKinds);
  norms.choice("embedding", m.norms.embedding, kNormKinds);
  norms.choice("final", m.norms.final, kNormKinds);
  norms.choice("moe_out", m.norms.moe_out, kNormKinds);
  const Section embedding = s.section("embedding"), head = s.section("head");
  std::string scale;
  embedding.name("scale", scale, {"none", "sqrt_d"});
  m.embedding_scaled = scale == "sqrt_d";
  embedding.read("tied", m.embedding_tied);
  head.read("soft_cap", m.soft_cap);
  head.read("logit_z_loss", m.logit_z_loss);
  head.optional("multiplier", m.head_multiplier);
}

void read_loops(const Section& s, ModelConfig& m) {
  const Section residual = s.section("residual"), looping = s.section("looping_residual");
  residual.choice("scheme", m.residual, kResidualSchemes);
  residual.read("lambda", m.residual_lambda);
  residual.read("loops_power", m.residual_loops_power);
  residual.read("layers_power", m.residual_layers_power);
  residual.read("p", m.deepnorm_power);
  residual.read("count_gradient_visits", m.count_gradient_visits);
  residual.optional("multiplier", m.residual_multiplier);
  if (m.residual != ResidualScheme::kDeepNorm) m.count_gradient_visits = false;
  looping.read("enabled", m.looping_residual);
  looping.read("beta_local", m.ema_beta_local);
  looping.read("beta_global", m.ema_beta_global);
  const Section reinjection = s.section("reinjection");
  reinjection.choice("kind", m.reinjection, kReinjections);
  reinjection.read("lambda", m.reinjection_lambda);
  reinjection.read("alpha", m.reinjection_alpha);
  reinjection.read("alpha_learned", m.reinjection_alpha_learned);
  reinjection.read("norm", m.reinjection_norm);
  reinjection.read("inject", m.reinjection_inject);
  reinjection.choice("first", m.reinjection_first, kFirstInjections);
  reinjection.choice("before_coda", m.before_coda, kBeforeCoda);
  reinjection.choice("order", m.reinjection_order, kInjectionOrders);
  s.section("hyper_connections").count("lanes", m.lanes, 0);
  s.optional_choice("conditioning", m.conditioning, kConditionings);
  s.optional_count("conditioning_width", m.conditioning_width);
  if (s.has("initialisation")) {
    const Section initialisation = s.section("initialisation");
    initialisation.choice("name", m.initialisation, kInitialisations);
    initialisation.optional("embedding_std", m.initial_embedding_std);
    initialisation.optional("uniform_scale", m.initial_uniform_scale);
  }
}

void read_experts(const Section& s, CaseConfig& c) {
  c.step.balance_rate = 0;
  c.capacity_in_training = true;
  if (!s.has("moe")) {
    if (c.model.any_moe()) fail("'{}': a feed-forward of \"moe\" without the section \"moe\"", s.path());
    return;
  }
  const Section moe = s.section("moe");
  MoeConfig& m = c.model.moe;
  moe.count("n_routed_experts", m.experts);
  moe.count("top_k", m.top_k);
  moe.count("n_shared_experts", m.shared_experts, 0);
  moe.count("expert_intermediate", m.intermediate);
  moe.choice("score", m.score, kRouterScores);
  moe.choice("router", m.router, kRouterSharings);
  moe.read("renormalise", m.renormalise);
  moe.read("balance_bias_rate", c.step.balance_rate);
  moe.read("aux_loss", m.aux_loss);
  moe.choice("aux_scope", m.aux_scope, kAuxScopes);
  moe.read("router_z_loss", m.router_z_loss);
  moe.optional("capacity_factor", c.capacity_factor);
  moe.optional_choice("capacity_scope", m.capacity_scope, kCapacityScopes);
  moe.optional_choice("balance_scope", m.balance_scope, kBalanceScopes);
}

void read_optimizer(const Section& s, CaseConfig& c) {
  const Section optimizer = s.section("optimizer"), muon = optimizer.section("muon"), schedule = s.section("schedule");
  OptimizerConfig& o = c.optimizer;
  optimizer.name("name", o.name, {"adamw", "sgd", "muon", "muonh"});
  optimizer.read("lr", o.learning_rate);
  optimizer.read("beta1", o.beta1);
  optimizer.read("beta2", o.beta2);
  optimizer.read("eps", o.eps);
  optimizer.read("weight_decay", o.weight_decay);
  optimizer.name("decay", o.decay, {"all", "matrices"});
  optimizer.read("clip_grad_norm", c.step.clip_norm);
  optimizer.read("momentum", o.momentum);
  optimizer.read("tied_rate_power", o.tied_rate_power);
  optimizer.optional("embedding_rate", o.embedding_rate);
  optimizer.optional("head_rate", o.head_rate);
  optimizer.optional("gain_rate", o.gain_rate);
  o.loops = c.model.loops;
  muon.read("lr", o.muon.learning_rate);
  muon.read("momentum", o.muon.momentum);
  muon.count("ns_steps", o.muon.ns_steps);
  muon.read("ns_eps", o.muon.ns_eps);
  muon.read("weight_decay", o.muon.weight_decay);
  muon.read("routers", o.muon.routers);
  o.muon.momentum_start = o.muon.momentum;
  muon.optional("momentum_start", o.muon.momentum_start);
  muon.optional_count("momentum_steps", o.muon.momentum_steps, 0);
  if (muon.has("orthogonalise")) muon.name("orthogonalise", o.muon.orthogonalise, {"newton_schulz", "polar_express"});
  if (o.muon.orthogonalise == "polar_express" && o.muon.ns_steps > 5)
    fail("'{}': \"ns_steps\" is {}, but polar_express has coefficients for 5 steps", muon.path(), o.muon.ns_steps);
  muon.optional("row_normalise", o.muon.row_normalise);
  muon.optional("second_moment", o.muon.second_moment);
  muon.optional("cautious", o.muon.cautious);
  schedule.name("name", c.schedule.name, {"wsd", "cosine", "linear"});
  schedule.count("total_steps", c.schedule.total_steps);
  schedule.read("warmup_ratio", c.schedule.warmup_ratio);
  schedule.read("decay_ratio", c.schedule.decay_ratio);
  schedule.read("min_ratio", c.schedule.min_ratio);
}

CaseConfig read_version_2(const Json& json, const std::string& path) {
  const Section s(json, path);
  CaseConfig c;
  c.version = 2;
  c.name = json.value("case", std::string());
  s.count("batch_size", c.batch);
  s.count("seq_len", c.sequence);
  s.count("steps", c.steps);
  s.optional_count("micro_batches", c.micro_batches);
  s.optional_count("ranks", c.ranks);
  s.read("ignored", c.ignored);
  s.read("documents", c.documents);
  read_model(s, c.model);
  read_loops(s, c.model);
  read_experts(s, c);
  read_optimizer(s, c);
  s.section("loss").read("loop_weights", c.step.loop_weights);
  if (const auto weights = static_cast<int64_t>(c.step.loop_weights.size()); weights > 0 && weights != c.model.loops)
    fail("'{}': {} loop_weights for {} loops", path, weights, c.model.loops);
  const Section backprop = s.section("backprop");
  BackPropagation& b = c.step.back_propagation;
  backprop.choice("mode", b.mode, kBackPropagationModes);
  backprop.count("loops", b.loops, b.mode == BackPropagationMode::kFull ? 0 : 1);
  backprop.read("step_per_segment", b.step_per_segment);
  if (b.mode == BackPropagationMode::kTruncated) c.model.gradient_loops = b.loops;
  if (b.mode == BackPropagationMode::kTruncated && c.model.lanes > 0)
    fail("'{}': hyper-connections have no truncated back-propagation", path);
  c.step.measure_router_losses = true;
  if (s.has("loop_count")) {
    LoopDistribution distribution{};
    s.section("loop_count").choice("distribution", distribution, kLoopDistributions);
    c.random_loops = distribution != LoopDistribution::kFixed;
  }
  if (s.has("growth")) {
    const Section growth = s.section("growth");
    growth.count("initial_loops", c.loops.growth_initial_loops);
    growth.count("at_step", c.loops.growth_step);
    growth.count("rewarm_steps", c.schedule.rewarm_steps, 0);
    if (c.loops.growth_initial_loops >= c.model.loops)
      fail("'{}': growth from {} loops to {}", path, c.loops.growth_initial_loops, c.model.loops);
    c.schedule.growth_step = c.loops.growth_step;
  }
  c.only_at_ranks = c.capacity_factor > 0 && c.model.moe.capacity_scope == CapacityScope::kRank;
  c.model.validate();
  return c;
}

}  // namespace

CaseConfig read_case_config(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("there is no file '{}'", path), "a case folder holds config.json and case.h5");
  Json json;
  try {
    json = Json::parse(file);
  } catch (const Json::exception& error) {
    // The library puts its own "[json.exception...] " in front.
    const std::string text = error.what();
    fail("'{}' is not valid JSON: {}", path, text.substr(text.find("] ") == text.npos ? 0 : text.find("] ") + 2));
  }
  if (!json.is_object()) fail("'{}' is not a JSON object", path);
  const auto version = value_of<int64_t>(json, "format_version", path);
  if (version == 2) return read_version_2(json, path);
  if (version != 1) fail("'{}': format_version is {}; this build reads versions 1 and 2", path, version);
  return read_version_1(json, path);
}

}  // namespace heddle
