// The numbers a run shows and decides by, against answers made by hand: progress line, routing statistics, spike guard,
// segments, rows of micro-batches, drawn tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/train/tiny_model.h"
#include "train/generation.h"
#include "train/progress.h"
#include "train/step.h"

namespace heddle {
namespace {

Progress sample() {
  Progress p;
  p.step = 20;
  p.steps = 400;
  p.seconds_per_step = 0.5;
  p.loss = 5.12344;
  p.bits_per_byte = 2.3456;
  p.gradient_norm = 1.234;
  p.learning_rate = 1e-3;
  p.tokens_per_second = 1234.4;
  p.utilisation = 0.414;
  p.largest_share = 0.181;
  p.overlap = 0.9166;
  return p;
}

TEST(ProgressLine, ShowsEveryNumber) {
  EXPECT_EQ(progress_line(sample()),
            "step 20/400   5.0%  eta 3m10s   loss 5.1234  bpb 2.346  norm 1.23  lr 1.00e-03  1234 tok/s  util 41%  "
            "top expert 18%  overlap 0.917");
}

TEST(ProgressLine, LeavesOutWhatIsUnknown) {
  Progress p = sample();
  p.utilisation = 0;
  p.overlap = -1;
  p.largest_share = -1;
  const std::string line = progress_line(p);
  EXPECT_EQ(line.find("util"), std::string::npos);
  EXPECT_EQ(line.find("expert"), std::string::npos) << "a dense model";
  EXPECT_EQ(line.find("overlap"), std::string::npos);
}

TEST(ProgressLine, TimeLeft) {
  const auto eta = [](int64_t steps, double seconds) {
    Progress p = sample();
    p.step = 0;
    p.steps = steps;
    p.seconds_per_step = seconds;
    const std::string line = progress_line(p);
    const size_t at = line.find("eta ") + 4;
    return line.substr(at, line.find(' ', at) - at);
  };
  EXPECT_EQ(eta(10, 0.1), "1s");
  EXPECT_EQ(eta(59, 1), "59s");
  EXPECT_EQ(eta(60, 1), "1m00s");
  EXPECT_EQ(eta(3599, 1), "59m59s");
  EXPECT_EQ(eta(3660, 1), "1h01m");
  EXPECT_EQ(eta(100, 3600), "100h00m");
}

TEST(ProgressNumbers, ByHand) {
  EXPECT_DOUBLE_EQ(bits_per_byte(std::log(2.0) * 30, 10), 3);
  EXPECT_TRUE(std::isnan(bits_per_byte(5, 0))) << "zero would look like a perfect model";
  EXPECT_DOUBLE_EQ(utilisation(6e6, 1000, 1.2e10), 0.5);
  EXPECT_EQ(utilisation(6e6, 1000, 0), 0);
  EXPECT_DOUBLE_EQ(largest_expert_share({1, 3, 2, 2, 0, 0, 5, 15}, 2), 0.75);  // last cell 15 of 20, first 3 of 4
  EXPECT_EQ(largest_expert_share({0, 0}, 2), 0);
  EXPECT_DOUBLE_EQ(mean_of({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(mean_of({1, std::nan(""), 3}), 2) << "loops that were not run";
  EXPECT_EQ(mean_of({}), -1) << "nothing to show";
  EXPECT_EQ(mean_of({std::nan("")}), -1);
}

Tensor integers(const std::vector<int32_t>& values, Shape shape) {
  Tensor t = Tensor::empty(std::move(shape), Purpose::kActivations, DType::kInt32);
  std::copy(values.begin(), values.end(), t.i32());
  return t;
}

/// 1 / sqrt(square + eps) per token.
Tensor inverse_of(const std::vector<double>& mean_squares, double eps) {
  Tensor t = Tensor::empty({static_cast<int64_t>(mean_squares.size())}, Purpose::kActivations);
  for (size_t i = 0; i < mean_squares.size(); ++i)
    t.f32()[i] = static_cast<float>(1 / std::sqrt(mean_squares[i] + eps));
  return t;
}

/// One layer in the core, two loops, four experts, k 2, D 4.
ModelConfig one_layer() {
  ModelConfig config = tiny_model();
  config.hidden_size = 4;
  config.layers = 1;
  config.loops = 2;
  config.moe = {.experts = 4, .top_k = 2, .shared_experts = 0, .intermediate = 2};
  return config;
}

TEST(RoutingStatistics, ByHand) {
  // Micro-batches of two tokens and of one.
  constexpr double kEps = 1e-6;
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  const LoopedModel model(one_layer(), groups, cpu::kernels());
  RoutingStatistics s(model, 2);
  const auto visit = [&](int64_t loop, const std::vector<int32_t>& chosen, const std::vector<double>& squares,
                         const Tensor& keep) {
    Routing routing;
    routing.index = integers(chosen, {static_cast<int64_t>(chosen.size()) / 2, 2});
    routing.keep = keep;
    const Tensor inverse = inverse_of(squares, kEps);
    const Tensor state = Tensor::zeros({static_cast<int64_t>(squares.size()), 4}, Purpose::kActivations);
    s.on_block({{StackPart::kCore, loop, 0, 0}, 0.1, nullptr, state, inverse, routing});
    s.on_loop_end(loop, state, inverse);
  };
  Tensor keep = Tensor::zeros({2, 2}, Purpose::kActivations, DType::kUint8);
  for (const int i : {0, 1, 3}) keep.u8()[i] = 1;

  for (int step = 0; step < 2; ++step) {  // the second step forgets the first
    s.begin_step(2);
    s.select_micro_batch(0);
    visit(0, {0, 1, 2, 3}, {4, 16}, {});
    visit(1, {1, 0, 3, 1}, {1, 1}, keep);  // token 0 keeps both in the other order, token 1 one of two; slot 2 dropped
    s.select_micro_batch(1);
    visit(0, {0, 2}, {10}, {});
    visit(1, {1, 3}, {1}, {});
    s.reduce(*world);
    EXPECT_EQ(s.loads(), (std::vector<int64_t>{2, 1, 2, 1, 1, 3, 0, 1}));
    EXPECT_EQ(s.dropped(), (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(s.stored_load(0), (std::vector<int64_t>{3, 4, 2, 2}));
    EXPECT_EQ(s.stored_load(0, 0), (std::vector<int64_t>{2, 1, 2, 1}));
    EXPECT_EQ(s.stored_load(0, 1), (std::vector<int64_t>{1, 3, 0, 1}));
    ASSERT_EQ(s.overlap().size(), 1U);
    EXPECT_DOUBLE_EQ(s.overlap()[0], 0.5);  // 2 + 1 + 0 of 6
    EXPECT_NEAR(s.state_rms()[0], std::sqrt(10.0), 1e-5);
    EXPECT_NEAR(s.state_rms()[1], 1, 1e-5);
    EXPECT_NEAR(s.block_rms()[0], std::sqrt(10.0), 1e-5);
  }
}

TEST(RoutingStatistics, OfPreludeCodaAndLoopsBeyondTheModel) {
  ModelConfig config = one_layer();
  config.prelude_layers = config.coda_layers = 1;
  config.outer_feed_forward = FeedForwardKind::kMoe;
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  const LoopedModel model(config, groups, cpu::kernels());
  RoutingStatistics s(model, 4);
  s.begin_step(1);
  const Tensor state = Tensor::empty({1, 4}, Purpose::kActivations), without_norm;
  for (int i = 0; i < 4; ++i) state.f32()[i] = static_cast<float>(i);  // mean square 14 / 4
  const auto visit = [&](StackPart part, int64_t loop, int64_t stored, const std::vector<int32_t>& chosen) {
    Routing routing;
    routing.index = integers(chosen, {1, 2});
    s.on_block({{part, loop, 0, stored}, 1, nullptr, state, without_norm, routing});
    if (part == StackPart::kCore) s.on_loop_end(loop, state, without_norm);
  };
  visit(StackPart::kPrelude, 0, 0, {3, 0});
  for (int64_t loop = 0; loop < 3; ++loop) visit(StackPart::kCore, loop, 1, {0, 1});
  visit(StackPart::kCoda, 0, 2, {2, 3});
  s.reduce(*world);
  EXPECT_EQ(s.stored_load(0), (std::vector<int64_t>{1, 0, 0, 1}));
  EXPECT_EQ(s.stored_load(1), (std::vector<int64_t>{3, 3, 0, 0}));
  EXPECT_EQ(s.stored_load(1, 0), (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(s.stored_load(1, 1), (std::vector<int64_t>{2, 2, 0, 0})) << "loop 3 of 2 counts to the last row";
  EXPECT_EQ(s.stored_load(2), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(s.loads(), (std::vector<int64_t>{1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0})) << "the core alone";
  for (const std::vector<double>& rms : {s.state_rms(), s.block_rms()}) {
    ASSERT_EQ(rms.size(), 4U);
    for (size_t loop = 0; loop < 3; ++loop) EXPECT_DOUBLE_EQ(rms[loop], std::sqrt(14.0 / 4));
    EXPECT_TRUE(std::isnan(rms[3])) << "a loop that was not run";
  }
  EXPECT_EQ(s.overlap()[1], 1);
  EXPECT_TRUE(std::isnan(s.overlap()[2]));
}

TEST(SpikeGuard, LimitsByHand) {
  SpikeGuard g(2);
  EXPECT_FALSE(g.is_spike(0, 100)) << "no baseline yet";
  EXPECT_TRUE(g.is_spike(0, std::nan("")));
  EXPECT_TRUE(g.is_spike(0, std::numeric_limits<double>::infinity()));
  g.accept(0, 2);
  EXPECT_FALSE(g.is_spike(0, 2.17));
  EXPECT_TRUE(g.is_spike(0, 2.19));  // 9 % and more than 0.18
  EXPECT_FALSE(g.is_spike(0, 0.5)) << "a fall is no spike";
  EXPECT_FALSE(g.is_spike(1, 100)) << "every segment has a baseline of its own";
  g.accept(0, 3);
  EXPECT_DOUBLE_EQ(*g.baselines()[0], 2.1);
  SpikeGuard high(1);
  high.accept(0, 10);
  EXPECT_FALSE(high.is_spike(0, 10.59));
  EXPECT_TRUE(high.is_spike(0, 10.61));  // 6 %
  SpikeGuard low(1);
  low.accept(0, 0.5);
  EXPECT_TRUE(low.is_spike(0, 0.55));  // 9 %
}

TEST(Pieces, CutTheLoops) {
  using Mode = BackPropagationMode;
  // First loop, first with gradient, end, loops between kept states.
  using Rows = std::vector<std::vector<int64_t>>;
  const auto pieces = [](Mode mode, int64_t n, int64_t loops) {
    Rows rows;
    for (const Piece& p : pieces_of({mode, n, true}, loops))
      rows.push_back({p.first, p.gradient_from, p.last, p.kept_every});
    return rows;
  };
  EXPECT_EQ(pieces(Mode::kSegmented, 2, 6), (Rows{{0, 0, 2, 0}, {2, 2, 4, 0}, {4, 4, 6, 0}}));
  EXPECT_EQ(pieces(Mode::kSegmented, 2, 5), (Rows{{0, 0, 2, 0}, {2, 2, 4, 0}, {4, 4, 5, 0}}));
  EXPECT_EQ(pieces(Mode::kSegmented, 7, 3), (Rows{{0, 0, 3, 0}}));
  EXPECT_EQ(pieces(Mode::kFull, 0, 3), (Rows{{0, 0, 3, 0}}));
  EXPECT_EQ(pieces(Mode::kFull, 2, 3), (Rows{{0, 0, 3, 0}}));
  EXPECT_EQ(pieces(Mode::kTruncated, 2, 5), (Rows{{0, 3, 5, 0}}));
  EXPECT_EQ(pieces(Mode::kTruncated, 5, 5), (Rows{{0, 0, 5, 0}}));
  EXPECT_EQ(pieces(Mode::kTruncated, 8, 5), (Rows{{0, 0, 5, 0}}));
  EXPECT_EQ(pieces(Mode::kCheckpointed, 2, 5), (Rows{{0, 0, 5, 2}}));
}

TEST(LoopWork, IsWhatATokenPasses) {
  using Mode = BackPropagationMode;
  const auto numbers = [](Mode mode, int64_t n, const std::vector<double>& weights, int64_t loops) {
    const LoopWork w = work_of({mode, n, true}, weights, loops);
    return std::vector<int64_t>{w.loops, w.without_gradient, w.entries, w.exits};
  };
  using Row = std::vector<int64_t>;
  EXPECT_EQ(numbers(Mode::kFull, 0, {}, 5), (Row{5, 0, 1, 1}));
  EXPECT_EQ(numbers(Mode::kCheckpointed, 2, {}, 5), (Row{5, 0, 1, 1})) << "recomputation is no work";
  EXPECT_EQ(numbers(Mode::kTruncated, 2, {}, 5), (Row{5, 3, 1, 1}));
  EXPECT_EQ(numbers(Mode::kTruncated, 8, {}, 5), (Row{5, 0, 1, 1}));
  EXPECT_EQ(numbers(Mode::kSegmented, 2, {}, 5), (Row{5, 0, 3, 3}));
  EXPECT_EQ(numbers(Mode::kFull, 0, {0.5, 0, 0.25}, 3), (Row{3, 0, 1, 2}));
  EXPECT_EQ(numbers(Mode::kTruncated, 1, {0.5, 0, 0.25}, 3), (Row{3, 2, 1, 2}));
}

TEST(MicroBatchRows, CoverEveryRowOnce) {
  for (int64_t batch = 1; batch <= 17; ++batch)
    for (int64_t micro = 1; micro <= 9; ++micro)
      for (int ranks = 1; ranks <= 5; ++ranks) {
        std::vector<int> seen(static_cast<size_t>(batch), 0);
        std::set<size_t> steps;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<RowRange> ranges = micro_batch_rows(batch, micro, rank, ranks);
          steps.insert(ranges.size());
          for (const RowRange r : ranges) {
            ASSERT_GE(r.count, 0);
            ASSERT_LE(r.count, micro);
            for (int64_t row = r.first; row < r.first + r.count; ++row) ++seen.at(static_cast<size_t>(row));
          }
        }
        EXPECT_EQ(steps.size(), 1U) << "ranks must agree on the number of micro-steps";
        for (const int n : seen)
          ASSERT_EQ(n, 1) << batch << " rows, " << micro << " per micro-batch, " << ranks << " ranks";
      }
}

TEST(DrawToken, FollowsTheProbabilities) {
  // Probabilities 1/2, 1/4, 1/4 of ids 1, 0, 3; id 2 lies outside of the top three.
  const float half = std::log(2.0F);
  const std::vector<float> logits{0, half, -1, 0};
  const auto draw = [&](double temperature, int64_t top_k, double uniform) {
    return draw_token(logits.data(), 4, temperature, top_k, uniform);
  };
  EXPECT_EQ(draw(1, 3, 0), 1);
  EXPECT_EQ(draw(1, 3, 0.499), 1);
  EXPECT_EQ(draw(1, 3, 0.501), 0);
  EXPECT_EQ(draw(1, 3, 0.749), 0);
  EXPECT_EQ(draw(1, 3, 0.751), 3);
  EXPECT_EQ(draw(1, 3, 0.999999), 3);
  EXPECT_EQ(draw(1, 0, 0.999999), 2);
  EXPECT_EQ(draw(0, 0, 0.9), 1);
  EXPECT_EQ(draw(1, 1, 0.9), 1);
  EXPECT_EQ(draw(1, 2, 0.9), 0) << "equal logits: the lower id is among the likeliest";
  EXPECT_EQ(draw(0.5, 3, 0.66), 1) << "4 : 1 : 1 at half the temperature";
  EXPECT_EQ(draw(0.5, 3, 0.67), 0);
}

}  // namespace
}  // namespace heddle
