// A model and batches small enough to train many times in one test, and how far two tensors are apart.
#pragma once

#include <cmath>
#include <span>

#include "model/looped_model.h"
#include "support/random.h"
#include "train/batches.h"

namespace heddle {

/// D 32, L 2, R 4, E 8 of width 16, k 2, one shared expert, V 61.
inline ModelConfig tiny_model() {
  ModelConfig c;
  c.vocabulary_size = 61;
  c.hidden_size = 32;
  c.layers = 2;
  c.loops = 4;
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.moe = {.experts = 8, .top_k = 2, .shared_experts = 1, .intermediate = 16};
  c.validate();
  return c;
}

/// Rows `range` of the global batch of a step. Every number is a function of (step, row, column); about one target in
/// eight does not count, and some rows hold two documents.
inline TokenBatch tiny_batch(RowRange range, uint32_t step, int64_t sequence = 16, int64_t vocabulary = 61) {
  TokenBatch b{range.count, sequence, {}, {}, {}, {}, {}};
  std::vector<int32_t> tokens, targets, positions, starts;
  const auto words = [&](int64_t row, int64_t column) {
    return random_words(11, Draw::kTest, step, static_cast<uint64_t>(row * (sequence + 1) + column));
  };
  const auto token = [&](int64_t row, int64_t column) {
    return static_cast<int32_t>(words(row, column)[0] % vocabulary);
  };
  for (int64_t r = 0; r < range.count; ++r) {
    const int64_t row = range.first + r;
    const int64_t cut = row % 3 == 1 ? sequence / 3 : sequence;  // where the second document begins
    for (int64_t s = 0; s < sequence; ++s) {
      const int64_t start = s < cut ? 0 : cut;
      tokens.push_back(token(row, s));
      targets.push_back(words(row, s)[1] % 8 == 0 ? kIgnoredTarget : token(row, s + 1));
      positions.push_back(static_cast<int32_t>(s - start));
      starts.push_back(static_cast<int32_t>(start));
    }
  }
  const auto fill = [](Tensor& tensor, const std::vector<int32_t>& values) {
    tensor = Tensor::empty({static_cast<int64_t>(values.size())}, Purpose::kActivations, DType::kInt32);
    tensor.set<int32_t>(values);
  };
  fill(b.tokens, tokens);
  fill(b.targets, targets);
  fill(b.position, positions);
  fill(b.document_start, starts);
  return b;
}

/// |a - b| / |b|; the plain |a - b| where b is zero; NaN if any element is.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  double difference = 0, reference = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    difference += (x - y) * (x - y);
    reference += y * y;
  }
  return reference > 0 ? std::sqrt(difference / reference) : std::sqrt(difference);
}

}  // namespace heddle
