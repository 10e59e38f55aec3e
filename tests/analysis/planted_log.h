// Logs with known contents: 2 layers, 3 loops, 8 experts of which a token takes 2, 1024 tokens a step.
#pragma once

#include "analysis/run_log.h"

namespace heddle {

inline RunLogHeader planted_header() {
  RunLogHeader h;
  h.config = "[model]\nlayers = 2\n";
  h.layers = 2;
  h.loops = 3;
  h.experts = 8;
  h.top_k = 2;
  h.segments = 1;
  h.balance_rows = 2;
  h.ranks = 2;
  h.expert_parallel = 2;
  h.steps = 100;
  h.warmup_steps = 5;
  h.flops_per_token = 1.5e6;
  return h;
}

/// A healthy step: uniform loads, overlap of half of the choice, a loss that falls with the step.
inline StepRecord planted_step(const RunLogHeader& h, int64_t step) {
  StepRecord r;
  r.step = step;
  r.time = 1.7e9 + static_cast<double>(step);
  r.loss = 5.0 / (1.0 + 0.01 * static_cast<double>(step));
  r.learning_rate = 1e-3;
  r.tokens = 1024;
  r.bytes = 4096;
  r.step_seconds = 0.5;
  r.exchange_bytes = 12345;
  const auto count = [](int64_t n) { return static_cast<size_t>(n); };
  r.segment_loss.assign(count(h.segments), r.loss);
  r.loops = h.loops;
  r.objective.assign(count(h.segments), r.loss + 0.125);
  r.aux_loss.assign(count(h.segments), 1.0);
  r.router_z_loss.assign(count(h.segments), 2.0);
  r.gradient_norm.assign(count(h.segments), 0.25);
  r.skipped.assign(count(h.segments), 0);
  r.state_rms.assign(count(h.loops), 1.0);
  r.block_rms.assign(count(h.loops * h.layers), 1.5);
  r.load.assign(count(h.loops * h.layers * h.experts), 256);
  r.dropped.assign(count(h.loops * h.layers), 0);
  r.overlap.assign(count((h.loops - 1) * h.layers), 0.5);
  r.balance_bias.assign(count(h.layers * h.experts), static_cast<float>(step));
  return r;
}

inline RunLog planted_log(int64_t steps) {
  RunLog log;
  log.header = planted_header();
  for (int64_t s = 1; s <= steps; ++s) log.steps.push_back(planted_step(log.header, s));
  return log;
}

}  // namespace heddle
