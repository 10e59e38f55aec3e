#include "train/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/atomic_file.h"
#include "support/hash.h"
#include "support/log.h"
#include "support/numbers.h"
#include "train/checkpoint_tensors.h"

namespace heddle {

namespace {

constexpr int64_t kFormatVersion = 2;
constexpr const char* kDescriptionHash = "description_hash";
constexpr const char* kSteps = "/optimizer/steps/";
namespace fs = std::filesystem;

std::string file_name(int64_t step) {
  return fmt::format("step_{:08d}.h5", step);
}
fs::path marker_of(const fs::path& file) {
  return fs::path(file).replace_extension(".complete");
}

/// Names of all datasets with tensors and step counts, as they stand in /index. The groups are never listed: HDF5 1.10
/// crashes when it lists a damaged one.
std::vector<std::string> read_index(const h5::File& file) {
  const std::vector<uint8_t> bytes = file.read<uint8_t>("/index");
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

/// Hash of everything that is not a tensor with a checksum of its own.
std::string description_hash(const h5::File& file) {
  StreamHash hash;
  const auto add = [&hash](const void* data, size_t bytes) {
    hash.update(&bytes, sizeof bytes);
    hash.update(data, bytes);
  };
  for (const char* name : {"kind", "config", "optimizer", "tokenizer_kind", "tokenizer_fingerprint", "data_hash"}) {
    const std::string text = file.text_attribute("/", name);
    add(text.data(), text.size());
  }
  const int64_t step = file.integer_attribute("/", "step");
  add(&step, sizeof step);
  const std::vector<uint8_t> tokenizer = file.read<uint8_t>("/tokenizer");
  add(tokenizer.data(), tokenizer.size());
  const std::vector<double> baselines = file.read<double>("/spike_guard/baseline");
  add(baselines.data(), baselines.size() * sizeof(double));
  for (const std::string& name : read_index(file)) {
    add(name.data(), name.size());
    if (!name.starts_with(kSteps)) continue;
    const std::vector<int64_t> steps = file.read<int64_t>(name);
    add(steps.data(), steps.size() * sizeof(int64_t));
  }
  return hash.hex();
}

void write_description(h5::File& file, const CheckpointInfo& info, const std::string& optimizer,
                       const std::vector<std::string>& names, SpikeGuard& spike_guard) {
  file.set_attribute("/", "format_version", kFormatVersion);
  file.set_attribute("/", "kind", std::string("heddle checkpoint"));
  file.set_attribute("/", "step", info.step);
  file.set_attribute("/", "config", info.config);
  file.set_attribute("/", "optimizer", optimizer);
  file.set_attribute("/", "tokenizer_kind", info.tokenizer_kind);
  file.set_attribute("/", "tokenizer_fingerprint", info.tokenizer_fingerprint);
  file.set_attribute("/", "data_hash", info.data_hash);
  const auto* bytes = reinterpret_cast<const uint8_t*>(info.tokenizer.data());
  file.write<uint8_t>("/tokenizer", {info.tokenizer.size()}, std::span(bytes, info.tokenizer.size()));
  const std::string index = fmt::format("{}\n", fmt::join(names, "\n"));
  file.write<uint8_t>("/index", {index.size()},
                      std::span(reinterpret_cast<const uint8_t*>(index.data()), index.size()));
  std::vector<double> baselines;
  for (const std::optional<double>& m : spike_guard.baselines()) baselines.push_back(m.value_or(std::nan("")));
  file.write<double>("/spike_guard/baseline", {baselines.size()}, baselines);
  file.set_attribute("/", kDescriptionHash, description_hash(file));
}

/// The step in a checkpoint's name, -1 for other files.
int64_t step_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  return stem.starts_with("step_") ? parse_integer(stem.substr(5)).value_or(-1) : -1;
}

/// Checkpoint files of a folder, newest step first; none if there is no folder.
std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::error_code missing;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing))
    if (entry.path().extension() == ".h5" && step_of(entry.path()) >= 0) files.push_back(entry.path());
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) { return step_of(a) > step_of(b); });
  return files;
}

/// Removes what a killed writer left, and all complete checkpoints but the newest `keep`. Damaged ones do not count,
/// and stay for whoever wants to look at them; the one just written always stays.
void remove_old(const fs::path& folder, int64_t keep, const fs::path& written,
                const std::vector<std::string>& damaged) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tmp") fs::remove(entry.path());
  int64_t kept = 1;
  for (const fs::path& file : checkpoints_in(folder)) {
    if (file == written || !checkpoint_is_complete(file.string())) continue;
    if (std::find(damaged.begin(), damaged.end(), file.string()) != damaged.end()) continue;
    if (kept++ < keep) continue;
    fs::remove(marker_of(file));
    fs::remove(file);
  }
}

