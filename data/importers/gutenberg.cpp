#include "data/importers/gutenberg.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>
#include <vector>

namespace heddle {

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, newline - begin);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    lines.push_back(line);
    begin = newline + 1;
  }
  return lines;
}

/// Runs of lines that are not empty.
std::vector<std::vector<std::string_view>> paragraphs_of(std::string_view text) {
  std::vector<std::vector<std::string_view>> paragraphs(1);
  for (const std::string_view line : lines_of(text)) {
    if (!line.empty())
      paragraphs.back().push_back(line);
    else if (!paragraphs.back().empty())
      paragraphs.emplace_back();
  }
  if (paragraphs.back().empty()) paragraphs.pop_back();
  return paragraphs;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_start(std::string_view line) {
  return line.starts_with("*** START OF TH") || line.starts_with("***START OF TH") ||
         line.starts_with("*END*THE SMALL PRINT!") || line.starts_with("*END THE SMALL PRINT!");
}

bool is_end(std::string_view line) {
  return line.starts_with("*** END OF TH") || line.starts_with("***END OF TH") ||
         ((line.starts_with("End of ") || line.starts_with("END OF ")) && contains(line, "Project Gutenberg"));
}

bool is_word_character(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0;
}

/// Words of letters and inner hyphens.
std::unordered_set<std::string> words_of(std::string_view text) {
  std::unordered_set<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && (is_word_character(text[end]) || text[end] == '-')) ++end;
    if (end > begin) words.emplace(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Length that nine of ten lines do not exceed: where the text was wrapped.
size_t wrap_width(std::string_view text) {
  std::vector<size_t> lengths;
  for (const std::string_view line : lines_of(text))
    if (!line.empty()) lengths.push_back(line.size());
  if (lengths.empty()) return 0;
  const auto rank = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() * 9 / 10);
  std::nth_element(lengths.begin(), rank, lengths.end());
  return *rank;
}

/// Prose: no line but the first is indented, only the last is short, and not every line begins like verse.
bool is_prose(const std::vector<std::string_view>& lines, size_t width) {
  size_t capitals = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (i > 0 && line.front() == ' ') return false;
    if (i + 1 < lines.size() && line.size() * 10 < width * 6) return false;
    const size_t letter = line.find_first_not_of(" \"'_");
    if (letter != std::string_view::npos && std::isupper(static_cast<unsigned char>(line[letter])) != 0) ++capitals;
  }
  return lines.size() < 3 || capitals < lines.size();
}

/// True if `line` ends within a word: letter, then one hyphen.
bool ends_in_hyphen(std::string_view line) {
  return line.size() > 2 && line.back() == '-' && is_word_character(line[line.size() - 2]);
}

}  // namespace

std::string latin1_to_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      result += c;
    } else {
      result += static_cast<char>(0xC0 | byte >> 6);
      result += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return result;
}

std::string strip_gutenberg(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto lines = lines_of(text);
  bool inside = std::none_of(lines.begin(), lines.end(), is_start);
  std::string body;
  for (const std::string_view line : lines) {
    if (is_start(line)) {
      inside = true;
    } else if (is_end(line)) {
      inside = false;
      body += '\n';
    } else if (inside) {
      body += line;
      body += '\n';
    }
  }
  std::string result;
  for (const auto& paragraph : paragraphs_of(body)) {
    const bool legal = std::any_of(paragraph.begin(), paragraph.end(),
                                   [](std::string_view line) { return contains(line, "Project Gutenberg"); });
    if (legal || paragraph.front().starts_with("Produced by ")) continue;
    for (const std::string_view line : paragraph) (result += line) += '\n';
    result += '\n';
  }
  return result;
}

std::string join_wrapped_lines(std::string_view text, bool undo_hyphens) {
  const size_t width = wrap_width(text);
  const auto words = undo_hyphens ? words_of(text) : std::unordered_set<std::string>();
  std::string result;
  for (const auto& paragraph : paragraphs_of(text)) {
    if (!result.empty()) result += '\n';
    if (!is_prose(paragraph, width)) {
      for (const std::string_view line : paragraph) (result += line) += '\n';
      continue;
    }
    for (size_t i = 0; i < paragraph.size(); ++i) {
      const std::string_view line = paragraph[i];
      result += line;
      if (i + 1 == paragraph.size()) break;
      const std::string_view next = paragraph[i + 1];
      if (undo_hyphens && ends_in_hyphen(line) && is_word_character(next.front())) {
        size_t begin = line.size() - 1;
        while (begin > 0 && (is_word_character(line[begin - 1]) || line[begin - 1] == '-')) --begin;
        const auto stop =
            std::find_if_not(next.begin(), next.end(), [](char c) { return is_word_character(c) || c == '-'; });
        const std::string hyphenated(std::string(line.substr(begin)) + std::string(next.begin(), stop));
        if (!words.contains(hyphenated)) result.pop_back();
      } else {
        result += ' ';
      }
    }
    result += '\n';
  }
  return result;
}

}  // namespace heddle
