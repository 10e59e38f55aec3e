#include "analysis/run_log.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <sstream>
#include <type_traits>

#include "analysis/run_log_columns.h"
#include "support/error.h"
#include "support/file_lock.h"

namespace heddle {

using run_log::Table;
using run_log::visit_columns;
using run_log::visit_tables;

namespace {

constexpr int64_t kSchemaVersion = 3;
constexpr uint64_t kChunkRows = 64;
constexpr uint64_t kRowsPerRead = 256;

template <typename T>
std::span<const T> values_of(const std::vector<T>& values) {
  return values;
}
template <typename T>
std::span<const T> values_of(const T& value) {
  return {&value, 1};
}

template <typename T>
void assign(std::vector<T>& target, std::span<const T> values) {
  target.assign(values.begin(), values.end());
}
template <typename T>
void assign(T& target, std::span<const T> values) {
  target = values.front();
}

template <typename T>
using Element = std::remove_cv_t<typename decltype(values_of(std::declval<const T&>()))::element_type>;

/// Appends one value or row to a column.
template <typename Record>
struct Append {
  h5::File& file;
  const Record& record;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent& row, T Record::*member) const {
    const auto values = values_of(record.*member);
    require(values.size() == h5::element_count(row), "run log {}: {} values, expected {}", dataset, values.size(),
            h5::element_count(row));
    file.append<Element<T>>(dataset, values);
  }
};

struct Create {
  h5::File& file;
  template <typename Record, typename T>
  void operator()(const char* dataset, const h5::Extent& row, T Record::*) const {
    file.create_growing(dataset, h5::type_of<Element<T>>(), row, kChunkRows);
  }
};

/// Adds up the bytes of a row.
struct Bytes {
  uint64_t total = 0;
  template <typename Record, typename T>
  void operator()(const char*, const h5::Extent& row, T Record::*) {
    total += h5::element_count(row) * sizeof(Element<T>);
  }
};

/// Checks the shape of every row and finds the number of rows that all columns have.
struct Measure {
  const h5::File& file;
  uint64_t& rows;
  template <typename Record, typename T>
  void operator()(const char* dataset, const h5::Extent& row, T Record::*) const {
    const h5::Extent found = file.extent(dataset);
    if (found.empty() || !std::equal(row.begin(), row.end(), found.begin() + 1, found.end()))
      throw Error(fmt::format("run log '{}': {} has the shape [{}], expected rows of [{}]", file.path(), dataset,
                              fmt::join(found, ", "), fmt::join(row, ", ")),
                  "a resumed run keeps its layers, loops, experts and segments; use a new run.directory otherwise");
    rows = std::min(rows, found[0]);
  }
};

struct Cut {
  h5::File& file;
  uint64_t rows;
  template <typename Record, typename T>
  void operator()(const char* dataset, const h5::Extent&, T Record::*) const {
    if (file.extent(dataset)[0] > rows) file.resize(dataset, rows);
  }
};

/// Reads a column of rows [first, first + records.size()).
template <typename Record>
struct ReadRows {
  const h5::File& file;
  uint64_t first;
  std::span<Record> records;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent& row, T Record::*member) const {
    const uint64_t width = h5::element_count(row);
    std::vector<Element<T>> values(records.size() * width);
    file.read_rows(dataset, h5::type_of<Element<T>>(), first, records.size(), values.data());
    for (size_t i = 0; i < records.size(); ++i)
      assign(records[i].*member, std::span<const Element<T>>(values).subspan(i * width, width));
  }
};

/// Calls visit(first, rows as span) for blocks of rows, so that a column of a long log needs little memory twice.
template <typename Record, typename Visit>
void in_blocks(std::vector<Record>& records, Visit visit) {
  for (size_t first = 0; first < records.size(); first += kRowsPerRead)
    visit(first, std::span(records).subspan(first, std::min<size_t>(kRowsPerRead, records.size() - first)));
}

/// Rows that all columns of a table have.
template <typename Record>
uint64_t common_rows(const h5::File& file, const RunLogHeader& header) {
  uint64_t rows = UINT64_MAX;
  visit_columns<Record>(header, Measure{file, rows});
  return rows;
}

template <typename Record>
void read_table(const h5::File& file, const RunLogHeader& header, std::vector<Record>& records) {
  records.resize(common_rows<Record>(file, header));
  in_blocks(records, [&](size_t first, std::span<Record> block) {
    visit_columns<Record>(header, ReadRows<Record>{file, first, block});
  });
}

void write_header(h5::File& file, const RunLogHeader& h) {
  file.set_attribute("/", "kind", std::string("heddle run log"));
  file.set_attribute("/", "schema_version", kSchemaVersion);
  file.set_attribute("/", "config", h.config);
  for (const auto& [name, value] : {std::pair{"layers", h.layers},
                                    {"loops", h.loops},
                                    {"experts", h.experts},
                                    {"top_k", h.top_k},
                                    {"segments", h.segments},
                                    {"balance_rows", h.balance_rows},
                                    {"ranks", h.ranks},
                                    {"expert_parallel", h.expert_parallel},
                                    {"steps", h.steps},
                                    {"warmup_steps", h.warmup_steps},
                                    {"statistics_interval", h.statistics_interval}})
    file.set_attribute("/", name, value);
  file.set_attribute("/", "flops_per_token", h.flops_per_token);
  file.set_attribute("/", "memory_purposes", fmt::format("{}", fmt::join(h.purposes, ",")));
}

