#include "comm/communicator.h"

#include <algorithm>

#include "support/error.h"

namespace heddle {

std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const size_t length = text.size();
  std::vector<size_t> lengths(ranks);
  communicator.all_gather(&length, sizeof length, lengths.data());
  const size_t stride = *std::max_element(lengths.begin(), lengths.end());
  std::vector<char> mine(stride), all(stride * ranks);  // padded to the longest
  std::copy(text.begin(), text.end(), mine.begin());
  communicator.all_gather(mine.data(), stride, all.data());
  std::vector<std::string> texts;
  for (size_t r = 0; r < ranks; ++r) texts.emplace_back(all.data() + r * stride, lengths[r]);
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
