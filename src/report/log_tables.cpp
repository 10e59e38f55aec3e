#include "report/log_tables.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "analysis/routing_metrics.h"
#include "report/thinning.h"

namespace heddle::report {

namespace {

constexpr size_t kPoints = 400;        // of a curve: one for every two pixels of a wide screen
constexpr size_t kFrames = 24;         // stops of a slider
constexpr size_t kLoadNumbers = 60e3;  // of all frames of a load together
const double kNone = std::nan("");

size_t size_of(int64_t n) {
  return static_cast<size_t>(n);
}

std::vector<Bucket> frames_of(const RunLog& log) {
  const RunLogHeader& h = log.header;
  const size_t one = size_of(h.loops * h.layers * std::max<int64_t>(h.experts, 1));
  return buckets(log.steps.size(), std::clamp<size_t>(kLoadNumbers / one, 2, kFrames));
}

/// What a [point] column needs: a step for each bucket, and means over it.
class Points {
 public:
  Points(const RunLog& log, size_t most) : log_(log), buckets_(buckets(log.steps.size(), most)) {}
  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  double step(size_t point) const { return static_cast<double>(log_.steps[buckets_[point].last - 1].step); }
  template <typename Value>
  Summary of(size_t point, Value value) const {
    return summarise(buckets_[point], [&](size_t row) { return value(log_.steps[row]); });
  }

