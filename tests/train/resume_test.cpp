// A run that stops and goes on equals one that never stopped, to the bit, on one rank.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "data/loader.h"
#include "support/atomic_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_training.h"
#include "train/resumed_config.h"

namespace heddle {
namespace {

TEST(Resume, SevenAndThirteenStepsEqualTwenty) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig straight = tiny_run(folder.path("store.h5"), folder.path("straight"));
  const TrainOutcome whole = train(job, straight);
  EXPECT_EQ(whole.steps_done, 20);

  TrainConfig part = tiny_run(folder.path("store.h5"), folder.path("parts"));
  part.stop_after = 7;
  EXPECT_EQ(train(job, part).steps_done, 7);
  part.stop_after = 0;
  part.resume = true;
  const TrainOutcome rest = train(job, part);
  EXPECT_EQ(rest.steps_done, 20);

  expect_same_checkpoint(rest.checkpoint, whole.checkpoint);
  expect_same_log(folder.path("parts/log.h5"), folder.path("straight/log.h5"));
  EXPECT_EQ(rest.validation_bits_per_byte, whole.validation_bits_per_byte);

  // The edge of an epoch lies inside, and training moved the weights.
  const TokenStore store = TokenStore::open(folder.path("store.h5"));
  const Loader loader(store, {16, 4, 1, true});
  EXPECT_GT(loader.samples(), 7 * 4);
  EXPECT_LT(loader.samples(), 20 * 4 - 4);
  const RunLog log = RunLog::open(folder.path("straight/log.h5"));
  EXPECT_LT(log.steps.back().loss, log.steps.front().loss - 0.05);
}

TEST(Resume, MuonAndMuonHGoOnToTheBit) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  for (const char* name : {"muon", "muonh"}) {
    TrainConfig straight = tiny_run(folder.path("store.h5"), folder.path(fmt::format("{}_straight", name)));
    straight.model.moe.shared_experts = 2;
    straight.schedule.name = "cosine";
    straight.optimizer.name = name;
    straight.optimizer.tied_rate_power = 0.5;
    straight.optimizer.muon = {.momentum_start = 0.85, .momentum_steps = 12, .second_moment = 0.9};
    TrainConfig parts = straight;
    parts.directory = folder.path(fmt::format("{}_parts", name));
    parts.stop_after = 7;
    train(job, parts);
    parts.stop_after = 0;
    parts.resume = true;
    const TrainOutcome whole = train(job, straight), rest = train(job, parts);
    expect_same_checkpoint(rest.checkpoint, whole.checkpoint);
    expect_same_log(parts.directory + "/log.h5", straight.directory + "/log.h5");
    const RunLog log = RunLog::open(straight.directory + "/log.h5");
    EXPECT_LT(log.steps.back().loss, log.steps.front().loss - 0.05);

    const h5::File file(whole.checkpoint, h5::File::Mode::kRead);
    const std::string experts = "core.0.moe.experts.up_proj.weight", shared = "core.0.moe.shared.down_proj.weight";
    EXPECT_EQ(file.extent("/optimizer/second/" + experts), (h5::Extent{4, 16}));
    EXPECT_EQ(file.extent("/optimizer/second/" + shared), (h5::Extent{2, 16}));
    EXPECT_EQ(file.extent("/optimizer/second/lm_head.weight"), file.extent("/model/lm_head.weight"));
    EXPECT_EQ(file.exists("/optimizer/target/" + experts), straight.optimizer.name == "muonh");
    parts.optimizer.muon.second_moment = 0;
    expect_error<UsageError>([&] { train(job, parts); }, "muon.second_moment was 0.9");
  }
}

