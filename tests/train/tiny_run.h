// A token store and a configuration for whole runs of heddle::train() that take a second, and what they leave behind.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "analysis/run_log.h"
#include "data/token_store.h"
#include "support/hdf5.h"
#include "train/trainer.h"

namespace heddle {

/// Twelve train documents (about 40 samples of 16 tokens, so a step of 4 crosses epochs) and two for validation, as
/// bytes.
inline void write_tiny_store(const std::string& path) {
  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  StoreContent content;
  for (int i = 0; i < 12; ++i)
    content.part(Part::kTrain)
        .add(*tokenizer, fmt::format("Tale {}: the weaver lifts the warp {} times, then rests.", i, i * i));
  for (int i = 0; i < 2; ++i)
    content.part(Part::kValidation)
        .add(*tokenizer, fmt::format("Tale {}: the weaver rests, the warp is lifted.", 50 + i));
  write_token_store(path, *tokenizer, content);
}

inline TrainConfig tiny_run(const std::string& store, const std::string& directory) {
  TrainConfig c;
  c.store = store;
  c.directory = directory;
  c.model.hidden_size = 16;
  c.model.query_heads = 2;
  c.model.kv_heads = 1;
  c.model.head_dim = 8;
  c.model.moe = {.experts = 4, .top_k = 2, .shared_experts = 1, .intermediate = 8};
  c.step.back_propagation = {BackPropagationMode::kSegmented, 2, true};
  c.step.spike_guard = true;
  c.steps = 20;
  c.global_batch = 4;
  c.micro_batch = 2;
  c.sequence = 16;
  c.optimizer.learning_rate = 3e-3;
  return c;
}

inline TrainOutcome train(Job& job, TrainConfig config) {
  Config keys;
  config.declare(keys);
  const std::unique_ptr<OpenDevice> device = open_device(job, "cpu");
  return train(job, config, keys.resolved(), device->device());
}

/// Every dataset of two checkpoints is equal to the bit.
inline void expect_same_checkpoint(const std::string& found, const std::string& expected) {
  const h5::File a(found, h5::File::Mode::kRead), b(expected, h5::File::Mode::kRead);
  ASSERT_EQ(a.datasets("/"), b.datasets("/"));
  ASSERT_EQ(a.integer_attribute("/", "step"), b.integer_attribute("/", "step"));
  int64_t elements = 0;
  for (const std::string& name : b.datasets("/")) {
    const std::string object = name.starts_with("/") ? name : "/" + name;
    ASSERT_EQ(a.extent(object), b.extent(object)) << object;
    const std::vector<double> x = a.read<double>(object), y = b.read<double>(object);
    EXPECT_TRUE(x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0) << object << " differs";
    elements += static_cast<int64_t>(x.size());
  }
  EXPECT_GT(elements, 1000) << "two empty files would be equal too";
}

/// Equal, or both without a number: a piece that a step does not have.
inline void expect_same_numbers(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
        << i << ": " << found[i] << " against " << expected[i];
}

/// The columns of two logs that must not depend on when the run was stopped.
inline void expect_same_log(const std::string& found, const std::string& expected) {
  const RunLog a = RunLog::open(found), b = RunLog::open(expected);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < b.steps.size(); ++i) {
    const StepRecord &x = a.steps[i], &y = b.steps[i];
    EXPECT_EQ(x.step, y.step);
    EXPECT_EQ(x.loss, y.loss) << "step " << y.step;
    EXPECT_EQ(x.learning_rate, y.learning_rate) << "step " << y.step;
    expect_same_numbers(x.gradient_norm, y.gradient_norm);
    EXPECT_EQ(x.tokens, y.tokens) << "step " << y.step;
    EXPECT_EQ(x.bytes, y.bytes) << "step " << y.step;
    EXPECT_EQ(x.loops, y.loops) << "step " << y.step;
    expect_same_numbers(x.objective, y.objective);
    expect_same_numbers(x.aux_loss, y.aux_loss);
    EXPECT_EQ(x.load, y.load) << "step " << y.step;
    EXPECT_EQ(x.balance_bias, y.balance_bias) << "step " << y.step;
  }
}

}  // namespace heddle
