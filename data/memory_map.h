// A file mapped into memory, read only.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

/// Unmapped on destruction. The operating system shares the pages between all processes that map the file.
class MemoryMap {
 public:
  MemoryMap() = default;
  explicit MemoryMap(const std::string& path);  ///< throws Error naming the file
  ~MemoryMap();
  MemoryMap(MemoryMap&& other) noexcept;
  MemoryMap& operator=(MemoryMap&& other) noexcept;

  const unsigned char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const unsigned char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace heddle