 private:
  const RunLog& log_;
  std::vector<Bucket> buckets_;
};

double last_norm(const StepRecord& r) {
  double last = kNone;
  for (const double norm : r.gradient_norm)
    if (!std::isnan(norm)) last = norm;
  return last;
}

double bits_per_byte(const StepRecord& r) {
  return r.bytes > 0 ? r.loss * r.tokens / r.bytes / std::numbers::ln2 : kNone;
}

double speed(const StepRecord& r) {
  return r.step_seconds > 0 ? r.tokens / r.step_seconds : kNone;
}

/// What one (loop, layer) did in a stretch.
struct Cell {
  std::vector<double> load;
  double taken = 0, dropped = 0, overlap = kNone, block_rms = kNone;
  bool visited() const { return taken + dropped > 0; }
};

Cell cell_of(const RunLog& log, const Bucket& frame, size_t at) {
  const RunLogHeader& h = log.header;
  const size_t experts = size_of(h.experts);
  Cell c;
  c.load.assign(experts, 0);
  for (size_t row = frame.first; row < frame.last && experts > 0; ++row) {
    const StepRecord& r = log.steps[row];
    for (size_t e = 0; e < experts; ++e) c.load[e] += static_cast<double>(r.load[at * experts + e]);
    c.dropped += static_cast<double>(r.dropped[at]);
  }
  for (const double slots : c.load) c.taken += slots;
  c.block_rms = summarise(frame, [&](size_t row) { return log.steps[row].block_rms[at]; }).mean;
  if (experts > 0 && at < size_of((h.loops - 1) * h.layers))
    c.overlap = summarise(frame, [&](size_t row) { return log.steps[row].overlap[at]; }).mean;
  return c;
}

}  // namespace

Table curves(const std::string& run, const RunLog& log) {
  const Points points(log, kPoints);
  const auto mean = [&points](auto value) { return [&points, value](size_t p) { return points.of(p, value).mean; }; };
  const auto loss = [](const StepRecord& r) { return r.loss; };
  Table t;
  t.axis("run", Json::array({run})).axis("point", points.count());
  t.column("step", [&](size_t p) { return points.step(p); });
  t.column("loss", mean(loss));
  t.column("loss_low", [&](size_t p) { return points.of(p, loss).low; });
  t.column("loss_high", [&](size_t p) { return points.of(p, loss).high; });
  t.column("bits_per_byte", mean(bits_per_byte));
  t.column("tokens_per_second", mean(speed));
  t.column("learning_rate", mean([](const StepRecord& r) { return r.learning_rate; }));
  t.column("gradient_norm", mean(last_norm));
  t.column("loops", mean([](const StepRecord& r) { return static_cast<double>(r.loops); }));
  return t;
}

Table validations(const std::string& run, const RunLog& log) {
  const std::vector<Bucket> points = buckets(log.validations.size(), kPoints);
  const auto last = [&](size_t p) -> const ValidationRecord& { return log.validations[points[p].last - 1]; };
  Table t;
  t.axis("run", Json::array({run})).axis("point", static_cast<int64_t>(points.size()));
  t.column("step", [&](size_t p) { return static_cast<double>(last(p).step); });
  t.column("loss", [&](size_t p) { return last(p).loss; });
  t.column("bits_per_byte", [&](size_t p) { return last(p).bits_per_byte; });
  return t;
}

Table segment_losses(const RunLog& log) {
  const Points points(log, kPoints / 2);
  const size_t count = size_of(points.count());
  Table t;
  t.axis("segment", log.header.segments, 1).axis("point", points.count());
  t.column("step", [&](size_t cell) { return points.step(cell % count); });
  t.column("loss", [&](size_t cell) {
    const size_t segment = cell / count;
    return points.of(cell % count, [segment](const StepRecord& r) { return r.segment_loss[segment]; }).mean;
  });
  return t;
}

std::vector<std::string> stretches(const RunLog& log) {
  std::vector<std::string> texts;
  for (const Bucket& b : frames_of(log))
    texts.push_back(b.last - b.first == 1
                        ? fmt::format("step {}", log.steps[b.first].step)
                        : fmt::format("steps {} to {}", log.steps[b.first].step, log.steps[b.last - 1].step));
  return texts;
}

Table cells(const RunLog& log) {
  const RunLogHeader& h = log.header;
  const std::vector<Bucket> frames = frames_of(log);
  const size_t per_frame = size_of(h.loops * h.layers), layers = size_of(h.layers);
  std::vector<Cell> all;
  for (const Bucket& frame : frames)
    for (size_t at = 0; at < per_frame; ++at) all.push_back(cell_of(log, frame, at));
  Table t;
  t.axis("frame", static_cast<int64_t>(frames.size())).axis("loop", h.loops, 1).axis("layer", h.layers);
  t.column("block_rms", [&](size_t i) { return all[i].block_rms; });
  if (h.experts == 0) return t;
  const auto visited = [&](auto value) {
    return [&all, value](size_t i) { return all[i].visited() ? value(all[i]) : kNone; };
  };
  t.column("entropy", visited([](const Cell& c) { return normalised_entropy(c.load); }));
  t.column("largest_share", visited([](const Cell& c) { return largest_share(c.load); }));
  t.column("dead", visited([](const Cell& c) { return static_cast<double>(dead_experts(c.load)); }));
  t.column("dropped", visited([](const Cell& c) { return c.dropped / (c.taken + c.dropped); }));
  if (h.loops < 2) return t;
  const double uniform = static_cast<double>(h.top_k) / static_cast<double>(h.experts);
  const auto chance = [&](size_t i) {
    return std::isnan(all[i].overlap) ? kNone : chance_overlap(all[i].load, all[i + layers].load, h.top_k);
  };
  t.column("overlap", [&](size_t i) { return all[i].overlap; });
  t.column("chance", chance);
  t.column("uniform", [&](size_t i) { return std::isnan(all[i].overlap) ? kNone : uniform; });
  t.column("over_chance", [&](size_t i) { return all[i].overlap - chance(i); });
  t.column("over_uniform", [&](size_t i) { return all[i].overlap - uniform; });
  return t;
}

Table loads(const RunLog& log) {
  const RunLogHeader& h = log.header;
  const std::vector<Bucket> frames = frames_of(log);
  const size_t experts = size_of(h.experts), per_frame = size_of(h.loops * h.layers);
  std::vector<double> shares;
  for (const Bucket& frame : frames)
    for (size_t at = 0; at < per_frame; ++at) {
      const Cell c = cell_of(log, frame, at);
      for (size_t e = 0; e < experts; ++e) shares.push_back(c.taken > 0 ? c.load[e] / c.taken : kNone);
    }
  Table t;
  t.axis("frame", static_cast<int64_t>(frames.size())).axis("loop", h.loops, 1).axis("layer", h.layers);
  t.axis("expert", h.experts);
  t.column("share", [&](size_t i) { return shares[i]; });
  return t;
}

Table state_rms(const RunLog& log) {
  const std::vector<Bucket> frames = frames_of(log);
  const size_t loops = size_of(log.header.loops);
  Table t;
  t.axis("frame", static_cast<int64_t>(frames.size())).axis("series", Json::array({"state"}));
  t.axis("loop", log.header.loops, 1);
  t.column("state_rms", [&](size_t i) {
    return summarise(frames[i / loops], [&](size_t row) { return log.steps[row].state_rms[i % loops]; }).mean;
  });
  return t;
}

Table memory(const RunLog& log) {
  const MemoryRecord& r = log.memory.back();
  const size_t purposes = log.header.purposes.size();
  Json names = log.header.purposes;
  names.push_back("all together");
  Table t;
  t.axis("quantity", Json::array({"peak", "planned"})).axis("purpose", names);
  t.column("bytes", [&](size_t i) {
    const size_t purpose = i % (purposes + 1);
    const bool peak = i <= purposes;
    if (purpose == purposes) return static_cast<double>(peak ? r.total_peak : r.total_planned);
    return static_cast<double>((peak ? r.peak : r.planned)[purpose]);
  });
  return t;
}

}  // namespace heddle::report
