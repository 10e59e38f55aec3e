// Small owning wrappers over the HDF5 C library. Errors become heddle::Error with file and object named.
// Only one thread of a process may use this header (Debian's parallel HDF5 is not thread-safe).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::h5 {

using Extent = std::vector<uint64_t>;

/// Element types that our files hold.
enum class Type { kFloat32, kFloat64, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64 };

template <typename T>
Type type_of();
template <>
inline Type type_of<float>() {
  return Type::kFloat32;
}
template <>
inline Type type_of<double>() {
  return Type::kFloat64;
}
template <>
inline Type type_of<int32_t>() {
  return Type::kInt32;
}
template <>
inline Type type_of<int64_t>() {
  return Type::kInt64;
}
template <>
inline Type type_of<uint8_t>() {
  return Type::kUint8;
}
template <>
inline Type type_of<uint16_t>() {
  return Type::kUint16;
}
template <>
inline Type type_of<uint32_t>() {
  return Type::kUint32;
}
template <>
inline Type type_of<uint64_t>() {
  return Type::kUint64;
}

uint64_t element_count(const Extent& extent);

/// An open HDF5 file; closed on destruction. Paths of objects are absolute ("/train/loss"); missing groups are made.
class File {
 public:
  enum class Mode {
    kRead,       ///< existing file, read only
    kReadSwmr,   ///< existing file that another process may be writing
    kReadWrite,  ///< existing file; a flag left by a killed writer is cleared
    kCreate,     ///< new file, an existing one is replaced
  };
  File(const std::string& path, Mode mode);
  /// Opens an existing file for writing with the caller's file-access properties (an HDF5 identifier, which stays the
  /// caller's): how several ranks open one file together.
  File(const std::string& path, int64_t access_properties);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;

  const std::string& path() const { return path_; }

  bool exists(const std::string& object) const;
  std::vector<std::string> datasets(const std::string& group) const;  ///< all datasets below `group`, relative, sorted
  Extent extent(const std::string& dataset) const;
  Type type(const std::string& dataset) const;  ///< throws for types outside of `Type`
  /// Byte offset of a contiguous dataset in the file (for memory maps); throws if it has none.
  uint64_t file_offset(const std::string& dataset) const;

  /// New contiguous dataset, allocated early (so file_offset works at once), optionally with its first content.
  void create(const std::string& dataset, Type type, const Extent& extent);
  /// New dataset [0, row...] that grows by append; chunked by `chunk_rows`.
  void create_growing(const std::string& dataset, Type type, const Extent& row, uint64_t chunk_rows);
  /// Grows or shrinks the first axis.
  void resize(const std::string& dataset, uint64_t rows);

  /// Rows [first, first + count) of the first axis (the whole dataset for a scalar). Memory type is `type`; HDF5
  /// converts.
  void write_rows(const std::string& dataset, Type type, uint64_t first, uint64_t count, const void* data);
  void read_rows(const std::string& dataset, Type type, uint64_t first, uint64_t count, void* data) const;

  /// Elements [first, first + count) of a dataset of any shape, counted in row-major order.
  void write_elements(const std::string& dataset, Type type, uint64_t first, uint64_t count, const void* data);
  void read_elements(const std::string& dataset, Type type, uint64_t first, uint64_t count, void* data) const;

  template <typename T>
  void write(const std::string& dataset, const Extent& extent, std::span<const T> values) {
    create(dataset, type_of<T>(), extent);
    write_rows(dataset, type_of<T>(), 0, extent.empty() ? 1 : extent[0], values.data());
  }
  template <typename T>
  void append(const std::string& dataset, std::span<const T> row) {
    const uint64_t rows = extent(dataset).at(0);
    resize(dataset, rows + 1);
    write_rows(dataset, type_of<T>(), rows, 1, row.data());
  }
  template <typename T>
  std::vector<T> read(const std::string& dataset) const {
    const Extent size = extent(dataset);
    std::vector<T> values(element_count(size));
    if (!values.empty()) read_rows(dataset, type_of<T>(), 0, size.empty() ? 1 : size[0], values.data());
    return values;
  }

  /// Attributes of a group or dataset ("/" is the file).
  void set_attribute(const std::string& object, const std::string& name, const std::string& value);
  void set_attribute(const std::string& object, const std::string& name, int64_t value);
  void set_attribute(const std::string& object, const std::string& name, double value);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  int64_t integer_attribute(const std::string& object, const std::string& name) const;
  double real_attribute(const std::string& object, const std::string& name) const;

  void flush();
  void close();             ///< as the destructor does, but throws where that fails
  void start_swmr_write();  ///< after this no object or attribute can be created, only rows appended

 private:
  int64_t open_object(const std::string& object) const;
  int64_t open_dataset(const std::string& dataset) const;
  void make_parents(const std::string& object);
  std::string path_;
  int64_t id_ = -1;
};

}  // namespace heddle::h5
