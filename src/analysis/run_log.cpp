#include "analysis/run_log.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <type_traits>

#include "support/error.h"
#include "support/file_lock.h"

namespace heddle {

namespace {

constexpr int64_t kSchemaVersion = 2;
constexpr uint64_t kChunkRows = 64;
constexpr uint64_t kRowsPerRead = 256;
constexpr char kStepColumn[] = "/step";
constexpr char kValidationStepColumn[] = "/validation/step";

/// Calls visit(dataset, row extent, member of the record) for every column of the step table but its key. A column of
/// one number has the row extent [].
template <typename Visit>
void visit_step_values(const RunLogHeader& h, Visit&& visit) {
  const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
  const uint64_t loops = size(h.loops), layers = size(h.layers), experts = size(h.experts), segments = size(h.segments);
  visit("/time", h5::Extent{}, &StepRecord::time);
  visit("/loss", h5::Extent{}, &StepRecord::loss);
  visit("/loops", h5::Extent{}, &StepRecord::loops);
  visit("/learning_rate", h5::Extent{}, &StepRecord::learning_rate);
  visit("/tokens", h5::Extent{}, &StepRecord::tokens);
  visit("/bytes", h5::Extent{}, &StepRecord::bytes);
  visit("/step_seconds", h5::Extent{}, &StepRecord::step_seconds);
  visit("/exchange_bytes", h5::Extent{}, &StepRecord::exchange_bytes);
  visit("/segment_loss", h5::Extent{segments}, &StepRecord::segment_loss);
  visit("/objective", h5::Extent{segments}, &StepRecord::objective);
  visit("/gradient_norm", h5::Extent{segments}, &StepRecord::gradient_norm);
  visit("/skipped", h5::Extent{segments}, &StepRecord::skipped);
  visit("/state_rms", h5::Extent{loops}, &StepRecord::state_rms);
  visit("/block_rms", h5::Extent{loops, layers}, &StepRecord::block_rms);
  if (h.experts == 0) return;
  visit("/aux_loss", h5::Extent{segments}, &StepRecord::aux_loss);
  visit("/router_z_loss", h5::Extent{segments}, &StepRecord::router_z_loss);
  visit("/load", h5::Extent{loops, layers, experts}, &StepRecord::load);
  visit("/dropped", h5::Extent{loops, layers}, &StepRecord::dropped);
  if (loops > 1) visit("/overlap", h5::Extent{loops - 1, layers}, &StepRecord::overlap);
  visit("/balance_bias", h5::Extent{size(h.balance_rows), experts}, &StepRecord::balance_bias);
}

template <typename Visit>
void visit_validation_values(Visit visit) {
  visit("/validation/loss", h5::Extent{}, &ValidationRecord::loss);
  visit("/validation/bits_per_byte", h5::Extent{}, &ValidationRecord::bits_per_byte);
  visit("/validation/targets", h5::Extent{}, &ValidationRecord::targets);
}

/// The values and then the key.
template <typename Visit>
void visit_step_columns(const RunLogHeader& h, Visit&& visit) {
  visit_step_values(h, visit);
  visit(kStepColumn, h5::Extent{}, &StepRecord::step);
}
template <typename Visit>
void visit_validation_columns(Visit visit) {
  visit_validation_values(visit);
  visit(kValidationStepColumn, h5::Extent{}, &ValidationRecord::step);
}

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
                                    {"warmup_steps", h.warmup_steps}})
    file.set_attribute("/", name, value);
  file.set_attribute("/", "flops_per_token", h.flops_per_token);
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
                                    {"warmup_steps", &h.warmup_steps}})
    *value = file.integer_attribute("/", name);
  h.flops_per_token = file.real_attribute("/", "flops_per_token");
  const bool routing = h.experts == 0 || std::min({h.experts, h.top_k, h.balance_rows}) > 0;
  if (std::min({h.layers, h.loops, h.segments}) < 1 || h.experts < 0 || !routing)
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
  visit_step_columns(header_, bytes);
  row_bytes_ = bytes.total;
  file_->start_swmr_write();
}
RunLogWriter::RunLogWriter(RunLogWriter&&) noexcept = default;
RunLogWriter::~RunLogWriter() = default;

RunLogWriter RunLogWriter::create(const std::string& path, const RunLogHeader& header) {
  auto lock = lock_of(path);
  h5::File file(path, h5::File::Mode::kCreate);
  write_header(file, header);
  visit_step_columns(header, Create{file});
  visit_validation_columns(Create{file});
  return {std::move(lock), std::move(file), header};
}

RunLogWriter RunLogWriter::resume(const std::string& path, const RunLogHeader& header, int64_t last_step) {
  auto lock = lock_of(path);
  h5::File file(path, h5::File::Mode::kReadWrite);
  read_header(file);
  uint64_t step_rows = UINT64_MAX, validation_rows = UINT64_MAX;
  visit_step_columns(header, Measure{file, step_rows});
  visit_validation_columns(Measure{file, validation_rows});
  const auto kept = [&](const char* column, uint64_t rows) {
    std::vector<int64_t> steps(rows);
    file.read_rows(column, h5::Type::kInt64, 0, rows, steps.data());
    return static_cast<uint64_t>(
        std::find_if(steps.begin(), steps.end(), [last_step](int64_t s) { return s > last_step; }) - steps.begin());
  };
  step_rows = kept(kStepColumn, step_rows);
  validation_rows = kept(kValidationStepColumn, validation_rows);
  // Nothing was changed up to here, so that a log that does not fit stays as it is.
  visit_step_columns(header, Cut{file, step_rows});
  visit_validation_columns(Cut{file, validation_rows});
  write_header(file, header);
  return {std::move(lock), std::move(file), header};
}

// The key goes to the file behind the values, so that a reader who sees a step sees all of it.
void RunLogWriter::append(const StepRecord& record) {
  check_space(file_->path(), row_bytes_);
  visit_step_values(header_, Append<StepRecord>{*file_, record});
  file_->flush();
  file_->append<int64_t>(kStepColumn, values_of(record.step));
  file_->flush();
}

void RunLogWriter::append(const ValidationRecord& record) {
  visit_validation_values(Append<ValidationRecord>{*file_, record});
  file_->flush();
  file_->append<int64_t>(kValidationStepColumn, values_of(record.step));
  file_->flush();
}

RunLog RunLog::open(const std::string& path) {
  // A writer that was killed leaves a mark that only a reader of the single-writer mode may pass.
  const h5::File file(path, h5::File::Mode::kReadSwmr);
  RunLog log;
  log.header = read_header(file);
  uint64_t rows = UINT64_MAX;
  visit_step_columns(log.header, Measure{file, rows});
  log.steps.resize(rows);
  in_blocks(log.steps, [&](size_t first, std::span<StepRecord> block) {
    visit_step_columns(log.header, ReadRows<StepRecord>{file, first, block});
  });
  rows = UINT64_MAX;
  visit_validation_columns(Measure{file, rows});
  log.validations.resize(rows);
  in_blocks(log.validations, [&](size_t first, std::span<ValidationRecord> block) {
    visit_validation_columns(ReadRows<ValidationRecord>{file, first, block});
  });
  return log;
}

}  // namespace heddle
