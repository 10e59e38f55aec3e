// device_report: what launch/device_check/run.sh needs beside the program itself.
//   device_report curve REFERENCE_LOG LOG JSON FIRST LAST   compares the losses of two run logs, within these
//   tolerances device_report tables FOLDER                             FOLDER/device_check.json and .md from what its
//   parts left
// Exit status: 0 fine, 1 out of tolerance, or not all parts passed, 2 wrong use or unreadable files.
#include <cstdio>

#include "analysis/run_log.h"
#include "launch/device_check/curve.h"
#include "launch/device_check/report.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/log.h"
#include "support/numbers.h"

namespace heddle::device_check {
namespace {

std::vector<double> losses_of(const std::string& path) {
  std::vector<double> losses;
  for (const StepRecord& record : RunLog::open(path).steps) losses.push_back(record.loss);
  return losses;
}

double tolerance_of(const std::string& text) {
  const auto value = parse_real(text);
  if (!value || *value < 0) throw UsageError(fmt::format("'{}' is no tolerance", text), "nats per token, such as 0.01");
  return *value;
}

bool run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 6 && arguments[0] == "curve") {
    const CurveTolerance tolerance{tolerance_of(arguments[4]), tolerance_of(arguments[5])};
    const nlohmann::json result = curve_json(losses_of(arguments[1]), losses_of(arguments[2]), tolerance);
    publish_text(arguments[3], result.dump(2) + "\n");
    log_line(fmt::format("{} steps: largest difference of the first {:.2e}, of the last means {:.2e}",
                         result.at("steps").get<int64_t>(), result.at("largest_first").get<double>(),
                         result.at("mean_last").get<double>()));
    return result.at("passed");
  }
  if (arguments.size() == 2 && arguments[0] == "tables") {
    const nlohmann::json results = collect(arguments[1]);
    publish_text(arguments[1] + "/device_check.json", results.dump(2) + "\n");
    publish_text(arguments[1] + "/device_check.md", markdown(results));
    return results.at("passed");
  }
  throw UsageError("wrong arguments",
                   "device_report curve REFERENCE_LOG LOG JSON FIRST LAST, or device_report tables FOLDER");
}

}  // namespace
}  // namespace heddle::device_check

int main(int count, char** arguments) {
  using namespace heddle;
  try {
    return device_check::run({arguments + 1, arguments + count}) ? 0 : 1;
  } catch (const Error& error) {
    log_error(error.hint().empty() ? error.what() : fmt::format("{}\n  hint: {}", error.what(), error.hint()));
  } catch (const std::exception& error) {
    log_error(error.what());
  }
  return 2;
}
