// System calls are made directly where data is moved: ThreadSanitizer takes read and write for an order between all who
// use files, which the device does not have.
#include "nccl/payload.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/failure.h"

namespace cuda_emulation {

PayloadFile::~PayloadFile() {
  if (file_ >= 0) close(file_);
}

bool PayloadFile::create(const std::string& path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) fail("NCCL: %s: %s", path.c_str(), strerror(errno));
  return flock(file_, LOCK_EX | LOCK_NB) == 0;
}

void PayloadFile::open(const std::string& path) {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail("NCCL: %s: %s", path.c_str(), strerror(errno));
}

uint64_t PayloadFile::write(const void* data, size_t bytes) {
  const uint64_t offset = end_;
  for (size_t done = 0; done < bytes;) {
    const long written =
        syscall(SYS_pwrite64, file_, static_cast<const char*>(data) + done, bytes - done, offset + done);
    if (written <= 0) fail("NCCL: %zu bytes cannot be written to a temporary file: %s", bytes, strerror(errno));
    done += static_cast<size_t>(written);
  }
  end_ += bytes;
  return offset;
}

void PayloadFile::read(uint64_t offset, void* data, size_t bytes) const {
  for (size_t done = 0; done < bytes;) {
    const long got = syscall(SYS_pread64, file_, static_cast<char*>(data) + done, bytes - done, offset + done);
    if (got <= 0) fail("NCCL: %zu bytes of another rank cannot be read: %s", bytes, strerror(errno));
    done += static_cast<size_t>(got);
  }
}

void PayloadFile::drop(uint64_t offset, size_t bytes) {
  // Where the file system cannot, the file only grows.
  if (bytes > 0)
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

bool PayloadFile::owner_has_ended() const {
  if (flock(file_, LOCK_SH | LOCK_NB) != 0) return false;
  flock(file_, LOCK_UN);
  return true;
}

}  // namespace cuda_emulation
