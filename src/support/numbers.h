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

/// share * total, where the share was written as a decimal: a product that only binary rounding keeps from a whole or a
/// half is that (0.55 of 100 is 55, not 55.000000000000007).
double share_of(double share, int64_t total);

std::string human_bytes(double bytes);  ///< "1.50 MiB"
std::string human_count(double count);  ///< "12.3M"

}  // namespace heddle
