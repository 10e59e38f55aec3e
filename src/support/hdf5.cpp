#include "support/hdf5.h"

#include <hdf5.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "support/error.h"

namespace heddle::h5 {

namespace {

/// Closes an HDF5 identifier of any kind.
class Handle {
 public:
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() {
    if (id_ >= 0) H5Idec_ref(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
};

hid_t native(Type type) {
  switch (type) {
    case Type::kFloat32:
      return H5T_NATIVE_FLOAT;
    case Type::kFloat64:
      return H5T_NATIVE_DOUBLE;
    case Type::kInt32:
      return H5T_NATIVE_INT32;
    case Type::kInt64:
      return H5T_NATIVE_INT64;
    case Type::kUint8:
      return H5T_NATIVE_UINT8;
    case Type::kUint16:
      return H5T_NATIVE_UINT16;
    case Type::kUint32:
      return H5T_NATIVE_UINT32;
    case Type::kUint64:
      return H5T_NATIVE_UINT64;
  }
  return -1;
}

/// Pauses up to 2^24 ns: a damaged block is given up after about 30 ms.
constexpr unsigned kSwmrAttempts = 25;

void silence_library() {
  static const bool once = [] {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  (void)once;
}

void check(bool ok, const std::string& path, const std::string& object, const char* what) {
  if (ok) return;
  throw Error(fmt::format("HDF5 file '{}': cannot {} '{}'", path, what, object));
}

Handle space_of(const Extent& extent) {
  std::vector<hsize_t> dims(extent.begin(), extent.end());
  return Handle(dims.empty() ? H5Screate(H5S_SCALAR)
                             : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
}

}  // namespace

uint64_t element_count(const Extent& extent) {
  return std::accumulate(extent.begin(), extent.end(), uint64_t{1}, std::multiplies<>());
}

File::File(const std::string& path, Mode mode) : path_(path) {
  silence_library();
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_alignment(access.get(), 1, 64);
  if (mode == Mode::kCreate) {
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const Handle creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_obj_track_times(creation.get(), false);  // of the root group: equal content gives equal files
    id_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get());
    if (id_ < 0)
      throw Error(fmt::format("cannot create the HDF5 file '{}'", path),
                  "check that the folder exists and is writable");
    return;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw Error(fmt::format("there is no file '{}'", path), "check the path");
  if (std::filesystem::is_directory(path, ignored))
    throw Error(fmt::format("'{}' is a directory, expected an HDF5 file", path), "name the file itself");
  if (H5Fis_hdf5(path.c_str()) <= 0)
    throw Error(fmt::format("'{}' is not an HDF5 file", path), "it may be cut off or another kind of file");
  unsigned flags = H5F_ACC_RDONLY;
  if (mode == Mode::kReadSwmr) {
    flags |= H5F_ACC_SWMR_READ;
    // A reader repeats what a writer may be changing, with pauses that double: the default of 100 times never ends on a
    // damaged file.
    H5Pset_metadata_read_attempts(access.get(), kSwmrAttempts);
  }
  if (mode == Mode::kReadWrite) {
    flags = H5F_ACC_RDWR;
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    // A writer that was killed leaves a flag behind that forbids opening; this property clears it.
    hbool_t clear = 1;
    if (H5Pexist(access.get(), "clear_status_flags") > 0) H5Pset(access.get(), "clear_status_flags", &clear);
  }
  id_ = H5Fopen(path.c_str(), flags, access.get());
  if (id_ < 0)
    throw Error(
        fmt::format("cannot open the HDF5 file '{}'", path),
        "it may be damaged or cut off, or locked by a program that is writing it (HDF5_USE_FILE_LOCKING=FALSE on file "
        "systems without locks)");
}

File::File(const std::string& path, int64_t access_properties) : path_(path) {
  silence_library();
  id_ = H5Fopen(path.c_str(), H5F_ACC_RDWR, access_properties);
  if (id_ < 0)
    throw Error(fmt::format("cannot open the HDF5 file '{}' together with other ranks", path),
                "all ranks must see one file system that MPI can write to");
}

File::~File() {
  if (id_ >= 0) H5Fclose(id_);
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), id_(std::exchange(other.id_, -1)) {}

bool File::exists(const std::string& object) const {
  if (object == "/" || object.empty()) return true;
  for (size_t end = object.find('/', 1);; end = object.find('/', end + 1)) {
    const std::string prefix = object.substr(0, end);
    if (H5Lexists(id_, prefix.c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

int64_t File::open_object(const std::string& object) const {
  const hid_t id = exists(object) ? H5Oopen(id_, object.c_str(), H5P_DEFAULT) : -1;
  check(id >= 0, path_, object, "find");
  return id;
}

int64_t File::open_dataset(const std::string& dataset) const {
  const hid_t id = exists(dataset) ? H5Dopen2(id_, dataset.c_str(), H5P_DEFAULT) : -1;
  check(id >= 0, path_, dataset, "find the dataset");
  return id;
}

namespace {
herr_t collect_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}
}  // namespace

std::vector<std::string> File::datasets(const std::string& group) const {
  std::vector<std::string> names;
  if (!exists(group)) return names;
  const Handle id(open_object(group));
  check(H5Ovisit2(id.get(), H5_INDEX_NAME, H5_ITER_INC, collect_dataset, &names, H5O_INFO_BASIC) >= 0, path_, group,
        "list the group");
  std::sort(names.begin(), names.end());
  return names;
}

Extent File::extent(const std::string& dataset) const {
  const Handle id(open_dataset(dataset));
  const Handle space(H5Dget_space(id.get()));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  check(rank >= 0, path_, dataset, "read the size of");
  std::vector<hsize_t> dims(static_cast<size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  return Extent(dims.begin(), dims.end());
}

Type File::type(const std::string& dataset) const {
  const Handle id(open_dataset(dataset));
  const Handle type(H5Dget_type(id.get()));
  const size_t size = H5Tget_size(type.get());
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_FLOAT && size == 4) return Type::kFloat32;
  if (kind == H5T_FLOAT && size == 8) return Type::kFloat64;
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type.get()) == H5T_SGN_2;
    if (is_signed && size == 4) return Type::kInt32;
    if (is_signed && size == 8) return Type::kInt64;
    if (!is_signed && size == 1) return Type::kUint8;
    if (!is_signed && size == 2) return Type::kUint16;
    if (!is_signed && size == 4) return Type::kUint32;
    if (!is_signed && size == 8) return Type::kUint64;
  }
  fail("HDF5 file '{}': dataset '{}' has an element type that Heddle does not use", path_, dataset);
}

uint64_t File::file_offset(const std::string& dataset) const {
  const Handle id(open_dataset(dataset));
  const haddr_t offset = H5Dget_offset(id.get());
  check(offset != HADDR_UNDEF, path_, dataset, "find the contiguous bytes of");
  return offset;
}

void File::make_parents(const std::string& object) {
  for (size_t end = object.find('/', 1); end != std::string::npos; end = object.find('/', end + 1)) {
    const std::string group = object.substr(0, end);
    if (H5Lexists(id_, group.c_str(), H5P_DEFAULT) > 0) continue;
    const Handle properties(H5Pcreate(H5P_GROUP_CREATE));
    H5Pset_obj_track_times(properties.get(), false);
    const Handle made(H5Gcreate2(id_, group.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    check(made.valid(), path_, group, "create the group");
  }
}

void File::create(const std::string& dataset, Type type, const Extent& extent) {
  make_parents(dataset);
  const Handle space = space_of(extent);
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_layout(properties.get(), H5D_CONTIGUOUS);
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  const Handle id(
      H5Dcreate2(id_, dataset.c_str(), native(type), space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  check(id.valid(), path_, dataset, "create the dataset");
}

void File::create_growing(const std::string& dataset, Type type, const Extent& row, uint64_t chunk_rows) {
  make_parents(dataset);
  std::vector<hsize_t> dims{0}, limits{H5S_UNLIMITED}, chunk{chunk_rows};
  for (const uint64_t size : row) {
    dims.push_back(size);
    limits.push_back(size);
    chunk.push_back(size);
  }
  const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), limits.data()));
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
  H5Pset_obj_track_times(properties.get(), false);
  const Handle id(
      H5Dcreate2(id_, dataset.c_str(), native(type), space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  check(id.valid(), path_, dataset, "create the dataset");
}

void File::resize(const std::string& dataset, uint64_t rows) {
  std::vector<hsize_t> dims;
  for (const uint64_t size : extent(dataset)) dims.push_back(size);
  check(!dims.empty(), path_, dataset, "resize the scalar");
  dims[0] = rows;
  const Handle id(open_dataset(dataset));
  check(H5Dset_extent(id.get(), dims.data()) >= 0, path_, dataset, "resize");
}

namespace {
/// Selects rows [first, first + count) in `file_space` and returns the matching memory space.
Handle select_rows(const Handle& file_space, uint64_t first, uint64_t count) {
  const int rank = H5Sget_simple_extent_ndims(file_space.get());
  if (rank == 0) return Handle(H5Screate(H5S_SCALAR));
  std::vector<hsize_t> dims(static_cast<size_t>(rank)), start(dims.size(), 0);
  H5Sget_simple_extent_dims(file_space.get(), dims.data(), nullptr);
  if (first + count > dims[0]) return Handle(-1);
  dims[0] = count;
  start[0] = first;
  H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, dims.data(), nullptr);
  return Handle(H5Screate_simple(rank, dims.data(), nullptr));
}
}  // namespace

void File::write_rows(const std::string& dataset, Type type, uint64_t first, uint64_t count, const void* data) {
  if (count == 0) return;
  const Handle id(open_dataset(dataset));
  const Handle file_space(H5Dget_space(id.get()));
  const Handle memory_space = select_rows(file_space, first, count);
  check(memory_space.valid(), path_, dataset, "write beyond the end of");
  check(H5Dwrite(id.get(), native(type), memory_space.get(), file_space.get(), H5P_DEFAULT, data) >= 0, path_, dataset,
        "write (is the disk full?) to");
}

void File::read_rows(const std::string& dataset, Type type, uint64_t first, uint64_t count, void* data) const {
  if (count == 0) return;
  const Handle id(open_dataset(dataset));
  const Handle file_space(H5Dget_space(id.get()));
  const Handle memory_space = select_rows(file_space, first, count);
  check(memory_space.valid(), path_, dataset, "read beyond the end of");
  check(H5Dread(id.get(), native(type), memory_space.get(), file_space.get(), H5P_DEFAULT, data) >= 0, path_, dataset,
        "read (is the file cut off?) from");
}

namespace {
/// Selects elements [first, first + count), row-major, as at most 2 rank - 1 blocks; false beyond the end.
bool select_elements(const Handle& space, uint64_t first, uint64_t count) {
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank == 0) return first == 0 && count == 1;
  const auto axes = static_cast<size_t>(rank);
  std::vector<hsize_t> dims(axes), stride(axes, 1), start(axes), block(axes);
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  for (size_t a = axes - 1; a-- > 0;) stride[a] = stride[a + 1] * dims[a + 1];
  if (first + count > stride[0] * dims[0]) return false;
  H5Sselect_none(space.get());
  while (count > 0) {
    // The outermost axis of which whole rows fit.
    size_t axis = 0;
    while (first % stride[axis] != 0 || count < stride[axis]) ++axis;
    for (size_t a = 0; a < axes; ++a) {
      start[a] = first / stride[a] % dims[a];
      block[a] = a < axis ? 1 : dims[a];
    }
    block[axis] = std::min(count / stride[axis], dims[axis] - start[axis]);
    H5Sselect_hyperslab(space.get(), H5S_SELECT_OR, start.data(), nullptr, block.data(), nullptr);
    first += block[axis] * stride[axis];
    count -= block[axis] * stride[axis];
  }
  return true;
}

Handle memory_of(uint64_t count) {
  const hsize_t size = count;
  return Handle(H5Screate_simple(1, &size, nullptr));
}
}  // namespace

void File::write_elements(const std::string& dataset, Type type, uint64_t first, uint64_t count, const void* data) {
  if (count == 0) return;
  const Handle id(open_dataset(dataset));
  const Handle space(H5Dget_space(id.get()));
  check(select_elements(space, first, count), path_, dataset, "write beyond the end of");
  const Handle memory = memory_of(count);
  check(H5Dwrite(id.get(), native(type), memory.get(), space.get(), H5P_DEFAULT, data) >= 0, path_, dataset,
        "write (is the disk full?) to");
}

void File::read_elements(const std::string& dataset, Type type, uint64_t first, uint64_t count, void* data) const {
  if (count == 0) return;
  const Handle id(open_dataset(dataset));
  const Handle space(H5Dget_space(id.get()));
  check(select_elements(space, first, count), path_, dataset, "read beyond the end of");
  const Handle memory = memory_of(count);
  check(H5Dread(id.get(), native(type), memory.get(), space.get(), H5P_DEFAULT, data) >= 0, path_, dataset,
        "read (is the file cut off?) from");
}

namespace {
void write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle id(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (!id.valid() || H5Awrite(id.get(), type, value) < 0) fail("cannot write the HDF5 attribute '{}'", name);
}
}  // namespace

void File::set_attribute(const std::string& object, const std::string& name, const std::string& value) {
  if (!exists(object)) {
    make_parents(object + "/");
  }
  const Handle id(open_object(object));
  const Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), value.size() + 1);
  write_attribute(id.get(), name, type.get(), value.c_str());
}

void File::set_attribute(const std::string& object, const std::string& name, int64_t value) {
  const Handle id(open_object(object));
  write_attribute(id.get(), name, H5T_NATIVE_INT64, &value);
}

void File::set_attribute(const std::string& object, const std::string& name, double value) {
  const Handle id(open_object(object));
  write_attribute(id.get(), name, H5T_NATIVE_DOUBLE, &value);
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  if (!exists(object)) return false;
  const Handle id(open_object(object));
  return H5Aexists(id.get(), name.c_str()) > 0;
}

std::string File::text_attribute(const std::string& object, const std::string& name) const {
  const Handle id(open_object(object));
  const Handle attribute(H5Aopen(id.get(), name.c_str(), H5P_DEFAULT));
  check(attribute.valid(), path_, object + "@" + name, "find the attribute");
  const Handle type(H5Aget_type(attribute.get()));
  check(H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0, path_, object + "@" + name,
        "read as fixed-length text");
  std::string value(H5Tget_size(type.get()), '\0');
  check(H5Aread(attribute.get(), type.get(), value.data()) >= 0, path_, object + "@" + name, "read");
  value.resize(std::min(value.size(), value.find('\0')));
  return value;
}

int64_t File::integer_attribute(const std::string& object, const std::string& name) const {
  const Handle id(open_object(object));
  const Handle attribute(H5Aopen(id.get(), name.c_str(), H5P_DEFAULT));
  int64_t value = 0;
  check(attribute.valid() && H5Aread(attribute.get(), H5T_NATIVE_INT64, &value) >= 0, path_, object + "@" + name,
        "read the integer attribute");
  return value;
}

double File::real_attribute(const std::string& object, const std::string& name) const {
  const Handle id(open_object(object));
  const Handle attribute(H5Aopen(id.get(), name.c_str(), H5P_DEFAULT));
  double value = 0;
  check(attribute.valid() && H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) >= 0, path_, object + "@" + name,
        "read the number attribute");
  return value;
}

void File::close() {
  const hid_t id = std::exchange(id_, -1);
  check(id < 0 || H5Fclose(id) >= 0, path_, "/", "close (is the disk full?)");
}

void File::flush() {
  check(H5Fflush(id_, H5F_SCOPE_LOCAL) >= 0, path_, "/", "flush");
}

void File::start_swmr_write() {
  check(H5Fstart_swmr_write(id_) >= 0, path_, "/", "start single-writer mode on");
}

}  // namespace heddle::h5
