// Stopping and going on with several ranks, and with another number of ranks: a checkpoint does not know its layout.
#include <fstream>

#include "support/atomic_file.h"
#include "tests/distributed/shared_folder.h"
#include "tests/distributed/world.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_training.h"
#include "train/checkpoint.h"

namespace heddle {
namespace {

TEST(DistributedResume, SevenAndThirteenStepsEqualTwenty) {
  const SharedFolder folder;
  if (test_world().rank() == 0) write_tiny_store(folder.path("store.h5"));
  test_world().barrier();
  struct Case {
    const char* optimizer;
    int64_t expert_parallel;
    bool zero;
  };
  for (const auto& [optimizer, expert_parallel, zero] :
       {Case{"adamw", 1, false}, Case{"adamw", 2, false}, Case{"muon", 2, true}, Case{"muonh", 1, true}}) {
    const auto name = [&, about = fmt::format("{}{}", optimizer, expert_parallel)](const char* run) {
      return folder.path(run + about);
    };
    TrainConfig straight = tiny_run(folder.path("store.h5"), name("straight"));
    straight.optimizer.name = optimizer;
    straight.optimizer.zero = zero;
    straight.optimizer.muon.second_moment = 0.9;
    straight.micro_batch = 1;
    straight.expert_parallel = expert_parallel;
    TrainConfig parts = straight;
    parts.directory = name("parts");
    const TrainOutcome whole = train(test_job(), straight);
    parts.stop_after = 7;
    train(test_job(), parts);
    parts.stop_after = 0;
    parts.resume = true;
    const TrainOutcome rest = train(test_job(), parts);
    EXPECT_EQ(rest.steps_done, 20);
    EXPECT_EQ(rest.validation_bits_per_byte, whole.validation_bits_per_byte);
    if (test_world().rank() != 0) continue;
    expect_same_checkpoint(rest.checkpoint, whole.checkpoint);
    expect_same_log(name("parts") + "/log.h5", name("straight") + "/log.h5");
  }
}

TEST(DistributedResume, GoesOnThroughGrowthAndRandomLoops) {
  const SharedFolder folder;
  if (test_world().rank() == 0) write_tiny_store(folder.path("store.h5"));
  test_world().barrier();
  for (const bool growth : {true, false}) {
    TrainConfig straight = tiny_run(folder.path("store.h5"), folder.path(growth ? "grown" : "random"));
    straight.steps = 9;
    straight.micro_batch = 1;
    straight.expert_parallel = 2;
    straight.optimizer.name = "muon";
    straight.optimizer.zero = true;
    straight.optimizer.muon.second_moment = 0.9;
    straight.model.loops = 4;
    if (growth) {
      straight.model.tied = false;
      straight.loop_schedule.growth_initial_loops = 2;
      straight.loop_schedule.growth_at = 0.5;  // in front of step 6
    } else {
      straight.loop_schedule.distribution = LoopDistribution::kPoisson;
      straight.step.back_propagation = {BackPropagationMode::kCheckpointed, 2, true};
    }
    const TrainOutcome whole = train(test_job(), straight);
    for (const int64_t stop : {5, 6}) {
      TrainConfig parts = straight;
      parts.directory = fmt::format("{}_{}", straight.directory, stop);
      parts.stop_after = stop;
      train(test_job(), parts);
      parts.stop_after = 0;
      parts.resume = true;
      const TrainOutcome rest = train(test_job(), parts);
      if (test_world().rank() != 0) continue;
      expect_same_checkpoint(rest.checkpoint, whole.checkpoint);
      expect_same_log(parts.directory + "/log.h5", straight.directory + "/log.h5");
    }
  }
}

TEST(DistributedResume, GoesOnWithOneRank) {
  // Experts over all ranks for 7 steps; then every rank goes on by itself with all experts, next to the job.
  const SharedFolder folder;
  TrainingPlan plan;
  plan.global_batch = 2 * test_world().size();
  Training many(plan, test_world(), test_world().size(), 2);
  for (int64_t step = 1; step <= 7; ++step) many.run(step);
  const CheckpointInfo info{
      .step = 7, .config = "", .tokenizer_kind = "", .tokenizer_fingerprint = "", .tokenizer = "", .data_hash = ""};
  const std::string file = save_checkpoint(folder.path("checkpoints"), 2, CheckpointWriter::kAuto, info, many.model,
                                           many.optimizer, many.trainer.spike_guard());

  const auto single = make_single_communicator();
  Training one(plan, *single, 1, plan.global_batch);
  load_model(file, one.model);
  load_training_state(file, one.model, one.optimizer, one.trainer.spike_guard());
  const auto same_part = [](const Parameter& p, const Tensor& global) { return global.f32() + p.global_offset(); };
  size_t i = 0;
  for (const Parameter& p : many.model.parameters().all()) {
    const Optimizer::State &mine = many.optimizer.states()[i], &loaded = one.optimizer.states()[i];
    const Parameter& whole = one.model.parameters().all()[i++];
    const auto bytes = static_cast<size_t>(p.value.bytes());
    EXPECT_EQ(std::memcmp(p.value.f32(), same_part(p, whole.value), bytes), 0) << p.name;
    EXPECT_EQ(std::memcmp(mine.first.f32(), same_part(p, loaded.first), bytes), 0) << p.name;
    EXPECT_EQ(std::memcmp(mine.second.f32(), same_part(p, loaded.second), bytes), 0) << p.name;
    EXPECT_EQ(mine.steps, loaded.steps) << p.name;
  }
  EXPECT_EQ(many.trainer.spike_guard().baselines(), one.trainer.spike_guard().baselines());

  for (int64_t step = 8; step <= 20; ++step) {
    const StepResult a = many.run(step), b = one.run(step);
    ASSERT_EQ(many.trainer.statistics().loads(), one.trainer.statistics().loads()) << "step " << step;
    for (size_t s = 0; s < b.segment_loss.size(); ++s)
      EXPECT_NEAR(a.segment_loss[s], b.segment_loss[s], 1e-5 * b.segment_loss[s]);
  }
  i = 0;
  for (const Parameter& p : many.model.parameters().all()) {
    const Tensor& whole = one.model.parameters().all()[i++].value;
    EXPECT_LE(relative_error(p.value.floats(), {same_part(p, whole), static_cast<size_t>(p.value.count())}), 1e-5)
        << p.name;
  }
  for (int64_t l = 0; l < plan.model.layers; ++l)
    EXPECT_EQ(relative_error(many.model.balance_bias(l).floats(), one.model.balance_bias(l).floats()), 0);
}

TEST(DistributedResume, AFileOfOneRankIsReadInParts) {
  const SharedFolder folder;
  const auto single = make_single_communicator();
  const TrainingPlan plan;
  Training one(plan, *single, 1, plan.global_batch);
  one.run(1);
  const CheckpointInfo info{
      .step = 1, .config = "", .tokenizer_kind = "", .tokenizer_fingerprint = "", .tokenizer = "", .data_hash = ""};
  if (test_world().rank() == 0)
    save_checkpoint(folder.path("one"), 2, CheckpointWriter::kAuto, info, one.model, one.optimizer,
                    one.trainer.spike_guard());
  test_world().barrier();
  Training many(plan, test_world(), 2, 4);
  load_model(folder.path("one/step_00000001.h5"), many.model);
  for (const Parameter& p : many.model.parameters().all()) {
    const Parameter& whole = one.model.parameters().find(p.name);
    EXPECT_EQ(std::memcmp(p.value.f32(), whole.value.f32() + p.global_offset(), static_cast<size_t>(p.value.bytes())),
              0)
        << p.name;
  }
}

void any_layout_reads_what_any_other_wrote(const std::string& optimizer) {
  const SharedFolder folder;
  const auto single = make_single_communicator();
  const CheckpointInfo info{
      .step = 5, .config = "", .tokenizer_kind = "", .tokenizer_fingerprint = "", .tokenizer = "", .data_hash = ""};
  const auto all_tensors = [](Training& t) {
    std::vector<StoredTensor> tensors = model_tensors(t.model);
    for (StoredTensor& moment : optimizer_tensors(t.model, t.optimizer)) tensors.push_back(std::move(moment));
    return tensors;
  };
  const auto steps_of = [](Training& t) {
    std::vector<int64_t> steps;
    for (const Optimizer::State& state : t.optimizer.states()) steps.push_back(state.steps);
    return steps;
  };
  TrainingPlan plan = plan_with(optimizer);
  plan.optimizer.zero = true;
  Training saved(plan, test_world(), test_world().size(), 2);
  for (int64_t step = 1; step <= 5; ++step) saved.run(step);
  const std::vector<uint64_t> sums = checksums(test_world(), cpu::kernels(), all_tensors(saved));
  std::vector<std::string> files;
  for (const CheckpointWriter writer : {CheckpointWriter::kAuto, CheckpointWriter::kParallel, CheckpointWriter::kOne})
    files.push_back(save_checkpoint(folder.path(fmt::format("c{}", files.size())), 1, writer, info, saved.model,
                                    saved.optimizer, saved.trainer.spike_guard()));
  std::string content;
  for (const std::string& file : files) {
    EXPECT_TRUE(check_checkpoint(file).empty()) << file;
    if (content.empty()) content = read_text_file(file);
    EXPECT_TRUE(read_text_file(file) == content) << "who wrote the file shows in it";
  }
  for (int64_t step = 6; step <= 10; ++step) saved.run(step);

  const auto goes_on = [&](Training& loaded, Communicator& world, const std::string& file) {
    load_model(file, loaded.model);
    load_training_state(file, loaded.model, loaded.optimizer, loaded.trainer.spike_guard());
    EXPECT_EQ(checksums(world, cpu::kernels(), all_tensors(loaded)), sums);
    EXPECT_EQ(steps_of(loaded).size(), sums.size() > 0 ? loaded.model.parameters().all().size() : 0);
    for (int64_t step = 6; step <= 10; ++step) loaded.run(step);
    EXPECT_EQ(steps_of(loaded), steps_of(saved));
  };
  for (const bool zero : {false, true}) {
    plan.optimizer.zero = zero;
    for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
      SCOPED_TRACE(fmt::format("zero {}, expert_parallel {}", zero, expert_parallel));
      Training loaded(plan, test_world(), expert_parallel, 2);
      goes_on(loaded, test_world(), files[static_cast<size_t>(expert_parallel) % files.size()]);
      Training alone(plan, *single, 1, plan.global_batch);
      goes_on(alone, *single, files[0]);
      size_t i = 0;
      for (const Parameter& p : loaded.model.parameters().all()) {
        const Parameter& whole = alone.model.parameters().all()[i++];
        const std::span<const float> part(whole.value.f32() + p.global_offset(), static_cast<size_t>(p.value.count()));
        EXPECT_LE(relative_error(p.value.floats(), part), 1e-5) << p.name;
      }
      i = 0;
      for (const Parameter& p : saved.model.parameters().all()) {
        const Parameter& whole = alone.model.parameters().all()[i++];
        const std::span<const float> part(whole.value.f32() + p.global_offset(), static_cast<size_t>(p.value.count()));
        EXPECT_LE(relative_error(p.value.floats(), part), 1e-5) << p.name << " against the unbroken run";
      }
    }
  }
}

TEST(DistributedResume, AnyLayoutReadsWhatAnyOtherWrote) {
  for (const char* optimizer : {"adamw", "muon", "muonh"}) {
    SCOPED_TRACE(optimizer);
    any_layout_reads_what_any_other_wrote(optimizer);
  }
}

TEST(DistributedResume, DamageSeenByOneRankIsAnErrorOnAll) {
  const SharedFolder folder;
  const CheckpointInfo info{
      .step = 1, .config = "", .tokenizer_kind = "", .tokenizer_fingerprint = "", .tokenizer = "", .data_hash = ""};
  const TrainingPlan plan;
  Training training(plan, test_world(), test_world().size(), 2);
  const std::string file = save_checkpoint(folder.path("c"), 1, CheckpointWriter::kAuto, info, training.model,
                                           training.optimizer, training.trainer.spike_guard());
  if (test_world().rank() == 0) {
    // The first expert lives on rank 0 only.
    const std::string object = "/model/core.0.moe.experts.up_proj.weight";
    uint64_t offset = 0;
    {
      const h5::File h5(file, h5::File::Mode::kRead);
      offset = h5.file_offset(object);
    }
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(offset + 1));
    bytes.put('Z');
  }
  test_world().barrier();
  expect_error<DamagedCheckpoint>([&] { load_model(file, training.model); }, "core.0.moe.experts.up_proj.weight");
}

}  // namespace
}  // namespace heddle
