// What a look at a step reports, held against the same numbers worked out one token at a time from what an observer
// saw, and against cases whose answer is known.
#include "train/loop_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/train/family_points.h"
#include "tests/train/tiny_training.h"

namespace heddle {
namespace {

using Row = std::vector<double>;

/// Everything that a forward pass of one micro-batch shows, on the host.
struct Seen : ForwardObserver {
  explicit Seen(const LoopedModel& of) : model(of) {}

  struct Visit {
    std::vector<int32_t> index, before, unbiased;
    std::vector<float> weights, logits, attention, feed_forward, carry;
  };
  void on_prelude(const Tensor& state) override { states.assign(1, floats(state)); }
  void on_attention(const VisitPlace& p, const Tensor& x) override {
    if (p.part == StackPart::kCore) visits.emplace_back().attention = floats(x);
  }
  void on_experts_input(const VisitPlace& p, const Tensor& x) override {
    if (p.part != StackPart::kCore) return;
    const RouterDecision own = model.decide_by_router(p.loop, p.layer, x);
    visits.back().logits = floats(own.logits);
    visits.back().unbiased = own.unbiased.get<int32_t>();
    if (p.loop > 0) visits.back().before = model.decide_by_router(p.loop - 1, p.layer, x).index.get<int32_t>();
  }
  void on_feed_forward(const VisitPlace& p, const Tensor& x) override {
    if (p.part == StackPart::kCore) visits.back().feed_forward = floats(x);
  }
  void on_block(const BlockView& view) override {
    if (view.place.part != StackPart::kCore) return;
    if (view.place.stored_moe >= 0) {
      visits.back().index = view.routing.index.get<int32_t>();
      visits.back().weights = floats(view.routing.weights);
    }
    if (view.accumulators == nullptr) return;
    visits.back().carry = floats(view.accumulators->n_global.value);
    for (float& x : visits.back().carry) x /= static_cast<float>(view.accumulators->d_global);
  }
  void on_loop_end(int64_t, const Tensor& state, const Tensor&) override { states.push_back(floats(state)); }

  static std::vector<float> floats(const Tensor& t) { return t.get<float>(); }
  const LoopedModel& model;
  std::vector<std::vector<float>> states;  ///< the embedding, then one per loop
  std::vector<Visit> visits;               ///< [loops, layers]
};

double dot(const std::vector<float>& a, size_t i, const std::vector<float>& b, size_t j, size_t width) {
  double sum = 0;
  for (size_t c = 0; c < width; ++c)
    sum += static_cast<double>(a[i * width + c]) * static_cast<double>(b[j * width + c]);
  return sum;
}

double mean_square(const std::vector<float>& x) {
  return dot(x, 0, x, 0, x.size()) / static_cast<double>(x.size());
}

std::set<int32_t> choice(const std::vector<int32_t>& index, size_t row, size_t k) {
  const auto first = index.begin() + static_cast<std::ptrdiff_t>(row * k);
  return {first, first + static_cast<std::ptrdiff_t>(k)};
}

double common(const std::vector<int32_t>& a, const std::vector<int32_t>& b, size_t row, size_t k) {
  double count = 0;
  for (const int32_t e : choice(a, row, k)) count += static_cast<double>(choice(b, row, k).count(e));
  return count;
}

/// A training of one micro-batch and its look at step 1, before any update.
struct Looked {
  explicit Looked(const TrainingPlan& plan, int64_t micro_batch = 8)
      : world(make_single_communicator()), training(plan, *world, 1, micro_batch) {}

  StatisticsRecord look() {
    StepResult result = training.trainer.run(training.batches(1), {1, 1, 0, true});
    EXPECT_TRUE(result.look.has_value());
    return *result.look;
  }
  /// What the same forward pass shows; of the first micro-batch.
  Seen see() {
    Seen seen(training.model);
    LoopedModel::Options options;
    options.observer = &seen;
    Tape tape = training.model.tape(Tape::Mode::kForwardOnly);
    const TokenBatch batch = training.batches(1)[0];
    const Variable e = training.model.embed(tape, batch, options);
    LoopState state = training.model.start(batch, e);
    training.model.run_loops(tape, batch, e, 0, training.plan.model.loops, options, state);
    return seen;
  }

