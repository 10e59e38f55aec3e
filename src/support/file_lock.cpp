#include "support/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/atomic_file.h"
#include "support/error.h"

namespace heddle {

FileLock::FileLock(std::string path, const std::string& subject) : path_(std::move(path)) {
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      throw Error(fmt::format("cannot create '{}': {}", path_, std::strerror(errno)),
                  "check that the folder exists and is writable");
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(descriptor_);
      if (error != EWOULDBLOCK) fail("cannot lock '{}': {}", path_, std::strerror(error));
      throw Error(fmt::format("{} is in use by another process ({})", subject, read_text_file(path_)),
                  "wait for that process, stop it, or use another run.directory");
    }
    // The former holder may have removed this file between our open and our lock; the lock would guard nothing.
  } while (!is_at_path());
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string holder = fmt::format("host {}, process {}", host, getpid());
  if (::ftruncate(descriptor_, 0) != 0 || ::write(descriptor_, holder.data(), holder.size()) < 0)
    fail("cannot write '{}': {}", path_, std::strerror(errno));
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

bool FileLock::is_at_path() const {
  struct stat ours {
  }, there{};
  return ::fstat(descriptor_, &ours) == 0 && ::stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

}  // namespace heddle