TEST(Resume, EverySessionWritesEventsOfItsOwn) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig config = tiny_run(folder.path("store.h5"), folder.path("run"));
  const auto files = [&] {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("run/tensorboard")))
      contents[entry.path().filename().string()] = read_text_file(entry.path().string());
    return contents;
  };
  config.stop_after = 2;
  train(job, config);
  EXPECT_FALSE(std::filesystem::exists(folder.path("run/tensorboard"))) << "only where it is wanted";
  config.tensorboard = config.resume = true;
  config.stop_after = 4;
  train(job, config);
  const auto before = files();
  ASSERT_EQ(before.size(), 1u);
  EXPECT_NE(before.begin()->second.find("train/loss"), std::string::npos);
  EXPECT_NE(before.begin()->second.find("validation/loss"), std::string::npos);
  EXPECT_NE(before.begin()->second.find("memory/peak_bytes"), std::string::npos);
  config.stop_after = 6;
  train(job, config);
  const auto after = files();
  EXPECT_EQ(after.size(), 2u);
  EXPECT_EQ(after.at(before.begin()->first), before.begin()->second);
  std::filesystem::remove_all(folder.path("run/tensorboard"));
  std::ofstream(folder.path("run/tensorboard")) << "a file";
  config.stop_after = 8;
  expect_error<Error>([&] { train(job, config); }, "tensorboard");
}

TEST(Resume, RepeatsStepsBehindTheLastCheckpoint) {
  // A run that dies at step 7 after a checkpoint at step 5 repeats steps 6 and 7; the log holds each step once.
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  const TrainOutcome whole = train(job, tiny_run(folder.path("store.h5"), folder.path("straight")));
  TrainConfig part = tiny_run(folder.path("store.h5"), folder.path("parts"));
  part.checkpoint_interval = 5;
  part.stop_after = 7;
  const std::string last = train(job, part).checkpoint;
  std::filesystem::remove(last);
  std::filesystem::remove(std::filesystem::path(last).replace_extension(".complete"));
  part.stop_after = 0;
  part.resume = true;
  expect_same_checkpoint(train(job, part).checkpoint, whole.checkpoint);
  expect_same_log(folder.path("parts/log.h5"), folder.path("straight/log.h5"));
}

TEST(Resume, TheSameCommandTwiceGivesTheSameBits) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  const TrainOutcome first = train(job, tiny_run(folder.path("store.h5"), folder.path("first")));
  const TrainOutcome second = train(job, tiny_run(folder.path("store.h5"), folder.path("second")));
  expect_same_checkpoint(second.checkpoint, first.checkpoint);
  expect_same_log(folder.path("second/log.h5"), folder.path("first/log.h5"));
}

TEST(Resume, AnotherSeedGivesOtherWeights) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig config = tiny_run(folder.path("store.h5"), folder.path("first"));
  config.steps = 2;
  const TrainOutcome first = train(job, config);
  config.directory = folder.path("second");
  config.seed = 2;
  const TrainOutcome second = train(job, config);
  const h5::File a(first.checkpoint, h5::File::Mode::kRead), b(second.checkpoint, h5::File::Mode::kRead);
  EXPECT_NE(a.read<float>("/model/lm_head.weight"), b.read<float>("/model/lm_head.weight"));
}

TEST(Resume, RefusesAnotherBatchAnotherStoreAndATakenFolder) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig config = tiny_run(folder.path("store.h5"), folder.path("run"));
  config.stop_after = 2;
  train(job, config);
  expect_error<Error>([&] { train(job, config); }, "already holds a run");
  config.resume = true;
  config.global_batch = 8;
  expect_error<UsageError>([&] { train(job, config); }, "train.global_batch was 4");
  config.global_batch = 4;
  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  StoreContent content;
  content.part(Part::kTrain).add(*tokenizer, std::string(200, 'x'));
  write_token_store(folder.path("other.h5"), *tokenizer, content);
  config.store = folder.path("other.h5");
  expect_error<Error>([&] { train(job, config); }, "trained on other data");
}