  std::unique_ptr<Communicator> world;
  Training training;
};

/// Full back-propagation, so that no update falls into the look.
TrainingPlan plain_plan() {
  TrainingPlan plan;
  plan.step.back_propagation = {};
  plan.step.statistics_stride = 1;
  return plan;
}

void expect_means(const std::vector<double>& found, const std::vector<double>& expected, const char* what,
                  double tolerance = 1e-6) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(found[i])) << what << "[" << i << "] = " << found[i];
    else
      EXPECT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << "[" << i << "]";
}

/// Mean of value(row) over the rows.
template <typename Value>
double mean(size_t rows, const Value& value) {
  double sum = 0;
  for (size_t row = 0; row < rows; ++row) sum += value(row);
  return sum / static_cast<double>(rows);
}

TEST(LoopStatistics, AgreesWithATokenByTokenCountOfChoices) {
  TrainingPlan plan = plain_plan();
  Looked looked(plan);
  looked.training.favour({3});  // a bias that flips choices
  // Routers start as copies: move those of later loops apart.
  for (int64_t t = 1; t < 4; ++t) {
    const Parameter* const router = looked.training.model.router_of(t, 0);
    std::vector<float> values = router->value.get<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.05F * std::sin(static_cast<float>(t * 31 + i * 7));
    router->value.set<float>(values);
  }
  const Seen seen = looked.see();
  const StatisticsRecord record = looked.look();
  const size_t k = 2, layers = 2, loops = 4, rows = 8 * 16, experts = 8;
  const double none = std::nan("");
  std::vector<double> flipped, agreement, standing, entropy, z, largest, distinct;
  std::vector<double> overlap(loops * loops * layers), jaccard = overlap, weighted = overlap;
  for (size_t at = 0; at < loops * layers; ++at) {
    const Seen::Visit& v = seen.visits[at];
    const size_t loop = at / layers, layer = at % layers;
    flipped.push_back(mean(rows, [&](size_t r) { return 1 - common(v.index, v.unbiased, r, k) / 2; }));
    agreement.push_back(loop == 0 ? none : mean(rows, [&](size_t r) { return common(v.index, v.before, r, k) / 2; }));
    standing.push_back(loop == 0 ? none : mean(rows, [&](size_t r) {
      return common(v.before, seen.visits[at - layers].index, r, k) / 2;
    }));
    entropy.push_back(mean(rows, [&](size_t r) {
      const double a = v.weights[r * k], b = v.weights[r * k + 1], p = a / (a + b);
      return -p * std::log(p) - (1 - p) * std::log(1 - p);
    }));
    z.push_back(mean(rows, [&](size_t r) {
      double sum = 0;
      for (size_t e = 0; e < experts; ++e) sum += std::exp(static_cast<double>(v.logits[r * experts + e]));
      return std::log(sum) * std::log(sum);
    }));
    largest.push_back(*std::max_element(v.logits.begin(), v.logits.end()));
    distinct.push_back(mean(rows, [&](size_t r) {
      std::set<int32_t> met;
      for (size_t t = 0; t <= loop; ++t) met.merge(choice(seen.visits[t * layers + layer].index, r, k));
      return static_cast<double>(met.size());
    }));
    for (size_t s = 0; s < loops; ++s) {
      const Seen::Visit& w = seen.visits[s * layers + layer];
      const size_t p = (loop * loops + s) * layers + layer;
      overlap[p] = mean(rows, [&](size_t r) { return common(v.index, w.index, r, k) / 2; });
      jaccard[p] = mean(rows, [&](size_t r) {
        const double both = common(v.index, w.index, r, k);
        return both / (4 - both);
      });
      weighted[p] = mean(rows, [&](size_t r) {
        double sum = 0;
        for (size_t i = 0; i < k; ++i)
          for (size_t j = 0; j < k; ++j)
            if (v.index[r * k + i] == w.index[r * k + j])
              sum += std::min(v.weights[r * k + i] / (v.weights[r * k] + v.weights[r * k + 1]),
                              w.weights[r * k + j] / (w.weights[r * k] + w.weights[r * k + 1]));
        return sum;
      });
    }
  }
  expect_means(record.flipped, flipped, "flipped");
  expect_means(record.router_agreement, agreement, "router agreement");
  expect_means(record.state_agreement, standing, "state agreement");
  expect_means(record.token_entropy, entropy, "token entropy", 1e-5);
  expect_means(record.router_z, z, "router z", 1e-5);
  expect_means(record.router_logit_max, largest, "largest logit");
  expect_means(record.distinct, distinct, "distinct");
  expect_means(record.pair_overlap, overlap, "overlap");
  expect_means(record.pair_jaccard, jaccard, "jaccard");
  expect_means(record.weight_overlap, weighted, "weight overlap", 1e-5);
  // The case is one where these say something.
  EXPECT_GT(flipped[0], 0.1);
  EXPECT_GT(agreement[2], 0.1);
  EXPECT_LT(agreement[2], 0.999);
  EXPECT_LT(overlap[1 * layers], 0.999);
}

