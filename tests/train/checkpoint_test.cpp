// Checkpoints: a round trip to the bit, the newest complete file, and refusals that name what is wrong.
#include "train/checkpoint.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "support/atomic_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_training.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

struct Saved {
  std::unique_ptr<Communicator> world = make_single_communicator();
  Training training{TrainingPlan{}, *world, 1, 8};

  std::string save(const std::string& folder, int64_t step, int64_t keep = 3) {
    const CheckpointInfo info{.step = step,
                              .config = "[model]\n",
                              .tokenizer_kind = "bytes",
                              .tokenizer_fingerprint = "f",
                              .tokenizer = std::string("a\0b", 3),
                              .data_hash = "h"};
    return save_checkpoint(folder, keep, CheckpointWriter::kAuto, info, training.model, training.optimizer,
                           training.trainer.spike_guard());
  }
  void load(const std::string& path) {
    load_model(path, training.model);
    load_training_state(path, training.model, training.optimizer, training.trainer.spike_guard());
  }
};

std::optional<std::string> newest(const std::string& folder, std::vector<std::string>* ignored = nullptr) {
  const std::vector<std::string> complete = complete_checkpoints(folder, ignored);
  return complete.empty() ? std::nullopt : std::optional(complete.front());
}

/// The file with one dataset left out, written anew.
void copy_without(const std::string& from, const std::string& to, const std::string& left_out) {
  const h5::File source(from, h5::File::Mode::kRead);
  h5::File target(to, h5::File::Mode::kCreate);
  for (const char* name :
       {"kind", "config", "tokenizer_kind", "tokenizer_fingerprint", "data_hash", "description_hash", "optimizer"})
    target.set_attribute("/", name, source.text_attribute("/", name));
  target.set_attribute("/", "step", source.integer_attribute("/", "step"));
  for (const std::string& name : source.datasets("/")) {
    const std::string object = name.starts_with("/") ? name : "/" + name;
    if (object == left_out) continue;
    target.create(object, source.type(object), source.extent(object));
    const h5::Extent extent = source.extent(object);
    const std::vector<double> values = source.read<double>(object);
    if (source.has_attribute(object, "checksum"))
      target.set_attribute(object, "checksum", source.integer_attribute(object, "checksum"));
    target.write_rows(object, h5::Type::kFloat64, 0, extent.empty() ? 1 : extent[0], values.data());
  }
}

TEST(Checkpoint, ComesBackToTheBit) {
  const TemporaryFolder folder;
  Saved a, b;
  for (int64_t step = 1; step <= 3; ++step) a.training.run(step);
  const std::string path = a.save(folder.path("c"), 3);
  b.load(path);
  for (int64_t step = 4; step <= 6; ++step) {
    a.training.run(step);
    b.training.run(step);
  }
  size_t i = 0;
  for (const Parameter& p : a.training.model.parameters().all()) {
    EXPECT_EQ(std::memcmp(p.value.f32(), b.training.model.parameters().all()[i].value.f32(),
                          static_cast<size_t>(p.value.bytes())),
              0)
        << p.name;
    EXPECT_EQ(a.training.optimizer.states()[i].steps, b.training.optimizer.states()[i].steps);
    ++i;
  }
  EXPECT_EQ(a.training.trainer.spike_guard().baselines(), b.training.trainer.spike_guard().baselines());
  const CheckpointInfo info = read_checkpoint_info(path);
  EXPECT_EQ(info.step, 3);
  EXPECT_EQ(info.config, "[model]\n");
  EXPECT_EQ(info.tokenizer, std::string("a\0b", 3));
}

TEST(Checkpoint, NewestCompleteFileIsFoundAndOthersAreNamed) {
  const TemporaryFolder folder;
  Saved s;
  EXPECT_FALSE(newest(folder.path("none")));
  const std::string first = s.save(folder.path("c"), 9), second = s.save(folder.path("c"), 10);
  EXPECT_EQ(newest(folder.path("c")), second);
  fs::resize_file(second, fs::file_size(second) - 1);
  std::vector<std::string> ignored;
  EXPECT_EQ(newest(folder.path("c"), &ignored), first);
  EXPECT_EQ(ignored, std::vector<std::string>{second});
  fs::remove(fs::path(first).replace_extension(".complete"));
  EXPECT_FALSE(newest(folder.path("c")));
}

