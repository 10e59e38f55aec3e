// A key that nothing reads is refused or left out with a warning, never ignored in silence: every row of
// train/key_conditions.cpp, and the presets, which hold no such key.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "support/atomic_file.h"
#include "support/ini.h"
#include "tests/data/temporary_folder.h"
#include "train/train_config.h"

namespace heddle {
namespace {

using Words = std::vector<std::string>;
namespace fs = std::filesystem;

/// Keys and values, "section.key value section.key value ...".
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Row {
  const char* key;
  const char* value;  ///< not the default
  Settings read;      ///< under which something reads the key
  Settings unread;    ///< the same keys otherwise, so that nothing does
  const char* needs;  ///< what the message says
};

const Settings kDense = {{"feed_forward.core", "dense"}}, kExperts = {{"feed_forward.core", "moe"}};
const Settings kMuon = {{"optimizer.name", "muon"}}, kAdamW = {{"optimizer.name", "adamw"}};
const Settings kMuonH = {{"optimizer.name", "muonh"}}, kSgd = {{"optimizer.name", "sgd"}};
const Settings kBoundary = {{"reinjection.kind", "boundary"}}, kConvex = {{"reinjection.kind", "convex"}};
const Settings kGrowth = {{"growth.initial_loops", "1"}}, kNoGrowth = {{"growth.initial_loops", "0"}};
const Settings kScaled = {{"residual.scheme", "scaled"}}, kPlain = {{"residual.scheme", "plain"}};
const Settings kDeepNorm = {{"residual.scheme", "deepnorm"}};
const Settings kFull = {{"backprop.mode", "full"}}, kSegmented = {{"backprop.mode", "segmented"}};
const Settings kFixed = {{"loop_count.distribution", "fixed"}}, kUniform = {{"loop_count.distribution", "uniform"}};
const Settings kPoisson = {{"loop_count.distribution", "poisson"}};

const Settings kOneLoop = {{"model.loops", "1"}}, kTwoLoops = {{"model.loops", "2"}};
const char* const kLater = "model.loops above 1";

Settings together(const Settings& a, const Settings& b) {
  Settings all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::vector<Row> rows() {
  std::vector<Row> all = {
      {"run.validation_samples",
       "3",
       {{"run.validation_interval", "5"}},
       {{"run.validation_interval", "0"}},
       "run.validation_interval above 0"},
      {"layout.exchange_chunks",
       "2",
       {{"layout.expert_parallel", "2"}},
       {{"layout.expert_parallel", "1"}},
       "layout.expert_parallel above 1"},
      {"model.noise_deviation",
       "2",
       {{"model.initial_state", "noise"}},
       {{"model.initial_state", "embedding"}},
       "model.initial_state noise"},
      {"norms.post", "plain", kDeepNorm, kPlain, "residual.scheme deepnorm, sandwich_outer or sandwich_branch"},
      {"feed_forward.outer", "moe", {{"model.coda_layers", "1"}}, {{"model.coda_layers", "0"}}, "model.coda_layers"},
      {"feed_forward.activation", "gelu", kDense, kExperts, "feed_forward.core dense"},
      {"feed_forward.intermediate",
       "64",
       {{"model.coda_layers", "1"}},
       {{"model.coda_layers", "0"}},
       "feed_forward.outer dense with layers outside of the core"},
      {"residual.lambda", "1", kScaled, kPlain, "residual.scheme scaled"},
      {"residual.loops_power", "2", kScaled, kPlain, "residual.scheme scaled"},
      {"residual.layers_power", "2", kScaled, kPlain, "residual.scheme scaled"},
      {"residual.multiplier", "2", kPlain, kScaled, "another residual.scheme than scaled"},
      {"residual.deepnorm_power", "0.25", kDeepNorm, kPlain, "residual.scheme deepnorm or"},
      {"residual.deepnorm_power",
       "0.25",
       {{"initialisation.kind", "deepnorm"}},
       {{"initialisation.kind", "loom"}},
       "or initialisation.kind deepnorm"},
      {"residual.count_gradient_visits", "true", together(kDeepNorm, {{"backprop.mode", "truncated"}}),
       together(kPlain, {{"backprop.mode", "truncated"}}), "residual.scheme deepnorm"},
      {"residual.count_gradient_visits", "true", together(kDeepNorm, {{"backprop.mode", "truncated"}}),
       together(kDeepNorm, kFull), "backprop.mode truncated"},
      {"residual.ema_beta_local", "0.1", {{"residual.looping", "true"}}, {{"residual.looping", "false"}}, "looping"},
      {"residual.ema_beta_global", "0.1", {{"residual.looping", "true"}}, {{"residual.looping", "false"}}, "looping"},
      {"residual.count_gradient_visits", "true",
       together(kDeepNorm, {{"backprop.mode", "truncated"}, {"backprop.loops", "2"}, {"model.loops", "3"}}),
       together(kDeepNorm, {{"backprop.mode", "truncated"}, {"backprop.loops", "2"}, {"model.loops", "2"}}),
       "backprop.loops below model.loops"},
      {"reinjection.lambda", "1", kConvex, kBoundary, "reinjection.kind convex"},
      {"reinjection.lambda", "1", together(kConvex, kTwoLoops), together(kConvex, kOneLoop), kLater},
      {"reinjection.lambda", "1", together(together(kConvex, kOneLoop), kPoisson),
       together(together(kConvex, kOneLoop), kFixed), "drawn loop counts"},
      {"reinjection.alpha", "2", together(kBoundary, kTwoLoops), together(kBoundary, kOneLoop), kLater},
      {"reinjection.alpha", "2", together(together(kBoundary, kOneLoop), {{"reinjection.before_coda", "full"}}),
       together(together(kBoundary, kOneLoop), {{"reinjection.before_coda", "norm"}}), "before_coda full"},
      {"reinjection.alpha", "2", together(together(kBoundary, kOneLoop), {{"reinjection.first", "alpha_e"}}),
       together(together(kBoundary, kOneLoop), {{"reinjection.first", "e"}}), "reinjection.first alpha_e"},
      {"reinjection.alpha_learned", "true", together(kBoundary, kTwoLoops), together(kBoundary, kOneLoop), kLater},
      {"reinjection.norm", "false", together(kBoundary, kTwoLoops), together(kBoundary, kOneLoop), kLater},
      {"reinjection.norm", "false", together(together(kBoundary, kOneLoop), {{"reinjection.before_coda", "norm"}}),
       together(together(kBoundary, kOneLoop), {{"reinjection.before_coda", "off"}}), "before_coda full or norm"},
      {"reinjection.inject", "false", together(kBoundary, kTwoLoops), together(kBoundary, kOneLoop), kLater},
      {"reinjection.alpha", "2", kBoundary, kConvex, "reinjection.kind boundary"},
      {"reinjection.alpha", "2", together(kBoundary, {{"reinjection.inject", "true"}}),
       together(kBoundary, {{"reinjection.inject", "false"}}), "reinjection.inject true or reinjection.first alpha_e"},
      {"reinjection.alpha_learned", "true", kBoundary, kConvex, "reinjection.kind boundary"},
      {"reinjection.norm", "false", kBoundary, kConvex, "reinjection.kind boundary"},
      {"reinjection.inject", "false", kBoundary, kConvex, "reinjection.kind boundary"},
      {"reinjection.first", "alpha_e", kBoundary, kConvex, "reinjection.kind boundary"},
      {"reinjection.order", "he", {{"reinjection.kind", "linear"}}, kConvex, "reinjection.kind linear"},
      {"conditioning.width",
       "8",
       {{"conditioning.kind", "modulation"}},
       {{"conditioning.kind", "embedding"}},
       "conditioning.kind modulation"},
      {"initialisation.embedding_std",
       "1",
       {{"initialisation.kind", "exponents"}},
       {{"initialisation.kind", "loom"}},
       "initialisation.kind exponents"},
      {"initialisation.uniform_scale",
       "1",
       {{"initialisation.kind", "exponents"}},
       {{"initialisation.kind", "loom"}},
       "initialisation.kind exponents"},
      {"moe.router", "shared", together({{"model.coda_layers", "1"}, {"feed_forward.outer", "moe"}}, kExperts),
       together({{"model.coda_layers", "1"}, {"feed_forward.outer", "moe"}}, kDense), "feed_forward.core moe"},
      {"moe.router", "shared", {{"model.tied", "true"}}, {{"model.tied", "false"}}, "model.tied true"},
      {"moe.balance_scope", "layer_loop", {{"model.tied", "true"}}, {{"model.tied", "false"}}, "model.tied true"},
      {"moe.balance_scope",
       "layer_loop",
       {{"train.balance_rate", "0.1"}},
       {{"train.balance_rate", "0"}},
       "train.balance_rate above 0"},
      {"moe.aux_scope", "summed", {{"moe.aux_loss", "0.1"}}, {{"moe.aux_loss", "0"}}, "moe.aux_loss above 0"},
      {"moe.capacity_scope",
       "global",
       {{"moe.capacity_factor", "1.5"}},
       {{"moe.capacity_factor", "0"}},
       "moe.capacity_factor above 0"},
      {"backprop.loops", "2", kSegmented, kFull, "backprop.mode checkpointed, truncated or segmented"},
      {"backprop.step_per_segment",
       "false",
       kSegmented,
       {{"backprop.mode", "checkpointed"}},
       "backprop.mode segmented"},
      {"loop_count.low", "2", kUniform, kPoisson, "loop_count.distribution uniform"},
      {"loop_count.high", "2", kPoisson, kFixed, "loop_count.distribution uniform or poisson"},
      {"loop_count.sigma", "2", kPoisson, kUniform, "loop_count.distribution poisson"},
      {"growth.at", "0.5", kGrowth, kNoGrowth, "growth.initial_loops above 0"},
      {"growth.rewarm_steps", "5", kGrowth, kNoGrowth, "growth.initial_loops above 0"},
      {"optimizer.beta1", "0.5", kAdamW, kSgd, "optimizer.name adamw, muon or muonh"},
      {"optimizer.beta2", "0.5", kMuon, kSgd, "optimizer.name adamw, muon or muonh"},
      {"optimizer.eps", "1e-05", kMuonH, kSgd, "optimizer.name adamw, muon or muonh"},
      {"optimizer.momentum", "0.5", kSgd, kMuon, "optimizer.name sgd"},
      {"optimizer.decay",
       "matrices",
       {{"optimizer.weight_decay", "0.2"}},
       {{"optimizer.weight_decay", "0"}},
       "optimizer.weight_decay above 0"},
      {"optimizer.head_rate", "2", {{"embedding.tied", "false"}}, {{"embedding.tied", "true"}}, "embedding.tied false"},
      {"optimizer.gain_rate",
       "2",
       {{"norms.moe_out", "gain"}},
       {{"norms.moe_out", "off"}},
       "a norm of kind gain or another trained vector"},
      {"optimizer.tied_rate_power", "1", {{"model.tied", "true"}}, {{"model.tied", "false"}}, "model.tied true"},
      {"optimizer.tied_rate_power", "1", kTwoLoops, kOneLoop, kLater},
      {"optimizer.decay",
       "matrices",
       {{"norms.moe_out", "gain"}},
       {{"norms.moe_out", "off"}},
       "a norm of kind gain or another trained vector"},
      {"muon.weight_decay", "0.2", kMuon, kMuonH, "optimizer.name muon"},
      {"muon.cautious", "true", kMuon, kMuonH, "optimizer.name muon"},
      {"muon.cautious", "true", together(kMuon, {{"muon.weight_decay", "0.2"}}),
       together(kMuon, {{"muon.weight_decay", "0"}}), "muon.weight_decay above 0"},
      {"muon.ns_eps", "1e-05", together(kMuon, {{"muon.orthogonalise", "newton_schulz"}}),
       together(kMuon, {{"muon.orthogonalise", "polar_express"}}), "muon.orthogonalise newton_schulz"},
      {"muon.momentum_start", "0.5", together(kMuon, {{"muon.momentum_steps", "5"}}), kMuon,
       "muon.momentum_steps above 0"},
      {"muon.momentum_steps", "5", together(kMuon, {{"muon.momentum_start", "0.5"}}), kMuon, "a muon.momentum_start"},
      {"muon.routers", "true", together(kMuon, kExperts), together(kMuon, kDense), "feed_forward.core moe"},
      {"schedule.decay_ratio", "0.5", {{"schedule.name", "wsd"}}, {{"schedule.name", "cosine"}}, "schedule.name wsd"},
      {"schedule.min_ratio",
       "0.5",
       {{"schedule.decay_ratio", "0.2"}},
       {{"schedule.decay_ratio", "0"}},
       "schedule.decay_ratio above 0"},
  };
  for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{{"moe.experts", "4"},
                                                                                   {"moe.top_k", "3"},
                                                                                   {"moe.shared_experts", "2"},
                                                                                   {"moe.intermediate", "8"},
                                                                                   {"moe.score", "softmax"},
                                                                                   {"moe.router", "shared"},
                                                                                   {"moe.aux_loss", "0.1"},
                                                                                   {"moe.renormalise", "false"},
                                                                                   {"moe.balance_scope", "layer_loop"},
                                                                                   {"moe.gate", "first"},
                                                                                   {"moe.router_z_loss", "1"},
                                                                                   {"moe.capacity_factor", "1.5"},
                                                                                   {"norms.moe_out", "off"},
                                                                                   {"train.balance_rate", "1"}})
    all.push_back(
        {key, value, kExperts, kDense, "feed_forward.core moe, or feed_forward.outer moe with layers outside"});
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, const char*>>{{"muon.learning_rate", "1"},
                                                        {"muon.momentum", "0.5"},
                                                        {"muon.orthogonalise", "polar_express"},
                                                        {"muon.ns_steps", "3"},
                                                        {"muon.row_normalise", "true"},
                                                        {"muon.second_moment", "0.5"},
                                                        {"muon.routers", "true"},
                                                        {"muon.weight_decay", "0.2"}})
    all.push_back({key, value, kMuon, kAdamW, "optimizer.name muon or muonh"});
  return all;
}

Words flags_of(const Settings& settings) {
  Words flags;
  for (const auto& [key, value] : settings) flags.push_back("--" + key + "=" + value);
  return flags;
}

/// A file with these settings, the key in its last line.
std::string write_file(const TemporaryFolder& folder, const Settings& settings) {
  const std::string path = folder.path("c.ini");
  std::ofstream file(path);
  for (const auto& [key, value] : settings)
    file << "[" << key.substr(0, key.find('.')) << "]\n" << key.substr(key.find('.') + 1) << " = " << value << "\n";
  return path;
}

/// What parsing did: values of all keys, the error with its hint, warnings.
struct Parsed {
  std::map<std::string, std::string> values;
  std::set<std::string> unread;
  std::string error, warnings;
};
Parsed parse(const Words& flags) {
  TrainConfig settings;
  Config keys;
  settings.declare(keys);
  Parsed parsed;
  testing::internal::CaptureStderr();
  try {
    keys.parse(flags);
  } catch (const UsageError& error) {
    parsed.error = std::string(error.what()) + " | " + error.hint();
  }
  parsed.warnings = testing::internal::GetCapturedStderr();
  for (const IniEntry& entry : parse_ini(keys.resolved(), "")) {
    parsed.values[entry.key] = entry.value;
    if (!keys.is_read(entry.key)) parsed.unread.insert(entry.key);
  }
  return parsed;
}

void expect_in(const std::string& fragment, const std::string& text) {
  EXPECT_NE(text.find(fragment), std::string::npos) << "lacks '" << fragment << "': " << text;
}

TEST(KeyConditions, AFlagThatNothingReadsIsRefusedWithWhatItNeeds) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.key);
    const Settings key = {{row.key, row.value}};
    EXPECT_EQ(parse(flags_of(together(row.read, key))).error, "");
    const std::string error = parse(flags_of(together(row.unread, key))).error;
    expect_in(std::string("--") + row.key + " has no effect: it needs ", error);
    expect_in("| leave it out, or choose ", error);
    expect_in(row.needs, error);
  }
}

