// From the e-texts of old books to clean prose: without legal text, in UTF-8, with paragraphs on one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

std::string latin1_to_utf8(std::string_view text);

/// The text between the header and the tail of a Project Gutenberg e-text, for the modern marks ("*** START OF TH...",
/// "*** END OF TH...") and the old ones ("*END*THE SMALL PRINT!", "End of The Project Gutenberg Etext"), of which a
/// file of several volumes has several. Without marks the whole text. Paragraphs that name the project, and the line of
/// credits, are dropped. Lines end in LF.
std::string strip_gutenberg(std::string_view text);

/// Joins the hard-wrapped lines of each paragraph; runs of blank lines become one. Blocks of verse, indented lines and
/// short lines keep their lines. With `undo_hyphens` a word cut at the end of a line is put together; the hyphen stays
/// if the text has the hyphenated word elsewhere.
std::string join_wrapped_lines(std::string_view text, bool undo_hyphens);

}  // namespace heddle
