#include "launch/command_report.h"

#include "report/report.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/log.h"
#include "support/numbers.h"

namespace heddle {

namespace {
constexpr const char* kUsage = "heddle report RUN... -o FILE.html";
}

int run_report_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> folders;
  std::string output;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--help") {
      log_line(fmt::format(
          "usage: {}\n\nOne HTML file that opens from disk, on runs beside each other (docs/report.md)", kUsage));
      return static_cast<int>(ExitStatus::kOk);
    }
    if (arguments[i] == "-o") {
      if (i + 1 == arguments.size() || arguments[i + 1].empty()) throw UsageError("-o lacks its file", kUsage);
      if (!output.empty()) throw UsageError("-o is given twice", kUsage);
      output = arguments[++i];
    } else if (arguments[i].starts_with("-")) {
      throw UsageError(fmt::format("report knows no '{}'", arguments[i]), kUsage);
    } else {
      folders.push_back(arguments[i]);
    }
  }
  if (folders.empty()) throw UsageError("report takes one run folder or more", kUsage);
  if (output.empty()) throw UsageError("report lacks the file to write", kUsage);
  require_writable_target(output);
  const std::string html = report::page(report::report_data(report::open_runs(folders)));
  publish_text(output, html);
  log_line(
      fmt::format("wrote '{}': {} run(s), {}", output, folders.size(), human_bytes(static_cast<double>(html.size()))));
  return static_cast<int>(ExitStatus::kOk);
}

}  // namespace heddle
