#include "probe/documents.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/batches.h"

namespace heddle {

namespace {

struct Document {
  int64_t first = 0, tokens = 0;
};

std::vector<Document> choose(const TokenStore& store, Part part, int64_t most) {
  std::vector<Document> all;
  int64_t first = 0;
  for (const uint64_t end : store.document_ends(part)) {
    const auto tokens = static_cast<int64_t>(end) - first;
    if (tokens >= 2) all.push_back({first, tokens});
    first = static_cast<int64_t>(end);
  }
  if (all.empty())
    throw Error(fmt::format("nothing to probe: no document of the {} part of '{}' has two tokens", part_name(part),
                            store.path()));
  const auto count = static_cast<int64_t>(all.size()), n = std::min(most, count);
  std::vector<Document> chosen;
  for (int64_t i = 0; i < n; ++i) chosen.push_back(all[static_cast<size_t>(i * count / n)]);
  return chosen;
}

}  // namespace

ProbeDocuments::ProbeDocuments(const TokenStore& store, Part part, const ModelConfig& model,
                               const DocumentOptions& options, int rank, int ranks) {
  const std::vector<Document> chosen = choose(store, part, options.documents);
  for (const Document& document : chosen) {
    before_.push_back(total_);
    tokens_.push_back(std::min(document.tokens - 1, options.sequence));
    sequence_ = std::max(sequence_, tokens_.back());
    total_ += tokens_.back();
  }
  for (const RowRange range : micro_batch_rows(count(), options.micro_batch, rank, ranks)) {
    Batch rows;
    rows.rows = range.count;
    rows.sequence_length = sequence_;
    const auto cells = static_cast<size_t>(range.count * sequence_);
    rows.inputs.assign(cells, 0);
    rows.targets.assign(cells, kIgnoredTarget);
    rows.document_start.assign(cells, 0);
    DocumentBatch batch;
    batch.first = range.first;
    for (int64_t r = 0; r < range.count; ++r) {
      const auto number = static_cast<size_t>(range.first + r);
      const int64_t n = tokens_[number];
      std::vector<int32_t> ids(static_cast<size_t>(n + 1));
      store.copy_tokens(part, chosen[number].first, n + 1, ids.data());
      std::copy(ids.begin(), ids.end() - 1, rows.inputs.begin() + r * sequence_);
      std::copy(ids.begin() + 1, ids.end(), rows.targets.begin() + r * sequence_);
      for (int64_t s = 0; s < sequence_; ++s) rows.positions.push_back(static_cast<int32_t>(s));
      batch.targets.push_back(n);
    }
    batch.tokens = token_batch(rows, {0, range.count});
    add_noise(batch.tokens, model, options.seed, NoiseUse::kEvaluation, range.first);
    batches_.push_back(std::move(batch));
  }
}

Estimate estimate(std::span<const double> values, std::span<const int64_t> tokens) {
  require(values.size() == tokens.size() && !values.empty(), "{} values of {} documents", values.size(), tokens.size());
  double sum = 0, total = 0;
  for (size_t d = 0; d < values.size(); ++d) {
    sum += values[d];
    total += static_cast<double>(tokens[d]);
  }
  const double mean = sum / total, n = static_cast<double>(values.size());
  double squares = 0;
  for (size_t d = 0; d < values.size(); ++d) {
    const double rest = values[d] - mean * static_cast<double>(tokens[d]);
    squares += rest * rest;
  }
  return {mean,
          values.size() < 2 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(n / (n - 1) * squares) / total};
}

void sum_over_ranks(Communicator& world, std::vector<double>& values) {
  world.host().all_reduce_sum(std::span<double>(values));
}

}  // namespace heddle
