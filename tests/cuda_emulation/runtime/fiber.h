// Fibers: stacks that one host thread switches between, each with an identity of its own for ThreadSanitizer. A switch
// saves six registers and takes a few nanoseconds.
#pragma once

#include <cstddef>

namespace cuda_emulation {

class Fiber {
 public:
  /// A fiber that will run `entry` when it is first resumed. `entry` never returns. Lives until the process ends.
  static Fiber* create(void (*entry)());
  /// The stack that the caller stands on, as something to come back to. The caller keeps it until then.
  static Fiber of_caller();

  /// Leaves `from`, which is the one that runs, and resumes `to`. Returns when somebody resumes `from`.
  static void resume(Fiber& from, Fiber& to);
  /// The address lies right below the stack: whoever touches it has used the stack up.
  bool is_below_stack(const void* address) const;

  /// The first thing that `entry` does: tells AddressSanitizer that the switch is over.
  static void arrived();

 private:
  Fiber() = default;

  void* stack_pointer_ = nullptr;
  const void* stack_bottom_ = nullptr;  ///< lowest address; unknown (null) for a caller until it was left once
  size_t stack_bytes_ = 0;
  void* shadow_stack_ = nullptr;  ///< AddressSanitizer's
  void* identity_ = nullptr;      ///< ThreadSanitizer's
};

/// Switches so far, for measurements.
size_t fiber_switches();

}  // namespace cuda_emulation