/// Runs a step on this rank; if it fails on any rank, all ranks throw.
template <typename Step>
void together(Communicator& world, Step step) {
  std::string failure;
  try {
    step();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  throw_if_any_failed(world, failure);
}

/// Opens the file on all ranks together, or says on all of them that it cannot.
std::optional<h5::File> open_together(Communicator& world, const std::string& path, std::string& failure) {
  // First what may differ between hosts: opening by some ranks only would hang.
  std::error_code missing;
  const bool seen = fs::exists(path, missing);
  if (!all_ranks(world, seen)) {
    failure = "not all ranks see it";
    return std::nullopt;
  }
  std::optional<h5::File> file;
  try {
    file.emplace(world.open_shared(path));
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (all_ranks(world, file.has_value())) return file;
  if (failure.empty()) failure = "another rank could not open it";
  return std::nullopt;
}

void write_tensors(Communicator& world, CheckpointWriter writer, const std::string& path,
                   const std::vector<StoredTensor>& tensors) {
  if (writer != CheckpointWriter::kOne && world.size() > 1) {
    std::string failure;
    if (std::optional<h5::File> file = open_together(world, path, failure)) {
      together(world, [&] {
        write_own_elements(*file, tensors);
        file->flush();
      });
      // What a rank has written may still lie in its host's memory, and an error may show as late as here.
      together(world, [&] {
        file->close();
        sync_path(path);
      });
      return;
    }
    if (writer == CheckpointWriter::kParallel)
      throw Error(fmt::format("'{}' cannot be written by all ranks: {}", path, failure),
                  "run.checkpoint_writer = one lets rank 0 write everything");
    log_warning(fmt::format("rank 0 writes '{}' alone, since all ranks together cannot: {}", path, failure));
  }
  std::optional<h5::File> file;
  together(world, [&] {
    if (world.rank() == 0) file.emplace(path, h5::File::Mode::kReadWrite);
  });
  const std::string failure = write_by_one(world, file ? &*file : nullptr, tensors);
  together(world, [&] {
    if (!failure.empty()) throw Error(failure);
    if (!file) return;
    file->flush();
    file->close();
  });
}

}  // namespace

std::string save_checkpoint(const std::string& folder, int64_t keep, CheckpointWriter writer,
                            const CheckpointInfo& info, LoopedModel& model, Optimizer& optimizer,
                            SpikeGuard& spike_guard, const std::vector<std::string>& damaged) {
  Communicator& world = model.groups().world();
  const fs::path path = fs::path(folder) / file_name(info.step);
  const std::string temporary = path.string() + ".tmp";
  const bool leads = world.rank() == 0;
  try {
    std::vector<StoredTensor> tensors = model_tensors(model);
    for (StoredTensor& t : optimizer_tensors(model, optimizer)) tensors.push_back(std::move(t));
    const std::vector<uint64_t> sums = checksums(world, model.kernels(), tensors);
    together(world, [&] {
      if (!leads) return;
      fs::create_directories(folder);
      h5::File file(temporary, h5::File::Mode::kCreate);
      create_tensors(file, tensors, sums);
      std::vector<std::string> names;
      for (const StoredTensor& t : tensors) names.push_back(t.dataset);
      size_t i = 0;
      for (const Parameter& p : model.parameters().all()) {
        names.push_back(kSteps + p.name);
        file.write<int64_t>(names.back(), {}, std::vector<int64_t>{optimizer.states()[i++].steps});
      }
      write_description(file, info, optimizer.config().name, names, spike_guard);
      file.flush();
    });
    write_tensors(world, writer, temporary, tensors);
    together(world, [&] {
      if (!leads) return;
      sync_path(temporary);
      fs::rename(temporary, path);
      sync_path(folder);
      publish_text(marker_of(path).string(),
                   nlohmann::json{{"step", info.step}, {"bytes", fs::file_size(path)}}.dump() + "\n");
      remove_old(folder, keep, path, damaged);
    });
  } catch (const std::exception& error) {
    std::error_code ignored;
    if (leads) fs::remove(temporary, ignored);
    throw Error(fmt::format("checkpoint '{}' was not saved: {}", path.string(), error.what()),
                "older checkpoints are untouched");
  }
  return path.string();
}

bool checkpoint_is_complete(const std::string& path) {
  const fs::path marker = marker_of(path);
  if (!fs::exists(marker) || !fs::exists(path)) return false;
  const nlohmann::json json = nlohmann::json::parse(read_text_file(marker.string()), nullptr, false);
  return json.is_object() && json.contains("bytes") && json["bytes"] == fs::file_size(path);
}

std::vector<std::string> complete_checkpoints(const std::string& folder, std::vector<std::string>* ignored) {
  std::vector<std::string> complete;
  for (const fs::path& file : checkpoints_in(folder)) {
    if (checkpoint_is_complete(file.string()))
      complete.push_back(file.string());
    else if (ignored != nullptr)
      ignored->push_back(file.string());
  }
  return complete;
}

CheckpointInfo read_checkpoint_info(const std::string& path) {
  const h5::File file(path, h5::File::Mode::kRead);
  if (!file.has_attribute("/", "kind") || file.text_attribute("/", "kind") != "heddle checkpoint")
    throw Error(fmt::format("'{}' is an HDF5 file, but not a Heddle checkpoint", path),
                "checkpoints are RUN/checkpoints/step_*.h5");
  if (const int64_t version = file.integer_attribute("/", "format_version"); version != kFormatVersion)
    fail("'{}' has checkpoint format {}, this build reads {}", path, version, kFormatVersion);
  CheckpointInfo info;
  info.step = file.integer_attribute("/", "step");
  info.config = file.text_attribute("/", "config");
  info.tokenizer_kind = file.text_attribute("/", "tokenizer_kind");
  info.tokenizer_fingerprint = file.text_attribute("/", "tokenizer_fingerprint");
  info.data_hash = file.text_attribute("/", "data_hash");
  const std::vector<uint8_t> bytes = file.read<uint8_t>("/tokenizer");
  info.tokenizer.assign(bytes.begin(), bytes.end());
  return info;
}

void load_model(const std::string& path, LoopedModel& model) {
  read_tensors(model.groups().world(), path, model_tensors(model));
  model.parameters().values_changed();
}

void load_training_state(const std::string& path, LoopedModel& model, Optimizer& optimizer, SpikeGuard& spike_guard) {
  Communicator& world = model.groups().world();
  std::vector<double> baselines;
  std::vector<int64_t> steps;
  std::string written_by;
  reading_together(world, [&] {
    const h5::File file(path, h5::File::Mode::kRead);
    for (const Parameter& p : model.parameters().all()) {
      const std::string dataset = kSteps + p.name;
      if (!file.exists(dataset)) throw Error(fmt::format("'{}' lacks {}", path, dataset), "use an older checkpoint");
      steps.push_back(file.read<int64_t>(dataset).at(0));
    }
    baselines = file.read<double>("/spike_guard/baseline");
    written_by = file.text_attribute("/", "optimizer");
    if (description_hash(file) != file.text_attribute("/", kDescriptionHash))
      throw Error(fmt::format("'{}': what is not a tensor (steps, configuration, tokenizer) is damaged", path),
                  "use an older checkpoint");
  });
  if (written_by != optimizer.config().name)
    throw Error(fmt::format("'{}' was written by another optimizer ({})", path, written_by),
                "keep optimizer.name when resuming");
  if (baselines.size() != spike_guard.baselines().size())
    throw Error(fmt::format("'{}' was trained in {} segments, this run has {}", path, baselines.size(),
                            spike_guard.baselines().size()),
                "keep backprop.mode and backprop.loops when resuming");
  read_tensors(world, path, optimizer_tensors(model, optimizer));
  for (size_t i = 0; i < steps.size(); ++i) optimizer.states()[i].steps = steps[i];
  for (size_t s = 0; s < baselines.size(); ++s)
    if (!std::isnan(baselines[s])) spike_guard.baselines()[s] = baselines[s];
}

std::vector<std::string> checkpoint_tensors(const std::string& path) {
  const h5::File file(path, h5::File::Mode::kRead);
  std::vector<std::string> names;
  for (std::string& name : read_index(file))
    if (!name.starts_with(kSteps)) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> check_checkpoint(const std::string& path) {
  const h5::File file(path, h5::File::Mode::kRead);
  std::vector<std::string> damaged;
  const auto check = [&damaged](const std::string& what, auto&& is_whole) {
    try {
      if (!is_whole()) damaged.push_back(what);
    } catch (const std::exception& error) {
      damaged.push_back(error.what());
    }
  };
  for (const std::string& dataset : checkpoint_tensors(path)) {
    check(dataset + ": its checksum differs", [&] {
      const uint64_t total = h5::element_count(file.extent(dataset));
      uint64_t sum = 0;
      std::vector<float> part;
      for (uint64_t first = 0; first < total; first += part.size()) {
        part.resize(std::min<uint64_t>(total - first, uint64_t{1} << 22));
        file.read_elements(dataset, h5::Type::kFloat32, first, part.size(), part.data());
        sum += position_checksum(first, part.data(), part.size());
      }
      return std::bit_cast<int64_t>(sum) == file.integer_attribute(dataset, kChecksumAttribute);
    });
  }
  check("what is not a tensor (steps, configuration, tokenizer) differs from its hash",
        [&] { return description_hash(file) == file.text_attribute("/", kDescriptionHash); });
  return damaged;
}

}  // namespace heddle
