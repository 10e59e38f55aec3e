#include "train/loop_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle {

namespace {

double ratio(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    aa += x * x;
    bb += y * y;
    ab += x * y;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : std::nan("");
}

}  // namespace

LoopStatistics::LoopStatistics(const LoopedModel& model, int64_t loops, int64_t stride)
    : model_(model),
      loops_(loops),
      layers_(model.config().layers),
      experts_(model.config().any_moe() ? model.config().moe.experts : 0),
      top_k_(model.config().any_moe() ? model.config().moe.top_k : 0),
      width_(model.config().hidden_size),
      stride_(stride) {}

void LoopStatistics::begin_step(size_t micro_batches, int64_t sequence) {
  if (sequence != sequence_) sampled_rows_ = {};
  sequence_ = sequence;
  micro_batch_ = 0;
  kept_.assign(micro_batches, {});
  for (Kept& kept : kept_) {
    kept.index.resize(static_cast<size_t>(layers_));
    kept.weights.resize(static_cast<size_t>(layers_));
  }
  const int64_t histograms = pairs() + kHistograms * cells();
  counts_ = Tensor::zeros({histograms * (top_k_ + 1) + cells()}, Purpose::kWorkspace, DType::kInt64);
  sums_ = Tensor::zeros({pairs() + kSums * cells() + loops_ * (kCompared * kComparison + width_)}, Purpose::kWorkspace,
                        DType::kFloat64);
  maxima_ = Tensor::empty({cells()}, Purpose::kWorkspace);
  maxima_.set<float>(std::vector<float>(static_cast<size_t>(cells()), -std::numeric_limits<float>::infinity()));
  for (auto* of_cells : {&routed_, &passed_, &carried_}) of_cells->assign(static_cast<size_t>(cells()), 0);
  looked_.assign(static_cast<size_t>(loops_), 0);
}

int64_t* LoopStatistics::histogram(Histogram of, int64_t cell) const {
  return counts_.i64() + (pairs() + of * cells() + cell) * (top_k_ + 1);
}

double* LoopStatistics::sum(Sum of, int64_t cell) const {
  return sums_.f64() + pairs() + of * cells() + cell;
}

Tensor LoopStatistics::sampled(const Tensor& state) {
  const int64_t of_sequence = (sequence_ + stride_ - 1) / stride_;
  const int64_t rows = state.dim(0) / sequence_ * of_sequence;
  if (!sampled_rows_.defined() || sampled_rows_.count() < rows) {
    std::vector<int64_t> list;
    for (int64_t row = 0; row < rows; ++row)
      list.push_back(row / of_sequence * sequence_ + row % of_sequence * stride_);
    sampled_rows_ = Tensor::empty({rows}, Purpose::kWorkspace, DType::kInt64);
    sampled_rows_.set<int64_t>(list);
  }
  Tensor sample = Tensor::empty({rows, width_}, Purpose::kActivations, state.dtype());
  model_.kernels().gather_rows(rows, width_, sampled_rows_.i64(), state.reals(), sample.reals());
  return sample;
}

void LoopStatistics::on_prelude(const Tensor& state) {
  kept().embedding = sampled(state);
  if (kept().last.empty()) kept().last = {kept().embedding};
}

void LoopStatistics::on_loop_end(int64_t loop, const Tensor& state, const Tensor& /*inverse_rms*/) {
  const Kernels& k = model_.kernels();
  const Tensor sample = sampled(state);
  const int64_t rows = sample.dim(0);
  double* const comparisons = sums_.f64() + pairs() + kSums * cells() + loop * (kCompared * kComparison + width_);
  std::vector<Tensor>& last = kept().last;
  for (size_t back = 0; back < last.size(); ++back)
    k.add_comparison(rows, width_, sample.reals(), last[back].reals(),
                     comparisons + static_cast<int64_t>(back) * kComparison);
  k.add_comparison(rows, width_, sample.reals(), kept().embedding.reals(), comparisons + kBack * kComparison);
  k.add_unit_rows(rows, width_, sample.reals(), comparisons + kCompared * kComparison);
  looked_[static_cast<size_t>(loop)] += rows;
  last.insert(last.begin(), sample);
  if (last.size() > kBack) last.pop_back();
}

