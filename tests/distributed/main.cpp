// Runs GoogleTest on every rank of a job. Rank 0 prints the course of the tests. A test that fails on any rank ends the
// whole job at once: the other ranks may be waiting for that one in a collective, and must not hang.
//
// usage: mpirun -n RANKS test_distributed --ranks=RANKS [--gtest_filter=...]
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "support/error.h"
#include "support/log.h"
#include "support/numbers.h"
#include "tests/distributed/world.h"

namespace heddle {

namespace {

std::unique_ptr<Job> g_job;

/// Prints the failures of a rank with its number, and aborts the job behind the test that had one.
class AbortAfterFailure : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    // Rank 0 has GoogleTest's own printer.
    if (!result.failed() || test_world().rank() == 0) return;
    log_error(fmt::format("{}:{}: {}", result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(),
                          result.message()));
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed())
      g_job->abort(fmt::format("{0}.{1} failed\n  again: launch/heddle-mpirun -n {2} -- test_distributed --ranks={2} "
                               "--gtest_filter={0}.{1}",
                               test.test_suite_name(), test.name(), test_world().size()),
                   static_cast<int>(ExitStatus::kFailure));
  }
};

/// The number behind "--ranks=": a test program that a wrong launcher starts as many single ranks must not pass.
int64_t expected_ranks(int argc, char** argv) {
  constexpr std::string_view kFlag = "--ranks=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFlag)) throw UsageError(fmt::format("unknown argument '{}'", argument));
    if (const auto ranks = parse_integer(argument.substr(kFlag.size()))) return *ranks;
  }
  throw UsageError("--ranks=RANKS is missing", "say how many ranks mpirun starts");
}

int run_tests(int argc, char** argv) {
  const int64_t ranks = expected_ranks(argc, argv);
  if (test_world().size() != ranks)
    throw UsageError(fmt::format("{} ranks were started, --ranks says {}", test_world().size(), ranks));
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (test_world().rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new AbortAfterFailure);
  const int status = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) throw UsageError("the filter leaves no test");
  return all_ranks(test_world(), status == 0) ? 0 : 1;
}

}  // namespace

Job& test_job() {
  return *g_job;
}

}  // namespace heddle

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    heddle::g_job = std::make_unique<heddle::Job>();
    const int status = heddle::run_tests(argc, argv);
    heddle::g_job.reset();
    return status;
  } catch (const std::exception& error) {
    if (heddle::g_job != nullptr) heddle::g_job->abort(error.what(), static_cast<int>(heddle::ExitStatus::kFailure));
    heddle::log_error(error.what());
    return static_cast<int>(heddle::ExitStatus::kFailure);
  }
}
