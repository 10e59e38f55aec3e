#include "runtime/sanitizers.h"

// The sanitizers' entry points; null in a program without that sanitizer.
extern "C" {
__attribute__((weak)) void __sanitizer_print_stack_trace();
__attribute__((weak)) void __asan_poison_memory_region(const volatile void*, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, size_t);
__attribute__((weak)) void* __asan_region_is_poisoned(void*, size_t);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned);
__attribute__((weak)) void __tsan_switch_to_fiber(void*, unsigned);
__attribute__((weak)) void __tsan_acquire(void*);
__attribute__((weak)) void __tsan_release(void*);
__attribute__((weak)) void __tsan_read_range(void*, size_t);
__attribute__((weak)) void __tsan_write_range(void*, size_t);
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char*, int);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char*, int);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char*, int);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char*, int);
}

namespace cuda_emulation {

namespace {

constexpr unsigned kSwitchWithoutOrder = 1;  // __tsan_switch_to_fiber_no_sync

}  // namespace

bool under_address_sanitizer() {
  return __asan_poison_memory_region != nullptr;
}
bool under_thread_sanitizer() {
  return __tsan_create_fiber != nullptr;
}

void print_stack_trace() {
  if (__sanitizer_print_stack_trace != nullptr) __sanitizer_print_stack_trace();
}

void poison(void* memory, size_t bytes) {
  if (under_address_sanitizer()) __asan_poison_memory_region(memory, bytes);
}

void unpoison(void* memory, size_t bytes) {
  if (under_address_sanitizer()) __asan_unpoison_memory_region(memory, bytes);
}

const void* first_poisoned(const void* memory, size_t bytes) {
  if (!under_address_sanitizer() || bytes == 0) return nullptr;
  return __asan_region_is_poisoned(const_cast<void*>(memory), bytes);
}

void release_order(void* token) {
  if (under_thread_sanitizer()) __tsan_release(token);
}

void acquire_order(void* token) {
  if (under_thread_sanitizer()) __tsan_acquire(token);
}

void note_access(const void* memory, size_t bytes, bool write) {
  if (!under_thread_sanitizer()) return;
  if (write)
    __tsan_write_range(const_cast<void*>(memory), bytes);
  else
    __tsan_read_range(const_cast<void*>(memory), bytes);
}

UnwatchedScope::UnwatchedScope() {
  if (!under_thread_sanitizer()) return;
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

UnwatchedScope::~UnwatchedScope() {
  if (!under_thread_sanitizer()) return;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

void* create_thread_identity() {
  return under_thread_sanitizer() ? __tsan_create_fiber(0) : nullptr;
}

void* current_thread_identity() {
  return under_thread_sanitizer() ? __tsan_get_current_fiber() : nullptr;
}

void become_thread(void* identity) {
  if (under_thread_sanitizer()) __tsan_switch_to_fiber(identity, kSwitchWithoutOrder);
}

}  // namespace cuda_emulation
