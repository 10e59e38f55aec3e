#include "comm/communicator.h"

#include <algorithm>

#include "support/error.h"

namespace heddle {

std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text) {
  int64_t longest = static_cast<int64_t>(text.size());
  communicator.all_reduce_max(std::span<int64_t>(&longest, 1));
  const size_t stride = static_cast<size_t>(longest) + 1;  // zero-terminated, padded to the longest
  std::vector<char> mine(stride, '\0'), all(stride * static_cast<size_t>(communicator.size()));
  std::copy(text.begin(), text.end(), mine.begin());
  communicator.all_gather(mine.data(), stride, all.data());
  std::vector<std::string> texts;
  for (size_t r = 0; r < static_cast<size_t>(communicator.size()); ++r) texts.emplace_back(all.data() + r * stride);
  return texts;
}

bool all_ranks(Communicator& communicator, bool value) {
  int64_t failures = value ? 0 : 1;
  communicator.all_reduce_max(std::span<int64_t>(&failures, 1));
  return failures == 0;
}

void throw_if_any_failed(Communicator& communicator, const std::string& message, const std::string& hint) {
  if (all_ranks(communicator, message.empty())) return;
  const std::vector<std::string> messages = all_gather_text(communicator, message);
  std::string text;
  for (size_t r = 0; r < messages.size(); ++r) {
    if (messages[r].empty()) continue;
    if (!text.empty()) text += "; ";
    text += communicator.size() > 1 ? fmt::format("rank {}: {}", r, messages[r]) : messages[r];
  }
  throw Error(text, hint);
}

}  // namespace heddle