TEST(Checkpoint, AMarkerThatIsNotJsonCountsAsNone) {
  const TemporaryFolder folder;
  Saved s;
  const std::string path = s.save(folder.path("c"), 1);
  for (const char* text : {"", "{", "[1]", "{\"bytes\": 1}", "{\"bytes\": \"many\"}"}) {
    folder.write("c/step_00000001.complete", text);
    EXPECT_FALSE(newest(folder.path("c"))) << text;
  }
}

TEST(Checkpoint, KeepsTheNewest) {
  const TemporaryFolder folder;
  Saved s;
  for (int64_t step = 1; step <= 5; ++step) s.save(folder.path("c"), step, 2);
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path("c")))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"step_00000004.complete", "step_00000004.h5", "step_00000005.complete",
                                             "step_00000005.h5"}));
}

TEST(Checkpoint, DamagedFilesDoNotPushOutGoodOnes) {
  const TemporaryFolder folder;
  Saved s;
  const std::string damaged = s.save(folder.path("c"), 9);
  fs::resize_file(damaged, fs::file_size(damaged) - 1);
  const std::string good = s.save(folder.path("c"), 6, 1), better = s.save(folder.path("c"), 7, 1);
  EXPECT_TRUE(checkpoint_is_complete(better));
  EXPECT_FALSE(fs::exists(good)) << "one was to be kept";
  EXPECT_TRUE(fs::exists(damaged)) << "it does not count, and is not ours to remove";
  EXPECT_EQ(newest(folder.path("c")), better);
}

TEST(Checkpoint, ThoseKnownToBeDamagedInsideAreNotCounted) {
  const TemporaryFolder folder;
  Saved s;
  const std::string whole = s.save(folder.path("c"), 2), damaged = s.save(folder.path("c"), 6);
  const CheckpointInfo info{
      .step = 7, .config = "", .tokenizer_kind = "", .tokenizer_fingerprint = "", .tokenizer = "", .data_hash = ""};
  const std::string latest = save_checkpoint(folder.path("c"), 2, CheckpointWriter::kAuto, info, s.training.model,
                                             s.training.optimizer, s.training.trainer.spike_guard(), {damaged});
  for (const std::string& file : {whole, damaged, latest}) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST(Checkpoint, ChangedBytesAnywhereAreAnErrorAndNoCrash) {
  const TemporaryFolder folder;
  Saved s;
  const std::string path = s.save(folder.path("c"), 1);
  const std::string content = read_text_file(path);
  const std::string cut = folder.path("flipped.h5");
  int64_t found = 0;
  // Densely at the end, where HDF5 keeps the names of large groups.
  std::vector<size_t> places;
  for (size_t at = 0; at < content.size(); at += content.size() / 20) places.push_back(at);
  for (size_t at = content.size() - 4096; at < content.size(); at += 389) places.push_back(at);
  for (const size_t at : places) {
    std::string changed = content;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    std::ofstream(cut, std::ios::binary) << changed;
    try {
      found += check_checkpoint(cut).empty() ? 0 : 1;
      s.load(cut);
    } catch (const Error&) {
      ++found;
    }
  }
  EXPECT_GT(found, static_cast<int64_t>(places.size()) / 2) << "most bytes are tensors";
}

TEST(Checkpoint, StepsOfManyDigitsAreOrderedAsNumbers) {
  const TemporaryFolder folder;
  Saved s;
  s.save(folder.path("c"), 99'999'999);
  const std::string later = s.save(folder.path("c"), 100'000'000);
  EXPECT_EQ(newest(folder.path("c")), later);
}

TEST(Checkpoint, ChangedBytesAreFoundByTheirChecksum) {
  const TemporaryFolder folder;
  Saved s;
  const std::string path = s.save(folder.path("c"), 1);
  EXPECT_TRUE(check_checkpoint(path).empty());
  for (const char* object : {"/model/core.0.moe.experts.gate_proj.weight", "/model/core.1.moe.balance_bias",
                             "/optimizer/second/lm_head.weight"}) {
    uint64_t offset = 0;
    {
      const h5::File file(path, h5::File::Mode::kRead);
      offset = file.file_offset(object);
    }
    const auto flip = [&] {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(offset + 5));
      const auto byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(static_cast<std::streamoff>(offset + 5));
      file.put(byte);
    };
    flip();
    EXPECT_EQ(check_checkpoint(path), std::vector<std::string>{std::string(object) + ": its checksum differs"});
    expect_error<DamagedCheckpoint>([&] { s.load(path); }, object);
    flip();
  }
  s.load(path);
}

