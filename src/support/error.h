// Errors that a user reads: what happened, where, what was expected, and what to do about it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace heddle {

/// Exit statuses of the program.
enum class ExitStatus : int {
  kOk = 0,
  kFailure = 1,   ///< the work failed (an exception, a lost rank, a reference case out of its tolerance)
  kUsage = 2,     ///< the command line or the configuration is wrong
  kMismatch = 3,  ///< diagnose or inspect ran to its end and found what it looks for
  kStopped = 4,   ///< a signal ended the training early, with a checkpoint
};

/// An error with an optional hint. Bad user input always ends here, never in an assert. One place (launch/main.cpp)
/// prints it and stops the whole job.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = "")
      : std::runtime_error(message), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// A command line or configuration that cannot be used.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a formatted message: fail("{}: {} tokens, expected {}", path, found, expected).
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// A broken promise between our own functions; not reachable from user input.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw std::logic_error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace heddle
