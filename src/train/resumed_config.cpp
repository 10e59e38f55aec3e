#include "train/resumed_config.h"

#include <algorithm>
#include <map>

#include "support/ini.h"
#include "train/train_config.h"

namespace heddle {

namespace {

/// Values of all keys, also of those that an older file lacks.
std::map<std::string, std::string> values_of(const std::string& text, const std::string& source) {
  TrainConfig settings;
  Config keys;
  settings.declare(keys);
  keys.parse_text(text, source);
  std::map<std::string, std::string> values;
  for (const IniEntry& entry : parse_ini(keys.resolved(), source)) values[entry.key] = entry.value;
  return values;
}

/// Why a key must stay, or "".
std::string why_fixed(const std::string& key) {
  for (const char* name : {"train.global_batch", "train.sequence_length", "train.seed", "data.unique_tokens"})
    if (key == name) return "the data position would shift";
  for (const char* name : {"moe.experts", "moe.top_k", "moe.shared_experts", "moe.intermediate", "moe.score",
                           "moe.router", "moe.renormalise", "moe.balance_scope", "head.multiplier", "head.soft_cap"})
    if (key == name) return "the weights would be used as another function";
  for (const char* section : {"model.", "residual.", "reinjection.", "norms.", "embedding.", "feed_forward.",
                              "hyper_connections.", "conditioning."})
    if (key.starts_with(section) && key != "model.vocabulary_size")
      return "the weights would be used as another function";
  for (const char* name : {"backprop.mode", "backprop.loops", "loss.loop_weights"})
    if (key == name) return "the log and the spike guard are kept by segment";
  for (const char* section : {"loop_count.", "growth."})
    if (key.starts_with(section) && key != "growth.rewarm_steps") return "steps before would have run other loops";
  for (const char* name : {"optimizer.name", "muon.second_moment", "muon.routers"})
    if (key == name) return "the optimizer's state is another one";
  return "";
}

}  // namespace

std::vector<std::string> compare_resumed_config(const std::string& path, const std::string& before,
                                                const std::string& now) {
  const std::map<std::string, std::string> old_values = values_of(before, path), new_values = values_of(now, "flags");
  std::vector<std::string> changes;
  for (const auto& [key, value] : new_values) {
    const std::string& old = old_values.at(key);
    if (old == value || key.starts_with("run.") || key.starts_with("layout.") || key == "data.store") continue;
    std::string why = why_fixed(key);
    if (key == "train.steps" && new_values.at("growth.initial_loops") != "0")
      why = "growth comes after a share of them, and would move";
    // The same gradient and the same pieces: only memory and time differ.
    const auto one_piece = [](const std::map<std::string, std::string>& values) {
      return values.at("backprop.mode") == "full" || values.at("backprop.mode") == "checkpointed";
    };
    if ((key == "backprop.mode" || key == "backprop.loops") && one_piece(old_values) && one_piece(new_values)) why = "";
    if (!why.empty())
      throw UsageError(fmt::format("{} was {} when '{}' was written and is {} now: {}", key, old, path, value, why),
                       fmt::format("--{} {}, or a new run.directory", key, old));
    changes.push_back(fmt::format("{} {} -> {}", key, old, value));
  }
  return changes;
}

}  // namespace heddle