TEST(LoopStatistics, AgreesWithATokenByTokenCountOfStates) {
  TrainingPlan plan = plain_plan();
  Looked looked(plan);
  const Seen seen = looked.see();
  const StatisticsRecord record = looked.look();
  const size_t rows = 8 * 16, width = 32;
  const double none = std::nan("");
  std::vector<double> update, relative, back, embedding, tokens;
  for (size_t t = 1; t <= 4; ++t) {
    const auto& now = seen.states[t];
    const auto& before = seen.states[t - 1];
    std::vector<float> change = now;
    for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
    update.push_back(std::sqrt(mean_square(change)));
    relative.push_back(std::sqrt(mean_square(change) / mean_square(before)));
    const auto cosine_to = [&](const std::vector<float>& other) {
      return mean(rows, [&](size_t r) {
        return dot(now, r, other, r, width) / std::sqrt(dot(now, r, now, r, width) * dot(other, r, other, r, width));
      });
    };
    for (size_t b = 1; b <= 3; ++b) back.push_back(b <= t ? cosine_to(seen.states[t - b]) : none);
    embedding.push_back(cosine_to(seen.states[0]));
    double sum = 0;
    for (size_t r = 0; r < rows; ++r)
      for (size_t s = 0; s < r; ++s)
        sum += dot(now, r, now, s, width) / std::sqrt(dot(now, r, now, r, width) * dot(now, s, now, s, width));
    tokens.push_back(sum / (static_cast<double>(rows * (rows - 1)) / 2));
  }
  expect_means(record.update_rms, update, "update", 1e-5);
  expect_means(record.relative_update, relative, "relative update", 1e-5);
  expect_means(record.cosine_back, back, "cosines back", 1e-5);
  expect_means(record.cosine_embedding, embedding, "cosine to the embedding", 1e-5);
  expect_means(record.token_cosine, tokens, "token cosine", 1e-5);
  std::vector<double> attention, feed_forward, carry;
  for (const Seen::Visit& v : seen.visits) {
    attention.push_back(std::sqrt(mean_square(v.attention)));
    feed_forward.push_back(std::sqrt(mean_square(v.feed_forward)));
    carry.push_back(std::sqrt(mean_square(v.carry)));
  }
  expect_means(record.attention_rms, attention, "attention", 1e-5);
  expect_means(record.feed_forward_rms, feed_forward, "feed-forward", 1e-5);
  expect_means(record.carry_rms, carry, "carry", 1e-5);
}

