#include "analysis/run_log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "analysis/planted_log.h"
#include "support/error.h"

namespace heddle {

namespace fs = std::filesystem;

class RunLogTest : public testing::Test {
 protected:
  RunLogTest() { fs::create_directories(folder_); }
  ~RunLogTest() override { fs::remove_all(folder_); }

  void write_steps(RunLogWriter& writer, int64_t first, int64_t last) {
    for (int64_t s = first; s <= last; ++s) writer.append(planted_step(header_, s));
  }

  /// A child process that writes `steps` steps and is then killed, with the log open.
  void write_and_be_killed(int64_t steps) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      RunLogWriter writer = RunLogWriter::create(path_, header_);
      write_steps(writer, 1, steps);
      writer.append(ValidationRecord{steps, 2.5, 1.25, 99});
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  static std::vector<int64_t> steps_of(const RunLog& log) {
    std::vector<int64_t> steps;
    for (const StepRecord& r : log.steps) steps.push_back(r.step);
    return steps;
  }

  template <typename Action>
  static std::string message_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what() + std::string(" | ") + error.hint();
    }
    return "";
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("heddle_run_log_" + std::to_string(getpid()));
  std::string path_ = (folder_ / "log.h5").string();
  RunLogHeader header_ = planted_header();
};

TEST_F(RunLogTest, EverythingComesBack) {
  StepRecord written = planted_step(header_, 1);
  for (size_t i = 0; i < written.load.size(); ++i) written.load[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i < written.overlap.size(); ++i) written.overlap[i] = 0.1 * static_cast<double>(i);
  for (size_t i = 0; i < written.block_rms.size(); ++i) written.block_rms[i] = 1.0 + static_cast<double>(i);
  written.dropped[3] = 7;
  written.skipped[0] = 1;
  written.segment_loss[0] = std::nan("");
  {
    RunLogWriter writer = RunLogWriter::create(path_, header_);
    writer.append(written);
    write_steps(writer, 2, 3);
    writer.append(ValidationRecord{3, 2.5, 1.25, 99});
  }
  const RunLog log = RunLog::open(path_);
  EXPECT_EQ(log.header.config, header_.config);
  EXPECT_EQ(log.header.loops, 3);
  EXPECT_EQ(log.header.experts, 8);
  EXPECT_EQ(log.header.top_k, 2);
  EXPECT_EQ(log.header.expert_parallel, 2);
  EXPECT_EQ(log.header.balance_rows, 2);
  EXPECT_EQ(log.header.warmup_steps, 5);
  EXPECT_EQ(log.header.flops_per_token, 1.5e6);
  ASSERT_EQ(log.steps.size(), 3u);
  const StepRecord& read = log.steps[0];
  EXPECT_EQ(read.step, 1);
  EXPECT_EQ(read.time, written.time);
  EXPECT_EQ(read.loss, written.loss);
  EXPECT_EQ(read.tokens, 1024);
  EXPECT_EQ(read.bytes, 4096);
  EXPECT_EQ(read.exchange_bytes, 12345);
  EXPECT_TRUE(std::isnan(read.segment_loss[0]));
  EXPECT_EQ(read.gradient_norm, written.gradient_norm);
  EXPECT_EQ(read.loops, 3);
  EXPECT_EQ(read.objective, written.objective);
  EXPECT_EQ(read.aux_loss, written.aux_loss);
  EXPECT_EQ(read.router_z_loss, written.router_z_loss);
  EXPECT_EQ(read.skipped, written.skipped);
  EXPECT_EQ(read.state_rms, written.state_rms);
  EXPECT_EQ(read.block_rms, written.block_rms);
  EXPECT_EQ(read.load, written.load);
  EXPECT_EQ(read.dropped, written.dropped);
  EXPECT_EQ(read.overlap, written.overlap);
  EXPECT_EQ(log.steps[2].balance_bias, std::vector<float>(16, 3.0f));
  ASSERT_EQ(log.validations.size(), 1u);
  EXPECT_EQ(log.validations[0].step, 3);
  EXPECT_EQ(log.validations[0].loss, 2.5);
  EXPECT_EQ(log.validations[0].bits_per_byte, 1.25);
  EXPECT_EQ(log.validations[0].targets, 99);
}

