#include "data/text_repair.h"

#include <utf8.h>

#include <string_view>
#include <utility>

namespace heddle {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

int64_t replace_broken_utf8(std::string& text) {
  auto broken = utf8::find_invalid(text.cbegin(), text.cend());
  if (broken == text.cend()) return 0;
  // A broken sequence ends where a byte begins a character that can be read again.
  int64_t replaced = 0;
  std::string repaired;
  auto begin = text.cbegin();
  while (broken != text.cend()) {
    repaired.append(begin, broken);
    repaired += kReplacement;
    ++replaced;
    begin = broken + 1;
    while (begin != text.cend() && continues(*begin)) ++begin;
    broken = utf8::find_invalid(begin, text.cend());
  }
  repaired.append(begin, text.cend());
  text = std::move(repaired);
  return replaced;
}

void drop_unfinished_character(std::string& text) {
  size_t tail = 0;  // bytes behind the last one that begins a character
  while (tail < text.size() && continues(text[text.size() - 1 - tail])) ++tail;
  if (tail == text.size()) return;
  const auto lead = static_cast<unsigned char>(text[text.size() - 1 - tail]);
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (tail + 1 < bytes) text.resize(text.size() - 1 - tail);
}

}  // namespace heddle
