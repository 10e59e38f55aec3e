#include "support/text_table.h"

#include <algorithm>

#include "support/error.h"

namespace heddle {

namespace {

size_t width_of(const std::string& text) {
  // Bytes 10xxxxxx continue a code point.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  require(cells.size() == columns_.size(), "table row has {} cells, expected {}", cells.size(), columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::render(int indent) const {
  std::vector<std::vector<std::string>> lines;
  if (std::any_of(columns_.begin(), columns_.end(), [](const Column& c) { return !c.title.empty(); })) {
    auto& heading = lines.emplace_back();
    for (const Column& column : columns_) heading.push_back(column.title);
  }
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& line : lines)
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));

  std::string text;
  for (const auto& line : lines) {
    std::string row(static_cast<size_t>(indent), ' ');
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string padding(widths[c] - width_of(line[c]), ' ');
      if (c > 0) row += "  ";
      row += columns_[c].align == Align::kRight ? padding + line[c] : line[c] + padding;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

}  // namespace heddle
