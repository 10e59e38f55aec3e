// Helpers that all sections use: tables with keys of their own, and figures with a chart for every run.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "report/charts.h"
#include "report/sections.h"

namespace heddle::report {

/// Stores a table of run `run` and returns its key.
inline std::string store(Json& tables, size_t run, const std::string& name, const Table& table) {
  const std::string key = fmt::format("{}.{}", run, name);
  if (!tables.contains(key)) tables[key] = table.json();
  return key;
}

inline Json missing(const std::string& why) {
  return {{"missing", why}};
}

/// A figure with chart(run, index) for every run.
inline Json figure_by_run(const std::vector<Run>& runs, const std::string& id, const std::string& title,
                          const std::string& note, const std::function<Json(const Run&, size_t)>& chart) {
  Json charts = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    Json one = chart(runs[i], i);
    one["run"] = runs[i].name;
    charts.push_back(std::move(one));
  }
  return {{"id", id}, {"title", title}, {"note", note}, {"charts", charts}};
}

/// What a chart over looks says where a run has none.
inline Json no_looks(const Run& run) {
  return missing(run.log.header.statistics_interval == 0 ? "The run took no looks: statistics.interval is 0."
                                                         : "No look is in the log yet.");
}

inline Json no_steps() {
  return missing("No step is in the log yet.");
}

inline Json no_experts() {
  return missing("The run has no experts.");
}

}  // namespace heddle::report
