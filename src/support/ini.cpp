#include "support/ini.h"

#include "support/error.h"

namespace heddle {

namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string_view without_comment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    const bool mark = line[i] == '#' || line[i] == ';';
    if (mark && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::vector<IniEntry> parse_ini(std::string_view text, const std::string& source) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<IniEntry> entries;
  std::string section;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = trim(without_comment(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty()) continue;
    if (line.front() == '[') {
      section = line.back() == ']' ? trim(line.substr(1, line.size() - 2)) : std::string_view();
      if (section.empty())
        throw UsageError(fmt::format("{}:{}: '{}' is not a section", source, number, line), "write [section]");
      continue;
    }
    const size_t equals = line.find('=');
    const std::string_view name = trim(line.substr(0, equals));
    if (equals == std::string_view::npos || name.empty())
      throw UsageError(fmt::format("{}:{}: '{}' is neither a section nor name = value", source, number, line),
                       "the file is INI text: [section] lines, and name = value lines below them");
    entries.push_back({section.empty() ? std::string(name) : fmt::format("{}.{}", section, name),
                       std::string(trim(line.substr(equals + 1))), number});
  }
  return entries;
}

}  // namespace heddle