TEST(Resume, RatesOfASessionInTwoPartsAreThoseOfOne) {
  // Warm-up ends at step 10 and decay at step 20, where the parts meet and end.
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig straight = tiny_run(folder.path("store.h5"), folder.path("straight"));
  straight.schedule.warmup_ratio = 0.5;
  straight.schedule.decay_ratio = 0.5;
  TrainConfig parts = straight;
  parts.directory = folder.path("parts");
  train(job, straight);
  for (const int64_t stop : {10, 15, 20}) {
    parts.stop_after = stop;
    train(job, parts);
    parts.resume = true;
  }
  const RunLog a = RunLog::open(folder.path("parts/log.h5")), b = RunLog::open(folder.path("straight/log.h5"));
  ASSERT_EQ(a.steps.size(), 20U);
  for (size_t i = 0; i < a.steps.size(); ++i) EXPECT_EQ(a.steps[i].learning_rate, b.steps[i].learning_rate);
  EXPECT_EQ(b.steps[9].learning_rate, straight.optimizer.learning_rate);
  EXPECT_DOUBLE_EQ(b.steps[19].learning_rate, 0.1 * straight.optimizer.learning_rate);
}

TEST(Resume, AFinishedRunChangesNothing) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig config = tiny_run(folder.path("store.h5"), folder.path("run"));
  const std::string before = folder.path("before.h5");
  std::filesystem::copy(train(job, config).checkpoint, before);
  config.resume = true;
  const TrainOutcome again = train(job, config);
  EXPECT_EQ(again.steps_done, 20);
  expect_same_checkpoint(again.checkpoint, before);
}

TEST(Resume, SaysWhatChangedAndRefusesWhatMustNot) {
  TrainConfig config;
  const auto text = [&config] {
    Config keys;
    config.declare(keys);
    return keys.resolved();
  };
  const std::string before = text();
  config.optimizer.learning_rate = 5e-3;
  config.steps = 2000;
  config.directory = "elsewhere";
  config.expert_parallel = 4;
  EXPECT_EQ(compare_resumed_config("c.h5", before, text()),
            (std::vector<std::string>{"optimizer.learning_rate 0.001 -> 0.005", "train.steps 1000 -> 2000"}));
  config.model.rope_theta = 500;
  expect_error<UsageError>([&] { compare_resumed_config("c.h5", before, text()); },
                           "model.rope_theta was 10000 when 'c.h5' was written and is 500 now");
}

/// Text of a run's configuration from flags, as a checkpoint keeps it.
std::string config_text(const std::vector<std::string>& flags) {
  TrainConfig config;
  Config keys;
  config.declare(keys);
  keys.parse(flags);
  return keys.resolved();
}

