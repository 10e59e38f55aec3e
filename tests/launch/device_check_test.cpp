// The device check without a GPU: arguments, what it says where something is missing, and the runner's course with
// programs that only pretend. docs/device_check.md says how the whole bundle is tried.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "launch/device_check/curve.h"
#include "launch/scene.h"
#include "support/atomic_file.h"

namespace heddle::testing {
namespace {

namespace fs = std::filesystem;

const std::string kScript = HEDDLE_SOURCE_DIR "/launch/device_check.sh";

class DeviceCheck : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { scene_ = new Scene(); }
  static void TearDownTestSuite() { delete scene_; }

  static void expect(const std::string& command, int status, const std::string& part) {
    const Outcome outcome = scene_->run(command);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }

  /// Commands that make a bundle in scratch/b: the runner, a program that pretends, the real device_report, and the log
  /// of the scene's run as what is expected.
  static std::string bundle(const std::string& glibc = "2.1", const std::string& cuda = "") {
    return "mkdir -p scratch/b/bin scratch/b/expected; cd scratch; cp '" HEDDLE_SOURCE_DIR
           "/launch/device_check/run.sh' b; ln -s '" HEDDLE_DEVICE_REPORT
           "' b/bin/device_report; cp ../run/log.h5 b/expected; echo abc >b/commit; echo " +
           glibc + " >b/needs_glibc; printf '" + cuda + "' >b/needs_cuda;\n" + kPretended;
  }

  static Scene* scene_;

 private:
  static constexpr const char* kPretended = R"(
cat >b/bin/heddle <<'END'
#!/bin/sh
case "$*" in
  *'--device cuda'*) echo "error: h sees no GPU: no driver" >&2; exit 1 ;;
  *--json*) echo '{"passed": true, "cases": [{"case": "one", "passed": true, "quantities": []}]}' ;;
  train*) while [ "$1" != --run.directory ]; do shift; done; mkdir -p "$2"; cp expected/log.h5 "$2" ;;
