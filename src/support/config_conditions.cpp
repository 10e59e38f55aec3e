// Keys that have an effect only beside certain values of others: which are read, and what becomes of those that are set
// all the same.
#include <algorithm>

#include "support/config.h"
#include "support/error.h"
#include "support/log.h"

namespace heddle {

void Config::add_condition(const std::vector<std::string>& keys, const std::string& condition,
                           std::function<bool()> holds) {
  for (const std::string& key : keys) {
    bool found = false;
    for (Entry& entry : entries_) {
      if (key.ends_with('.') ? !entry.key.starts_with(key) : entry.key != key) continue;
      entry.conditions.push_back(conditions_.size());
      found = true;
    }
    require(found, "the condition of key {}, which is not declared", key);
  }
  conditions_.push_back({condition, std::move(holds)});
}

const Config::Condition* Config::unmet(const Entry& entry) const {
  for (const size_t i : entry.conditions)
    if (!conditions_[i].holds()) return &conditions_[i];
  return nullptr;
}

bool Config::is_read(const std::string& key) const {
  for (const Entry& entry : entries_)
    if (entry.key == key) return unmet(entry) == nullptr;
  return false;
}

namespace {

/// Keys by the condition that they lack, in words.
using Unread = std::vector<std::pair<std::string, std::vector<std::string>>>;

void add_unread(Unread& all, const std::string& condition, const std::string& key) {
  auto found = std::find_if(all.begin(), all.end(), [&](const auto& group) { return group.first == condition; });
  if (found == all.end()) found = all.insert(all.end(), {condition, {}});
  found->second.push_back(key);
}

std::string text_of(const Unread& all) {
  std::vector<std::string> parts;
  for (const auto& [condition, keys] : all)
    parts.push_back(fmt::format("{} {} {}", fmt::join(keys, ", "),
                                keys.size() == 1 ? "has no effect: it needs" : "have no effect: they need", condition));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

void Config::check_read(const std::vector<bool>& set_by_file, const std::vector<bool>& read_by_file) {
  Unread refused, left_out;
  std::string file;
  std::vector<Entry*> reset;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const Condition* const condition = entry.is_set() ? unmet(entry) : nullptr;
    if (condition == nullptr || (set_by_file[i] && entry.has_default())) continue;
    if (entry.origin == "flag") {
      add_unread(refused, condition->words, "--" + entry.key);
    } else if (read_by_file[i]) {
      add_unread(left_out, condition->words, entry.key);
      file = entry.origin.substr(0, entry.origin.rfind(':'));
      reset.push_back(&entry);
    } else {
      add_unread(refused, condition->words, fmt::format("{}: {}", entry.origin, entry.key));
    }
  }
  if (!refused.empty())
    throw UsageError(text_of(refused), fmt::format("leave {} out, or choose {}",
                                                   refused[0].second.size() == 1 ? "it" : "them", refused[0].first));
  if (!left_out.empty()) log_warning(fmt::format("left out of '{}' because of the flags: {}", file, text_of(left_out)));
  for (Entry* const entry : reset) {
    entry->assign(entry->default_value);
    entry->origin = "default";
  }
}

}  // namespace heddle
