// A run with known contents at the size of a real one: 4 layers, 9 loops, 30 experts of which a token takes 4; and a
// probe of it. The numbers vary smoothly, so that every chart has something to show.
#pragma once

#include <cmath>

#include "analysis/planted_log.h"
#include "report/sections.h"

namespace heddle {

inline RunLogHeader large_header() {
  RunLogHeader h = planted_header();
  h.config = "[model]\nlayers = 4\nloops = 9\n[moe]\nexperts = 30\ntop_k = 4\n[optimizer]\nlearning_rate = 0.003\n";
  h.layers = 4;
  h.loops = 9;
  h.experts = 30;
  h.top_k = 4;
  h.segments = 3;
  h.balance_rows = 4;
  h.steps = 20000;
  h.purposes = {"weights", "gradients", "optimizer", "activations", "exchange"};
  return h;
}

/// A run of `steps` steps in which each loop prefers other experts, more so as time goes on.
inline RunLog large_log(int64_t steps) {
  RunLog log;
  log.header = large_header();
  const RunLogHeader& h = log.header;
  for (int64_t s = 1; s <= steps; ++s) {
    StepRecord r = planted_step(h, s);
    const double done = static_cast<double>(s) / static_cast<double>(steps);
    r.loss = 2.5 + 3 * std::exp(-5 * done) + 0.1 * std::sin(static_cast<double>(7 * s));
    for (size_t g = 0; g < 3; ++g) r.segment_loss[g] = r.loss + 0.2 * (2 - static_cast<double>(g));
    for (size_t i = 0; i < r.load.size(); ++i) {
      const double expert = static_cast<double>(i % 30), loop = static_cast<double>(i / 120);
      r.load[i] = static_cast<int64_t>(256 * (1 + 0.8 * done * std::sin(expert * 0.4 + loop)) + 1);
    }
    for (size_t i = 0; i < r.overlap.size(); ++i)
      r.overlap[i] = 0.9 - 0.6 * done + 0.02 * static_cast<double>(i % 4) - 0.01 * static_cast<double>(i / 4);
    for (size_t i = 0; i < r.block_rms.size(); ++i) r.block_rms[i] = 1 + 0.05 * static_cast<double>(i / 4);
    for (size_t i = 0; i < r.state_rms.size(); ++i) r.state_rms[i] = 1 + 0.1 * done * static_cast<double>(i);
    log.steps.push_back(std::move(r));
  }
  for (int64_t s = std::max<int64_t>(steps / 100, 1); s <= steps; s += std::max<int64_t>(steps / 100, 1)) {
    StatisticsRecord r = planted_look(h, s);
    const double done = static_cast<double>(s) / static_cast<double>(steps);
    for (size_t t = 0; t < 9; ++t) {
      r.update_rms[t] = 1 / (1 + static_cast<double>(t));
      r.relative_update[t] = (1 + done) / (1 + static_cast<double>(t));
    }
    for (size_t i = 0; i < r.pair_overlap.size(); ++i) {
      const double apart = std::abs(static_cast<double>(i / 36) - static_cast<double>(i / 4 % 9));
      r.pair_overlap[i] = std::exp(-0.3 * done * apart);
    }
    for (size_t i = 0; i < r.distinct.size(); ++i) r.distinct[i] = 4 + 1.5 * static_cast<double>(i / 4);
    log.looks.push_back(std::move(r));
  }
  log.memory.push_back({1,
                        {100 << 20, 100 << 20, 200 << 20, 900 << 20, 50 << 20},
                        {100 << 20, 100 << 20, 200 << 20, 1000 << 20, 60 << 20},
                        1300 << 20,
                        1400 << 20});
  for (int64_t s = 1; s <= 10; ++s)
    log.validations.push_back(
        {s * steps / 10, 3 - 0.05 * static_cast<double>(s), 1.5 - 0.02 * static_cast<double>(s), 5000});
  return log;
}

inline ProbeResult large_probe() {
  ProbeResult p;
  p.checkpoint = "step_00020000.h5";
  p.loops = 9;
  p.layers = 4;
  p.experts = 30;
  p.top_k = 4;
  p.loss = {2.5, 0.02};
  const auto effect = [](int64_t loop, int64_t other, int64_t layer, int64_t expert, double change) {
    Effect e;
    e.loop = loop;
    e.other_loop = other;
    e.layer = layer;
    e.expert = expert;
    e.change = {change, 0.01};
    return e;
  };
  for (int64_t t = 0; t < 9; ++t) {
    const double x = static_cast<double>(t);
    p.loss_by_loop.push_back({t + 1, {2.5 + std::exp(-x), 0.02}});
    p.skipped_loops.push_back(effect(t, -1, -1, -1, 0.5 / (1 + x)));
    p.one_router.push_back(effect(t, -1, -1, -1, 0.1 + 0.02 * x));
    p.loop_counts.push_back(effect(-1, -1, -1, -1, 0.3 / (1 + x)));
    p.loop_counts.back().loops = t + 1;
    for (int64_t l = 0; l < 4; ++l) p.skipped_blocks.push_back(effect(t, -1, l, -1, 0.2 / (1 + x) - 0.02));
    for (int64_t u = t + 1; u < 9; ++u) {
      p.router_swaps.push_back(effect(t, u, -1, -1, 0.02 * static_cast<double>(u - t)));
      p.router_swaps.push_back(effect(t, u, 0, -1, 0.01 * static_cast<double>(u - t)));
    }
  }
  p.depth.entries.push_back({"embedding", -1, -1, {6, 0.1}, {9, 0.1}});
  for (int64_t t = 0; t < 9; ++t)
    for (int64_t l = 0; l < 4; ++l)
      p.depth.entries.push_back({"core", t, l, {8.0 / (1 + 0.3 * static_cast<double>(4 * t + l)), 0.05}, {5, 0.05}});
  p.depth.peak = 1;
  p.depth.effective_depth = 11;
  for (int64_t l = 0; l < 4; ++l) {
    p.skipped_layers.push_back(effect(-1, -1, l, -1, 0.4 + 0.1 * static_cast<double>(l)));
    p.skipped_experts.push_back(effect(-1, -1, l, 7, 0.01 * static_cast<double>(l + 1)));
    p.information.push_back({"core." + std::to_string(l), 1000, 3, {0.8, 0.1}, {0.3, 0.01}, {0.5, 0.1}});
    p.gradients.matrices.push_back({"core." + std::to_string(l) + ".attn.q_proj.weight", {0, 1}, {1, 1}, 1.5, 1.2});
  }
  p.gradients.kappas.push_back({"core", {0, 1}, {1, 1}, {1, 1}, 0.7, 2});
  return p;
}

}  // namespace heddle
