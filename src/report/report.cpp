#include "report/report.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "report/assets.h"
#include "report/overview.h"
#include "support/error.h"

namespace heddle::report {

namespace fs = std::filesystem;

namespace {

/// The last part of a path, also of one that ends in "/" or is ".".
std::string folder_name(const std::string& folder) {
  const fs::path whole = (fs::absolute(folder) / "").lexically_normal().parent_path();
  return whole.has_filename() ? whole.filename().string() : folder;
}

Run open_run(const std::string& folder) {
  const fs::path log = fs::path(folder) / "log.h5", probe = fs::path(folder) / "probe.json";
  if (!fs::exists(log))
    throw Error(fmt::format("'{}' holds no run: there is no log.h5 in it", folder),
                "name the run.directory of a training: heddle report runs/quickstart -o report.html");
  Run run{folder_name(folder), RunLog::open(log.string()), std::nullopt};
  if (fs::exists(probe)) run.probe = read_probe_result(probe.string());
  return run;
}

std::string replaced(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find("{{", at), close = text.find("}}", open);
    if (open == std::string_view::npos) return out += text.substr(at);
    out += text.substr(at, open - at);
    out += values.at(std::string(text.substr(open + 2, close - open - 2)));
    at = close + 2;
  }
  return out;
}

}  // namespace

std::vector<Run> open_runs(const std::vector<std::string>& folders) {
  std::vector<Run> runs;
  std::map<std::string, int> uses;
  for (const std::string& folder : folders) {
    runs.push_back(open_run(folder));
    ++uses[runs.back().name];
  }
  for (size_t i = 0; i < runs.size(); ++i)
    if (uses.at(runs[i].name) > 1) runs[i].name = folders[i];
  return runs;
}

Json report_data(const std::vector<Run>& runs) {
  Json data, names = Json::array(), tables = Json::object(), sections = Json::array();
  for (const Run& run : runs) names.push_back(run.name);
  data["runs"] = names;
  data["facts"] = facts(runs);
  data["verdicts"] = verdicts(runs);
  data["configuration"] = configurations(runs);
  for (const auto section : {training_section, routing_section, state_section, probe_section, memory_section})
    sections.push_back(section(runs, tables));
  data["sections"] = sections;
  data["tables"] = tables;
  return data;
}

std::string script_safe(const Json& data) {
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

std::string page(const Json& data) {
  return replaced(kPageHtml, {{"STYLE", std::string(kPageCss)},
                              {"LICENCE", std::string(kLibraryLicence)},
                              {"DATA", script_safe(data)},
                              {"LIBRARY", std::string(kLibrary)},
                              {"SCRIPT", std::string(kPageScript)}});
}

}  // namespace heddle::report
