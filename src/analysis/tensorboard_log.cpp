#include "analysis/tensorboard_log.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <span>

#include "analysis/routing_metrics.h"
#include "support/error.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Names sort by time, which is the order that readers take files in.
std::string file_in(const std::string& folder, int64_t done) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("the folder '{}' cannot be made: {}", folder, error.message());
  return (fs::path(folder) / fmt::format("events.out.tfevents.{:.6f}.heddle.after_step_{:08}", now(), done)).string();
}

void add(EventValues& values, const std::string& tag, double value) {
  if (std::isfinite(value)) values.scalars.emplace_back(tag, value);
}

void add_loops(EventValues& values, const std::string& tag, const std::vector<double>& of_loops) {
  for (size_t t = 0; t < of_loops.size(); ++t) add(values, fmt::format("{}/loop_{}", tag, t + 1), of_loops[t]);
}

std::string cell_tag(const std::string& tag, size_t cell, size_t layers) {
  return fmt::format("{}/loop_{}_layer_{}", tag, cell / layers + 1, cell % layers);
}

void add_cells(EventValues& values, const std::string& tag, const std::vector<double>& of_cells, size_t layers) {
  for (size_t i = 0; i < of_cells.size(); ++i) add(values, cell_tag(tag, i, layers), of_cells[i]);
}

double last_finite(const std::vector<double>& values) {
  double last = std::nan("");
  for (const double value : values)
    if (!std::isnan(value)) last = value;
  return last;
}

/// A bucket per expert, around its number, that counts its slots.
EventHistogram histogram_of(std::span<const double> load) {
  EventHistogram h;
  h.min = -0.5;
  h.max = static_cast<double>(load.size()) - 0.5;
  for (size_t e = 0; e < load.size(); ++e) h.limits.push_back(static_cast<double>(e) + 0.5);
  h.counts.assign(load.begin(), load.end());
  return h;
}

void add_routing(EventValues& values, const RunLogHeader& h, const StepRecord& r) {
  const auto experts = static_cast<size_t>(h.experts), layers = static_cast<size_t>(h.layers);
  add_cells(values, "overlap", r.overlap, layers);
  const std::vector<double> load(r.load.begin(), r.load.end());
  for (size_t cell = 0; cell < load.size() / experts; ++cell) {
    const auto one = std::span(load).subspan(cell * experts, experts);
    const double share = largest_share(one);
    if (share == 0) continue;  // not run
    add(values, cell_tag("entropy", cell, layers), normalised_entropy(one));
    add(values, cell_tag("largest_share", cell, layers), share);
    values.histograms.emplace_back(cell_tag("load", cell, layers), histogram_of(one));
  }
}

}  // namespace

TensorboardLog::TensorboardLog(const std::string& folder, const RunLogHeader& header, int64_t done)
    : header_(header), first_step_(done + 1), file_(file_in(folder, done)) {
  file_.append(version_event(now()));
  file_.append(start_event(now(), first_step_));
}

void TensorboardLog::write(double time, int64_t step, const EventValues& values) {
  if (!values.scalars.empty() || !values.histograms.empty()) file_.append(values_event(time, step, values));
}

void TensorboardLog::append(const StepRecord& r) {
  EventValues values;
  add(values, "train/loss", r.loss);
  if (r.bytes > 0) add(values, "train/bits_per_byte", r.loss * r.tokens / r.bytes / std::numbers::ln2);
  add(values, "train/learning_rate", r.learning_rate);
  add(values, "train/gradient_norm", last_finite(r.gradient_norm));
  add(values, "train/loops", static_cast<double>(r.loops));
  if (r.step_seconds > 0) add(values, "train/tokens_per_second", r.tokens / r.step_seconds);
  for (size_t s = 0; s < r.segment_loss.size() && r.segment_loss.size() > 1; ++s)
    add(values, fmt::format("segment_loss/segment_{}", s + 1), r.segment_loss[s]);
  const bool look = header_.statistics_interval > 0 && r.step % header_.statistics_interval == 0;
  if (look || r.step == first_step_) {
    add_loops(values, "state_rms", r.state_rms);
    add_cells(values, "block_rms", r.block_rms, static_cast<size_t>(header_.layers));
    if (header_.experts > 0) add_routing(values, header_, r);
  }
  write(r.time, r.step, values);
}

void TensorboardLog::append(const StatisticsRecord& r) {
  EventValues values;
  const auto layers = static_cast<size_t>(header_.layers);
  add_loops(values, "update_rms", r.update_rms);
  add_loops(values, "relative_update", r.relative_update);
  add_loops(values, "cosine_embedding", r.cosine_embedding);
  add_loops(values, "token_cosine", r.token_cosine);
  for (size_t i = 0; i < r.cosine_back.size(); i += 3)
    add(values, fmt::format("cosine_back/loop_{}", i / 3 + 1), r.cosine_back[i]);
  add_cells(values, "flipped", r.flipped, layers);
  add_cells(values, "token_entropy", r.token_entropy, layers);
  add_cells(values, "distinct", r.distinct, layers);
  add_cells(values, "router_agreement", r.router_agreement, layers);
  add_cells(values, "state_agreement", r.state_agreement, layers);
  write(now(), r.step, values);
}

void TensorboardLog::append(const MemoryRecord& r) {
  EventValues values;
  add(values, "memory/peak_bytes", static_cast<double>(r.total_peak));
  add(values, "memory/planned_bytes", static_cast<double>(r.total_planned));
  write(now(), r.step, values);
}

void TensorboardLog::append(const ValidationRecord& r) {
  EventValues values;
  add(values, "validation/loss", r.loss);
  add(values, "validation/bits_per_byte", r.bits_per_byte);
  write(now(), r.step, values);
}

}  // namespace heddle
