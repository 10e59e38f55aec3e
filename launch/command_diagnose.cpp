#include "launch/command_diagnose.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analysis/diagnose.h"
#include "support/atomic_file.h"
#include "support/config.h"
#include "support/error.h"
#include "support/log.h"

namespace heddle {

namespace {

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const Diagnosis& d) {
  nlohmann::json cells = nlohmann::json::array(), findings = nlohmann::json::array(), rms = nlohmann::json::array();
  for (const CellSummary& c : d.cells)
    cells.push_back({{"loop", c.loop + 1},
                     {"layer", c.layer},
                     {"entropy", c.entropy},
                     {"largest_share", c.largest_share},
                     {"dead", c.dead},
                     {"dropped_share", c.dropped_share},
                     {"overlap", c.overlap < 0 ? nlohmann::json(nullptr) : number(c.overlap)},
                     {"chance", c.chance},
                     {"block_rms", number(c.block_rms)}});
  for (const Finding& f : d.findings)
    findings.push_back({{"severity", name_of(f.severity)}, {"what", f.what}, {"cause", f.cause}, {"fix", f.fix}});
  for (const double value : d.state_rms) rms.push_back(number(value));
  return {{"verdict", d.verdict},
          {"worst", name_of(d.worst)},
          {"window", d.window},
          {"first_loss", number(d.first_loss)},
          {"last_loss", number(d.last_loss)},
          {"tokens_per_second", number(d.tokens_per_second)},
          {"state_rms", rms},
          {"cells", cells},
          {"findings", findings}};
}

}  // namespace

int run_diagnose_command(const std::vector<std::string>& arguments) {
  std::string json;
  Config config;
  config.add("json", json, "file for the diagnosis as JSON");
  if (!arguments.empty() && arguments[0] == "--help") {
    log_line("usage: heddle diagnose RUN|LOG [--json FILE]\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  const std::vector<std::string> where = config.parse(arguments);
  require_writable_target(json);
  if (where.size() != 1) throw UsageError("diagnose takes one run folder or log", "heddle diagnose runs/quickstart");
  const bool folder = std::filesystem::is_directory(where[0]);
  const RunLog log = RunLog::open(folder ? (std::filesystem::path(where[0]) / "log.h5").string() : where[0]);
  const Diagnosis diagnosis = diagnose(log);
  log_line(render(log, diagnosis));
  if (!json.empty()) publish_text(json, to_json(diagnosis).dump(2) + "\n");
  return static_cast<int>(diagnosis.worst == Severity::kProblem ? ExitStatus::kMismatch : ExitStatus::kOk);
}

}  // namespace heddle
