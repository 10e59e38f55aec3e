// Batches from a token store. Sample i of a part is the window of tokens [i*S, i*S + S], its S inputs and, shifted by
// one, its S targets. Which sample stands in which row of which step is a function of (seed, step, row) only: no rank
// count, no state, nothing to save but the step.
#pragma once

#include <cstdint>
#include <vector>

#include "data/token_store.h"

namespace heddle {

namespace data {
/// Target that counts for nothing; the same number as in the kernels' cross-entropy.
inline constexpr int32_t kIgnoredTarget = -100;
}  // namespace data

struct LoaderOptions {
  int64_t sequence_length = 256;  ///< S, tokens
  int64_t global_batch = 32;      ///< rows in a step over all ranks
  uint64_t seed = 1;
  bool document_mask = false;  ///< attention stays inside a document
  int64_t unique_tokens = 0;   ///< train on a fixed subset of windows with so many tokens, again and again; 0: on all
};

/// Row-major [rows, S] arrays.
struct Batch {
  int64_t rows = 0;
  int64_t sequence_length = 0;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  std::vector<int32_t> positions;       ///< 0..S-1; with the mask counted from the start of the document in this row
  std::vector<int32_t> document_start;  ///< first column of the document that the column belongs to; 0 without the mask
  std::vector<int64_t> samples;         ///< [rows] sample ids; -1 for a row of padding
  int64_t counted_targets() const;
};

/// Const functions may be called from several threads. The store must outlive the loader.
class Loader {
 public:
  /// Throws UsageError when the train part has fewer tokens than one window; warns when it has fewer samples than a
  /// step.
  Loader(const TokenStore& store, const LoaderOptions& options);

  const LoaderOptions& options() const { return options_; }
  /// Windows of an epoch: all whole ones of the train part, floor((T - 1) / S), or the first floor(unique_tokens / S)
  /// of them in an order that is the same for every seed, so that runs with equal caps see equal text.
  int64_t samples() const { return samples_; }

  /// Sample id of a row of a step: rows count through random permutations of all samples, one for each epoch.
  int64_t sample_of(int64_t step, int64_t row) const;

  /// Train rows [first_row, first_row + rows) of the step's global batch. With the mask, the target behind an end mark
  /// (the next document's first token) is ignored.
  Batch fetch(int64_t step, int64_t first_row, int64_t rows) const;

  /// Windows that cover every target of the part exactly once, in order: ceil((T - 1) / S). The last one may be
  /// partly padding with ignored targets. Throws Error when the part is missing or has fewer than two tokens.
  int64_t eval_samples(Part part) const;

  /// Windows [first, first + rows) of the part; those behind the last are padding as a whole.
  Batch fetch_eval(Part part, int64_t first, int64_t rows) const;

 private:
  void fill_row(Part part, int64_t sample, int64_t row, Batch& batch) const;

  const TokenStore& store_;
  LoaderOptions options_;
  int64_t all_samples_ = 0;  ///< of the train part
  int64_t samples_ = 0;
};

}  // namespace heddle