RunLogHeader read_header(const h5::File& file) {
  if (!file.has_attribute("/", "kind") || file.text_attribute("/", "kind") != "heddle run log")
    throw Error(fmt::format("'{}' is an HDF5 file, but not a Heddle run log", file.path()),
                "the log of a run is RUN/log.h5; if this is it, it is damaged");
  if (const int64_t version = file.integer_attribute("/", "schema_version"); version != kSchemaVersion)
    fail("run log '{}' has schema version {}, this build reads {}", file.path(), version, kSchemaVersion);
  RunLogHeader h;
  h.config = file.text_attribute("/", "config");
  for (const auto& [name, value] : {std::pair{"layers", &h.layers},
                                    {"loops", &h.loops},
                                    {"experts", &h.experts},
                                    {"top_k", &h.top_k},
                                    {"segments", &h.segments},
                                    {"balance_rows", &h.balance_rows},
                                    {"ranks", &h.ranks},
                                    {"expert_parallel", &h.expert_parallel},
                                    {"steps", &h.steps},
                                    {"warmup_steps", &h.warmup_steps},
                                    {"statistics_interval", &h.statistics_interval}})
    *value = file.integer_attribute("/", name);
  h.flops_per_token = file.real_attribute("/", "flops_per_token");
  std::istringstream purposes(file.text_attribute("/", "memory_purposes"));
  for (std::string name; std::getline(purposes, name, ',');) h.purposes.push_back(name);
  const bool routing = h.experts == 0 || std::min({h.experts, h.top_k, h.balance_rows}) > 0;
  if (std::min({h.layers, h.loops, h.segments}) < 1 || h.purposes.empty() || h.experts < 0 || !routing)
    fail("run log '{}': {} layers, {} loops, {} experts, top {}, {} segments: the header is damaged", file.path(),
         h.layers, h.loops, h.experts, h.top_k, h.segments);
  return h;
}

}  // namespace

namespace {
std::unique_ptr<FileLock> lock_of(const std::string& log) {
  return std::make_unique<FileLock>(log + ".lock", fmt::format("the run log '{}'", log));
}

/// Refuses to go on where the next rows would not fit: HDF5 may report a row as written that never reaches a full disk.
void check_space(const std::string& log, uint64_t row_bytes) {
  const uint64_t wanted = std::max<uint64_t>(uint64_t{1} << 20, 2 * kChunkRows * row_bytes);
  struct statvfs disk {};
  const std::string folder = std::filesystem::path(log).parent_path().string();
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return;
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free < wanted)
    throw Error(
        fmt::format("the disk is almost full: {} bytes free for the run log '{}', which wants {}", free, log, wanted),
        "make room and resume with --run.resume true");
}
}  // namespace

RunLogWriter::RunLogWriter(std::unique_ptr<FileLock> lock, h5::File file, const RunLogHeader& header)
    : lock_(std::move(lock)), file_(std::make_unique<h5::File>(std::move(file))), header_(header) {
  Bytes bytes;
  visit_tables([&]<typename Record>(const Record&) { visit_columns<Record>(header_, bytes); });
  row_bytes_ = bytes.total;
  file_->start_swmr_write();
}
RunLogWriter::RunLogWriter(RunLogWriter&&) noexcept = default;
RunLogWriter::~RunLogWriter() = default;

RunLogWriter RunLogWriter::create(const std::string& path, const RunLogHeader& header) {
  auto lock = lock_of(path);
  h5::File file(path, h5::File::Mode::kCreate);
  write_header(file, header);
  visit_tables([&]<typename Record>(const Record&) { visit_columns<Record>(header, Create{file}); });
  return {std::move(lock), std::move(file), header};
}

RunLogWriter RunLogWriter::resume(const std::string& path, const RunLogHeader& header, int64_t last_step) {
  auto lock = lock_of(path);
  h5::File file(path, h5::File::Mode::kReadWrite);
  read_header(file);
  std::vector<uint64_t> kept;
  visit_tables([&]<typename Record>(const Record&) {
    std::vector<int64_t> steps(common_rows<Record>(file, header));
    file.read_rows(Table<Record>::kKey, h5::Type::kInt64, 0, steps.size(), steps.data());
    const auto end = std::find_if(steps.begin(), steps.end(), [last_step](int64_t s) { return s > last_step; });
    kept.push_back(static_cast<uint64_t>(end - steps.begin()));
  });
  // Nothing was changed up to here, so that a log that does not fit stays as it is.
  auto rows = kept.begin();
  visit_tables([&]<typename Record>(const Record&) { visit_columns<Record>(header, Cut{file, *rows++}); });
  write_header(file, header);
  return {std::move(lock), std::move(file), header};
}

// The key goes to the file behind the values, so that a reader who sees a step sees all of it.
template <typename Record>
void RunLogWriter::append_row(const Record& record) {
  check_space(file_->path(), row_bytes_);
  Table<Record>::visit_values(header_, Append<Record>{*file_, record});
  file_->flush();
  file_->append<int64_t>(Table<Record>::kKey, values_of(record.step));
  file_->flush();
}
void RunLogWriter::append(const StepRecord& record) {
  append_row(record);
}
void RunLogWriter::append(const StatisticsRecord& record) {
  append_row(record);
}
void RunLogWriter::append(const MemoryRecord& record) {
  append_row(record);
}
void RunLogWriter::append(const ValidationRecord& record) {
  append_row(record);
}

RunLog RunLog::open(const std::string& path) {
  // A writer that was killed leaves a mark that only a reader of the single-writer mode may pass.
  const h5::File file(path, h5::File::Mode::kReadSwmr);
  RunLog log;
  log.header = read_header(file);
  read_table(file, log.header, log.steps);
  read_table(file, log.header, log.looks);
  read_table(file, log.header, log.memory);
  read_table(file, log.header, log.validations);
  return log;
}

}  // namespace heddle
