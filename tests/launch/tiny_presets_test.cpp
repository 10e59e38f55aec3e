// Every preset that says "tiny" runs from its first step to its diagnosis, shortened to a few steps on a small store.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "analysis/run_log.h"
#include "launch/scene.h"
#include "support/error.h"

namespace heddle::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> tiny_presets() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(HEDDLE_SOURCE_DIR) / "configs"))
    if (entry.path().stem().string().find("tiny") != std::string::npos) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A part of the presets, so that parts run beside each other. On processors: an emulated GPU takes a minute for a
/// preset and its validations, and the golden cases reach every operation there.
class TinyPresets : public ::testing::TestWithParam<size_t> {
 public:
  static constexpr size_t kParts = 8;
};

TEST_P(TinyPresets, EachTrainsAFewStepsResumesAndIsDiagnosed) {
  const Scene scene;
  const std::vector<std::string> names = tiny_presets();
  EXPECT_GE(names.size(), 20U);
  for (size_t i = GetParam(); i < names.size(); i += kParts) {
    const std::string& name = names[i];
    SCOPED_TRACE(name);
    // Four steps pass growth and every schedule; the model, its optimizer and its loops stay the preset's.
    const std::string train =
        "$H train --config " HEDDLE_SOURCE_DIR "/configs/" + name +
        ".cfg --data.store store.h5 --run.directory scratch/run --train.steps 4 --train.global_batch 2 "
        "--train.micro_batch 2 --train.sequence_length 16 --layout.expert_parallel 1 --data.unique_tokens 0 "
        "--run.device cpu";
    const Outcome outcome =
        scene.run(train + " --run.stop_after 2 && " + train +
                  " --run.resume true && $H inspect scratch/run/log.h5 --check && $H diagnose scratch/run");
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.output;  // 3: the diagnosis found a problem
    EXPECT_EQ(outcome.output.find("was skipped"), std::string::npos) << outcome.output;
    const RunLog log = RunLog::open(scene.path("scratch/run/log.h5"));
    ASSERT_EQ(log.steps.size(), 4U);
    const double random = std::log(257.0);  // of a model that knows nothing; start values add a little
    for (const StepRecord& step : log.steps) {
      EXPECT_TRUE(std::isfinite(step.loss)) << "step " << step.step;
      EXPECT_LT(step.loss, 1.5 * random) << "step " << step.step;
    }
    EXPECT_NE(outcome.output.find("step 4/4"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("verdict: "), std::string::npos) << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, TinyPresets, ::testing::Range<size_t>(0, TinyPresets::kParts));

}  // namespace
}  // namespace heddle::testing
