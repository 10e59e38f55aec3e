#include "support/numbers.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace heddle {

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

double share_of(double share, int64_t total) {
  const double product = share * static_cast<double>(total), half = std::round(2 * product) / 2;
  // Two roundings: of the share to a double, and of the product.
  return std::abs(product - half) <= 2 * std::numeric_limits<double>::epsilon() * std::abs(product) ? half : product;
}

// A unit ends where its rounding would print the next one's first value (1024.00 KiB, 1000.0k).
std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; std::abs(bytes) >= 1023.995 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string human_count(double count) {
  constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "B", "T"};
  size_t unit = 0;
  for (; std::abs(count) >= 999.95 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}{}", count, kUnits[unit]);
}

}  // namespace heddle
