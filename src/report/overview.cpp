#include "report/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/diagnose.h"
#include "support/ini.h"
#include "support/numbers.h"

namespace heddle::report {

namespace {

std::string loss_of(const RunLog& log) {
  return log.steps.empty() ? "-" : fmt::format("{:.4f} nats per token", log.steps.back().loss);
}

std::string validation_of(const RunLog& log) {
  if (log.validations.empty()) return "-";
  const ValidationRecord& v = log.validations.back();
  return fmt::format("{:.4f} bits per byte after step {}", v.bits_per_byte, v.step);
}

std::string speed_of(const RunLog& log) {
  double tokens = 0, seconds = 0;
  for (const StepRecord& r : log.steps) {
    tokens += r.tokens;
    seconds += r.step_seconds;
  }
  return seconds > 0 ? fmt::format("{} tokens per second", human_count(tokens / seconds)) : "-";
}

/// What charts will lack.
std::vector<std::string> missing_of(const Run& run) {
  const RunLog& log = run.log;
  std::vector<std::string> texts;
  if (log.steps.empty()) texts.emplace_back("steps: none is in the log yet");
  if (log.header.experts == 0) texts.emplace_back("routing: the run has no experts");
  if (log.header.loops == 1) texts.emplace_back("overlap between loops: the run has one loop");
  if (log.looks.empty())
    texts.emplace_back(log.header.statistics_interval == 0
                           ? "looks at updates, cosines and pairs of loops: statistics.interval is 0"
                           : "looks at updates, cosines and pairs of loops: none is in the log yet");
  if (log.validations.empty()) texts.emplace_back("validations: none is in the log yet");
  if (!run.probe)
    texts.emplace_back("loss by loop, effects of skips and swaps, effective depth: heddle probe writes RUN/probe.json");
  return texts;
}

}  // namespace

Json facts(const std::vector<Run>& runs) {
  Json rows = Json::array();
  const auto add = [&](const char* what, auto text) {
    Json values = Json::array();
    for (const Run& run : runs) values.push_back(text(run.log));
    rows.push_back(Json::array({what, values}));
  };
  add("Steps", [](const RunLog& log) {
    return fmt::format("{} of {}", log.steps.empty() ? 0 : log.steps.back().step, log.header.steps);
  });
  add("Loss of the last step", loss_of);
  add("Validation", validation_of);
  add("Throughput", speed_of);
  add("Core",
      [](const RunLog& log) { return fmt::format("{} layers, {} loops", log.header.layers, log.header.loops); });
  add("Experts", [](const RunLog& log) {
    return log.header.experts == 0 ? std::string("none")
                                   : fmt::format("{} per layer, {} per token", log.header.experts, log.header.top_k);
  });
  add("Losses in a step", [](const RunLog& log) { return fmt::format("{}", log.header.segments); });
  add("Operations", [](const RunLog& log) {
    return fmt::format("{} per token of training", human_count(log.header.flops_per_token));
  });
  add("Ranks", [](const RunLog& log) {
    return fmt::format("{}, experts over {}", log.header.ranks, log.header.expert_parallel);
  });
  return rows;
}

Json verdicts(const std::vector<Run>& runs) {
  Json all = Json::array();
  for (const Run& run : runs) {
    const Diagnosis d = diagnose(run.log, run.probe ? &*run.probe : nullptr);
    Json findings = Json::array();
    for (const Finding& f : d.findings)
      findings.push_back({{"severity", name_of(f.severity)}, {"what", f.what}, {"cause", f.cause}, {"fix", f.fix}});
    all.push_back({{"run", run.name},
                   {"verdict", d.verdict},
                   {"worst", name_of(d.worst)},
                   {"findings", findings},
                   {"missing", missing_of(run)}});
  }
  return all;
}

Json configurations(const std::vector<Run>& runs) {
  std::vector<std::string> keys;  // in the order of the first run that has them
  std::vector<std::map<std::string, std::string>> values(runs.size());
  for (size_t i = 0; i < runs.size(); ++i)
    for (const IniEntry& entry : parse_ini(runs[i].log.header.config, "the configuration of " + runs[i].name)) {
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) keys.push_back(entry.key);
      values[i][entry.key] = entry.value;
    }
  Json rows = Json::array();
  for (const std::string& key : keys) {
    Json row = Json::array();
    for (const auto& of_run : values) row.push_back(of_run.contains(key) ? Json(of_run.at(key)) : Json());
    const bool differ = std::any_of(row.begin(), row.end(), [&](const Json& value) { return value != row[0]; });
    rows.push_back(Json::array({key, row, differ}));
  }
  return rows;
}

}  // namespace heddle::report