TEST(LoopStatistics, CopiesOfOneRouterAgreeWithThemselves) {
  // As initialised, the routers of all loops are copies, and the state moves.
  const StatisticsRecord record = Looked(plain_plan()).look();
  for (size_t at = 2; at < 8; ++at) {
    EXPECT_EQ(record.router_agreement[at], 1) << at;
    EXPECT_LT(record.state_agreement[at], 1) << at;
  }
  for (const double cosine : record.router_cosine) EXPECT_NEAR(cosine, 1, 1e-3);  // after one update
}

/// Branches without weight and no re-injection: every loop gets the state that it gives.
ModelConfig standing_model() {
  ModelConfig m = tiny_model();
  m.residual = ResidualScheme::kPlain;
  m.residual_multiplier = 0;
  m.reinjection = Reinjection::kNone;
  m.looping_residual = false;
  m.norms = {.pre = NormKind::kPlain, .block = NormKind::kOff, .loop_end = NormKind::kOff};
  m.validate();
  return m;
}

TEST(LoopStatistics, AStateThatStandsStillChoosesTheSame) {
  TrainingPlan plan = plain_plan();
  plan.model = standing_model();
  const StatisticsRecord record = Looked(plan).look();
  for (size_t at = 2; at < 8; ++at) {
    EXPECT_EQ(record.state_agreement[at], 1);
    EXPECT_EQ(record.distinct[at], 2);
  }
  for (const auto* pairs : {&record.pair_overlap, &record.pair_jaccard})
    for (const double share : *pairs) EXPECT_EQ(share, 1);
  for (const double share : record.weight_overlap) EXPECT_NEAR(share, 1, 1e-6);
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(record.update_rms[t], 0);
    EXPECT_EQ(record.relative_update[t], 0);
    EXPECT_NEAR(record.cosine_back[t * 3], 1, 1e-6);
    EXPECT_NEAR(record.cosine_embedding[t], 1, 1e-6);
  }
  for (const double carry : record.carry_rms) EXPECT_TRUE(std::isnan(carry));
}

TEST(LoopStatistics, ARiggedGateIsCalledTheSameRouterWhateverItsWeights) {
  TrainingPlan plan = plain_plan();
  plan.model.moe.gate = Gate::kFirst;
  const StatisticsRecord record = Looked(plan).look();
  for (size_t at = 0; at < 8; ++at) {
    EXPECT_TRUE(std::isnan(record.flipped[at]));
    if (at >= 2) {
      EXPECT_EQ(record.router_agreement[at], 1);
    }
    EXPECT_EQ(record.distinct[at], 2);
  }
}

/// The numbers that are counts.
std::vector<std::vector<double> StatisticsRecord::*> counted() {
  return {&StatisticsRecord::flipped,         &StatisticsRecord::distinct,     &StatisticsRecord::router_agreement,
          &StatisticsRecord::state_agreement, &StatisticsRecord::pair_overlap, &StatisticsRecord::pair_jaccard};
}

void expect_equal_counts(const StatisticsRecord& found, const StatisticsRecord& expected) {
  for (const auto member : counted())
    for (size_t i = 0; i < (expected.*member).size(); ++i) {
      if (std::isnan((expected.*member)[i])) continue;
      EXPECT_EQ((found.*member)[i], (expected.*member)[i]) << i;
    }
}

TEST(LoopStatistics, CountsAreTheSameForAnyMicroBatch) {
  const StatisticsRecord whole = Looked(plain_plan(), 8).look();
  for (const int64_t micro_batch : {1, 2, 3}) {
    const StatisticsRecord parts = Looked(plain_plan(), micro_batch).look();
    SCOPED_TRACE(micro_batch);
    expect_equal_counts(parts, whole);
    expect_means(parts.token_cosine, whole.token_cosine, "token cosine", 1e-9);
    expect_means(parts.update_rms, whole.update_rms, "update", 1e-6);
  }
}

