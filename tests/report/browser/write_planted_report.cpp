// Writes two reports for the test in a browser: FOLDER/one.html, a whole run, and FOLDER/several.html, that run beside
// ones of other shapes that lack most of it.
#include <filesystem>

#include "report/planted_report.h"
#include "report/report.h"
#include "support/atomic_file.h"

int main(int, char** argv) {
  using namespace heddle;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::vector<report::Run> runs = {{"nine loops", large_log(1600), large_probe()}};
  publish_text((folder / "one.html").string(), report::page(report::report_data(runs)));
  runs.push_back({"three loops", planted_log(100), std::nullopt});
  RunLog dense;
  dense.header = planted_header();
  dense.header.experts = dense.header.top_k = dense.header.balance_rows = dense.header.statistics_interval = 0;
  dense.header.loops = 1;
  for (int64_t s = 1; s <= 5; ++s) dense.steps.push_back(planted_step(dense.header, s));
  runs.push_back({"</script><img src=x onerror=alert(1)>", dense, std::nullopt});
  runs.push_back({"not begun", planted_log(0), std::nullopt});
  publish_text((folder / "several.html").string(), report::page(report::report_data(runs)));
}
