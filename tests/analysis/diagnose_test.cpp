#include "analysis/diagnose.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/planted_log.h"

namespace heddle {

namespace {

/// The finding whose text contains `fragment`; a test failure if there is none.
const Finding* find(const Diagnosis& d, const std::string& fragment) {
  for (const Finding& f : d.findings)
    if (f.what.find(fragment) != std::string::npos) return &f;
  ADD_FAILURE() << "no finding with '" << fragment << "'; verdict: " << d.verdict;
  return nullptr;
}

void expect_in(const std::string& fragment, const std::string& text) {
  EXPECT_NE(text.find(fragment), std::string::npos) << "expected: " << fragment << "\nfound:\n" << text;
}

/// The single finding of a log with one planted fault.
void expect_only(const RunLog& log, Severity severity, const std::string& fragment) {
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.findings.size(), 1u) << render(log, d);
  const Finding* f = find(d, fragment);
  if (f == nullptr) return;
  EXPECT_EQ(f->severity, severity) << f->what;
  EXPECT_EQ(d.worst, severity);
  EXPECT_FALSE(f->cause.empty());
  EXPECT_FALSE(f->fix.empty());
  expect_in(f->what, render(log, d));
}

}  // namespace

TEST(Diagnose, AHealthyRunIsCalledHealthy) {
  RunLog log = planted_log(100);
  log.validations.push_back({100, 2.4, 1.8125, 5000});
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.verdict, "healthy (finished)");
  EXPECT_EQ(d.worst, Severity::kNote);
  EXPECT_TRUE(d.findings.empty());
  EXPECT_EQ(d.window, 25);
  EXPECT_EQ(d.tokens_per_second, 2048);
  EXPECT_GT(d.first_loss, d.last_loss);
  ASSERT_EQ(d.cells.size(), 6u);
  for (const CellSummary& c : d.cells) {
    EXPECT_NEAR(c.entropy, 1, 1e-12);
    EXPECT_NEAR(c.largest_share, 0.125, 1e-12);
    EXPECT_EQ(c.dead, 0);
    EXPECT_NEAR(c.block_rms, 1.5, 1e-12);
    if (c.loop == 2)
      EXPECT_EQ(c.overlap, -1);
    else
      EXPECT_NEAR(c.overlap, 0.5, 1e-12);
    if (c.loop < 2) {
      EXPECT_NEAR(c.chance, 0.25, 1e-12);  // k / E under uniform loads
    }
  }
  EXPECT_EQ(d.state_rms, (std::vector<double>(3, 1.0)));
  const std::string text = render(log, d);
  expect_in("verdict: healthy (finished)", text);
  expect_in("1.8125 bits per byte after step 100", text);
  expect_in("2048 tokens/s", text);
}

TEST(Diagnose, TheWindowIsTheLastQuarterAndAtMostAHundredSteps) {
  EXPECT_EQ(diagnose(planted_log(3)).window, 1);
  EXPECT_EQ(diagnose(planted_log(40)).window, 10);
  EXPECT_EQ(diagnose(planted_log(1000)).window, 100);
  // What was wrong before the window is over.
  RunLog log = planted_log(100);
  for (size_t i = 0; i < 75; ++i) log.steps[i].block_rms[5] = 100;
  EXPECT_EQ(diagnose(log).worst, Severity::kNote);
  log.steps[75].block_rms[5] = 1000;
  EXPECT_EQ(diagnose(log).worst, Severity::kProblem);
}

TEST(Diagnose, ShortAndLiveRunsAreNotJudged) {
  EXPECT_EQ(diagnose(planted_log(0)).verdict, "no step yet: nothing to diagnose");
  expect_in("no step yet", render(planted_log(0), diagnose(planted_log(0))));
  const Diagnosis one = diagnose(planted_log(1));
  EXPECT_EQ(one.verdict, "nothing wrong so far, but too early to tell (1 steps in the log, at step 1 of 100)");
  EXPECT_EQ(one.worst, Severity::kNote);
  EXPECT_EQ(diagnose(planted_log(60)).verdict, "healthy (at step 60 of 100)");
}

TEST(Diagnose, OneLoopHasNoOverlap) {
  RunLog log;
  log.header = planted_header();
  log.header.loops = 1;
  for (int64_t s = 1; s <= 100; ++s) log.steps.push_back(planted_step(log.header, s));
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.verdict, "healthy (finished)");
  EXPECT_EQ(d.cells.size(), 2u);
}

TEST(Diagnose, CollapsedExpertsAreFound) {
  RunLog log = planted_log(100);
  const size_t cell = 3;  // loop 2 layer 1
  for (StepRecord& r : log.steps)
    for (size_t e = 0; e < 8; ++e) r.load[cell * 8 + e] = e == 0 ? 2041 : 1;
  expect_only(log, Severity::kProblem, "experts collapsed");
  const Diagnosis d = diagnose(log);
  expect_in("in loop 2 layer 1", d.findings[0].what);
  expect_in("100 % of the slots", d.findings[0].what);
  EXPECT_NEAR(d.cells[cell].largest_share, 2041.0 / 2048, 1e-9);
  EXPECT_EQ(d.verdict, "something is wrong (finished)");
}

TEST(Diagnose, ADeadExpertIsAWarning) {
  RunLog log = planted_log(100);
  for (StepRecord& r : log.steps) r.load[7] = 0;
  expect_only(log, Severity::kWarning, "1 expert(s) got no slot");
  log.steps.back().load[7] = 1;
  EXPECT_TRUE(diagnose(log).findings.empty()) << "one slot in the window is enough";
}

