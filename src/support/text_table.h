// Tables for the terminal: columns as wide as their widest cell, two spaces apart.
#pragma once

#include <string>
#include <vector>

namespace heddle {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  /// Without any title there is no heading line.
  explicit TextTable(std::vector<Column> columns);

  /// One cell per column; any other number is a mistake of the caller (std::logic_error).
  void add_row(std::vector<std::string> cells);

  /// Heading and rows, each behind `indent` spaces and ended by a newline, without spaces at the ends of lines. Widths
  /// are counted in code points of UTF-8.
  std::string render(int indent = 2) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace heddle
