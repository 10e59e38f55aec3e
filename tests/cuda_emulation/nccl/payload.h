// The data that a rank hands to others: a file that it writes and they read, locked for the rank's life time, so that
// its end is seen even if it was killed. The file has no name once all have opened it, and ends with the last of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_emulation {

class PayloadFile {
 public:
  PayloadFile() = default;
  ~PayloadFile();
  PayloadFile(const PayloadFile&) = delete;
  PayloadFile& operator=(const PayloadFile&) = delete;

  /// This rank's own. False if another process holds it.
  bool create(const std::string& path);
  /// That of another rank.
  void open(const std::string& path);

  /// Appends and returns the offset.
  uint64_t write(const void* data, size_t bytes);
  void read(uint64_t offset, void* data, size_t bytes) const;
  /// Nobody will read this stretch again.
  void drop(uint64_t offset, size_t bytes);

  /// Of another rank's file: the process that created it has ended.
  bool owner_has_ended() const;

 private:
  int file_ = -1;
  uint64_t end_ = 0;
};

}  // namespace cuda_emulation