void LoopStatistics::add_branch(Sum of, const VisitPlace& place, const Tensor& branch) const {
  if (in_core(place))
    model_.kernels().add_squares(branch.count(), 1 / static_cast<double>(width_), branch.reals(),
                                 sum(of, cell(place.loop, place.layer)));
}

void LoopStatistics::on_attention(const VisitPlace& place, const Tensor& branch) {
  add_branch(kAttention, place, branch);
}

void LoopStatistics::on_feed_forward(const VisitPlace& place, const Tensor& branch) {
  add_branch(kFeedForward, place, branch);
}

void LoopStatistics::on_experts_input(const VisitPlace& place, const Tensor& input) {
  if (!in_core(place)) return;
  const Kernels& k = model_.kernels();
  const int64_t rows = input.dim(0), at = cell(place.loop, place.layer);
  own_ = model_.decide_by_router(place.loop, place.layer, input);
  const Tensor squares = Tensor::empty({rows}, Purpose::kWorkspace, DType::kFloat64);
  k.squared_log_sum_exp(rows, experts_, 0, own_.logits.f32(), squares.f64(), {});
  k.add_doubles(rows, squares.f64(), sum(kRouterZ, at));
  k.keep_maximum(own_.logits.count(), own_.logits.f32(), maxima_.f32() + at);
  own_.logits = {};
  before_ = place.loop > 0 ? model_.decide_by_router(place.loop - 1, place.layer, input).index : Tensor();
}

void LoopStatistics::on_block(const BlockView& view) {
  if (!in_core(view.place)) return;
  const auto at = static_cast<size_t>(cell(view.place.loop, view.place.layer));
  const int64_t rows = view.layer_state.dim(0);
  passed_[at] += rows;
  if (view.accumulators != nullptr && view.accumulators->d_global > 0) {
    const double d = view.accumulators->d_global;
    const Tensor& carry = view.accumulators->n_global.value;
    model_.kernels().add_squares(carry.count(), 1 / (d * d * static_cast<double>(width_)), carry.reals(),
                                 sum(kCarry, static_cast<int64_t>(at)));
    carried_[at] += rows;
  }
  if (view.place.stored_moe >= 0) compare_choices(view);
}

void LoopStatistics::compare_choices(const BlockView& view) {
  const Kernels& k = model_.kernels();
  const int64_t loop = view.place.loop, layer = view.place.layer, at = cell(loop, layer);
  const Tensor& index = view.routing.index;
  const Tensor& weights = view.routing.weights;
  const int64_t rows = index.dim(0);
  routed_[static_cast<size_t>(at)] += rows;
  Tensor& all_index = kept().index[static_cast<size_t>(layer)];
  Tensor& all_weights = kept().weights[static_cast<size_t>(layer)];
  if (!all_index.defined()) {
    all_index = Tensor::empty({loops_, rows, top_k_}, Purpose::kActivations, DType::kInt32);
    all_weights = Tensor::empty({loops_, rows, top_k_}, Purpose::kActivations);
  }
  const auto of = [](const Tensor& all, int64_t t) { return all.rows(t, 1); };
  of(all_index, loop).copy_from(index);
  of(all_weights, loop).copy_from(weights);

  k.add_entropy(rows, top_k_, weights.f32(), sum(kEntropy, at));
  int64_t* const fresh = counts_.i64() + (pairs() + kHistograms * cells()) * (top_k_ + 1);
  k.count_fresh(loop, rows, top_k_, all_index.i32(), index.i32(), fresh + at);
  for (int64_t s = 0; s < loop; ++s) {
    const int64_t p = pair(loop, s, layer);
    k.count_overlaps(rows, top_k_, index.i32(), of(all_index, s).i32(), counts_.i64() + p * (top_k_ + 1));
    k.add_weight_overlap(rows, top_k_, index.i32(), weights.f32(), of(all_index, s).i32(), of(all_weights, s).f32(),
                         sums_.f64() + p);
  }
  if (model_.config().moe.gate == Gate::kLearned)
    k.count_overlaps(rows, top_k_, index.i32(), own_.unbiased.i32(), histogram(kFlipped, at));
  if (before_.defined()) {
    k.count_overlaps(rows, top_k_, index.i32(), before_.i32(), histogram(kRouterAgreement, at));
    k.count_overlaps(rows, top_k_, before_.i32(), of(all_index, loop - 1).i32(), histogram(kStateAgreement, at));
  }
  own_ = {};
  before_ = {};
}

