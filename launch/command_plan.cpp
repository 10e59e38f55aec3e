#include "launch/command_plan.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/token_store.h"
#include "model/published_counting.h"
#include "support/log.h"
#include "support/numbers.h"
#include "support/text_table.h"
#include "train/train_config.h"

namespace heddle {

namespace {

/// The configuration's file may stand anywhere without --config, and "--json" alone means true.
std::vector<std::string> with_names(std::vector<std::string> arguments) {
  bool named = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size() && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
    if (arguments[i] == "--json" && !has_value) {
      arguments[i] = "--json=true";
    } else if (arguments[i].starts_with("--")) {
      named |= arguments[i].starts_with("--config");
      if (arguments[i].find('=') == std::string::npos) ++i;  // its value
    } else if (!named) {
      named = true;
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i), "--config");
      ++i;
    }
  }
  return arguments;
}

/// The vocabulary of the configuration, or that of its store if it is there.
int64_t vocabulary_of(const ModelConfig& model, const std::string& store) {
  if (model.vocabulary_size > 0) return model.vocabulary_size;
  if (!store.empty() && std::filesystem::exists(store)) return TokenStore::open(store).vocabulary_size();
  throw UsageError("model.vocabulary_size is 0, which takes that of the token store, and " +
                       (store.empty() ? std::string("data.store names none") : fmt::format("there is no '{}'", store)),
                   "--model.vocabulary_size 4096, say");
}

/// Per training token: means over the steps of the run, whose loop counts may differ.
struct TrainingWork {
  double loops = 0, without_gradient = 0, exits = 0;
  FlopCount flops;
  double iso_depth = 0, exponents = 0;
};
TrainingWork training_work(const TrainConfig& c) {
  TrainingWork mean;
  mean.flops = c.mean_training_flops(c.model);
  for (const auto& [loops, share] : c.loops_of_steps().shares(c.steps)) {
    const LoopWork work = work_of(c.step.back_propagation, c.step.loop_weights, loops);
    mean.loops += share * static_cast<double>(work.loops);
    mean.without_gradient += share * static_cast<double>(work.without_gradient);
    mean.exits += share * static_cast<double>(work.exits);
    mean.iso_depth += share * IsoDepthCounting::training_flops_per_token(c.model, c.sequence, work);
    mean.exponents += share * ExponentsCounting::training_flops_per_token(c.model, c.sequence, work);
  }
  return mean;
}

nlohmann::json json_of(const LayerCount& c) {
  return {{"total", c.total()},   {"attention", c.attention},           {"dense", c.dense},
          {"routers", c.routers}, {"routed_experts", c.routed_experts}, {"shared_experts", c.shared_experts},
          {"norms", c.norms}};
}

nlohmann::json json_of(const FlopCount& c) {
  return {{"total", c.total()},          {"prelude", c.prelude}, {"core", c.core},
          {"between_loops", c.boundary}, {"coda", c.coda},       {"head", c.head}};
}

std::string parameter_table(const ParameterCount& c) {
  TextTable table({{"parameters", TextTable::Align::kLeft},
                   {"all"},
                   {"attention"},
                   {"dense"},
                   {"routers"},
                   {"routed experts"},
                   {"shared experts"},
                   {"norms"}});
  const auto number = [](int64_t n) { return n == 0 ? std::string("-") : fmt::format("{}", n); };
  const auto row = [&](const char* name, int64_t all, const LayerCount& of) {
    table.add_row({name, number(all), number(of.attention), number(of.dense), number(of.routers),
                   number(of.routed_experts), number(of.shared_experts), number(of.norms)});
  };
  const LayerCount none;
  row("embedding", c.embedding, none);
  row("prelude", c.prelude.total(), c.prelude);
  row("core", c.core.total(), c.core);
  row("between loops", c.boundary, none);
  row("coda", c.coda.total(), c.coda);
  row("norms outside layers", c.norms, none);
  row("head", c.head, none);
  row("total", c.total(), none);
  return table.render();
}

std::string flop_table(const FlopCount& forward, const FlopCount& training) {
  TextTable table({{"operations per token", TextTable::Align::kLeft}, {"forward"}, {"training"}, {"share"}});
  const auto row = [&](const char* name, double f, double t) {
    table.add_row(
        {name, fmt::format("{:.0f}", f), fmt::format("{:.0f}", t), fmt::format("{:.1f}%", 100 * t / training.total())});
  };
  row("prelude", forward.prelude, training.prelude);
  row("core", forward.core, training.core);
  row("between loops", forward.boundary, training.boundary);
  row("coda", forward.coda, training.coda);
  row("head", forward.head, training.head);
  row("total", forward.total(), training.total());
  return table.render();
}

}  // namespace