TEST(LoopStatistics, RecomputationIsCountedOnceAndSegmentsGoOn) {
  const StatisticsRecord full = Looked(plain_plan()).look();
  TrainingPlan recomputed = plain_plan();
  recomputed.step.back_propagation = {BackPropagationMode::kCheckpointed, 1, true};
  TrainingPlan segments = plain_plan();
  segments.step.back_propagation = {BackPropagationMode::kSegmented, 2, false};  // no update in between
  TrainingPlan truncated = plain_plan();
  truncated.step.back_propagation = {BackPropagationMode::kTruncated, 1, true};
  for (const TrainingPlan& plan : {recomputed, segments, truncated}) {
    const StatisticsRecord other = Looked(plan, 3).look();
    expect_equal_counts(other, full);
    expect_means(other.cosine_back, full.cosine_back, "cosines back", 1e-6);
    expect_means(other.relative_update, full.relative_update, "relative update", 1e-6);
  }
}

TEST(LoopStatistics, ALookChangesNoBitOfTheTraining) {
  const auto weights_after = [](bool look) {
    Looked looked(TrainingPlan{}, 3);
    for (int64_t step = 1; step <= 3; ++step)
      looked.training.trainer.run(looked.training.batches(step), {step, 1, 0, look});
    std::vector<float> all;
    for (const Parameter& p : looked.training.model.parameters().all()) {
      const std::vector<float> values = p.value.get<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  EXPECT_EQ(weights_after(true), weights_after(false));
}

TEST(LoopStatistics, LoopsThatAStepDidNotRunAreNotNumbers) {
  Looked looked(plain_plan());
  const StepResult result = looked.training.trainer.run(looked.training.batches(1), {1, 1, 3, true});
  const StatisticsRecord& record = *result.look;
  ASSERT_EQ(record.update_rms.size(), 4u);
  ASSERT_EQ(record.pair_overlap.size(), 32u);
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(std::isnan(record.update_rms[t]), t >= 3);
    EXPECT_EQ(std::isnan(record.distinct[t * 2]), t >= 3);
    EXPECT_EQ(std::isnan(record.pair_overlap[t * 2]), t >= 3);
    EXPECT_EQ(std::isnan(record.router_logit_max[t * 2]), t >= 3);
  }
}

TEST(LoopStatistics, EveryManyethTokenIsAMeanOverThose) {
  TrainingPlan plan = plain_plan();
  plan.step.statistics_stride = 5;
  Looked looked(plan);
  const Seen seen = looked.see();
  const StatisticsRecord record = looked.look();
  double sum = 0;
  size_t count = 0;
  for (size_t r = 0; r < 128; ++r) {
    if (r % 16 % 5 != 0) continue;  // 8 sequences of 16 tokens
    ++count;
    for (size_t c = 0; c < 32; ++c) {
      const double d =
          static_cast<double>(seen.states[2][r * 32 + c]) - static_cast<double>(seen.states[1][r * 32 + c]);
      sum += d * d;
    }
  }
  EXPECT_NEAR(record.update_rms[1], std::sqrt(sum / static_cast<double>(count * 32)), 1e-6);
  // The tokens are the same ones in any micro-batch.
  expect_means(Looked(plan, 3).look().update_rms, record.update_rms, "update", 1e-6);
}

TEST(LoopStatistics, DenseLoopsHaveStatesOnly) {
  TrainingPlan plan = plain_plan();
  plan.model = dense_model();
  plan.optimizer.loops = plan.model.loops;
  const StatisticsRecord record = Looked(plan).look();
  EXPECT_TRUE(record.pair_overlap.empty());
  EXPECT_EQ(record.update_rms.size(), static_cast<size_t>(plan.model.loops));
  for (const double update : record.update_rms) EXPECT_GT(update, 0);
}

}  // namespace
}  // namespace heddle