esac
END
printf '#!/bin/sh\nexit 7\n' >b/bin/test_kernels
printf '#!/bin/sh\nsleep 60\n' >b/bin/bench_training_steps
printf '#!/bin/sh\nexit 0\n' >b/bin/bench_kernels
chmod +x b/bin/*
)";
};
Scene* DeviceCheck::scene_ = nullptr;

TEST_F(DeviceCheck, ScriptRefusesWrongUse) {
  expect(kScript, 2, "needs to be told what to do");
  expect(kScript + " pack", 2, "knows no 'pack'");
  expect(kScript + " bundle a.zip", 2, "'a.zip' ends in neither .tar.xz nor .tar.gz");
  expect(kScript + " bundle missing/a.tar.xz", 2, "there is no folder for 'missing/a.tar.xz'");
  expect(kScript + " bundle a.tar.xz b", 2, "too many arguments: b");
  expect(kScript + " --help", 0, "launch/device_check.sh bundle [OUT.tar.xz|OUT.tar.gz]");
}

TEST_F(DeviceCheck, ScriptSaysThatThereIsNoToolkit) {
  expect("CUDA_HOME=/nowhere " + kScript + " bundle scratch/a.tar.gz", 3, "there is no CUDA toolkit in '/nowhere'");
}

TEST_F(DeviceCheck, RunnerRefusesWrongUse) {
  expect(HEDDLE_SOURCE_DIR "/launch/device_check/run.sh", 2, "there is no bundle around");
  expect(bundle() + "b/run.sh --device gpu", 2, "--device takes cuda or cpu, found 'gpu'");
  expect(bundle() + "b/run.sh --seconds 0", 2, "--seconds takes a number of seconds, found '0'");
  expect(bundle() + "b/run.sh one two", 2, "two folders for the results");
  expect(bundle() + "b/run.sh --help", 0, "--seconds N");
}

TEST_F(DeviceCheck, RunnerSaysWhatTheMachineLacks) {
  expect(bundle("2.999") + "b/run.sh out", 1, "and the program needs 2.999");
  expect(bundle("2.1", "libneither.so.1\\nlibnor.so.2\\n") + "b/run.sh out", 1,
         "not on this machine: libneither.so.1 libnor.so.2");
  expect(bundle() + "b/run.sh out", 1, "there is no GPU to check: no driver");
}

TEST_F(DeviceCheck, RunnerGoesOnAfterPartsThatFailAndWritesTables) {
  const Outcome outcome = scene_->run(bundle() +
                                      "b/run.sh --device cpu --seconds 12 out >text; echo status $?\n"
                                      "cat out/parts.txt out/device_check.md; cp -r out ../out");
  EXPECT_NE(outcome.output.find("status 1"), std::string::npos) << outcome.output;
  for (const char* line : {"verify\tpassed\t", "kernel_tests\tfailed\t", "curve_float32\tpassed\t",
                           "training_loom-tiny\ttimed out\t", "kernels_loom-tiny\tnot run\t", "# Device check: NOT all",
                           "| commit | abc |", "| one | ok |", "status 7, see kernel_tests.log"})
    EXPECT_NE(outcome.output.find(line), std::string::npos) << line << "\n" << outcome.output;
  const auto results = nlohmann::json::parse(read_text_file(scene_->path("out/device_check.json")));
  EXPECT_FALSE(results.at("passed").get<bool>());
  EXPECT_EQ(results.at("parts").size(), 5u);
  EXPECT_EQ(results.at("curves").at(0).at("steps"), 3);
  EXPECT_EQ(results.at("curves").at(0).at("largest"), 0.0);
}

TEST_F(DeviceCheck, RunnerKeepsEarlierResults) {
  expect(bundle() + "mkdir out; touch out/parts.txt; b/run.sh --device cpu out", 2, "results of another check");
}

TEST_F(DeviceCheck, ReportNamesFilesThatAreNotWhole) {
  expect("mkdir scratch/r; cd scratch/r; touch machine.txt parts.txt; echo '{' >kernels_a.json; '" HEDDLE_DEVICE_REPORT
         "' tables .; echo status $?; cat device_check.md",
         0, "a.json is not whole");
  expect("'" HEDDLE_DEVICE_REPORT "' tables scratch/none", 2, "machine.txt");
  expect("'" HEDDLE_DEVICE_REPORT "' curve a b c -1 0", 2, "'-1' is no tolerance");
}

TEST_F(DeviceCheck, ReportPassesOnlyWithEveryStepThatWasWanted) {
  const auto report = [](const std::string& not_run) {
    return "mkdir scratch/r; cd scratch/r; touch machine.txt parts.txt; printf '{\"preset\": \"p\", "
           "\"sequence_length\": 8, "
           "\"precision\": \"float32\", \"segment_loops\": 3, \"steps\": [], \"not_run\": [" +
           not_run + "]}' >training_p.json; '" HEDDLE_DEVICE_REPORT "' tables .; s=$?; cat device_check.md; exit $s";
  };
  expect(report(""), 0, "# Device check: all parts passed");
  expect(report("\"12 loops, full\""), 1, "Not run for lack of time: 12 loops, full.");
}

TEST(Curves, AreHeldStepByStepFirstAndByTheirMeanLast) {
  using device_check::compare_curves;
  std::vector<double> reference(40, 5.0), losses(40, 5.0);
  EXPECT_TRUE(compare_curves(reference, losses, {0, 0}).passed);
  losses[15] = 9;  // neither among the first ten nor the last twenty
  EXPECT_TRUE(compare_curves(reference, losses, {0, 0}).passed);
  EXPECT_DOUBLE_EQ(compare_curves(reference, losses, {0, 0}).largest, 4);
  losses[30] = 5.5;
  losses[31] = 4.5;  // the mean stays
  EXPECT_TRUE(compare_curves(reference, losses, {0, 0}).passed);
  losses[32] = 5.25;
  EXPECT_DOUBLE_EQ(compare_curves(reference, losses, {0, 0}).mean_last, 0.0125);
  EXPECT_FALSE(compare_curves(reference, losses, {0, 0.01}).passed);
  EXPECT_TRUE(compare_curves(reference, losses, {0, 0.02}).passed);
  losses[9] = 5.125;
  EXPECT_FALSE(compare_curves(reference, losses, {0.1, 1}).passed);
  EXPECT_TRUE(compare_curves(reference, losses, {0.125, 1}).passed);
}

TEST(Curves, NeedStepsAndNumbers) {
  using device_check::compare_curves;
  EXPECT_FALSE(compare_curves({}, {1, 2}, {9, 9}).passed);
  EXPECT_EQ(compare_curves({1, 2, 3}, {1, 2}, {9, 9}).steps, 2);
  EXPECT_FALSE(compare_curves({1}, {std::numeric_limits<double>::quiet_NaN()}, {9, 9}).passed);
}

#ifdef HEDDLE_BENCH_KERNELS
// On the emulated GPU where the program was built for it.
TEST_F(DeviceCheck, BenchmarksRunOnThisDevice) {
  const std::string common =
      " --config small.ini --run.directory runs/small --run.device auto --bench.product_size 32 --bench.json "
      "scratch/j; "
      "cat scratch/j";
  const Outcome kernels = scene_->run("'" HEDDLE_BENCH_KERNELS "' --bench.repetitions 1" + common);
  EXPECT_EQ(kernels.status, 0) << kernels.output;
  for (const char* part :
       {"\"kernel\": \"attention, backward\"", "\"kernel\": \"route plan, receiver\"",
        "\"kernel\": \"experts, up, weight gradient\"", "\"measured_floor_seconds\"", "\"preset\": \"small\""})
    EXPECT_NE(kernels.output.find(part), std::string::npos) << part << "\n" << kernels.output;
  const Outcome steps =
      scene_->run("'" HEDDLE_BENCH_TRAINING_STEPS
                  "' --bench.loops 1,3 --bench.seconds 0 --backprop.mode segmented --backprop.loops 1" +
                  common);
  EXPECT_EQ(steps.status, 0) << steps.output;
  for (const char* part : {"\"mode\": \"full\"", "\"mode\": \"segmented\"", "\"tokens_per_second\"", "\"peak_bytes\""})
    EXPECT_NE(steps.output.find(part), std::string::npos) << part << "\n" << steps.output;
}
#endif

}  // namespace
}  // namespace heddle::testing
