// Messages to the terminal. Only the rank that speaks for the job prints, unless a message is about one rank.
#pragma once

#include <fmt/format.h>

#include <string>

namespace heddle {

/// Call once after the ranks are known; before it every process speaks.
void set_log_rank(int rank, int size);

void log_line(const std::string& text);          ///< plain line on stdout, by rank 0 only
void log_warning(const std::string& text);       ///< "warning: ..." on stderr, by rank 0 only
void log_rank_warning(const std::string& text);  ///< "warning: [rank r] ..." on stderr, by any rank
void log_error(const std::string& text);  ///< "error: ..." on stderr, by any rank (rank named if there are several)

}  // namespace heddle
