#include "report/look_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/thinning.h"

namespace heddle::report {

namespace {

constexpr size_t kFrames = 24;          // stops of a slider
constexpr size_t kPairNumbers = 20000;  // of all frames of one quantity together

size_t size_of(int64_t n) {
  return static_cast<size_t>(n);
}

/// The last look of each of a few stretches of the run.
std::vector<const StatisticsRecord*> shown(const RunLog& log) {
  const RunLogHeader& h = log.header;
  const size_t most = std::clamp<size_t>(kPairNumbers / size_of(h.loops * h.loops * h.layers), 2, kFrames);
  std::vector<const StatisticsRecord*> looks;
  for (const Bucket& b : buckets(log.looks.size(), most)) looks.push_back(&log.looks[b.last - 1]);
  return looks;
}

/// Adds the column of a member whose row is the last axes of the table, behind the frame.
void add(Table& t, const std::vector<const StatisticsRecord*>& looks, const char* name,
         std::vector<double> StatisticsRecord::*member) {
  const size_t width = t.cells() / looks.size();
  t.column(name, [&](size_t i) { return (looks[i / width]->*member)[i % width]; });
}

using Series = std::pair<std::string, std::function<double(const StatisticsRecord&, size_t loop)>>;

/// [frame, series, loop]: `column`.
Table by_loop(const RunLog& log, const char* column, const std::vector<Series>& series) {
  const std::vector<const StatisticsRecord*> looks = shown(log);
  const size_t loops = size_of(log.header.loops);
  Json names = Json::array();
  for (const Series& s : series) names.push_back(s.first);
  Table t;
  t.axis("frame", static_cast<int64_t>(looks.size())).axis("series", names).axis("loop", log.header.loops, 1);
  t.column(column, [&](size_t i) {
    return series[i / loops % series.size()].second(*looks[i / loops / series.size()], i % loops);
  });
  return t;
}

}  // namespace

std::vector<std::string> looks_shown(const RunLog& log) {
  std::vector<std::string> texts;
  for (const StatisticsRecord* look : shown(log)) texts.push_back(fmt::format("step {}", look->step));
  return texts;
}

Table look_cells(const RunLog& log) {
  const std::vector<const StatisticsRecord*> looks = shown(log);
  Table t;
  t.axis("frame", static_cast<int64_t>(looks.size())).axis("loop", log.header.loops, 1);
  t.axis("layer", log.header.layers);
  add(t, looks, "attention_rms", &StatisticsRecord::attention_rms);
  add(t, looks, "feed_forward_rms", &StatisticsRecord::feed_forward_rms);
  add(t, looks, "carry_rms", &StatisticsRecord::carry_rms);
  if (log.header.experts == 0) return t;
  add(t, looks, "flipped", &StatisticsRecord::flipped);
  add(t, looks, "router_logit_max", &StatisticsRecord::router_logit_max);
  add(t, looks, "router_z", &StatisticsRecord::router_z);
  add(t, looks, "token_entropy", &StatisticsRecord::token_entropy);
  add(t, looks, "router_agreement", &StatisticsRecord::router_agreement);
  add(t, looks, "state_agreement", &StatisticsRecord::state_agreement);
  return t;
}

Table loop_pairs(const RunLog& log) {
  const std::vector<const StatisticsRecord*> looks = shown(log);
  Table t;
  t.axis("frame", static_cast<int64_t>(looks.size())).axis("loop", log.header.loops, 1);
  t.axis("other", log.header.loops, 1).axis("layer", log.header.layers);
  add(t, looks, "pair_overlap", &StatisticsRecord::pair_overlap);
  add(t, looks, "pair_jaccard", &StatisticsRecord::pair_jaccard);
  add(t, looks, "weight_overlap", &StatisticsRecord::weight_overlap);
  add(t, looks, "router_cosine", &StatisticsRecord::router_cosine);
  return t;
}

double distinct_by_chance(int64_t experts, int64_t top_k, int64_t loops) {
  const double all = static_cast<double>(experts);
  return all * (1 - std::pow(1 - static_cast<double>(top_k) / all, static_cast<double>(loops)));
}

Table distinct_experts(const RunLog& log) {
  const RunLogHeader& h = log.header;
  std::vector<Series> series;
  const size_t layers = size_of(h.layers);
  for (size_t layer = 0; layer < layers; ++layer)
    series.push_back({fmt::format("layer {}", layer), [layer, layers](const StatisticsRecord& r, size_t loop) {
                        return r.distinct[loop * layers + layer];
                      }});
  series.push_back({"by chance", [&h](const StatisticsRecord&, size_t loop) {
                      return distinct_by_chance(h.experts, h.top_k, static_cast<int64_t>(loop) + 1);
                    }});
  return by_loop(log, "experts", series);
}

Table update_rms(const RunLog& log) {
  return by_loop(log, "value", {{"update", [](const StatisticsRecord& r, size_t t) { return r.update_rms[t]; }}});
}

Table relative_update(const RunLog& log) {
  return by_loop(log, "value",
                 {{"relative update", [](const StatisticsRecord& r, size_t t) { return r.relative_update[t]; }}});
}

Table state_cosines(const RunLog& log) {
  const auto back = [](size_t loops) {
    return [loops](const StatisticsRecord& r, size_t t) { return r.cosine_back[t * 3 + loops - 1]; };
  };
  return by_loop(log, "value",
                 {{"one loop before", back(1)},
                  {"two loops before", back(2)},
                  {"three loops before", back(3)},
                  {"embedding", [](const StatisticsRecord& r, size_t t) { return r.cosine_embedding[t]; }},
                  {"between tokens", [](const StatisticsRecord& r, size_t t) { return r.token_cosine[t]; }}});
}

}  // namespace heddle::report
