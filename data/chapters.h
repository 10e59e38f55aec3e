// Cutting a book into chapters at its headings.
#pragma once

#include <string_view>
#include <vector>

namespace heddle {

/// True for a line such as "CHAPTER IV.", "Chapter 12", "VOLUME II", "VII. THE ADVENTURE OF THE BLUE CARBUNCLE",
/// "XIV.".
bool is_chapter_heading(std::string_view line);

struct ChapterOptions {
  size_t minimum_bytes = 1024;  ///< a shorter piece (a table of contents, a title page) joins the next one
  bool capital_titles = false;  ///< a line in capitals between blank lines is a heading, too (collections of tales)
};

/// Pieces of `text` in order, without gaps; each begins at a heading that follows a blank line, except the first.
std::vector<std::string_view> split_chapters(std::string_view text, const ChapterOptions& options = {});

/// The text without spaces, tabs, newlines and form feeds at both ends.
std::string_view trim(std::string_view text);

}  // namespace heddle
