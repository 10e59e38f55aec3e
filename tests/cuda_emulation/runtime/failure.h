// The end of a program that did what a GPU would not survive, or would answer with wrong numbers.
#pragma once

namespace cuda_emulation {

constexpr int kFailureStatus = 66;

/// Prints the message, the running kernel thread if there is one, and how to repeat the run; ends the process with
/// kFailureStatus.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

}  // namespace cuda_emulation
