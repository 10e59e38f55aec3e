#include "train/resumed_config.h"

#include <algorithm>
#include <map>
#include <set>

#include "support/ini.h"
#include "train/train_config.h"

namespace heddle {

namespace {

struct Values {
  std::map<std::string, std::string> of;  ///< of all keys, also of those that an older file lacks
  std::set<std::string> unread;           ///< keys that have no effect beside the others
};

Values values_of(const std::string& text, const std::string& source) {
  TrainConfig settings;
  Config keys;
  settings.declare(keys);
  keys.parse_text(text, source);
  Values values;
  for (const IniEntry& entry : parse_ini(keys.resolved(), source)) {
    values.of[entry.key] = entry.value;
    if (!keys.is_read(entry.key)) values.unread.insert(entry.key);
  }
  return values;
}

/// A key that makes no difference to a run that goes on.
bool is_indifferent(const std::string& key) {
  return (key.starts_with("run.") && key != "run.precision") || key.starts_with("layout.") ||
         key.starts_with("statistics.") || key.starts_with("initialisation.") || key == "data.store";
}

/// A value as a sentence shows it, and as a command line takes it.
std::string shown(const std::string& value) {
  return value.empty() ? "empty" : value;
}
std::string flag_of(const std::string& key, const std::string& value) {
  return fmt::format("--{} {}", key, value.empty() ? "''" : value);
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
  const Values old_values = values_of(before, path), new_values = values_of(now, "flags");
  std::vector<std::string> changes;
  for (const auto& [key, value] : new_values.of) {
    const std::string& old = old_values.of.at(key);
    if (old == value || is_indifferent(key)) continue;
    if (old_values.unread.contains(key) && new_values.unread.contains(key)) continue;
    std::string why = why_fixed(key);
    if (key == "train.steps" && new_values.of.at("growth.initial_loops") != "0")
      why = "growth comes after a share of them, and would move";
    // The same gradient and the same pieces: only memory and time differ.
    const auto one_piece = [](const Values& values) {
      return values.of.at("backprop.mode") == "full" || values.of.at("backprop.mode") == "checkpointed";
    };
    if ((key == "backprop.mode" || key == "backprop.loops") && one_piece(old_values) && one_piece(new_values)) why = "";
    if (!why.empty())
      throw UsageError(
          fmt::format("{} was {} when '{}' was written and is {} now: {}", key, shown(old), path, shown(value), why),
          fmt::format("{}, or a new run.directory", flag_of(key, old)));
    changes.push_back(fmt::format("{} {} -> {}", key, shown(old), shown(value)));
  }
  return changes;
}

}  // namespace heddle
