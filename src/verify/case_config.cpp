#include "verify/case_config.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "train/train_config.h"
#include "verify/case_section.h"

namespace heddle {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostLayers = 65536;

/// Choices that a case may spell out but that LOOM fixes.
void check_recipe(const Section& s) {
  s.only("rope_layout", "half");
  if (!s.has("recipe")) return;
  const Section recipe = s.section("recipe");
  recipe.only("router_per_loop", true);
  recipe.only("router_score", "sigmoid");
  recipe.only("tied_embeddings", false);
  recipe.only("balance_bias_for_selection_only", true);
  recipe.only("routed_weights", "renormalised");
  recipe.only("embedding_scale", "sqrt(hidden_size)");
  recipe.only("spike_guard", false);
  recipe.only("world_size", 1);
  recipe.only("micro_batches", 1);
  recipe.only("router_z_loss", 0.0);
  recipe.leave({"residual_scale", "reinjection", "looping_residual", "moe_out_norm", "pre_norm", "layer_out_norm",
                "loop_out_norm", "attention_gate"});
}

void read_schedule(const Section& schedule, Schedule& target) {
  schedule.count("total_steps", target.total_steps);
  schedule.read("warmup_ratio", target.warmup_ratio);
  schedule.read("decay_ratio", target.decay_ratio);
  schedule.read("min_ratio", target.min_ratio);
  schedule.leave({"warmup_steps", "decay_steps"});
}

CaseConfig read_version_1(const Section& s) {
  check_recipe(s);
  CaseConfig c;
  s.count("batch_size", c.batch);
  s.count("seq_len", c.sequence);
  s.count("steps", c.steps);
  s.leave({"authors_init"});
  ModelConfig& m = c.model;
  s.count("vocab_size", m.vocabulary_size);
  s.count("hidden_size", m.hidden_size);
  s.count("head_dim", m.head_dim);
  s.count("n_query_heads", m.query_heads);
  s.count("n_kv_heads", m.kv_heads);
  s.count("n_layers", m.layers, 1, kMostLayers);
  s.count("loops", m.loops, 1, kMostLoops);
  s.read("norm_eps", m.norm_eps);
  s.read("rope_theta", m.rope_theta);
  s.read("residual_lambda", m.residual_lambda);
  m.reinjection_lambda = m.residual_lambda;
  s.read("ema_beta_local", m.ema_beta_local);
  s.read("ema_beta_global", m.ema_beta_global);
  s.count("n_routed_experts", m.moe.experts);
  s.count("top_k", m.moe.top_k);
  s.count("n_shared_experts", m.moe.shared_experts, 0);
  s.count("expert_intermediate", m.moe.intermediate);
  m.moe.capacity_scope = CapacityScope::kGlobal;
  s.read("capacity_factor", c.capacity_factor);
  s.read("capacity_in_training", c.capacity_in_training);
  BackPropagation& b = c.step.back_propagation;
  s.count("segment_len", b.loops, 0);
  b.mode = b.loops == 0 ? BackPropagationMode::kFull : BackPropagationMode::kSegmented;
  s.read("balance_bias_rate", c.step.balance_rate);

  const Section optimizer = s.section("optimizer"), schedule = s.section("schedule");
  optimizer.name("name", c.optimizer.name, {"adamw"});
  optimizer.read("lr", c.optimizer.learning_rate);
  optimizer.read("beta1", c.optimizer.beta1);
  optimizer.read("beta2", c.optimizer.beta2);
  optimizer.read("eps", c.optimizer.eps);
  optimizer.read("weight_decay", c.optimizer.weight_decay);
  optimizer.read("clip_grad_norm", c.step.clip_norm);
  schedule.name("name", c.schedule.name, {"wsd"});
  read_schedule(schedule, c.schedule);
  return c;
}

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
  s.only("rope_layout", "half");
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
  read_schedule(schedule, c.schedule);
}

CaseConfig read_version_2(const Section& s) {
  const std::string& path = s.path();
  CaseConfig c;
  c.version = 2;
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
  return c;
}

/// What training would refuse in its configuration is an error of the case, not of the command.
void check_values(const CaseConfig& c, const std::string& path) {
  TrainConfig settings;
  settings.model = c.model;
  settings.model.moe.capacity_factor = c.capacity_factor;
  settings.optimizer = c.optimizer;
  settings.schedule = c.schedule;
  settings.step = c.step;
  settings.loop_schedule = c.loops;
  Config keys;
  settings.declare(keys);
  try {
    keys.check_values();
    settings.model.validate();
  } catch (const UsageError& error) {
    throw Error(fmt::format("'{}': {}", path, error.what()), error.hint());
  }
}

/// The library would keep the last of two values without a word.
Json parse_without_repeats(std::istream& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  return Json::parse(text, [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error(fmt::format("'{}': the key {} stands twice in one section", path, parsed.dump()),
                  "keep one of the two");
    return true;
  });
}

}  // namespace

CaseConfig read_case_config(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("there is no file '{}'", path), "a case folder holds config.json and case.h5");
  Json json;
  try {
    json = parse_without_repeats(file, path);
  } catch (const Json::exception& error) {
    // The library puts its own "[json.exception...] " in front.
    const std::string text = error.what();
    fail("'{}' is not valid JSON: {}", path, text.substr(text.find("] ") == text.npos ? 0 : text.find("] ") + 2));
  }
  if (!json.is_object()) fail("'{}' is not a JSON object", path);
  const Section s(json, path);
  int64_t version = 0;
  s.read("format_version", version);
  if (version != 1 && version != 2)
    fail("'{}': format_version is {}; this build reads versions 1 and 2", path, version);
  CaseConfig c = version == 1 ? read_version_1(s) : read_version_2(s);
  s.optional("case", c.name);
  s.leave({"covers", "derived", "facts"});
  s.refuse_unknown();
  check_values(c, path);
  return c;
}

}  // namespace heddle