StatisticsRecord LoopStatistics::finish(Communicator& world) {
  kept_.clear();
  std::vector<int64_t> counts = counts_.get<int64_t>();
  std::vector<double> sums = sums_.get<double>();
  const std::vector<float> largest = maxima_.get<float>();
  std::vector<double> maxima(largest.begin(), largest.end());
  counts_ = sums_ = maxima_ = {};
  const auto lists = {&routed_, &passed_, &carried_, &looked_};
  const size_t own = counts.size();
  for (const auto* list : lists) counts.insert(counts.end(), list->begin(), list->end());
  world.all_reduce_sum(std::span<int64_t>(counts));
  world.all_reduce_sum(std::span<double>(sums));
  world.all_reduce_max(std::span<double>(maxima));
  auto next = counts.begin() + static_cast<std::ptrdiff_t>(own);
  for (auto* list : lists) {
    std::copy_n(next, list->size(), list->begin());
    next += static_cast<std::ptrdiff_t>(list->size());
  }
  StatisticsRecord record;
  average_states(sums, record);
  if (experts_ == 0) return record;
  average_choices(counts, sums, maxima, record);
  compare_routers(record);
  return record;
}

void LoopStatistics::average_states(const std::vector<double>& sums, StatisticsRecord& record) const {
  const auto width = static_cast<size_t>(width_), compared = static_cast<size_t>(kCompared * kComparison);
  for (size_t loop = 0; loop < looked_.size(); ++loop) {
    const int64_t rows = looked_[loop];
    const double* const of_loop =
        sums.data() + pairs() + kSums * cells() + static_cast<int64_t>(loop * (compared + width));
    const double before = of_loop[1], change = of_loop[2];  // of the comparison with the loop before
    record.update_rms.push_back(std::sqrt(ratio(change, rows * width_)));
    record.relative_update.push_back(rows > 0 && before > 0 ? std::sqrt(change / before) : std::nan(""));
    for (size_t back = 0; back < kBack; ++back)
      record.cosine_back.push_back(back <= loop ? ratio(of_loop[back * kComparison + 3], rows) : std::nan(""));
    record.cosine_embedding.push_back(ratio(of_loop[kBack * kComparison + 3], rows));
    double square = 0;
    for (size_t c = 0; c < width; ++c) square += of_loop[compared + c] * of_loop[compared + c];
    const auto n = static_cast<double>(rows);
    record.token_cosine.push_back(rows > 1 ? (square - n) / (n * (n - 1)) : std::nan(""));
  }
  const auto rms = [&](Sum of, const std::vector<int64_t>& rows, std::vector<double>& to) {
    for (size_t at = 0; at < rows.size(); ++at)
      to.push_back(std::sqrt(ratio(sums[static_cast<size_t>(pairs() + of * cells()) + at], rows[at])));
  };
  rms(kAttention, passed_, record.attention_rms);
  rms(kFeedForward, passed_, record.feed_forward_rms);
  rms(kCarry, carried_, record.carry_rms);
}

