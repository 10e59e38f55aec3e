#include "analysis/run_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "support/atomic_file.h"
#include "support/error.h"

namespace heddle {

namespace {

constexpr int64_t kSchemaVersion = 1;
constexpr uint64_t kChunkRows = 64;

/// Calls visit(dataset, row extent, values of a record as a vector) for every column of /step rows.
template <typename Record, typename Visit>
void visit_step_columns(const RunLogHeader& h, Record& r, Visit visit) {
  const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
  const uint64_t loops = size(h.loops), layers = size(h.layers), experts = size(h.experts), segments = size(h.segments);
  visit("/step", h5::Extent{}, r.step);
  visit("/time", h5::Extent{}, r.time);
  visit("/loss", h5::Extent{}, r.loss);
  visit("/learning_rate", h5::Extent{}, r.learning_rate);
  visit("/tokens", h5::Extent{}, r.tokens);
  visit("/bytes", h5::Extent{}, r.bytes);
  visit("/step_seconds", h5::Extent{}, r.step_seconds);
  visit("/exchange_bytes", h5::Extent{}, r.exchange_bytes);
  visit("/segment_loss", h5::Extent{segments}, r.segment_loss);
  visit("/gradient_norm", h5::Extent{segments}, r.gradient_norm);
  visit("/skipped", h5::Extent{segments}, r.skipped);
  visit("/state_rms", h5::Extent{loops}, r.state_rms);
  visit("/block_rms", h5::Extent{loops, layers}, r.block_rms);
  visit("/load", h5::Extent{loops, layers, experts}, r.load);
  visit("/dropped", h5::Extent{loops, layers}, r.dropped);
  if (loops > 1) visit("/overlap", h5::Extent{loops - 1, layers}, r.overlap);
  visit("/balance_bias", h5::Extent{layers, experts}, r.balance_bias);
}

template <typename Record, typename Visit>
void visit_validation_columns(Record& r, Visit visit) {
  visit("/validation/step", h5::Extent{}, r.step);
  visit("/validation/loss", h5::Extent{}, r.loss);
  visit("/validation/bits_per_byte", h5::Extent{}, r.bits_per_byte);
  visit("/validation/targets", h5::Extent{}, r.targets);
}

template <typename T>
std::vector<T>& values_of(std::vector<T>& values) { return values; }
template <typename T>
const std::vector<T>& values_of(const std::vector<T>& values) { return values; }
template <typename T>
std::span<T, 1> values_of(T& value) { return std::span<T, 1>(&value, 1); }

template <typename Values>
using Element = std::remove_cvref_t<decltype(*std::declval<Values>().data())>;

/// Appends one row to every column.
struct Append {
  h5::File& file;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent& row, T& value) const {
    auto&& values = values_of(value);
    require(values.size() == h5::element_count(row), "run log {}: {} values, expected {}", dataset, values.size(),
            h5::element_count(row));
    file.append<Element<decltype(values)>>(dataset, {values.data(), values.size()});
  }
};

struct Create {
  h5::File& file;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent& row, T& value) const {
    file.create_growing(dataset, h5::type_of<Element<decltype(values_of(value))>>(), row, kChunkRows);
  }
};

struct CountRows {
  const h5::File& file;
  uint64_t& rows;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent&, T&) const {
    rows = std::min(rows, file.extent(dataset).at(0));
  }
};

struct Cut {
  h5::File& file;
  uint64_t rows;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent& row, T&) const {
    const h5::Extent found = file.extent(dataset);
    if (!std::equal(row.begin(), row.end(), found.begin() + 1, found.end()))
      throw Error(fmt::format("run log '{}': {} has rows of [{}], this run writes [{}]", file.path(), dataset,
                              fmt::join(found.begin() + 1, found.end(), ", "), fmt::join(row, ", ")),
                  "a resumed run keeps its layers, loops, experts and segments; use a new run.directory otherwise");
    if (found[0] > rows) file.resize(dataset, rows);
  }
};

struct ReadRow {
  const h5::File& file;
  uint64_t at;
  template <typename T>
  void operator()(const char* dataset, const h5::Extent& row, T& value) const {
    if constexpr (requires { value.resize(1); }) value.resize(h5::element_count(row));
    auto&& values = values_of(value);
    file.read_rows(dataset, h5::type_of<Element<decltype(values)>>(), at, 1, values.data());
  }
};

void write_header(h5::File& file, const RunLogHeader& h) {
  file.set_attribute("/", "kind", std::string("heddle run log"));
  file.set_attribute("/", "schema_version", kSchemaVersion);
  file.set_attribute("/", "config", h.config);
  for (const auto& [name, value] :
       {std::pair{"layers", h.layers}, {"loops", h.loops}, {"experts", h.experts}, {"top_k", h.top_k},
        {"segments", h.segments}, {"ranks", h.ranks}, {"expert_parallel", h.expert_parallel}, {"steps", h.steps},
        {"warmup_steps", h.warmup_steps}})
    file.set_attribute("/", name, value);
  file.set_attribute("/", "flops_per_token", h.flops_per_token);
}

