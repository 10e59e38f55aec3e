#include "runtime/async_copy.h"

#include <cuda_emulation/async_copy.h>

#include <cstdint>

#include "runtime/copy_bytes.h"
#include "runtime/failure.h"
#include "runtime/sanitizers.h"

namespace cuda_emulation {

namespace {

/// ASan and TSan do not see what the runtime does by itself.
void check_access(const void* memory, size_t bytes, bool write, const Place& place) {
  if (first_poisoned(memory, bytes) != nullptr)
    fail("asynchronous copy at %s:%u: it %s %p, which must not be touched", place.file_name(), place.line(),
         write ? "writes" : "reads", memory);
  note_access(memory, bytes, write);
}

void fill(void* to, size_t bytes, unsigned char value) {
  for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(to)[i] = value;
}

void copy_now(const AsyncCopy& copy) {
  check_access(copy.to, copy.bytes, true, copy.place);
  if (copy.from == nullptr) return fill(copy.to, copy.bytes, 0);
  check_access(copy.from, copy.bytes, false, copy.place);
  copy_bytes(copy.to, copy.from, copy.bytes);
}

AsyncCopies& copies_of(const Thread& thread) {
  return running_block().async_copies[static_cast<size_t>(thread.number)];
}

}  // namespace

void copy_async(void* shared, const void* global, size_t bytes, const std::source_location& place) {
  if (reinterpret_cast<uintptr_t>(shared) % bytes != 0 || reinterpret_cast<uintptr_t>(global) % bytes != 0)
    fail("asynchronous copy at %s:%u from %p to %p: both must be multiples of %zu", place.file_name(), place.line(),
         global, shared, bytes);
  check_access(shared, bytes, true, place);
  fill(shared, bytes, 0xff);
  AsyncCopies& copies = copies_of(*running_thread());
  const UnwatchedScope unwatched;
  copies.under_way.push_back({shared, global, bytes, copies.groups, place});
}

void copy_async_commit() {
  ++copies_of(*running_thread()).groups;
}

void copy_async_wait(int groups_left) {
  AsyncCopies& copies = copies_of(*running_thread());
  size_t kept = 0;
  for (const AsyncCopy& copy : copies.under_way) {
    if (copy.group < copies.groups - groups_left)
      copy_now(copy);
    else
      copies.under_way[kept++] = copy;
  }
  copies.under_way.resize(kept);
}

void check_async_copies_are_done(const Thread& thread) {
  const AsyncCopies& copies = copies_of(thread);
  if (copies.under_way.empty()) return;
  const Place& place = copies.under_way.front().place;
  fail("a thread ended without waiting for the asynchronous copy that it began at %s:%u", place.file_name(),
       place.line());
}

}  // namespace cuda_emulation
