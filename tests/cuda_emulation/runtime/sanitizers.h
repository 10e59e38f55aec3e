// What the runtime tells AddressSanitizer and ThreadSanitizer, if the program was built with one. The runtime itself is
// compiled without, so that its own bookkeeping is not taken for work of a kernel; its calls of malloc and memcpy still
// reach the sanitizers.
#pragma once

#include <cstddef>

namespace cuda_emulation {

bool under_address_sanitizer();
bool under_thread_sanitizer();

/// A stack trace on stderr, where a sanitizer can make one.
void print_stack_trace();

// AddressSanitizer: memory that must not be touched.
void poison(void* memory, size_t bytes);
void unpoison(void* memory, size_t bytes);
/// The first poisoned byte of the range, or nullptr.
const void* first_poisoned(const void* memory, size_t bytes);

// ThreadSanitizer: "happens before" exists only where these say so. An order token is any address of one's own memory.
void release_order(void* token);
void acquire_order(void* token);
/// The current fiber reads or writes a range.
void note_access(const void* memory, size_t bytes, bool write);

/// ThreadSanitizer does not look at what the current identity does in its life time (reads, writes, malloc and free).
class UnwatchedScope {
 public:
  UnwatchedScope();
  ~UnwatchedScope();
  UnwatchedScope(const UnwatchedScope&) = delete;
  UnwatchedScope& operator=(const UnwatchedScope&) = delete;
};

/// ThreadSanitizer's idea of a thread. nullptr without it.
void* create_thread_identity();
void* current_thread_identity();
/// Switches without an order between the two.
void become_thread(void* identity);

}  // namespace cuda_emulation
