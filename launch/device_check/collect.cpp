#include <algorithm>
#include <filesystem>
#include <sstream>

#include "launch/device_check/report.h"
#include "support/atomic_file.h"
#include "support/error.h"

namespace heddle::device_check {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream rest(line);
  for (std::string cell; std::getline(rest, cell, '\t');) cells.push_back(cell);
  return cells;
}

std::vector<std::vector<std::string>> table_of(const std::string& path, size_t columns) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    rows.push_back(cells_of(line));
    if (rows.back().size() > columns) throw Error(fmt::format("'{}' has a line of more than {} cells", path, columns));
    rows.back().resize(columns);
  }
  return rows;
}

/// Files PREFIX*.json of the folder, by name.
std::vector<std::string> files_of(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".json")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The documents of the files that are whole; the names of the others go to `broken`.
nlohmann::json documents(const std::string& folder, const std::string& prefix, nlohmann::json& broken) {
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& path : files_of(folder, prefix)) {
    nlohmann::json document = nlohmann::json::parse(read_text_file(path), nullptr, false);
    const std::string name = fs::path(path).stem().string();
    if (document.is_discarded()) {
      broken.push_back(name);
      continue;
    }
    document["name"] = name.substr(prefix.size());
    all.push_back(std::move(document));
  }
  return all;
}

/// GoogleTest's documents in numbers, and the tests that failed.
nlohmann::json summary_of_tests(const nlohmann::json& processes) {
  int64_t tests = 0, failures = 0, skipped = 0;
  nlohmann::json failed = nlohmann::json::array();
  for (const nlohmann::json& process : processes)
    for (const nlohmann::json& suite : process.value("testsuites", nlohmann::json::array()))
      for (const nlohmann::json& test : suite.value("testsuite", nlohmann::json::array())) {
        if (test.value("status", "") != "RUN") continue;
        ++tests;
        skipped += test.value("result", "") == "SKIPPED";
        if (!test.contains("failures")) continue;
        ++failures;
        failed.push_back(suite.value("name", "") + "." + test.value("name", ""));
      }
  return {{"tests", tests}, {"failures", failures}, {"skipped", skipped}, {"failed", std::move(failed)}};
}

}  // namespace

nlohmann::json collect(const std::string& folder) {
  nlohmann::json all, broken = nlohmann::json::array();
  all["machine"] = nlohmann::json::object();
  for (const auto& row : table_of(folder + "/machine.txt", 2)) all["machine"][row[0]] = row[1];
  bool passed = true;
  all["parts"] = nlohmann::json::array();
  for (const auto& row : table_of(folder + "/parts.txt", 4)) {
    passed = passed && row[1] == "passed";
    all["parts"].push_back({{"part", row[0]}, {"status", row[1]}, {"seconds", row[2]}, {"note", row[3]}});
  }
  if (const nlohmann::json found = documents(folder, "verify", broken); !found.empty()) all["verify"] = found[0];
  if (const nlohmann::json found = documents(folder, "kernel_tests_", broken); !found.empty())
    all["kernel_tests"] = summary_of_tests(found);
  all["curves"] = documents(folder, "curve_", broken);
  all["kernels"] = documents(folder, "kernels_", broken);
  all["training"] = documents(folder, "training_", broken);
  for (const nlohmann::json& bench : all["training"])
    passed = passed && bench.value("not_run", nlohmann::json::array()).empty();
  all["unreadable"] = broken;
  all["passed"] = passed && broken.empty();
  return all;
}

}  // namespace heddle::device_check
