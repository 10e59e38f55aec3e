#include "train/batches.h"

#include <algorithm>

#include "support/parallel.h"
#include "support/random.h"

namespace heddle {

std::vector<RowRange> micro_batch_rows(int64_t global_batch, int64_t micro_batch, int rank, int ranks) {
  std::vector<RowRange> ranges;
  for (int64_t first = 0; first < global_batch; first += micro_batch * ranks) {
    const int64_t mine = std::min(first + rank * micro_batch, global_batch);
    ranges.push_back({mine, std::min(mine + micro_batch, global_batch) - mine});
  }
  return ranges;
}

TokenBatch token_batch(const Batch& batch, RowRange range) {
  static_assert(kIgnoredTarget == data::kIgnoredTarget, "loader and loss mark ignored targets alike");
  TokenBatch out{range.count, batch.sequence_length, {}, {}, {}, {}, {}};
  const int64_t first = range.first * batch.sequence_length, count = range.count * batch.sequence_length;
  const auto copy = [&](const std::vector<int32_t>& from) {
    Tensor tensor = Tensor::empty({count}, Purpose::kActivations, DType::kInt32);
    tensor.set<int32_t>({from.data() + first, static_cast<size_t>(count)});
    return tensor;
  };
  out.tokens = copy(batch.inputs);
  out.targets = copy(batch.targets);
  out.position = copy(batch.positions);
  out.document_start = copy(batch.document_start);
  return out;
}

void add_noise(TokenBatch& batch, const ModelConfig& model, uint64_t seed, NoiseUse use, int64_t first_row) {
  if (model.initial_state != InitialState::kNoise) return;
  const int64_t row = batch.sequence * model.hidden_size, count = batch.rows * row;
  batch.noise = Tensor::empty({batch.rows * batch.sequence, model.hidden_size}, Purpose::kActivations);
  std::vector<float> values(static_cast<size_t>(count));
  float* const out = values.data();
  const auto first = static_cast<uint64_t>(first_row * row);
  const auto stream = static_cast<uint32_t>(use);
  const double deviation = model.noise_deviation;
  parallel_for(count, count > kParallelElements, [=](int64_t i) {
    out[i] =
        static_cast<float>(deviation * random_normal(seed, Draw::kNoise, stream, first + static_cast<uint64_t>(i)));
  });
  batch.noise.set<float>(values);
}

}  // namespace heddle
