// One process at a time: an exclusive lock of the operating system, which goes with the process, however that ends.
#pragma once

#include <string>

namespace heddle {

class FileLock {
 public:
  /// Locks the file `path`, made if needed, and writes host and process into it; removed when the lock ends. Throws
  /// Error
  /// "<subject> is in use by another process (host ..., process ...)" where it is taken.
  FileLock(std::string path, const std::string& subject);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  bool is_at_path() const;
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace heddle