TEST(Diagnose, LoopsThatChooseAlikeAreFoundAfterTheStart) {
  RunLog log = planted_log(100);
  for (StepRecord& r : log.steps) r.overlap[2] = 0.99;  // between loops 2 and 3 in layer 0
  expect_only(log, Severity::kWarning, "overlap 0.990 between loops 2 and 3 in layer 0, 0.250 expected by chance");
  log.header.warmup_steps = 100;
  expect_only(log, Severity::kNote, "too early to tell");
  log.header.warmup_steps = 5;
  log.header.steps = 1000;
  expect_only(log, Severity::kNote, "step 100 of 1000");
}

TEST(Diagnose, AGrowingStreamIsFound) {
  RunLog log = planted_log(100);
  for (StepRecord& r : log.steps)
    for (size_t loop = 0; loop < 3; ++loop) r.block_rms[loop * 2 + 1] = std::pow(3.0, static_cast<double>(loop));
  expect_only(log, Severity::kProblem, "RMS 1.00 in loop 1, 9.00 in loop 3 of layer 1");
}

TEST(Diagnose, ALossThatIsNotFiniteIsFound) {
  RunLog log = planted_log(100);
  for (size_t i = 80; i < 100; ++i) log.steps[i].loss = std::nan("");
  expect_only(log, Severity::kProblem, "loss is not finite in 20 step(s), first at step 81, and still at the end");
}

TEST(Diagnose, OneBrokenStepDoesNotHideTheOthers) {
  RunLog log = planted_log(200);
  StepRecord& broken = log.steps[190];
  broken.loss = std::nan("");
  broken.skipped[0] = 1;
  broken.block_rms.assign(6, std::nan(""));
  broken.state_rms.assign(3, HUGE_VAL);
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.worst, Severity::kWarning);
  find(d, "finite again at the end");
  find(d, "1 of 200 steps made no update");
  EXPECT_EQ(d.findings.size(), 2u);
  EXPECT_TRUE(std::isfinite(d.last_loss));
  EXPECT_NEAR(d.cells[0].block_rms, 1.5, 1e-12);
  EXPECT_EQ(d.state_rms[0], 1.0);
}

TEST(Diagnose, ManySkippedStepsAreAProblem) {
  RunLog log = planted_log(100);
  log.steps[10].skipped[0] = 1;
  expect_only(log, Severity::kWarning, "1 of 100 steps");
  log.steps[11].skipped[0] = 1;
  expect_only(log, Severity::kProblem, "2 of 100 steps");
}

TEST(Diagnose, ALossThatDoesNotFallIsFound) {
  RunLog log = planted_log(100);
  for (StepRecord& r : log.steps) r.loss = 4.0 + 0.001 * static_cast<double>(r.step);
  expect_only(log, Severity::kProblem, "the loss did not fall");
  log.steps.resize(39);
  EXPECT_TRUE(diagnose(log).findings.empty()) << "too short to say";
}

TEST(Diagnose, LoopsThatWereNotRunAreNotCollapsed) {
  // Before growth from two loops to three, or with random counts that never reached three.
  RunLog log = planted_log(100);
  for (StepRecord& r : log.steps) {
    r.loops = 2;
    for (size_t i = 2 * 2 * 8; i < r.load.size(); ++i) r.load[i] = 0;
    r.state_rms[2] = r.block_rms[4] = r.block_rms[5] = r.overlap[2] = r.overlap[3] = std::nan("");
  }
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.verdict, "healthy (finished)") << render(log, d);
  EXPECT_TRUE(d.findings.empty());
  const std::string text = render(log, d);
  expect_in("     3      1  not run", text);
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  // What was run is still judged.
  for (StepRecord& r : log.steps)
    for (size_t e = 0; e < 8; ++e) r.load[8 + e] = e == 0 ? 2041 : 1;
  expect_only(log, Severity::kProblem, "experts collapsed");
}

TEST(Diagnose, ADenseModelIsJudgedByItsStreamAndLoss) {
  RunLog log = planted_log(100);
  log.header.experts = log.header.top_k = log.header.balance_rows = 0;
  for (StepRecord& r : log.steps) {
    r.load.clear();
    r.dropped.clear();
    r.overlap.clear();
  }
  EXPECT_EQ(diagnose(log).verdict, "healthy (finished)");
  expect_in("no experts", render(log, diagnose(log)));
  for (StepRecord& r : log.steps) r.block_rms[5] = 40;
  expect_only(log, Severity::kProblem, "the stream grows over the loops");
}

TEST(Diagnose, TheTableShowsEveryCell) {
  const RunLog log = planted_log(100);
  const std::string text = render(log, diagnose(log));
  expect_in(
      "  loop  layer  entropy  largest share  dead  dropped  overlap with next loop  by chance  RMS before norm\n"
      "     1      0    1.000          12.5%     0     0.0%                   0.500      0.250            1.500\n",
      text);
  expect_in(
      "     3      1    1.000          12.5%     0     0.0%                       -          -            1.500\n",
      text);
}

TEST(Diagnose, SeveritiesHaveNames) {
  EXPECT_STREQ(name_of(Severity::kNote), "note");
  EXPECT_STREQ(name_of(Severity::kWarning), "warning");
  EXPECT_STREQ(name_of(Severity::kProblem), "problem");
}

}  // namespace heddle