TEST(Resume, HoldsEveryKeyThatMustStay) {
  const char* const kFunction = "the weights would be used as another function";
  const char* const kShift = "the data position would shift";
  const char* const kLog = "the log and the spike guard are kept by segment";
  const char* const kLoops = "steps before would have run other loops";
  const char* const kState = "the optimizer's state is another one";
  const struct {
    const char* key;
    const char *before, *now;  ///< "": as an empty value
    std::vector<std::string> beside;
    const char* why;
  } table[] = {
      {"train.global_batch", "16", "32", {}, kShift},
      {"train.sequence_length", "256", "128", {}, kShift},
      {"train.seed", "1", "2", {}, kShift},
      {"data.unique_tokens", "0", "512", {}, kShift},
      {"model.hidden_size", "64", "128", {}, kFunction},
      {"model.layers", "2", "3", {}, kFunction},
      {"model.loops", "4", "5", {}, kFunction},
      {"model.tied", "true", "false", {}, kFunction},
      {"model.rope_theta", "10000", "500", {}, kFunction},
      {"model.norm_eps", "1e-06", "1e-05", {}, kFunction},
      {"norms.block", "off", "gain", {}, kFunction},
      {"embedding.scaled", "true", "false", {}, kFunction},
      {"embedding.tied", "true", "false", {}, kFunction},
      {"feed_forward.core", "moe", "dense", {}, kFunction},
      {"residual.lambda", "0.5", "0.25", {"--residual.scheme", "scaled"}, kFunction},
      {"reinjection.lambda", "0.5", "0.25", {"--reinjection.kind", "convex"}, kFunction},
      {"hyper_connections.lanes", "2", "3", {"--reinjection.kind", "none"}, kFunction},
      {"conditioning.kind", "off", "embedding", {}, kFunction},
      {"conditioning.width", "8", "16", {"--conditioning.kind", "modulation"}, kFunction},
      {"head.multiplier", "1", "2", {}, kFunction},
      {"head.soft_cap", "0", "15", {}, kFunction},
      {"moe.experts", "8", "16", {}, kFunction},
      {"moe.top_k", "2", "3", {}, kFunction},
      {"moe.shared_experts", "1", "2", {}, kFunction},
      {"moe.intermediate", "64", "32", {}, kFunction},
      {"moe.score", "sigmoid", "softmax", {}, kFunction},
      {"moe.router", "per_loop", "shared", {}, kFunction},
      {"moe.renormalise", "true", "false", {}, kFunction},
      {"moe.balance_scope", "layer", "layer_loop", {"--train.balance_rate", "0.1"}, kFunction},
      {"backprop.mode", "full", "truncated", {"--backprop.loops", "2"}, kLog},
      {"backprop.loops", "2", "3", {"--backprop.mode", "segmented"}, kLog},
      {"loss.loop_weights", "", "0.5,1", {}, kLog},
      {"loss.loop_weights", "0.5,1", "", {}, kLog},
      {"loss.loop_weights", "0.5,1", "0.25,1", {}, kLog},
      {"loop_count.distribution", "fixed", "poisson", {}, kLoops},
      {"loop_count.low", "1", "2", {"--loop_count.distribution", "uniform"}, kLoops},
      {"loop_count.high", "8", "9", {"--loop_count.distribution", "uniform"}, kLoops},
      {"loop_count.sigma", "0.5", "0.25", {"--loop_count.distribution", "poisson"}, kLoops},
      {"growth.initial_loops", "0", "1", {}, kLoops},
      {"growth.at", "0.5", "0.25", {"--growth.initial_loops", "1"}, kLoops},
      {"optimizer.name", "adamw", "muon", {}, kState},
      {"muon.second_moment", "0", "0.9", {"--optimizer.name", "muon"}, kState},
      {"muon.routers", "false", "true", {"--optimizer.name", "muon"}, kState},
  };
  for (const auto& row : table) {
    SCOPED_TRACE(fmt::format("{} {} -> {}", row.key, row.before, row.now));
    const auto text = [&row](const char* value) {
      std::vector<std::string> flags = row.beside;
      if (std::string(row.key) == "backprop.mode" && std::string(value) == "full") flags.clear();
      flags.insert(flags.end(), {std::string("--") + row.key, value});
      return config_text(flags);
    };
    const auto shown = [](const char* value) { return std::string(value).empty() ? "empty" : std::string(value); };
    try {
      compare_resumed_config("c.h5", text(row.before), text(row.now));
      ADD_FAILURE() << "was taken";
    } catch (const UsageError& error) {
      const std::string key = std::string(row.key) == "backprop.mode" ? "backprop.loops" : row.key;
      if (key == row.key) {
        EXPECT_EQ(error.what(), fmt::format("{} was {} when 'c.h5' was written and is {} now: {}", key,
                                            shown(row.before), shown(row.now), row.why));
        EXPECT_EQ(error.hint(),
                  fmt::format("--{} {}, or a new run.directory", key, *row.before == 0 ? "''" : row.before));
      } else {
        EXPECT_NE(std::string(error.what()).find(row.why), std::string::npos) << error.what();
      }
    }
    EXPECT_EQ(compare_resumed_config("c.h5", text(row.now), text(row.now)), std::vector<std::string>{});
  }
}

TEST(Resume, DoesNotMentionWhatMakesNoDifferenceAnyMore) {
  TrainConfig config;
  const auto text = [&config] {
    Config keys;
    config.declare(keys);
    return keys.resolved();
  };
  const std::string before = text();
  config.model.initialisation = Initialisation::kHuginn;  // start values are in the past
  config.loop_schedule.growth_at = 0.5;                   // nothing grows
  config.model.deepnorm_power = 0.25;                     // would be refused if something read it
  config.optimizer.muon.momentum = 0.5;
  EXPECT_EQ(compare_resumed_config("c.h5", before, text()), std::vector<std::string>{});
}

