// The stretch of addresses that all device memory comes from.
#pragma once

#include <cstddef>

namespace cuda_emulation {

/// Address ranges by next fit, in multiples of 256 bytes, and their protection as a whole.
class DeviceArena {
 public:
  static constexpr size_t kAlignment = 256;

  /// Reserves the addresses; memory is taken when it is first written.
  explicit DeviceArena(size_t bytes);

  /// nullptr if no free range is long enough. `bytes` is a multiple of kAlignment.
  unsigned char* take(size_t bytes);
  void give_back(unsigned char* memory, size_t bytes);

  bool contains(const void* memory) const;
  void set_accessible(bool accessible);

 private:
  struct FreeRanges;
  void protect();

  unsigned char* start_;
  size_t bytes_;
  size_t used_up_to_ = 0;  ///< nothing beyond was ever taken, and it stays inaccessible
  size_t next_ = 0;        ///< where the search for a free range starts
  bool accessible_ = true;
  FreeRanges* free_;
};

}  // namespace cuda_emulation
