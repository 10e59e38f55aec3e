#include "train/checkpoint_tensors.h"

#include <bit>
#include <cmath>

#include "support/hash.h"

namespace heddle {

namespace {

/// Elements [first, first + held.size()) of the global tensor, of which rank r of n equal holders writes a part.
StoredTensor shared_tensor(std::string dataset, const Shape& shape, int64_t first, const Tensor& held,
                           const Communicator& holders) {
  const int64_t count = held.count();
  const int64_t begin = count * holders.rank() / holders.size(), end = count * (holders.rank() + 1) / holders.size();
  return {std::move(dataset), shape, first, held, first + begin, held.flat(begin, {end - begin})};
}

Communicator& holders_of(ProcessGroups& groups, Sharing sharing) {
  return sharing == Sharing::kExpert ? groups.expert_replicas() : groups.world();
}

std::string missing_hint() {
  return "the file is damaged or of another model: use an older checkpoint, or the configuration of its run";
}

void read_held(const h5::File& file, const StoredTensor& tensor) {
  if (!file.exists(tensor.dataset))
    throw Error(fmt::format("'{}' lacks {}", file.path(), tensor.dataset), missing_hint());
  const h5::Extent found = file.extent(tensor.dataset), expected(tensor.shape.begin(), tensor.shape.end());
  if (found != expected)
    throw Error(fmt::format("'{}': {} has shape [{}], the model wants [{}]", file.path(), tensor.dataset,
                            fmt::join(found, ", "), fmt::join(expected, ", ")),
                "the configuration must have the sizes of the checkpoint");
  if (!file.has_attribute(tensor.dataset, kChecksumAttribute))
    throw Error(fmt::format("'{}': {} has no checksum", file.path(), tensor.dataset), missing_hint());
  std::vector<float> read(static_cast<size_t>(tensor.held.count()));
  file.read_elements(tensor.dataset, h5::Type::kFloat32, static_cast<uint64_t>(tensor.held_first), read.size(),
                     read.data());
  tensor.held.set<float>(read);
}

std::vector<int64_t> sums_over_ranks(Communicator& world, const std::vector<StoredTensor>& tensors) {
  std::vector<int64_t> sums;
  for (const StoredTensor& t : tensors) {
    const Tensor written = t.written.on_host();
    sums.push_back(std::bit_cast<int64_t>(position_checksum(static_cast<uint64_t>(t.written_first), written.f32(),
                                                            static_cast<size_t>(written.count()))));
  }
  world.all_reduce_sum(std::span<int64_t>(sums));
  return sums;
}

}  // namespace

std::vector<StoredTensor> model_tensors(LoopedModel& model) {
  std::vector<StoredTensor> tensors;
  for (const Parameter& p : model.parameters().all())
    tensors.push_back(shared_tensor("/model/" + p.name, p.global_shape, p.global_offset(), p.value,
                                    holders_of(model.groups(), p.sharing)));
  for (int64_t l = 0; l < model.stored_moe_layers(); ++l)
    tensors.push_back(shared_tensor("/model/" + model.balance_bias_name(l), model.balance_bias(l).shape(), 0,
                                    model.balance_bias(l), model.groups().world()));
  return tensors;
}

std::vector<StoredTensor> optimizer_tensors(LoopedModel& model, Optimizer& optimizer) {
  std::vector<StoredTensor> tensors;
  for (const Parameter& p : model.parameters().all()) {
    for (const Optimizer::StateTensor& t : optimizer.state_tensors(p)) {
      std::string dataset = fmt::format("/optimizer/{}/{}", t.kind, p.name);
      const Tensor& values = t.values;
      if (optimizer.shards().enabled())
        tensors.push_back({std::move(dataset), t.global_shape, t.first, values, t.first, values});
      else
        tensors.push_back(
            shared_tensor(std::move(dataset), t.global_shape, t.first, values, holders_of(model.groups(), p.sharing)));
    }
  }
  return tensors;
}

std::vector<uint64_t> checksums(Communicator& world, const Kernels& kernels, const std::vector<StoredTensor>& tensors) {
  std::string failure;
  for (const StoredTensor& t : tensors)
    if (failure.empty() && !std::isfinite(kernels.sum_of_squares(t.written.count(), t.written.reals())))
      failure = fmt::format("{} holds values that are not finite", t.dataset);
  throw_if_any_failed(world, failure);
  std::vector<uint64_t> sums;
  for (const int64_t sum : sums_over_ranks(world, tensors)) sums.push_back(std::bit_cast<uint64_t>(sum));
  return sums;
}

void create_tensors(h5::File& file, const std::vector<StoredTensor>& tensors, const std::vector<uint64_t>& sums) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    file.create(tensors[i].dataset, h5::Type::kFloat32, h5::Extent(tensors[i].shape.begin(), tensors[i].shape.end()));
    file.set_attribute(tensors[i].dataset, kChecksumAttribute, std::bit_cast<int64_t>(sums[i]));
  }
}

void write_own_elements(h5::File& file, const std::vector<StoredTensor>& tensors) {
  for (const StoredTensor& t : tensors) {
    const Tensor written = t.written.on_host();
    file.write_elements(t.dataset, h5::Type::kFloat32, static_cast<uint64_t>(t.written_first),
                        static_cast<size_t>(written.count()), written.f32());
  }
}

std::string write_by_one(Communicator& world, h5::File* file, const std::vector<StoredTensor>& tensors) {
  const auto ranks = static_cast<size_t>(world.size());
  std::string failure;
  for (const StoredTensor& t : tensors) {
    const int64_t own[2] = {t.written_first, t.written.count()};
    std::vector<int64_t> parts(2 * ranks), send(ranks, 0), receive(ranks, 0);
    world.all_gather(own, sizeof own, parts.data());
    send[0] = own[1];
    int64_t total = 0;
    if (world.rank() == 0)
      for (size_t r = 0; r < ranks; ++r) total += receive[r] = parts[2 * r + 1];
    std::vector<float> whole(static_cast<size_t>(total));
    world.host().exchange_rows(t.written.on_host().f32(), send, whole.data(), receive, sizeof(float));
    if (file == nullptr || !failure.empty()) continue;
    const float* next = whole.data();
    try {
      for (size_t r = 0; r < ranks; ++r) {
        file->write_elements(t.dataset, h5::Type::kFloat32, static_cast<uint64_t>(parts[2 * r]),
                             static_cast<uint64_t>(receive[r]), next);
        next += receive[r];
      }
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  return failure;
}

void read_tensors(Communicator& world, const std::string& path, const std::vector<StoredTensor>& tensors) {
  std::vector<int64_t> expected;
  reading_together(world, [&] {
    const h5::File file(path, h5::File::Mode::kRead);
    for (const StoredTensor& t : tensors) {
      read_held(file, t);
      expected.push_back(file.integer_attribute(t.dataset, kChecksumAttribute));
    }
  });
  const std::vector<int64_t> sums = sums_over_ranks(world, tensors);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (sums[i] != expected[i])
      throw DamagedCheckpoint(fmt::format("'{}': {} is damaged, its checksum differs", path, tensors[i].dataset),
                              "use an older checkpoint: heddle inspect FILE --check says which are whole");
}

}  // namespace heddle