void LoopStatistics::average_choices(const std::vector<int64_t>& counts, const std::vector<double>& sums,
                                     const std::vector<double>& maxima, StatisticsRecord& record) const {
  const auto k = static_cast<double>(top_k_);
  /// Means over the rows of a histogram of c / k and of c / (2 k - c).
  const auto overlap = [&](int64_t row) {
    int64_t rows = 0;
    double common = 0, jaccard = 0;
    for (int64_t c = 0; c <= top_k_; ++c) {
      const int64_t count = counts[static_cast<size_t>(row * (top_k_ + 1) + c)];
      rows += count;
      common += static_cast<double>(count * c) / k;
      jaccard += static_cast<double>(count * c) / static_cast<double>(2 * top_k_ - c);
    }
    return std::pair{ratio(common, rows), ratio(jaccard, rows)};
  };
  const auto fresh = static_cast<size_t>((pairs() + kHistograms * cells()) * (top_k_ + 1));
  for (int64_t at = 0; at < cells(); ++at) {
    const int64_t rows = routed_[static_cast<size_t>(at)];
    const auto mean = [&](Sum of) { return ratio(sums[static_cast<size_t>(pairs() + of * cells() + at)], rows); };
    const auto share = [&](Histogram of) { return overlap(pairs() + of * cells() + at).first; };
    record.flipped.push_back(1 - share(kFlipped));
    record.router_agreement.push_back(share(kRouterAgreement));
    record.state_agreement.push_back(share(kStateAgreement));
    record.token_entropy.push_back(mean(kEntropy));
    record.router_z.push_back(mean(kRouterZ));
    record.router_logit_max.push_back(rows > 0 ? maxima[static_cast<size_t>(at)] : std::nan(""));
    const double before = at < layers_ ? 0 : record.distinct[static_cast<size_t>(at - layers_)];
    record.distinct.push_back(before + ratio(static_cast<double>(counts[fresh + static_cast<size_t>(at)]), rows));
  }
  const auto count = static_cast<size_t>(pairs());
  for (auto* of_pairs : {&record.pair_overlap, &record.pair_jaccard, &record.weight_overlap})
    of_pairs->assign(count, std::nan(""));
  for (int64_t t = 0; t < loops_; ++t) {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const int64_t rows = routed_[static_cast<size_t>(cell(t, layer))];
      if (rows == 0) continue;
      for (int64_t s = 0; s <= t; ++s) {
        const auto p = static_cast<size_t>(pair(t, s, layer)), mirrored = static_cast<size_t>(pair(s, t, layer));
        const auto [share, jaccard] = s == t ? std::pair{1.0, 1.0} : overlap(static_cast<int64_t>(p));
        record.pair_overlap[p] = record.pair_overlap[mirrored] = share;
        record.pair_jaccard[p] = record.pair_jaccard[mirrored] = jaccard;
        record.weight_overlap[p] = record.weight_overlap[mirrored] = s == t ? 1.0 : ratio(sums[p], rows);
      }
    }
  }
}

void LoopStatistics::compare_routers(StatisticsRecord& record) const {
  record.router_cosine.assign(static_cast<size_t>(pairs()), std::nan(""));
  for (int64_t layer = 0; layer < layers_; ++layer) {
    std::vector<std::vector<float>> weights;
    for (int64_t t = 0; t < loops_; ++t) {
      if (routed_[static_cast<size_t>(cell(t, layer))] == 0) break;
      const Parameter* const router = model_.router_of(t, layer);
      const bool again = t > 0 && router == model_.router_of(t - 1, layer);
      weights.push_back(again ? weights.back() : router->value.get<float>());
      for (int64_t s = 0; s <= t; ++s)
        record.router_cosine[static_cast<size_t>(pair(t, s, layer))] =
            record.router_cosine[static_cast<size_t>(pair(s, t, layer))] =
                router == model_.router_of(s, layer) ? 1 : cosine(weights.back(), weights[static_cast<size_t>(s)]);
    }
  }
}

}  // namespace heddle
