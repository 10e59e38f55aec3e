// Publishing a file: write aside, flush, rename, and flush the folder, so that a reader sees the old one or the new
// one.
#pragma once

#include <functional>
#include <string>

namespace heddle {

/// Calls write(temporary_path), then fsyncs that file, renames it to `path` and fsyncs the folder. The temporary file
/// "<path>.tmp" lies beside it and is removed when write throws.
void publish_file(const std::string& path, const std::function<void(const std::string& temporary_path)>& write);

/// publish_file with the given content.
void publish_text(const std::string& path, const std::string& content);

/// Throws Error if a file could not be published at `path` later: no such folder, not writable, or a folder itself. An
/// empty path is fine. For results that come after long work.
void require_writable_target(const std::string& path);

/// fsync of a file or folder; throws Error.
void sync_path(const std::string& path);

/// Whole content of a file of at most `limit` bytes; throws Error naming it.
std::string read_text_file(const std::string& path, size_t limit = size_t{1} << 30);

}  // namespace heddle