TEST(Resume, MoreStepsWouldMoveGrowth) {
  TrainConfig config;
  config.loop_schedule.growth_initial_loops = 1;
  const auto text = [&config] {
    Config keys;
    config.declare(keys);
    return keys.resolved();
  };
  const std::string before = text();
  config.schedule.rewarm_steps = 7;
  EXPECT_EQ(compare_resumed_config("c.h5", before, text()), (std::vector<std::string>{"growth.rewarm_steps 0 -> 7"}));
  config.steps = 2000;
  expect_error<UsageError>([&] { compare_resumed_config("c.h5", before, text()); },
                           "train.steps was 1000 when 'c.h5' was written and is 2000 now");
}

TEST(Resume, RecomputingMaySaveARunThatDoesNotFit) {
  TrainConfig config;
  const auto text = [&config] {
    Config keys;
    config.declare(keys);
    return keys.resolved();
  };
  const std::string before = text();
  config.step.back_propagation = {BackPropagationMode::kCheckpointed, 2, true};
  EXPECT_EQ(compare_resumed_config("c.h5", before, text()),
            (std::vector<std::string>{"backprop.loops 0 -> 2", "backprop.mode full -> checkpointed"}));
  config.step.back_propagation.mode = BackPropagationMode::kTruncated;
  expect_error<UsageError>([&] { compare_resumed_config("c.h5", before, text()); }, "backprop.loops was 0 when");
}

TEST(Resume, GoesBackToAnOlderCheckpointWhereTheNewestIsDamaged) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  const TrainOutcome whole = train(job, tiny_run(folder.path("store.h5"), folder.path("straight")));
  TrainConfig config = tiny_run(folder.path("store.h5"), folder.path("run"));
  config.checkpoint_interval = 5;
  config.stop_after = 10;
  const std::string newest = train(job, config).checkpoint;
  {
    std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(newest) / 2));
    file.put('Z');
  }
  ASSERT_FALSE(check_checkpoint(newest).empty());
  config.stop_after = 0;
  config.resume = true;
  expect_same_checkpoint(train(job, config).checkpoint, whole.checkpoint);
}

TEST(BalanceBias, StandsStillInASkippedStep) {
  TrainingPlan plan;
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 8);
  training.run(1);
  const auto biases = [&] {
    std::vector<float> all;
    for (int64_t l = 0; l < plan.model.layers; ++l) {
      const std::vector<float> one = training.model.balance_bias(l).get<float>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const std::vector<float> before = biases();
  EXPECT_GT(std::count_if(before.begin(), before.end(), [](float b) { return b != 0; }), 0) << "nothing to move";
  const Parameter& head = training.model.parameters().find("lm_head.weight");
  const float kept = head.value.f32()[0];
  head.value.f32()[0] = std::numeric_limits<float>::quiet_NaN();
  const StepResult skipped = training.run(2);
  EXPECT_EQ(skipped.skipped, std::vector<int64_t>(skipped.skipped.size(), 1));
  EXPECT_EQ(biases(), before);
  head.value.f32()[0] = kept;
  EXPECT_EQ(training.run(3).skipped[0], 0);
  EXPECT_NE(biases(), before);
}

TEST(BalanceBias, MovesAgainstASkewedRouterAndIsKept) {
  const TemporaryFolder folder;
  TrainingPlan plan;
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 8);
  // Half of all slots go to expert 0: it is every token's first choice.
  for (int64_t l = 0; l < plan.model.layers; ++l) training.model.balance_bias(l).f32()[0] = 1;
  for (int64_t step = 1; step <= 20; ++step) training.run(step);
  for (int64_t l = 0; l < plan.model.layers; ++l)
    EXPECT_NEAR(training.model.balance_bias(l).f32()[0], 1 - 20 * 2e-3, 1e-5) << "a step down every time";
  const std::string file = save_checkpoint(folder.path("c"), 1, CheckpointWriter::kAuto, {}, training.model,
                                           training.optimizer, training.trainer.spike_guard());
  Training other(plan, *world, 1, 8);
  load_model(file, other.model);
  for (int64_t l = 0; l < plan.model.layers; ++l)
    EXPECT_EQ(relative_error(other.model.balance_bias(l).floats(), training.model.balance_bias(l).floats()), 0);
}

}  // namespace
}  // namespace heddle
