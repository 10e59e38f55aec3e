#include "launch/command_diagnose.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

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

nlohmann::json cell_json(const CellSummary& c) {
  return {{"loop", c.loop + 1},
          {"layer", c.layer},
          {"visited", c.visited},
          {"entropy", c.entropy},
          {"largest_share", c.largest_share},
          {"dead", c.dead},
          {"dropped_share", c.dropped_share},
          {"overlap", number(c.overlap)},
          {"chance", number(c.chance)},
          {"flipped", number(c.flipped)},
          {"router_logit_max", number(c.router_logit_max)},
          {"router_agreement", number(c.router_agreement)},
          {"state_agreement", number(c.state_agreement)},
          {"distinct", number(c.distinct)},
          {"block_rms", number(c.block_rms)}};
}

nlohmann::json loop_json(const LoopSummary& s, size_t loop) {
  nlohmann::json back = nlohmann::json::array();
  for (const double cosine : s.cosine_back) back.push_back(number(cosine));
  return {{"loop", loop + 1},
          {"state_rms", number(s.state_rms)},
          {"update_rms", number(s.update_rms)},
          {"relative_update", number(s.relative_update)},
          {"cosine_back", back},
          {"cosine_embedding", number(s.cosine_embedding)},
          {"token_cosine", number(s.token_cosine)}};
}

nlohmann::json to_json(const Diagnosis& d) {
  nlohmann::json cells = nlohmann::json::array(), findings = cells, loops = cells, pairs = cells;
  for (const CellSummary& c : d.cells) cells.push_back(cell_json(c));
  for (size_t t = 0; t < d.loops.size(); ++t) loops.push_back(loop_json(d.loops[t], t));
  for (const double overlap : d.pair_overlap) pairs.push_back(number(overlap));
  for (const Finding& f : d.findings)
    findings.push_back(
        {{"severity", name_of(f.severity)}, {"kind", f.kind}, {"what", f.what}, {"cause", f.cause}, {"fix", f.fix}});
  return {{"verdict", d.verdict},
          {"worst", name_of(d.worst)},
          {"window", d.window},
          {"looks", d.looks},
          {"first_loss", number(d.first_loss)},
          {"last_loss", number(d.last_loss)},
          {"tokens_per_second", number(d.tokens_per_second)},
          {"cells", cells},
          {"loops", loops},
          {"pair_overlap", pairs},
          {"loop_information", d.loop_information},
          {"findings", findings}};
}

void check_same_model(const RunLogHeader& log, const ProbeResult& probe, const std::string& path) {
  if (probe.layers == log.layers && probe.experts == log.experts && probe.loops <= log.loops) return;
  throw UsageError(fmt::format("'{}' is of a model with {} loops, {} layers and {} experts, the log of one with {}, {} "
                               "and {}",
                               path, probe.loops, probe.layers, probe.experts, log.loops, log.layers, log.experts),
                   "probe a checkpoint of this run: heddle probe RUN");
}

}  // namespace

int run_diagnose_command(const std::vector<std::string>& arguments) {
  std::string json, probe;
  Config config;
  config.add("probe", probe, "result of heddle probe; empty: RUN/probe.json, if it is there");
  config.add("json", json, "file for the diagnosis as JSON");
  if (asks_for_help(arguments)) {
    log_line("usage: heddle diagnose RUN|LOG [--probe FILE] [--json FILE]\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  const std::vector<std::string> where = config.parse(arguments);
  require_writable_target(json);
  if (where.size() != 1) throw UsageError("diagnose takes one run folder or log", "heddle diagnose runs/quickstart");
  const std::filesystem::path path = where[0];
  const bool folder = std::filesystem::is_directory(path);
  const RunLog log = RunLog::open(folder ? (path / "log.h5").string() : where[0]);
  if (probe.empty() && folder && std::filesystem::exists(path / "probe.json")) probe = (path / "probe.json").string();
  std::optional<ProbeResult> probed;
  if (!probe.empty()) {
    probed = read_probe_result(probe);
    check_same_model(log.header, *probed, probe);
  }
  const Diagnosis diagnosis = diagnose(log, probed ? &*probed : nullptr);
  if (probed)
    log_line(
        fmt::format("with '{}' of the checkpoint after step {}, {} documents", probe, probed->step, probed->documents));
  log_line(render(log, diagnosis));
  if (!json.empty()) publish_text(json, to_json(diagnosis).dump(2) + "\n");
  return static_cast<int>(diagnosis.worst == Severity::kProblem ? ExitStatus::kMismatch : ExitStatus::kOk);
}

}  // namespace heddle
