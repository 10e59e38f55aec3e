#include "support/log.h"

#include <cstdio>

namespace heddle {

namespace {
int g_rank = 0;
int g_size = 1;

void print(std::FILE* stream, const std::string& text) {
  // One write per message: lines of several ranks do not mix.
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stream);
  std::fflush(stream);
}

std::string rank_text() {
  return g_size > 1 ? fmt::format("[rank {}] ", g_rank) : std::string();
}
}  // namespace

void set_log_rank(int rank, int size) {
  g_rank = rank;
  g_size = size;
}

void log_line(const std::string& text) {
  if (g_rank == 0) print(stdout, text);
}

void log_warning(const std::string& text) {
  if (g_rank == 0) print(stderr, "warning: " + text);
}

void log_rank_warning(const std::string& text) {
  print(stderr, "warning: " + rank_text() + text);
}

void log_error(const std::string& text) {
  print(stderr, "error: " + rank_text() + text);
}

}  // namespace heddle
