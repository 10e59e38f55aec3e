#include "data/loader.h"

#include <algorithm>

#include "support/error.h"
#include "support/log.h"
#include "support/narrow.h"
#include "support/random.h"

namespace heddle {

namespace {

Batch empty_batch(int64_t rows, int64_t sequence_length, uint32_t padding) {
  Batch batch;
  batch.rows = rows;
  batch.sequence_length = sequence_length;
  const auto size = static_cast<size_t>(rows * sequence_length);
  batch.inputs.assign(size, static_cast<int32_t>(padding));
  batch.targets.assign(size, data::kIgnoredTarget);
  batch.positions.resize(size);
  batch.document_start.resize(size);
  batch.samples.resize(static_cast<size_t>(rows));
  return batch;
}

}  // namespace

int64_t Batch::counted_targets() const {
  return static_cast<int64_t>(targets.size()) - std::count(targets.begin(), targets.end(), data::kIgnoredTarget);
}

Loader::Loader(const TokenStore& store, const LoaderOptions& options) : store_(store), options_(options) {
  if (options.sequence_length < 1 || options.global_batch < 1)
    throw UsageError(fmt::format("sequence length {} and global batch {} must be at least 1", options.sequence_length,
                                 options.global_batch));
  const int64_t tokens = store.tokens(Part::kTrain);
  samples_ = (tokens - 1) / options.sequence_length;
  if (samples_ < 1)
    throw UsageError(
        fmt::format("token store '{}' has {} train tokens, but one sample of {} inputs needs {}", store.path(), tokens,
                    options.sequence_length, options.sequence_length + 1),
        fmt::format("train.sequence_length can be up to {} here; a longer one wants a store of more text: heddle data "
                    "build TEXTS -o STORE",
                    tokens - 1));
  all_samples_ = samples_;
  if (options.unique_tokens > 0) {
    samples_ = options.unique_tokens / options.sequence_length;
    if (samples_ < 1 || samples_ > all_samples_)
      throw UsageError(
          fmt::format("data.unique_tokens = {} is {} windows of {} tokens; the train part of '{}' has {}",
                      options.unique_tokens, samples_, options.sequence_length, store.path(), all_samples_),
          fmt::format("use {} to {}, or 0 for all", options.sequence_length, all_samples_ * options.sequence_length));
  }
  if (samples_ < options.global_batch)
    log_warning(
        fmt::format("an epoch has {} samples of {} tokens, less than the {} rows of a step: an epoch is shorter "
                    "than a step, so rows repeat within it",
                    samples_, options.sequence_length, options.global_batch));
}

int64_t Loader::sample_of(int64_t step, int64_t row) const {
  require(step >= 0 && row >= 0 && row < options_.global_batch, "row {} of step {}", row, step);
  const int64_t global = step * options_.global_batch + row;
  const auto epoch = narrow<uint32_t>(global / samples_);
  const uint64_t place = random_permutation(options_.seed, epoch, static_cast<uint64_t>(samples_),
                                            static_cast<uint64_t>(global % samples_));
  if (samples_ == all_samples_) return static_cast<int64_t>(place);
  constexpr uint64_t kSubsetSeed = 0;
  constexpr uint32_t kSubsetStream = UINT32_MAX;  // no epoch's
  return static_cast<int64_t>(
      random_permutation(kSubsetSeed, kSubsetStream, static_cast<uint64_t>(all_samples_), place));
}

void Loader::fill_row(Part part, int64_t sample, int64_t row, Batch& batch) const {
  const int64_t length = options_.sequence_length;
  const auto offset = static_cast<size_t>(row * length);
  int32_t* inputs = batch.inputs.data() + offset;
  int32_t* targets = batch.targets.data() + offset;
  const int64_t available = store_.tokens(part) - 1 - sample * length;
  const int64_t count = std::clamp<int64_t>(available, 0, length);
  batch.samples[static_cast<size_t>(row)] = count > 0 ? sample : -1;
  if (count > 0) {
    store_.copy_tokens(part, sample * length, count, inputs);
    store_.copy_tokens(part, sample * length + 1, count, targets);
  }
  const auto end_mark = static_cast<int32_t>(store_.end_of_document());
  int32_t start = 0;
  for (int64_t column = 0; column < length; ++column) {
    const size_t at = offset + static_cast<size_t>(column);
    batch.document_start[at] = start;
    batch.positions[at] = static_cast<int32_t>(column) - start;
    if (options_.document_mask && column < count && inputs[column] == end_mark) {
      targets[column] = data::kIgnoredTarget;
      start = static_cast<int32_t>(column) + 1;
    }
  }
}

Batch Loader::fetch(int64_t step, int64_t first_row, int64_t rows) const {
  Batch batch = empty_batch(rows, options_.sequence_length, store_.end_of_document());
  for (int64_t row = 0; row < rows; ++row) fill_row(Part::kTrain, sample_of(step, first_row + row), row, batch);
  return batch;
}

int64_t Loader::eval_samples(Part part) const {
  store_.require_part(part);
  if (store_.tokens(part) < 2)
    throw Error(fmt::format("the {} part of '{}' has {} token, so nothing can be predicted", part_name(part),
                            store_.path(), store_.tokens(part)),
                "use more text");
  return div_up(store_.tokens(part) - 1, options_.sequence_length);
}

Batch Loader::fetch_eval(Part part, int64_t first, int64_t rows) const {
  store_.require_part(part);
  Batch batch = empty_batch(rows, options_.sequence_length, store_.end_of_document());
  for (int64_t row = 0; row < rows; ++row) fill_row(part, first + row, row, batch);
  return batch;
}

}  // namespace heddle
