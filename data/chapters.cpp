#include "data/chapters.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace heddle {

namespace {

constexpr size_t kLongestHeading = 80;

bool is_numeral(std::string_view word) {
  while (!word.empty() && (word.back() == '.' || word.back() == ':' || word.back() == ']')) word.remove_suffix(1);
  if (word.empty() || word.size() > 8) return false;
  const auto all_of = [&](std::string_view set) { return word.find_first_not_of(set) == std::string_view::npos; };
  return all_of("IVXLC") || all_of("0123456789");
}

/// Letters in capitals only; signatures and quotations, which begin or end with other marks, are no titles.
bool is_capital_title(std::string_view line) {
  line = trim(line);
  if (line.empty() || line.size() > kLongestHeading || line.back() == ',' || line.front() == '"') return false;
  const auto upper = std::count_if(line.begin(), line.end(), [](unsigned char c) { return std::isupper(c) != 0; });
  const auto lower = std::count_if(line.begin(), line.end(), [](unsigned char c) { return std::islower(c) != 0; });
  return upper >= 4 && lower == 0;
}

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool is_chapter_heading(std::string_view line) {
  line = trim(line);
  while (!line.empty() && (line.front() == '_' || line.front() == '*' || line.front() == '[')) line.remove_prefix(1);
  if (line.empty() || line.size() > kLongestHeading) return false;
  const size_t space = line.find(' ');
  const std::string_view first = line.substr(0, space);
  if (space == std::string_view::npos) return is_numeral(first) && !std::isdigit(static_cast<unsigned char>(first[0]));
  if (first.back() == '.' && is_numeral(first) && is_capital_title(line.substr(space + 1))) return true;
  const std::string_view second = line.substr(space + 1, line.find(' ', space + 1) - space - 1);
  constexpr std::array<std::string_view, 5> kCapital = {"CHAPTER", "VOLUME", "BOOK", "PART", "ADVENTURE"};
  constexpr std::array<std::string_view, 5> kTitle = {"Chapter", "Volume", "Book", "Part", "Adventure"};
  if (std::find(kCapital.begin(), kCapital.end(), first) != kCapital.end())
    return !second.empty() && (is_numeral(second) || std::isupper(static_cast<unsigned char>(second[0])) != 0);
  return std::find(kTitle.begin(), kTitle.end(), first) != kTitle.end() && is_numeral(second);
}

std::vector<std::string_view> split_chapters(std::string_view text, const ChapterOptions& options) {
  std::vector<std::string_view> chapters;
  size_t chapter = 0;
  bool blank_before = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, newline - begin);
    bool heading = blank_before && is_chapter_heading(line);
    if (!heading && blank_before && options.capital_titles && is_capital_title(line)) {
      const size_t next = std::min(newline + 1, text.size());
      heading = trim(text.substr(next, std::min(text.find('\n', next), text.size()) - next)).empty();
    }
    if (heading && trim(text.substr(chapter, begin - chapter)).size() >= options.minimum_bytes) {
      chapters.push_back(text.substr(chapter, begin - chapter));
      chapter = begin;
    }
    blank_before = trim(line).empty();
    begin = newline + 1;
  }
  const std::string_view rest = text.substr(chapter);
  if (!chapters.empty() && trim(rest).size() < options.minimum_bytes)
    chapters.back() = text.substr(static_cast<size_t>(chapters.back().data() - text.data()));
  else if (!rest.empty())
    chapters.push_back(rest);
  return chapters;
}

}  // namespace heddle
