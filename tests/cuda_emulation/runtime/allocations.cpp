#include "runtime/allocations.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "runtime/device_arena.h"
#include "runtime/failure.h"
#include "runtime/host_access.h"
#include "runtime/options.h"
#include "runtime/order_token.h"
#include "runtime/sanitizers.h"

namespace cuda_emulation {

namespace {

constexpr size_t kRedZoneBytes = 256;
constexpr unsigned char kRedZoneByte = 0xa5;
constexpr unsigned char kUninitialised = 0xff;  // NaN as float and as bfloat16, -1 as an integer
constexpr size_t kArenaPerMemory = 4;           // freed addresses rest while others are free

struct Allocations {
  std::map<uintptr_t, Allocation> by_address;
  std::map<int, size_t> in_use;  ///< bytes by device
  DeviceArena arena{kArenaPerMemory * options().device_bytes};
  int device_scopes = 0;
  OrderToken reuse;  ///< whoever gets memory comes after those who gave it back
};

Allocations& all() {
  static auto* allocations = [] {
    auto* created = new Allocations;
    if (options().protect) created->arena.set_accessible(false);
    explain_faults(created->arena);
    return created;
  }();
  return *allocations;
}

size_t with_red_zone(size_t bytes) {
  return (bytes + DeviceArena::kAlignment - 1) / DeviceArena::kAlignment * DeviceArena::kAlignment + kRedZoneBytes;
}

Allocation take_entry(void* memory, bool device, const char* call) {
  auto& by_address = all().by_address;
  const auto entry = by_address.find(reinterpret_cast<uintptr_t>(memory));
  if (entry == by_address.end() || (entry->second.device != Allocation::kPinned) != device)
    fail("%s: %p is not the start of an allocation of its kind", call, memory);
  const Allocation allocation = entry->second;
  by_address.erase(entry);
  return allocation;
}

}  // namespace

void* allocate_on_device(int device, size_t bytes) {
  Allocations& a = all();
  if (a.in_use[device] + bytes > options().device_bytes) return nullptr;
  const size_t padded = with_red_zone(bytes);
  unsigned char* const memory = a.arena.take(padded);
  if (memory == nullptr) return nullptr;
  acquire_order(&a.reuse);
  a.in_use[device] += bytes;
  a.by_address[reinterpret_cast<uintptr_t>(memory)] = {memory, bytes, device};
  const DeviceScope scope;
  unpoison(memory, padded);
  memset(memory, kUninitialised, bytes);
  memset(memory + bytes, kRedZoneByte, padded - bytes);
  poison(memory + bytes, padded - bytes);
  return memory;
}

void* allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, DeviceArena::kAlignment, bytes) != 0) return nullptr;
  memset(memory, kUninitialised, bytes);
  all().by_address[reinterpret_cast<uintptr_t>(memory)] = {static_cast<unsigned char*>(memory), bytes,
                                                           Allocation::kPinned};
  return memory;
}

void free_on_device(void* memory) {
  const Allocation allocation = take_entry(memory, true, "cudaFree");
  const DeviceScope scope;
  check_red_zone(allocation, "some kernel");
  const size_t padded = with_red_zone(allocation.bytes);
  memset(memory, kUninitialised, allocation.bytes);  // what is read after the end is NaN
  poison(memory, padded);
  all().in_use[allocation.device] -= allocation.bytes;
  release_order(&all().reuse);
  all().arena.give_back(allocation.memory, padded);
}

void free_pinned(void* memory) {
  take_entry(memory, false, "cudaFreeHost");
  free(memory);
}

size_t device_bytes_in_use(int device) {
  return all().in_use[device];
}

const Allocation* find_allocation(const void* memory) {
  const Allocation* allocation = find_allocation_or_end(memory);
  return allocation != nullptr && memory < allocation->memory + allocation->bytes ? allocation : nullptr;
}

const Allocation* find_allocation_or_end(const void* memory) {
  auto& by_address = all().by_address;
  auto entry = by_address.upper_bound(reinterpret_cast<uintptr_t>(memory));
  if (entry == by_address.begin()) return nullptr;
  const Allocation& allocation = (--entry)->second;
  return memory <= allocation.memory + allocation.bytes ? &allocation : nullptr;
}

void check_red_zone(const Allocation& allocation, const char* who) {
  if (allocation.device == Allocation::kPinned) return;
  const unsigned char* const end = allocation.memory + allocation.bytes;
  const unsigned char* const zone_end = allocation.memory + with_red_zone(allocation.bytes);
  for (const unsigned char* byte = end; byte < zone_end; ++byte)
    if (*byte != kRedZoneByte)
      fail("%s wrote %td bytes behind the end of an allocation of %zu bytes", who, byte - end, allocation.bytes);
}

void check_device_operand(int device, const void* memory, size_t bytes, bool write, const char* what) {
  if (bytes == 0) return;
  const Allocation* allocation = find_allocation(memory);
  if (allocation == nullptr) fail("%s: %p is neither device memory nor pinned host memory", what, memory);
  if (allocation->device != Allocation::kPinned && allocation->device != device)
    fail("%s: %p is memory of device %d, used from device %d", what, memory, allocation->device, device);
  const auto offset = static_cast<size_t>(static_cast<const unsigned char*>(memory) - allocation->memory);
  if (bytes > allocation->bytes - offset)
    fail("%s: %zu bytes from byte %zu on overrun an allocation of %zu bytes", what, bytes, offset, allocation->bytes);
  if (const void* poisoned = first_poisoned(memory, bytes))
    fail("%s: %p + %td is memory that must not be touched", what, memory,
         static_cast<const char*>(poisoned) - static_cast<const char*>(memory));
  note_access(memory, bytes, write);
}

void check_host_operand(const void* memory, size_t bytes, bool write, const char* what) {
  if (bytes == 0) return;
  const Allocation* allocation = find_allocation(memory);
  if (allocation != nullptr && allocation->device != Allocation::kPinned)
    fail("%s: %p is device memory, and the host side of the copy", what, memory);
  if (allocation != nullptr &&
      bytes > static_cast<size_t>(allocation->memory + allocation->bytes - static_cast<const unsigned char*>(memory)))
    fail("%s: %zu bytes overrun a pinned allocation of %zu bytes", what, bytes, allocation->bytes);
  note_access(memory, bytes, write);
}

DeviceScope::DeviceScope() {
  if (all().device_scopes++ == 0 && options().protect) all().arena.set_accessible(true);
}

DeviceScope::~DeviceScope() {
  if (--all().device_scopes == 0 && options().protect) all().arena.set_accessible(false);
}

}  // namespace cuda_emulation
