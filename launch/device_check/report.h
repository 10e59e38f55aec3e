// The results of a device check as one JSON document and as tables in Markdown, from what its parts have left in a
// folder:
//   machine.txt            lines "KEY<tab>VALUE"
//   parts.txt              lines "NAME<tab>passed|failed|timed out|not run<tab>SECONDS<tab>NOTE"
//   verify.json            what `heddle verify --json` prints
//   kernel_tests_*.json    GoogleTest's results, one file for each process
//   curve_*.json           `device_report curve`
//   kernels_*.json         bench_kernels
//   training_*.json        bench_training_steps
// A file that a part did not leave is left out; one that is no JSON is an error of that part.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace heddle::device_check {

nlohmann::json collect(const std::string& folder);
std::string markdown(const nlohmann::json& results);

}  // namespace heddle::device_check