int run_plan_command(const std::vector<std::string>& arguments) {
  TrainConfig settings;
  bool json = false;
  Config config;
  config.add("json", json, "print JSON");
  settings.declare(config);
  if (asks_for_help(arguments)) {
    log_line("usage: heddle plan CONFIG [--json] [--section.key VALUE]...\n\nThe keys are those of heddle train.");
    return static_cast<int>(ExitStatus::kOk);
  }
  if (const std::vector<std::string> rest = config.parse(with_names(arguments)); !rest.empty())
    throw UsageError(fmt::format("plan takes one configuration, and found '{}' as well", rest[0]),
                     "heddle plan configs/loom-tiny.cfg --model.loops 9");
  const std::string store = settings.store;
  // Nothing is read or written there.
  for (std::string* place : {&settings.directory, &settings.store})
    if (place->empty()) *place = "none";
  settings.validate();
  settings.model.vocabulary_size = vocabulary_of(settings.model, store);

  const ModelConfig& m = settings.model;
  const ParameterCount parameters = count_parameters(m);
  const FlopCount forward = forward_flops_per_token(m, settings.sequence, {m.loops, 0, 1, 1});
  const TrainingWork training = training_work(settings);
  const double tokens = static_cast<double>(settings.steps) * static_cast<double>(settings.global_batch) *
                        static_cast<double>(settings.sequence);
  const int64_t iso_depth = IsoDepthCounting::parameters(m), exponents = ExponentsCounting::parameters(m);
  if (json) {
    const nlohmann::json out{
        {"parameters",
         {{"total", parameters.total()},
          {"active", parameters.active},
          {"without_embeddings", parameters.without_embeddings()},
          {"embedding", parameters.embedding},
          {"head", parameters.head},
          {"prelude", json_of(parameters.prelude)},
          {"core", json_of(parameters.core)},
          {"between_loops", parameters.boundary},
          {"coda", json_of(parameters.coda)},
          {"norms", parameters.norms}}},
        {"loops",
         {{"configured", m.loops},
          {"mean", training.loops},
          {"without_gradient", training.without_gradient},
          {"losses", training.exits}}},
        {"flops_per_token", {{"forward", json_of(forward)}, {"training", json_of(training.flops)}}},
        {"training_tokens", tokens},
        {"conventions",
         {{"isodepth", {{"parameters", iso_depth}, {"training_flops_per_token", training.iso_depth}}},
          {"exponents", {{"parameters", exponents}, {"training_flops_per_token", training.exponents}}}}}};
    log_line(out.dump(2));
    return static_cast<int>(ExitStatus::kOk);
  }
  std::string text = fmt::format("{} + {} x {} + {} layers{}, width {}, vocabulary {}, sequences of {} tokens\n",
                                 m.prelude_layers, m.layers, m.loops, m.coda_layers, m.tied ? "" : " (untied core)",
                                 m.hidden_size, m.vocabulary_size, settings.sequence);
  text += fmt::format("{}\n  used by a token in one visit of every layer: {}\n  without embedding and head: {}\n",
                      parameter_table(parameters), parameters.active, parameters.without_embeddings());
  text += fmt::format(
      "\n{}\n  forward: all {} loops, one loss. Training: mean over the steps: {:.2f} loops, {:.2f} of them without "
      "gradient, {:.2f} losses\n  {} tokens in {} steps: {:.4g} operations\n\n",
      flop_table(forward, training.flops), m.loops, training.loops, training.without_gradient, training.exits,
      human_count(tokens), settings.steps, tokens * training.flops.total());
  TextTable table({{"as published studies count", TextTable::Align::kLeft}, {"parameters"}, {"training, a token"}});
  table.add_row(
      {"isodepth (arXiv 2604.21106)", fmt::format("{}", iso_depth), fmt::format("{:.0f}", training.iso_depth)});
  table.add_row(
      {"exponents (all stored, causal)", fmt::format("{}", exponents), fmt::format("{:.0f}", training.exponents)});
  log_line(text + table.render());
  return static_cast<int>(ExitStatus::kOk);
}

}  // namespace heddle
