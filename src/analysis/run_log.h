// The log of a run: one HDF5 file that grows by a row per step and can be read while it is written (SWMR). Schema:
// docs/run_log.md. One rank writes; readers take the smallest common number of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/file_lock.h"
#include "support/hdf5.h"

namespace heddle {

/// What does not change during a run.
struct RunLogHeader {
  std::string config;   ///< resolved configuration, INI
  int64_t layers = 0;   ///< of the core
  int64_t loops = 0;    ///< the most that a step can run
  int64_t experts = 0;  ///< 0: dense layers only, and no columns about routing
  int64_t top_k = 0, segments = 0;
  int64_t balance_rows = 0;  ///< balance biases of all stored layers, [balance_rows, experts]
  int64_t ranks = 0, expert_parallel = 0;
  int64_t steps = 0;  ///< planned
  int64_t warmup_steps = 0;
  double flops_per_token = 0;
  int64_t statistics_interval = 0;    ///< steps between looks; 0: none
  std::vector<std::string> purposes;  ///< of memory
};

/// One global step; numbers are over all ranks and micro-batches.
struct StepRecord {
  int64_t step = 0;   ///< from 1
  double time = 0;    ///< Unix seconds at the end of the step
  int64_t loops = 0;  ///< that were run
  double loss = 0;    ///< nats per token: cross-entropy after the last loop of the last segment that ran
  double learning_rate = 0;
  double tokens = 0;  ///< targets counted in the loss
  double bytes = 0;   ///< text bytes of these targets
  double step_seconds = 0;
  double exchange_bytes = 0;         ///< rows handed to other ranks in this step, all ranks
  std::vector<double> segment_loss;  ///< [segments] as loss; NaN for a segment that did not run
  std::vector<double> objective;     ///< [segments] what was differentiated: weighted and with all extra terms
  std::vector<double> aux_loss, router_z_loss;  ///< [segments] before their coefficients; with experts only
  std::vector<double> gradient_norm;            ///< [segments], before clipping
  std::vector<int64_t> skipped;                 ///< [segments] 1: no update
  std::vector<double> state_rms;                ///< [loops] before the loop-end norm
  std::vector<double> block_rms;                ///< [loops, layers] of the stream before the norm that ends the block
  std::vector<int64_t> load;                    ///< [loops, layers, experts] slots kept
  std::vector<int64_t> dropped;                 ///< [loops, layers]
  std::vector<double> overlap;                  ///< [loops - 1, layers]
  std::vector<float> balance_bias;              ///< [balance_rows, experts] after the step
};

/// A look at one global step (statistics.interval), over all ranks and micro-batches; NaN for what was not run. Pairs
/// of loops are [loops, loops], symmetric, with themselves on the diagonal.
struct StatisticsRecord {
  int64_t step = 0;
  // Of the choice; with experts only.
  std::vector<double> flipped;           ///< [loops, layers] share of slots that the choice without bias would not take
  std::vector<double> router_logit_max;  ///< [loops, layers]
  std::vector<double> router_z;          ///< [loops, layers] mean over tokens of logsumexp(logits)^2
  std::vector<double> token_entropy;  ///< [loops, layers] mean over tokens, nats, of the mixing weights over their sum
  std::vector<double> distinct;       ///< [loops, layers] experts that a token met in loops 1 .. t, mean over tokens
  std::vector<double>
      router_agreement;                 ///< [loops, layers] of the choice with what the router of the loop before takes
  std::vector<double> state_agreement;  ///< [loops, layers] of the latter with what that router took in its own loop
  std::vector<double> router_cosine;    ///< [loops, loops, layers] between the weights of the routers
  std::vector<double> pair_overlap;     ///< [loops, loops, layers] |both| / k, mean over tokens
  std::vector<double> pair_jaccard;     ///< [loops, loops, layers] |both| / |either|
  std::vector<double> weight_overlap;   ///< [loops, loops, layers] sum_e min(p, q) of the mixing weights over their sum
  // Of the state at the end of a loop, on every statistics.stride-th token of a sequence.
  std::vector<double> update_rms;        ///< [loops] of h_t - h_(t-1); h_0 is the embedding
  std::vector<double> relative_update;   ///< [loops] |h_t - h_(t-1)| / |h_(t-1)|, norms over all tokens
  std::vector<double> cosine_back;       ///< [loops, 3] mean over tokens of cos(h_t, h_(t-1)), h_(t-2), h_(t-3)
  std::vector<double> cosine_embedding;  ///< [loops]
  std::vector<double> token_cosine;      ///< [loops] mean over all pairs of tokens
  // Root mean squares over all tokens and channels.
  std::vector<double> attention_rms, feed_forward_rms;  ///< [loops, layers] of the branches before scale and post norm
  std::vector<double> carry_rms;                        ///< [loops, layers] of the looping residual that the visit adds
};

/// Tensor bytes by purpose, each the largest over ranks.
struct MemoryRecord {
  int64_t step = 0;
  std::vector<int64_t> peak;                  ///< [purposes] of the session so far
  std::vector<int64_t> planned;               ///< [purposes]
  int64_t total_peak = 0, total_planned = 0;  ///< the peak of the sum is not the sum of the peaks
};

struct ValidationRecord {
  int64_t step = 0;
  double loss = 0;  ///< nats per token, all loops
  double bits_per_byte = 0;
  int64_t targets = 0;
};

class RunLogWriter {
 public:
  /// A new log. Refuses when another living process writes it.
  static RunLogWriter create(const std::string& path, const RunLogHeader& header);
  /// Goes on with an existing log: keeps rows of steps up to last_step. The header's sizes must fit.
  static RunLogWriter resume(const std::string& path, const RunLogHeader& header, int64_t last_step);
  RunLogWriter(RunLogWriter&&) noexcept;
  ~RunLogWriter();

  /// Throws Error when the row was not written, or the disk is about to be full.
  void append(const StepRecord& record);
  void append(const StatisticsRecord& record);
  void append(const MemoryRecord& record);
  void append(const ValidationRecord& record);

 private:
  RunLogWriter(std::unique_ptr<FileLock> lock, h5::File file, const RunLogHeader& header);
  template <typename Record>
  void append_row(const Record& record);
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<h5::File> file_;
  RunLogHeader header_;
  uint64_t row_bytes_ = 0;
};

/// A whole log in memory.
struct RunLog {
  RunLogHeader header;
  std::vector<StepRecord> steps;
  std::vector<StatisticsRecord> looks;
  std::vector<MemoryRecord> memory;
  std::vector<ValidationRecord> validations;

  /// Reads a log, also one that is being written or whose writer was killed.
  static RunLog open(const std::string& path);
};

}  // namespace heddle