TEST(Checkpoint, EqualStatesGiveEqualFiles) {
  const TemporaryFolder folder;
  Saved a, b;
  const std::string first = read_text_file(a.save(folder.path("a"), 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 keeps times in whole seconds
  EXPECT_TRUE(first == read_text_file(b.save(folder.path("b"), 1)));
}

TEST(Checkpoint, NumbersThatAreNotFiniteAreNeverPublished) {
  const TemporaryFolder folder;
  Saved s;
  const std::string good = s.save(folder.path("c"), 1);
  s.training.model.parameters().find("lm_head.weight").value.f32()[5] = std::numeric_limits<float>::quiet_NaN();
  expect_error<Error>([&] { s.save(folder.path("c"), 2); }, "/model/lm_head.weight");
  EXPECT_EQ(newest(folder.path("c")), good);
  s.load(good);
  s.training.optimizer.states()[0].second.f32()[0] = std::numeric_limits<float>::infinity();
  expect_error<Error>([&] { s.save(folder.path("c"), 2); }, "/optimizer/second/");
  EXPECT_EQ(newest(folder.path("c")), good);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path("c")))
    EXPECT_EQ(entry.path().string().find("00000002"), std::string::npos) << entry.path();
}

TEST(Checkpoint, AMissingTensorIsNamed) {
  const TemporaryFolder folder;
  Saved s;
  const std::string path = s.save(folder.path("c"), 1);
  for (const char* object : {"/model/core.1.attn.q_proj.weight", "/model/core.0.moe.balance_bias",
                             "/optimizer/first/lm_head.weight", "/optimizer/second/core.0.moe.experts.up_proj.weight",
                             "/optimizer/steps/lm_head.weight", "/spike_guard/baseline"}) {
    copy_without(path, folder.path("cut.h5"), object);
    expect_error<Error>([&] { s.load(folder.path("cut.h5")); }, object);
  }
}

TEST(Checkpoint, AnotherShapeIsNamed) {
  const TemporaryFolder folder;
  Saved s;
  const std::string path = s.save(folder.path("c"), 1);
  TrainingPlan plan;
  plan.model.moe.experts = 4;
  Training other(plan, *s.world, 1, 8);
  expect_error<Error>([&] { load_model(path, other.model); },
                      "core.0.moe.experts.gate_proj.weight has shape [8, 16, 32]");
  expect_error<Error>([&] { read_checkpoint_info(folder.write("text.h5", "no HDF5")); }, "text.h5");
}

TEST(Checkpoint, OtherSegmentsOrAnotherOptimizerAreRefused) {
  const TemporaryFolder folder;
  Saved s;
  const std::string path = s.save(folder.path("c"), 1);
  TrainingPlan plan;
  plan.step.back_propagation = {};
  Training other(plan, *s.world, 1, 8);
  expect_error<Error>([&] { load_training_state(path, other.model, other.optimizer, other.trainer.spike_guard()); },
                      "2 segments");
  plan = {};
  plan.optimizer.name = "sgd";
  Training sgd(plan, *s.world, 1, 8);
  expect_error<Error>([&] { load_training_state(path, sgd.model, sgd.optimizer, sgd.trainer.spike_guard()); },
                      "another optimizer");
  const std::string plain = save_checkpoint(folder.path("sgd"), 2, CheckpointWriter::kAuto, {}, sgd.model,
                                            sgd.optimizer, sgd.trainer.spike_guard());
  expect_error<Error>(
      [&] { load_training_state(plain, s.training.model, s.training.optimizer, s.training.trainer.spike_guard()); },
      "another optimizer");
}

}  // namespace
}  // namespace heddle
