// A run that stops and goes on equals one that never stopped, to the bit, on one rank.
#include "data/loader.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

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

}  // namespace
}  // namespace heddle
