#include "train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/atomic_file.h"

namespace heddle {

namespace {

constexpr int64_t kFormatVersion = 1;
namespace fs = std::filesystem;

std::string file_name(int64_t step) {
  return fmt::format("step_{:08d}.h5", step);
}
fs::path marker_of(const fs::path& file) {
  return fs::path(file).replace_extension(".complete");
}

/// Writes tensors one after the other: rank 0 owns the file, the ranks of the first replica hand it their experts.
class TensorWriter {
 public:
  TensorWriter(ProcessGroups& groups, const Kernels& kernels, h5::File* file)
      : groups_(groups), kernels_(kernels), file_(file) {}

  void write(const std::string& dataset, const Parameter& layout, const Tensor& local) {
    if (layout.sharing == Sharing::kReplicated) {
      store(dataset, layout.global_shape, local);
      return;
    }
    if (groups_.world().rank() >= groups_.expert_parallel().size()) return;  // a later replica of the same experts
    Communicator& group = groups_.expert_parallel();
    const auto ranks = static_cast<size_t>(group.size());
    const int64_t count = local.count();
    std::vector<int64_t> send(ranks, 0), receive(ranks, group.rank() == 0 ? count : 0);
    send[0] = count;
    const Tensor whole = Tensor::empty(group.rank() == 0 ? layout.global_shape : Shape{0}, Purpose::kWorkspace);
    group.exchange_rows(local.f32(), send, whole.f32(), receive, sizeof(float));
    if (group.rank() == 0) store(dataset, layout.global_shape, whole);
  }

  void store(const std::string& dataset, const Shape& shape, const Tensor& tensor) {
    if (file_ == nullptr || !failure_.empty()) return;
    try {
      if (!std::isfinite(kernels_.sum_of_squares(tensor.count(), tensor.f32())))
        fail("{} holds values that are not finite", dataset);
      file_->write<float>(dataset, h5::Extent(shape.begin(), shape.end()), tensor.floats());
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  }
  const std::string& failure() const { return failure_; }

 private:
  ProcessGroups& groups_;
  const Kernels& kernels_;
  h5::File* file_;
  std::string failure_;
};

void write_description(h5::File& file, const CheckpointInfo& info, SpikeGuard& spike_guard) {
  file.set_attribute("/", "format_version", kFormatVersion);
  file.set_attribute("/", "kind", std::string("heddle checkpoint"));
  file.set_attribute("/", "step", info.step);
  file.set_attribute("/", "config", info.config);
  file.set_attribute("/", "tokenizer_kind", info.tokenizer_kind);
  file.set_attribute("/", "tokenizer_fingerprint", info.tokenizer_fingerprint);
  file.set_attribute("/", "data_hash", info.data_hash);
  const auto* bytes = reinterpret_cast<const uint8_t*>(info.tokenizer.data());
  file.write<uint8_t>("/tokenizer", {info.tokenizer.size()}, std::span(bytes, info.tokenizer.size()));
  std::vector<double> baselines;
  for (const std::optional<double>& m : spike_guard.baselines()) baselines.push_back(m.value_or(std::nan("")));
  file.write<double>("/spike_guard/baseline", {baselines.size()}, baselines);
}

void remove_old(const fs::path& folder, int64_t keep) {
  std::vector<fs::path> complete;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".complete") complete.push_back(entry.path());
    if (entry.path().extension() == ".tmp") fs::remove(entry.path());  // left over by a killed writer
  }
  std::sort(complete.begin(), complete.end());
  for (size_t i = 0; i + static_cast<size_t>(keep) < complete.size(); ++i) {
    fs::remove(complete[i]);
    fs::remove(fs::path(complete[i]).replace_extension(".h5"));
  }
}

}  // namespace

