#include "data/memory_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "support/error.h"

namespace heddle {

MemoryMap::MemoryMap(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open '{}': {}", path, std::strerror(errno));
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || status.st_size == 0) {
    ::close(descriptor);
    fail("'{}' is empty or has no size", path);
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
  void* address = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) fail("cannot map '{}' ({} bytes) into memory: {}", path, bytes_, std::strerror(error));
  data_ = static_cast<const unsigned char*>(address);
}

MemoryMap::~MemoryMap() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), bytes_);
}

MemoryMap::MemoryMap(MemoryMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryMap& MemoryMap::operator=(MemoryMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace heddle
