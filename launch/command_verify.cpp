// heddle verify CASE_DIR... : reference cases against this build.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "launch/program.h"
#include "support/config.h"
#include "support/error.h"
#include "support/log.h"
#include "verify/reference_case.h"

namespace heddle {

namespace {

const char* status_text(const QuantityResult& q) {
  switch (q.status) {
    case QuantityResult::Status::kPass:
      return "ok";
    case QuantityResult::Status::kFail:
      return "FAILED";
    case QuantityResult::Status::kNotChecked:
      return "not checked";
  }
  return "";
}

bool lacks(const CaseReport& report, const std::string& group) {
  const std::vector<std::string> groups = report.groups();
  return std::find(groups.begin(), groups.end(), group) == groups.end();
}

/// "" for a case that holds a forward pass and training; else what it lacks of them.
std::string text_of_lack(const CaseReport& report) {
  std::string text;
  for (const char* group : {"forward", "train"})
    if (lacks(report, group)) text += fmt::format("{} /{}", text.empty() ? "; the case has no" : " and no", group);
  return text;
}

void print_report(const CaseReport& report) {
  log_line(fmt::format("case {}", report.name));
  for (const QuantityResult& q : report.quantities) {
    if (q.status == QuantityResult::Status::kNotChecked)
      log_line(fmt::format("  {:<34} not in the case, not checked", q.quantity));
    else if (q.tolerance == 0)
      log_line(fmt::format("  {:<34} {:>9.0f} differ   must be equal    {}", q.quantity, q.error, status_text(q)));
    else
      log_line(fmt::format("  {:<34} {:>9.2e} error    tolerance {:.0e}  {:<7} {}", q.quantity, q.error, q.tolerance,
                           status_text(q), q.worst == q.quantity ? "" : q.worst));
  }
  log_line(fmt::format("  {}: {} quantities compared, of {}{}",
                       report.passed() ? "within tolerance" : "out of tolerance", report.checked(),
                       fmt::join(report.groups(), ", "), text_of_lack(report)));
}

nlohmann::json to_json(const CaseReport& report) {
  nlohmann::json quantities = nlohmann::json::array();
  for (const QuantityResult& q : report.quantities) {
    nlohmann::json entry = {{"quantity", q.quantity}, {"status", status_text(q)}, {"tolerance", q.tolerance}};
    if (q.status != QuantityResult::Status::kNotChecked) {
      // JSON has no infinity: a missing or non-finite value is null.
      entry["error"] = std::isfinite(q.error) ? nlohmann::json(q.error) : nlohmann::json(nullptr);
      entry["worst"] = q.worst;
    }
    quantities.push_back(std::move(entry));
  }
  return {{"case", report.name},
          {"passed", report.passed()},
          {"compared", report.groups()},
          {"quantities", std::move(quantities)}};
}

/// verify_case; an error without a hint gets one.
CaseReport verify(const std::string& folder, Communicator& world, int expert_parallel, const Kernels& kernels) {
  try {
    return verify_case(folder, world, expert_parallel, kernels);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.what(),
                error.hint().empty() ? "docs/reference_cases.md says what a case folder holds" : error.hint());
  }
}

}  // namespace

int run_verify_command(Job& job, const Arguments& arguments) {
  std::string device = "auto";
  bool json = false;
  int64_t expert_parallel = 1;
  Config config;
  config.add("device", device, kDeviceNames, "where to compute");
  config.add("json", json, "print one JSON document instead of the table");
  config.add("layout.expert_parallel", expert_parallel, {1, 65536, false, false},
             "ranks over which the experts are split");
  Arguments flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    flags.push_back(arguments[i]);
    // --json alone means --json true.
    if (arguments[i] == "--json" &&
        (i + 1 == arguments.size() || (arguments[i + 1] != "true" && arguments[i + 1] != "false")))
      flags.back() = "--json=true";
  }
  if (asks_for_help(flags)) {
    log_line("usage: heddle verify CASE_DIR... [--device auto|cpu|ref|cuda] [--layout.expert_parallel N] [--json]\n\n" +
             config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  const Arguments folders = config.parse(flags);
  if (folders.empty()) throw UsageError("verify needs at least one case folder", "heddle verify tests/golden/loom_r1");
  const std::unique_ptr<OpenDevice> opened = open_device(job, device);
  const Kernels& kernels = opened->kernels();
  nlohmann::json all = nlohmann::json::array();
  int64_t passed = 0, partial = 0;
  for (const std::string& folder : folders) {
    const CaseReport report = verify(folder, job.world(), static_cast<int>(expert_parallel), kernels);
    passed += report.passed();
    partial += !text_of_lack(report).empty();
    all.push_back(to_json(report));
    if (!json) print_report(report);
  }
  const bool good = passed == static_cast<int64_t>(folders.size());
  if (json)
    log_line(nlohmann::json{{"passed", good}, {"ranks", job.world().size()}, {"cases", all}}.dump(2));
  else
    log_line(fmt::format("{} of {} cases within tolerance ({} ranks, {} kernels){}", passed, folders.size(),
                         job.world().size(), kernels.name,
                         partial > 0 ? fmt::format("; {} of them without /forward or /train", partial) : ""));
  return static_cast<int>(good ? ExitStatus::kOk : ExitStatus::kFailure);
}

}  // namespace heddle