std::string save_checkpoint(const std::string& folder, int64_t keep, const CheckpointInfo& info, Loom& model,
                            Optimizer& optimizer, SpikeGuard& spike_guard) {
  ProcessGroups& groups = model.groups();
  const fs::path path = fs::path(folder) / file_name(info.step);
  const std::string temporary = path.string() + ".tmp";
  const bool writes = groups.world().rank() == 0;
  std::string failure;
  std::optional<h5::File> file;
  if (writes) {
    try {
      fs::create_directories(folder);
      file.emplace(temporary, h5::File::Mode::kCreate);
      write_description(*file, info, spike_guard);
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  TensorWriter writer(groups, model.kernels(), failure.empty() && file ? &*file : nullptr);
  size_t i = 0;
  for (const Parameter& p : model.parameters().all()) {
    const Optimizer::State& state = optimizer.states()[i++];
    writer.write("/model/" + p.name, p, p.value);
    writer.write("/optimizer/first/" + p.name, p, state.first);
    if (state.second.defined()) writer.write("/optimizer/second/" + p.name, p, state.second);
  }
  for (int64_t l = 0; l < model.config().layers; ++l)
    writer.store("/model/" + Loom::balance_bias_name(l), {model.config().moe.experts}, model.balance_bias(l));
  if (failure.empty()) failure = writer.failure();
  if (writes && failure.empty()) {
    try {
      i = 0;
      for (const Parameter& p : model.parameters().all())
        file->write<int64_t>("/optimizer/steps/" + p.name, {}, std::vector<int64_t>{optimizer.states()[i++].steps});
      file->flush();
      file.reset();
      sync_path(temporary);
      fs::rename(temporary, path);
      sync_path(folder);
      publish_text(marker_of(path).string(),
                   nlohmann::json{{"step", info.step}, {"bytes", fs::file_size(path)}}.dump() + "\n");
      remove_old(folder, keep);
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  if (!failure.empty()) {
    file.reset();
    std::error_code ignored;
    fs::remove(temporary, ignored);
    failure = fmt::format("checkpoint '{}' was not saved: {}", path.string(), failure);
  }
  throw_if_any_failed(groups.world(), failure, "older checkpoints are untouched");
  return path.string();
}

std::optional<std::string> newest_checkpoint(const std::string& folder, std::vector<std::string>* ignored) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".h5" || entry.path().extension() == ".tmp") files.push_back(entry.path());
  std::sort(files.rbegin(), files.rend());
  for (const fs::path& file : files) {
    const auto marker = marker_of(file);
    if (file.extension() == ".h5" && fs::exists(marker)) {
      const nlohmann::json json = nlohmann::json::parse(read_text_file(marker.string()), nullptr, false);
      if (json.is_object() && json.contains("bytes") && json["bytes"] == fs::file_size(file)) return file.string();
    }
    if (ignored != nullptr) ignored->push_back(file.string());
  }
  return std::nullopt;
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

namespace {

/// This rank's rows of one tensor.
void read_local(const h5::File& file, const std::string& dataset, const Shape& global, int64_t first,
                const Tensor& local) {
  if (!file.exists(dataset))
    throw Error(fmt::format("'{}' lacks {}", file.path(), dataset),
                "the file is damaged or of another model: use an older checkpoint, or the configuration of its run");
  const h5::Extent found = file.extent(dataset), expected(global.begin(), global.end());
  if (found != expected)
    throw Error(fmt::format("'{}': {} has shape [{}], the model wants [{}]", file.path(), dataset,
                            fmt::join(found, ", "), fmt::join(expected, ", ")),
                "the configuration must have the sizes of the checkpoint");
  file.read_rows(dataset, h5::Type::kFloat32, static_cast<uint64_t>(first), static_cast<uint64_t>(local.dim(0)),
                 local.f32());
}

}  // namespace

void load_model(const std::string& path, Loom& model) {
  const h5::File file(path, h5::File::Mode::kRead);
  for (Parameter& p : model.parameters().all()) read_local(file, "/model/" + p.name, p.global_shape, p.first, p.value);
  for (int64_t l = 0; l < model.config().layers; ++l)
    read_local(file, "/model/" + Loom::balance_bias_name(l), {model.config().moe.experts}, 0, model.balance_bias(l));
}

void load_training_state(const std::string& path, Loom& model, Optimizer& optimizer, SpikeGuard& spike_guard) {
  const h5::File file(path, h5::File::Mode::kRead);
  size_t i = 0;
  for (Parameter& p : model.parameters().all()) {
    Optimizer::State& state = optimizer.states()[i++];
    read_local(file, "/optimizer/first/" + p.name, p.global_shape, p.first, state.first);
    if (state.second.defined())
      read_local(file, "/optimizer/second/" + p.name, p.global_shape, p.first, state.second);
    else if (file.exists("/optimizer/second/" + p.name))
      throw Error(fmt::format("'{}' was written by another optimizer (second moments are there)", path),
                  "keep optimizer.name when resuming");
    state.steps = file.read<int64_t>("/optimizer/steps/" + p.name).at(0);
  }
  const std::vector<double> baselines = file.read<double>("/spike_guard/baseline");
  if (baselines.size() != spike_guard.baselines().size())
    throw Error(fmt::format("'{}' was trained in {} segments, this run has {}", path, baselines.size(),
                            spike_guard.baselines().size()),
                "keep train.segment_loops when resuming");
  for (size_t s = 0; s < baselines.size(); ++s)
    if (!std::isnan(baselines[s])) spike_guard.baselines()[s] = baselines[s];
}

}  // namespace heddle
