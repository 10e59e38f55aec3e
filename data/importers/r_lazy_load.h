// Strings out of an R package's data file (.rdb, the "lazy-load" database). The file repeats {uint32 big-endian size of
// the plain data; zlib stream}; each stream is one object in R's "X" serialization, of which string vectors are read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// The string vectors of the file, in its order (the objects' names are in another file); objects of other types are
/// left out. NA becomes an empty string. Throws Error naming file and byte offset.
std::vector<std::vector<std::string>> read_r_lazy_load(const std::string& path);

/// The same from the bytes of the file; `source` names it in errors.
std::vector<std::vector<std::string>> parse_r_lazy_load(std::string_view bytes, const std::string& source);

}  // namespace heddle
