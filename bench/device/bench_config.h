// A benchmark is given a configuration of `heddle train`, and flags of its own beside that program's.
#pragma once

#include <functional>
#include <string>

#include "train/train_config.h"

namespace heddle::bench {

struct BenchConfig {
  TrainConfig train;
  std::string json;             ///< file for the results; empty: none
  int64_t product_size = 8192;  ///< of the products that measure the device
};

/// Declares all keys and those of `declare`, reads the arguments and calls `run`; what it throws is printed. Returns
/// the program's exit status.
int run_bench(int count, char** arguments, BenchConfig& bench, const std::function<void(Config&)>& declare,
              const std::function<void()>& run);

/// The preset's name: the last part of its run.directory.
std::string preset_name(const TrainConfig& train);

}  // namespace heddle::bench
