// The tables of a run log: which dataset holds which member of a record, and how large its rows are (docs/run_log.md).
#pragma once

#include "analysis/run_log.h"
#include "support/hdf5.h"

namespace heddle::run_log {

/// The rows of one kind of record. visit_values calls visit(dataset, row extent, member) for every column but the key,
/// the number of the step, which is written last. A column of one number has the row extent [].
template <typename Record>
struct Table;

inline uint64_t size_of(int64_t n) {
  return static_cast<uint64_t>(n);
}

template <>
struct Table<StepRecord> {
  static constexpr char kKey[] = "/step";
  template <typename Visit>
  static void visit_values(const RunLogHeader& h, Visit&& visit) {
    const uint64_t loops = size_of(h.loops), layers = size_of(h.layers), experts = size_of(h.experts);
    const uint64_t segments = size_of(h.segments);
    visit("/time", h5::Extent{}, &StepRecord::time);
    visit("/loss", h5::Extent{}, &StepRecord::loss);
    visit("/loops", h5::Extent{}, &StepRecord::loops);
    visit("/learning_rate", h5::Extent{}, &StepRecord::learning_rate);
    visit("/tokens", h5::Extent{}, &StepRecord::tokens);
    visit("/bytes", h5::Extent{}, &StepRecord::bytes);
    visit("/step_seconds", h5::Extent{}, &StepRecord::step_seconds);
    visit("/exchange_bytes", h5::Extent{}, &StepRecord::exchange_bytes);
    visit("/segment_loss", h5::Extent{segments}, &StepRecord::segment_loss);
    visit("/objective", h5::Extent{segments}, &StepRecord::objective);
    visit("/gradient_norm", h5::Extent{segments}, &StepRecord::gradient_norm);
    visit("/skipped", h5::Extent{segments}, &StepRecord::skipped);
    visit("/state_rms", h5::Extent{loops}, &StepRecord::state_rms);
    visit("/block_rms", h5::Extent{loops, layers}, &StepRecord::block_rms);
    if (h.experts == 0) return;
    visit("/aux_loss", h5::Extent{segments}, &StepRecord::aux_loss);
    visit("/router_z_loss", h5::Extent{segments}, &StepRecord::router_z_loss);
    visit("/load", h5::Extent{loops, layers, experts}, &StepRecord::load);
    visit("/dropped", h5::Extent{loops, layers}, &StepRecord::dropped);
    if (loops > 1) visit("/overlap", h5::Extent{loops - 1, layers}, &StepRecord::overlap);
    visit("/balance_bias", h5::Extent{size_of(h.balance_rows), experts}, &StepRecord::balance_bias);
  }
};

template <>
struct Table<StatisticsRecord> {
  static constexpr char kKey[] = "/statistics/step";
  template <typename Visit>
  static void visit_values(const RunLogHeader& h, Visit&& visit) {
    const uint64_t loops = size_of(h.loops), layers = size_of(h.layers);
    visit("/statistics/update_rms", h5::Extent{loops}, &StatisticsRecord::update_rms);
    visit("/statistics/relative_update", h5::Extent{loops}, &StatisticsRecord::relative_update);
    visit("/statistics/cosine_back", h5::Extent{loops, 3}, &StatisticsRecord::cosine_back);
    visit("/statistics/cosine_embedding", h5::Extent{loops}, &StatisticsRecord::cosine_embedding);
    visit("/statistics/token_cosine", h5::Extent{loops}, &StatisticsRecord::token_cosine);
    const h5::Extent cells{loops, layers}, pairs{loops, loops, layers};
    visit("/statistics/attention_rms", cells, &StatisticsRecord::attention_rms);
    visit("/statistics/feed_forward_rms", cells, &StatisticsRecord::feed_forward_rms);
    visit("/statistics/carry_rms", cells, &StatisticsRecord::carry_rms);
    if (h.experts == 0) return;
    visit("/statistics/flipped", cells, &StatisticsRecord::flipped);
    visit("/statistics/router_logit_max", cells, &StatisticsRecord::router_logit_max);
    visit("/statistics/router_z", cells, &StatisticsRecord::router_z);
    visit("/statistics/token_entropy", cells, &StatisticsRecord::token_entropy);
    visit("/statistics/distinct", cells, &StatisticsRecord::distinct);
    visit("/statistics/router_agreement", cells, &StatisticsRecord::router_agreement);
    visit("/statistics/state_agreement", cells, &StatisticsRecord::state_agreement);
    visit("/statistics/router_cosine", pairs, &StatisticsRecord::router_cosine);
    visit("/statistics/pair_overlap", pairs, &StatisticsRecord::pair_overlap);
    visit("/statistics/pair_jaccard", pairs, &StatisticsRecord::pair_jaccard);
    visit("/statistics/weight_overlap", pairs, &StatisticsRecord::weight_overlap);
  }
};

template <>
struct Table<MemoryRecord> {
  static constexpr char kKey[] = "/memory/step";
  template <typename Visit>
  static void visit_values(const RunLogHeader& h, Visit&& visit) {
    visit("/memory/peak", h5::Extent{h.purposes.size()}, &MemoryRecord::peak);
    visit("/memory/planned", h5::Extent{h.purposes.size()}, &MemoryRecord::planned);
    visit("/memory/total_peak", h5::Extent{}, &MemoryRecord::total_peak);
    visit("/memory/total_planned", h5::Extent{}, &MemoryRecord::total_planned);
  }
};

template <>
struct Table<ValidationRecord> {
  static constexpr char kKey[] = "/validation/step";
  template <typename Visit>
  static void visit_values(const RunLogHeader&, Visit&& visit) {
    visit("/validation/loss", h5::Extent{}, &ValidationRecord::loss);
    visit("/validation/bits_per_byte", h5::Extent{}, &ValidationRecord::bits_per_byte);
    visit("/validation/targets", h5::Extent{}, &ValidationRecord::targets);
  }
};

/// The values and then the key.
template <typename Record, typename Visit>
void visit_columns(const RunLogHeader& h, Visit&& visit) {
  Table<Record>::visit_values(h, visit);
  visit(Table<Record>::kKey, h5::Extent{}, &Record::step);
}

/// Calls visit(Record{}) for every kind of record, so that a new table needs no other list.
template <typename Visit>
void visit_tables(Visit&& visit) {
  visit(StepRecord{});
  visit(StatisticsRecord{});
  visit(MemoryRecord{});
  visit(ValidationRecord{});
}

}  // namespace heddle::run_log