TEST_F(RunLogTest, LooksAndMemoryComeBack) {
  StatisticsRecord written = planted_look(header_, 1);
  double next = 0;
  const auto number = [&](std::vector<double>& values) {
    for (double& value : values) value = next += 0.5;
  };
  const std::vector<std::vector<double> StatisticsRecord::*> members = {
      &StatisticsRecord::flipped,         &StatisticsRecord::router_logit_max, &StatisticsRecord::router_z,
      &StatisticsRecord::token_entropy,   &StatisticsRecord::distinct,         &StatisticsRecord::router_agreement,
      &StatisticsRecord::state_agreement, &StatisticsRecord::router_cosine,    &StatisticsRecord::pair_overlap,
      &StatisticsRecord::pair_jaccard,    &StatisticsRecord::weight_overlap,   &StatisticsRecord::update_rms,
      &StatisticsRecord::relative_update, &StatisticsRecord::cosine_back,      &StatisticsRecord::cosine_embedding,
      &StatisticsRecord::token_cosine,    &StatisticsRecord::attention_rms,    &StatisticsRecord::feed_forward_rms,
      &StatisticsRecord::carry_rms};
  for (const auto member : members) number(written.*member);
  {
    RunLogWriter writer = RunLogWriter::create(path_, header_);
    write_steps(writer, 1, 20);
    writer.append(written);
    writer.append(planted_look(header_, 20));
    writer.append(MemoryRecord{1, {10, 20}, {30, 40}, 25, 65});
  }
  const RunLog log = RunLog::open(path_);
  EXPECT_EQ(log.header.purposes, (std::vector<std::string>{"weights", "activations"}));
  EXPECT_EQ(log.header.statistics_interval, 10);
  ASSERT_EQ(log.looks.size(), 2u);
  for (const auto member : members) EXPECT_EQ(log.looks[0].*member, written.*member);
  ASSERT_EQ(log.memory.size(), 1u);
  EXPECT_EQ(log.memory[0].peak, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(log.memory[0].planned, (std::vector<int64_t>{30, 40}));
  EXPECT_EQ(log.memory[0].total_peak, 25);
  EXPECT_EQ(log.memory[0].total_planned, 65);
  // A resumed run drops looks behind its checkpoint like steps.
  RunLogWriter::resume(path_, header_, 10);
  const RunLog cut = RunLog::open(path_);
  EXPECT_EQ(cut.steps.size(), 10u);
  EXPECT_EQ(cut.looks.size(), 1u);
  EXPECT_EQ(cut.memory.size(), 1u);
}

TEST_F(RunLogTest, ALogOverSeveralReadBlocksKeepsItsOrder) {
  {
    RunLogWriter writer = RunLogWriter::create(path_, header_);
    write_steps(writer, 1, 300);
  }
  const RunLog log = RunLog::open(path_);
  ASSERT_EQ(log.steps.size(), 300u);
  for (int64_t s = 1; s <= 300; ++s) {
    const StepRecord expected = planted_step(header_, s);
    const StepRecord& read = log.steps[static_cast<size_t>(s - 1)];
    ASSERT_EQ(read.step, s);
    ASSERT_EQ(read.loss, expected.loss);
    ASSERT_EQ(read.balance_bias, expected.balance_bias);
  }
}

TEST_F(RunLogTest, OneLoopHasNoOverlap) {
  header_.loops = 1;
  {
    RunLogWriter writer = RunLogWriter::create(path_, header_);
    write_steps(writer, 1, 2);
  }
  const RunLog log = RunLog::open(path_);
  EXPECT_EQ(steps_of(log), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(log.steps[0].overlap.empty());
}

TEST_F(RunLogTest, ALiveRunCanBeRead) {
  RunLogWriter writer = RunLogWriter::create(path_, header_);
  EXPECT_TRUE(RunLog::open(path_).steps.empty());
  for (int64_t s = 1; s <= 5; ++s) {
    writer.append(planted_step(header_, s));
    const RunLog log = RunLog::open(path_);
    ASSERT_EQ(log.steps.size(), static_cast<size_t>(s));
    EXPECT_EQ(log.steps.back().balance_bias[0], static_cast<float>(s));
  }
}

TEST_F(RunLogTest, ALogWhoseWriterWasKilledIsReadAndGoesOn) {
  write_and_be_killed(10);
  EXPECT_EQ(RunLog::open(path_).steps.size(), 10u);
  EXPECT_TRUE(fs::exists(path_ + ".lock")) << "the lock file of the dead process is left behind";
  {
    // The last checkpoint is that of step 6.
    RunLogWriter writer = RunLogWriter::resume(path_, header_, 6);
    EXPECT_EQ(RunLog::open(path_).steps.size(), 6u);
    StepRecord seventh = planted_step(header_, 7);
    seventh.loss = 0.125;
    writer.append(seventh);
    write_steps(writer, 8, 8);
  }
  const RunLog log = RunLog::open(path_);
  EXPECT_EQ(steps_of(log), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(log.steps[6].loss, 0.125);
  EXPECT_EQ(log.steps[5].loss, planted_step(header_, 6).loss);
  EXPECT_TRUE(log.validations.empty()) << "the validation of step 10 belongs to the lost steps";
  EXPECT_FALSE(fs::exists(path_ + ".lock"));
}

TEST_F(RunLogTest, ResumeFromTheBeginningAndWithoutLoss) {
  { RunLogWriter writer = RunLogWriter::create(path_, header_); }
  {
    RunLogWriter writer = RunLogWriter::resume(path_, header_, 0);
    write_steps(writer, 1, 3);
  }
  {
    RunLogWriter writer = RunLogWriter::resume(path_, header_, 3);
    write_steps(writer, 4, 4);
  }
  EXPECT_EQ(steps_of(RunLog::open(path_)), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST_F(RunLogTest, AHalfWrittenStepIsNotRead) {
  {
    RunLogWriter writer = RunLogWriter::create(path_, header_);
    write_steps(writer, 1, 3);
  }
  {
    // As if the process had died between the columns of step 4.
    h5::File file(path_, h5::File::Mode::kReadWrite);
    file.append<double>("/loss", std::vector<double>{1.0});
  }
  EXPECT_EQ(steps_of(RunLog::open(path_)), (std::vector<int64_t>{1, 2, 3}));
  {
    RunLogWriter writer = RunLogWriter::resume(path_, header_, 3);
    write_steps(writer, 4, 4);
  }
  const RunLog log = RunLog::open(path_);
  EXPECT_EQ(steps_of(log), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(log.steps[3].loss, planted_step(header_, 4).loss);
}

TEST_F(RunLogTest, AModelWithoutExpertsHasNoColumnsAboutThem) {
  header_.experts = header_.top_k = header_.balance_rows = 0;
  StepRecord written = planted_step(header_, 1);
  written.loops = 2;
  written.state_rms[2] = std::nan("");
  for (std::vector<double>* list : {&written.aux_loss, &written.router_z_loss, &written.overlap}) list->clear();
  written.dropped.clear();
  { RunLogWriter::create(path_, header_).append(written); }
  const RunLog log = RunLog::open(path_);
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.header.experts, 0);
  EXPECT_EQ(log.steps[0].loops, 2);
  EXPECT_EQ(log.steps[0].state_rms[1], 1.0);
  EXPECT_TRUE(std::isnan(log.steps[0].state_rms[2]));
  EXPECT_TRUE(log.steps[0].load.empty());
  EXPECT_TRUE(log.steps[0].overlap.empty());
  EXPECT_TRUE(log.steps[0].balance_bias.empty());
  const h5::File file(path_, h5::File::Mode::kRead);
  for (const char* column : {"/load", "/dropped", "/overlap", "/balance_bias", "/aux_loss", "/router_z_loss"})
    EXPECT_FALSE(file.exists(column)) << column;
}

TEST_F(RunLogTest, AnotherModelIsRefusedAndTheLogStays) {
  {
    RunLogWriter writer = RunLogWriter::create(path_, header_);
    write_steps(writer, 1, 3);
  }
  RunLogHeader other = header_;
  other.experts = 16;
  const std::string message = message_of([&] { RunLogWriter::resume(path_, other, 1); });
  EXPECT_NE(message.find("/load"), std::string::npos) << message;
  EXPECT_NE(message.find("[3, 2, 16]"), std::string::npos) << message;
  EXPECT_NE(message.find("run.directory"), std::string::npos) << message;
  EXPECT_EQ(steps_of(RunLog::open(path_)), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(RunLog::open(path_).header.experts, 8);
}

TEST_F(RunLogTest, ASecondWriterIsRefusedByName) {
  const RunLogWriter writer = RunLogWriter::create(path_, header_);
  for (const std::string& message : {message_of([&] { RunLogWriter::create(path_, header_); }),
                                     message_of([&] { RunLogWriter::resume(path_, header_, 0); })}) {
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find("process " + std::to_string(getpid())), std::string::npos) << message;
  }
  EXPECT_NO_THROW(RunLog::open(path_)) << "the refused writers must not have touched the log";
}

TEST_F(RunLogTest, OtherFilesAreRefused) {
  EXPECT_NE(message_of([&] { RunLog::open(path_); }).find(path_), std::string::npos);
  { h5::File file(path_, h5::File::Mode::kCreate); }
  EXPECT_NE(message_of([&] { RunLog::open(path_); }).find("not a Heddle run log"), std::string::npos);
  std::ofstream(path_) << "text";
  EXPECT_NE(message_of([&] { RunLog::open(path_); }).find("not an HDF5 file"), std::string::npos);
  EXPECT_NE(message_of([&] { RunLogWriter::create("/nonexistent/log.h5", header_); }).find("No such file"),
            std::string::npos);
}

TEST_F(RunLogTest, DamagedHeadersAreRefused) {
  { RunLogWriter writer = RunLogWriter::create(path_, header_); }
  const auto damage = [&](const std::string& name, int64_t value) {
    h5::File(path_, h5::File::Mode::kReadWrite).set_attribute("/", name, value);
    return message_of([&] { RunLog::open(path_); });
  };
  for (const int64_t other : {1, 99})
    EXPECT_NE(damage("schema_version", other).find("schema version " + std::to_string(other)), std::string::npos);
  damage("schema_version", 3);
  EXPECT_NE(damage("experts", -8).find("damaged"), std::string::npos);
  EXPECT_NE(damage("experts", 9).find("expected rows of [3, 2, 9]"), std::string::npos);
  EXPECT_EQ(damage("experts", 8), "");
}

TEST_F(RunLogTest, ARecordOfAnotherSizeIsAMistakeOfOurs) {
  RunLogWriter writer = RunLogWriter::create(path_, header_);
  StepRecord record = planted_step(header_, 1);
  record.load.pop_back();
  EXPECT_THROW(writer.append(record), std::logic_error);
}

}  // namespace heddle