RunLogHeader read_header(const h5::File& file) {
  if (!file.has_attribute("/", "kind") || file.text_attribute("/", "kind") != "heddle run log")
    throw Error(fmt::format("'{}' is an HDF5 file, but not a Heddle run log", file.path()), "the log of a run is RUN/log.h5");
  if (const int64_t version = file.integer_attribute("/", "schema_version"); version != kSchemaVersion)
    fail("run log '{}' has schema version {}, this build reads {}", file.path(), version, kSchemaVersion);
  RunLogHeader h;
  h.config = file.text_attribute("/", "config");
  for (const auto& [name, value] :
       {std::pair{"layers", &h.layers}, {"loops", &h.loops}, {"experts", &h.experts}, {"top_k", &h.top_k},
        {"segments", &h.segments}, {"ranks", &h.ranks}, {"expert_parallel", &h.expert_parallel}, {"steps", &h.steps},
        {"warmup_steps", &h.warmup_steps}})
    *value = file.integer_attribute("/", name);
  h.flops_per_token = file.real_attribute("/", "flops_per_token");
  return h;
}

}  // namespace

/// An exclusive lock of the operating system on "<log>.lock"; it goes with the process, however that ends.
class RunLogWriter::Lock {
 public:
  explicit Lock(const std::string& log) : path_(log + ".lock") {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw Error(fmt::format("cannot create '{}'", path_), "check that the folder exists and is writable");
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor_);
      throw Error(fmt::format("the run log '{}' is being written by another process ({})", log, read_text_file(path_)),
                  "wait for that run, stop it, or use another run.directory");
    }
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const std::string holder = fmt::format("host {}, process {}", host, getpid());
    if (::ftruncate(descriptor_, 0) != 0 || ::write(descriptor_, holder.data(), holder.size()) < 0)
      fail("cannot write '{}'", path_);
  }
  ~Lock() {
    ::unlink(path_.c_str());
    ::close(descriptor_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::string path_;
  int descriptor_ = -1;
};

RunLogWriter::RunLogWriter(std::unique_ptr<Lock> lock, h5::File file, const RunLogHeader& header)
    : lock_(std::move(lock)), file_(std::make_unique<h5::File>(std::move(file))), header_(header) {
  file_->start_swmr_write();
}
RunLogWriter::RunLogWriter(RunLogWriter&&) noexcept = default;
RunLogWriter::~RunLogWriter() = default;

RunLogWriter RunLogWriter::create(const std::string& path, const RunLogHeader& header) {
  auto lock = std::make_unique<Lock>(path);
  h5::File file(path, h5::File::Mode::kCreate);
  write_header(file, header);
  StepRecord step;
  ValidationRecord validation;
  visit_step_columns(header, step, Create{file});
  visit_validation_columns(validation, Create{file});
  return {std::move(lock), std::move(file), header};
}

RunLogWriter RunLogWriter::resume(const std::string& path, const RunLogHeader& header, int64_t last_step) {
  auto lock = std::make_unique<Lock>(path);
  const RunLog old = RunLog::open(path);
  h5::File file(path, h5::File::Mode::kReadWrite);
  const auto kept = [last_step](const auto& rows) {
    return static_cast<uint64_t>(
        std::count_if(rows.begin(), rows.end(), [last_step](const auto& r) { return r.step <= last_step; }));
  };
  StepRecord step;
  ValidationRecord validation;
  visit_step_columns(header, step, Cut{file, kept(old.steps)});
  visit_validation_columns(validation, Cut{file, kept(old.validations)});
  write_header(file, header);
  return {std::move(lock), std::move(file), header};
}

void RunLogWriter::append(const StepRecord& record) {
  visit_step_columns(header_, record, Append{*file_});
  file_->flush();
}

void RunLogWriter::append(const ValidationRecord& record) {
  visit_validation_columns(record, Append{*file_});
  file_->flush();
}

RunLog RunLog::open(const std::string& path) {
  // A writer that was killed leaves a mark that only a reader of the single-writer mode may pass.
  const h5::File file(path, h5::File::Mode::kReadSwmr);
  RunLog log;
  log.header = read_header(file);
  StepRecord step;
  ValidationRecord validation;
  uint64_t rows = UINT64_MAX;
  visit_step_columns(log.header, step, CountRows{file, rows});
  for (uint64_t i = 0; i < rows; ++i) visit_step_columns(log.header, log.steps.emplace_back(), ReadRow{file, i});
  rows = UINT64_MAX;
  visit_validation_columns(validation, CountRows{file, rows});
  for (uint64_t i = 0; i < rows; ++i) visit_validation_columns(log.validations.emplace_back(), ReadRow{file, i});
  return log;
}

}  // namespace heddle
