// Strict reading of numbers, and numbers as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

/// The whole text must be a decimal integer that fits; nothing else (no "3x", "1e3", "0x10", "", " 3").
std::optional<int64_t> parse_integer(std::string_view text);
/// The whole text must be a finite decimal number that a double can hold (no nan, inf, 1e400, hexadecimal, "3x").
std::optional<double> parse_real(std::string_view text);

std::string human_bytes(double bytes);  ///< "1.50 MiB"
std::string human_count(double count);  ///< "12.3M"

}  // namespace heddle
