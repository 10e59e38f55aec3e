// Logs with known contents: 2 layers, 3 loops, 8 experts of which a token takes 2, 1024 tokens a step.
#pragma once

#include <cmath>

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
  h.statistics_interval = 10;
  h.purposes = {"weights", "activations"};
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

/// A healthy look: every second expert kept from loop to loop, routers that differ, a state that still moves.
inline StatisticsRecord planted_look(const RunLogHeader& h, int64_t step) {
  StatisticsRecord r;
  r.step = step;
  const auto loops = static_cast<size_t>(h.loops), layers = static_cast<size_t>(h.layers);
  const double none = std::nan("");
  r.update_rms.assign(loops, 0.5);
  r.relative_update.assign(loops, 0.5);
  r.cosine_back.assign(loops * 3, none);
  for (size_t t = 0; t < loops; ++t)
    for (size_t back = 0; back <= t && back < 3; ++back) r.cosine_back[t * 3 + back] = 0.75;
  r.cosine_embedding.assign(loops, 0.25);
  r.token_cosine.assign(loops, 0.125);
  for (auto* branch : {&r.attention_rms, &r.feed_forward_rms, &r.carry_rms}) branch->assign(loops * layers, 0.5);
  if (h.experts == 0) return r;
  r.flipped.assign(loops * layers, 0.125);
  r.router_logit_max.assign(loops * layers, 2);
  r.router_z.assign(loops * layers, 3);
  r.token_entropy.assign(loops * layers, 0.5);
  for (size_t cell = 0; cell < loops * layers; ++cell) {
    const size_t loop = cell / layers;
    r.distinct.push_back(2 + static_cast<double>(loop));
    r.router_agreement.push_back(loop == 0 ? none : 0.625);
    r.state_agreement.push_back(loop == 0 ? none : 0.75);
  }
  for (auto* pairs : {&r.router_cosine, &r.pair_overlap, &r.pair_jaccard, &r.weight_overlap})
    for (size_t at = 0; at < loops * loops * layers; ++at)
      pairs->push_back(at / layers / loops == at / layers % loops ? 1 : 0.5);
  return r;
}

inline RunLog planted_log(int64_t steps) {
  RunLog log;
  log.header = planted_header();
  for (int64_t s = 1; s <= steps; ++s) log.steps.push_back(planted_step(log.header, s));
  for (int64_t s = log.header.statistics_interval; s <= steps; s += log.header.statistics_interval)
    log.looks.push_back(planted_look(log.header, s));
  return log;
}

}  // namespace heddle
