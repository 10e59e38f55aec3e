// Broken UTF-8, in texts that are read and in those that a model writes byte by byte.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

/// Puts U+FFFD in the place of every broken sequence; returns their number.
int64_t replace_broken_utf8(std::string& text);

/// Takes off the last character where some of its bytes are still missing.
void drop_unfinished_character(std::string& text);

}  // namespace heddle
