#include "support/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/error.h"

namespace heddle {

void sync_path(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open '{}' to flush it: {}", path, std::strerror(errno));
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) fail("cannot flush '{}' to disk: {}", path, std::strerror(error));
}

void publish_file(const std::string& path, const std::function<void(const std::string& temporary_path)>& write) {
  const std::string temporary = path + ".tmp";
  try {
    write(temporary);
    sync_path(temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      fail("cannot rename '{}' to '{}': {}", temporary, path, std::strerror(errno));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_path(folder.empty() ? "." : folder);
}

void publish_text(const std::string& path, const std::string& content) {
  publish_file(path, [&](const std::string& temporary) {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    if (!file)
      throw Error(fmt::format("cannot write '{}': {}", temporary, std::strerror(errno)),
                  "check that the folder exists and is writable");
    errno = 0;
    file << content;
    file.close();
    if (!file) fail("cannot write {} bytes to '{}': {}", content.size(), temporary, std::strerror(errno));
  });
}

void require_writable_target(const std::string& path) {
  if (path.empty()) return;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(fmt::format("cannot write '{}': it is a folder", path), "name a file in it");
  if (::access(folder.c_str(), W_OK) != 0)
    throw Error(fmt::format("cannot write '{}': {}", path, std::strerror(errno)),
                "check that the folder exists and is writable");
}

std::string read_text_file(const std::string& path, size_t limit) {
  if (std::filesystem::is_directory(path)) fail("cannot read the file '{}': it is a folder", path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read the file '{}': {}", path, std::strerror(errno));
  std::string text;
  constexpr size_t kPiece = size_t{1} << 16;
  while (file) {
    const size_t size = text.size();
    text.resize(size + kPiece);
    file.read(text.data() + size, kPiece);
    text.resize(size + static_cast<size_t>(file.gcount()));
    if (text.size() > limit) fail("'{}' is no text file of ours: it has more than {} bytes", path, limit);
  }
  return text;
}

}  // namespace heddle
