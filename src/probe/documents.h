// The documents that a probe looks at: a fixed, evenly spaced choice from a part of a token store, one document a row,
// so that every number can be paired by document and gets a standard error over documents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/probe_result.h"
#include "comm/communicator.h"
#include "data/token_store.h"
#include "model/looped_model.h"

namespace heddle {

/// This rank's rows of one micro-step; rows may be 0. Row r is document first + r.
struct DocumentBatch {
  int64_t first = 0;
  TokenBatch tokens;             ///< columns behind the document's end have ignored targets
  std::vector<int64_t> targets;  ///< [rows] counted targets: the first columns of the row
};

/// An observer that knows whose rows it sees.
class DocumentObserver : public ForwardObserver {
 public:
  void begin(const DocumentBatch& batch) { batch_ = &batch; }  ///< before each forward pass

 protected:
  const DocumentBatch& batch() const { return *batch_; }

 private:
  const DocumentBatch* batch_ = nullptr;
};

struct DocumentOptions {
  int64_t documents = 64;  ///< at most
  int64_t sequence = 256;  ///< columns at most; of a longer document the first sequence + 1 tokens
  int64_t micro_batch = 8;
  uint64_t seed = 0;  ///< of the initial state, where it is noise
};

/// The choice and this rank's share of it; the same number of micro-steps on every rank.
class ProbeDocuments {
 public:
  /// Documents i * D / n of the D that have two tokens or more, i = 0 .. n - 1. Throws Error when there is none.
  ProbeDocuments(const TokenStore& store, Part part, const ModelConfig& model, const DocumentOptions& options, int rank,
                 int ranks);

  int64_t count() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t sequence() const { return sequence_; }  ///< columns of every row
  int64_t total_tokens() const { return total_; }
  const std::vector<int64_t>& tokens() const { return tokens_; }  ///< [count] counted targets
  /// Targets of documents 0 .. document - 1.
  int64_t tokens_before(int64_t document) const { return before_.at(static_cast<size_t>(document)); }
  const std::vector<DocumentBatch>& batches() const { return batches_; }

 private:
  std::vector<int64_t> tokens_, before_;
  int64_t sequence_ = 0, total_ = 0;
  std::vector<DocumentBatch> batches_;
};

/// sum of values over sum of tokens, and its standard error by linearisation:
/// sqrt(n / (n - 1) sum_d (values_d - mean tokens_d)^2) / sum tokens.
Estimate estimate(std::span<const double> values, std::span<const int64_t> tokens);

/// Sums [count] over ranks; every document is on one of them. Collective.
void sum_over_ranks(Communicator& world, std::vector<double>& values);

}  // namespace heddle
