#include "bench/device/bench_config.h"

#include <filesystem>

#include "support/atomic_file.h"
#include "support/error.h"
#include "support/log.h"

namespace heddle::bench {

int run_bench(int count, char** arguments, BenchConfig& bench, const std::function<void(Config&)>& declare,
              const std::function<void()>& run) {
  try {
    Config config;
    bench.train.declare(config);
    config.add("bench.json", bench.json, "file for the results; empty: none");
    config.add("bench.product_size", bench.product_size, {16, 1 << 15, false, false},
               "rows and columns of the products that measure the device");
    declare(config);
    const std::vector<std::string> all(arguments + 1, arguments + count);
    if (!all.empty() && all[0] == "--help") {
      log_line(fmt::format("usage: {} --config FILE [--section.key VALUE]...\n\n{}", arguments[0], config.help()));
      return static_cast<int>(ExitStatus::kOk);
    }
    if (const auto rest = config.parse(all); !rest.empty())
      throw UsageError(fmt::format("there is no argument '{}'", rest[0]), "flags are --section.key VALUE");
    bench.train.validate();
    require_writable_target(bench.json);
    run();
    return static_cast<int>(ExitStatus::kOk);
  } catch (const Error& error) {
    log_error(error.hint().empty() ? error.what() : fmt::format("{}\n  hint: {}", error.what(), error.hint()));
    if (dynamic_cast<const UsageError*>(&error) != nullptr) return static_cast<int>(ExitStatus::kUsage);
  } catch (const std::exception& error) {
    log_error(error.what());
  }
  return static_cast<int>(ExitStatus::kFailure);
}

std::string preset_name(const TrainConfig& train) {
  return std::filesystem::path(train.directory).filename().string();
}

}  // namespace heddle::bench