TEST(KeyConditions, ALineOfAFileIsRefusedOrLeftOutWhereFlagsTookItsCondition) {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> defaults = parse({}).values;
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.key);
    const Settings key = {{row.key, row.value}};
    std::string file = write_file(folder, together(row.unread, key));
    expect_in(fmt::format("{}:{}: {} has no effect: it needs ", file, 2 * row.unread.size() + 2, row.key),
              parse({"--config", file}).error);

    file = write_file(folder, together(row.read, key));
    const Parsed alone = parse({"--config", file});
    EXPECT_EQ(alone.error + alone.warnings, "");
    EXPECT_EQ(alone.values.at(row.key), row.value);
    if (row.read.size() > row.unread.size()) continue;  // no flag takes the condition away
    Words flags = flags_of(row.unread);
    flags.insert(flags.end(), {"--config", file});
    const Parsed changed = parse(flags);
    EXPECT_EQ(changed.error, "");
    expect_in(fmt::format("warning: left out of '{}' because of the flags: {} has no effect: it needs ", file, row.key),
              changed.warnings);
    EXPECT_EQ(std::count(changed.warnings.begin(), changed.warnings.end(), '\n'), 1) << changed.warnings;
    EXPECT_EQ(changed.values.at(row.key), defaults.at(row.key));
  }
}

