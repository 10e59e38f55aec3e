// INI text as a list of entries with line numbers, before any meaning is given to them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct IniEntry {
  std::string key;    ///< "section.name", or "name" before the first section
  std::string value;  ///< white space around it removed; may be empty
  int line = 0;       ///< from 1
};

/// "[section]", "name = value"; comments start with # or ; at the start of a line or after white space. A byte-order
/// mark and CRLF line ends are accepted. Throws UsageError naming source and line for anything else.
std::vector<IniEntry> parse_ini(std::string_view text, const std::string& source);

}  // namespace heddle
