#include "runtime/shared_arrays.h"

#include <cstdlib>
#include <cstring>

#include <cuda_emulation/shared_memory.h>

#include "runtime/device_limits.h"
#include "runtime/failure.h"
#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

namespace {

constexpr size_t kRedZoneBytes = 128;  // also the alignment
constexpr unsigned char kRedZoneByte = 0xa5;
constexpr unsigned char kUninitialised = 0xff;  // NaN as float and as bfloat16, -1 as an integer
const char dynamic_identity = 0;

/// Bytes of an array and of the gap behind it that keeps the red zone aligned; the gap belongs to the red zone.
size_t padded(size_t bytes) {
  return (bytes + kRedZoneBytes - 1) / kRedZoneBytes * kRedZoneBytes;
}

unsigned char* create(const void* identity, size_t bytes, const Place& place) {
  // Fresh memory for each block lets ThreadSanitizer forget the block before.
  const UnwatchedScope unwatched;
  void* memory = nullptr;
  if (posix_memalign(&memory, kRedZoneBytes, 2 * kRedZoneBytes + padded(bytes)) != 0)
    fail("no memory for %zu bytes of shared memory", bytes);
  auto* const start = static_cast<unsigned char*>(memory);
  unsigned char* const array = start + kRedZoneBytes;
  memset(start, kRedZoneByte, 2 * kRedZoneBytes + padded(bytes));
  memset(array, kUninitialised, bytes);
  poison(start, kRedZoneBytes);
  poison(array + bytes, padded(bytes) - bytes + kRedZoneBytes);
  running_block().shared.push_back({identity, array, bytes, place});
  return array;
}

void check_red_zones(const SharedArray& array) {
  const unsigned char* const before = array.memory - kRedZoneBytes;
  const unsigned char* const end = array.memory + array.bytes;
  const unsigned char* const after_end = array.memory + padded(array.bytes) + kRedZoneBytes;
  for (const unsigned char* byte = before; byte < array.memory; ++byte)
    if (*byte != kRedZoneByte)
      fail("the block wrote %td bytes before the shared array of %zu bytes of %s:%u", array.memory - byte, array.bytes,
           array.place.file_name(), array.place.line());
  for (const unsigned char* byte = end; byte < after_end; ++byte)
    if (*byte != kRedZoneByte)
      fail("the block wrote %td bytes behind the end of the shared array of %zu bytes of %s:%u", byte - end,
           array.bytes, array.place.file_name(), array.place.line());
}

}  // namespace

void create_dynamic_shared() {
  const LaunchRequest& launch = *running_block().launch;
  running_block().static_shared_bytes = 0;
  if (launch.dynamic_shared_bytes > 0) create(&dynamic_identity, launch.dynamic_shared_bytes, Place::current());
}

void free_shared() {
  for (const SharedArray& array : running_block().shared) {
    unsigned char* const start = array.memory - kRedZoneBytes;
    unpoison(start, 2 * kRedZoneBytes + padded(array.bytes));
    check_red_zones(array);
    const UnwatchedScope unwatched;
    free(start);
  }
  running_block().shared.clear();
}

void* static_shared(const void* identity, size_t bytes, const Place& place) {
  ThreadBlock& block = running_block();
  for (const SharedArray& array : block.shared)
    if (array.identity == identity) return array.memory;
  block.static_shared_bytes += bytes;
  const size_t dynamic = block.launch->dynamic_shared_bytes;
  if (block.static_shared_bytes > kSharedBytes || block.static_shared_bytes + dynamic > kMostSharedBytes)
    fail(
        "%zu bytes of static shared memory (with the array of %s:%u) and %zu dynamic ones: a block has %zu, together "
        "at most %zu",
        block.static_shared_bytes, place.file_name(), place.line(), dynamic, kSharedBytes, kMostSharedBytes);
  return create(identity, bytes, place);
}

void* dynamic_shared(const Place& place) {
  for (const SharedArray& array : running_block().shared)
    if (array.identity == &dynamic_identity) return array.memory;
  fail("%s:%u: DYNAMIC_SHARED in a kernel that was launched with 0 bytes of it", place.file_name(), place.line());
}

}  // namespace cuda_emulation