TEST(KeyConditions, TheRowsHereAreAllThatThereAre) {
  std::set<std::string> tested, unread;
  for (const Row& row : rows()) {
    tested.insert(row.key);
    unread.merge(parse(flags_of(row.unread)).unread);
  }
  EXPECT_EQ(tested, unread);
}

TEST(KeyConditions, DefaultsInAFileAndFlagsThatTakeALineBackAreFine) {
  const TemporaryFolder folder;
  TrainConfig settings;
  Config keys;
  settings.declare(keys);
  std::ofstream(folder.path("all.ini")) << keys.resolved();  // the config.ini of a run lists every key
  Parsed parsed = parse({"--config", folder.path("all.ini")});
  EXPECT_EQ(parsed.error + parsed.warnings, "");

  const std::string file = write_file(folder, together(kSegmented, {{"backprop.loops", "2"}}));
  parsed = parse({"--config", file, "--backprop.mode", "full", "--backprop.loops", "0"});
  EXPECT_EQ(parsed.error + parsed.warnings, "");
  EXPECT_EQ(parsed.values.at("backprop.loops"), "0");
  // Without a line to take back, the same flag promises something that does not come.
  expect_in("--backprop.loops has no effect", parse({"--backprop.mode", "full", "--backprop.loops", "0"}).error);
}

TEST(KeyConditions, NoPresetHoldsALineThatNothingReads) {
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(HEDDLE_SOURCE_DIR) / "configs")) {
    SCOPED_TRACE(entry.path().filename().string());
    const Parsed parsed = parse({"--config", entry.path().string()});
    EXPECT_EQ(parsed.error + parsed.warnings, "");
    for (const IniEntry& line : parse_ini(read_text_file(entry.path().string()), ""))
      EXPECT_FALSE(parsed.unread.contains(line.key)) << line.key << " in line " << line.line;
  }
}

}  // namespace
}  // namespace heddle
