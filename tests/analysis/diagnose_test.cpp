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
    if (c.loop == 0) {
      EXPECT_TRUE(std::isnan(c.overlap) && std::isnan(c.chance));
      continue;
    }
    EXPECT_NEAR(c.overlap, 0.5, 1e-12);
    EXPECT_NEAR(c.chance, 0.25, 1e-12);  // k / E under uniform loads
    EXPECT_NEAR(c.router_agreement, 0.625, 1e-12);
    EXPECT_NEAR(c.state_agreement, 0.75, 1e-12);
    EXPECT_NEAR(c.flipped, 0.125, 1e-12);
  }
  ASSERT_EQ(d.loops.size(), 3u);
  for (const LoopSummary& loop : d.loops) {
    EXPECT_EQ(loop.state_rms, 1);
    EXPECT_EQ(loop.relative_update, 0.5);
  }
  EXPECT_EQ(d.looks, 3);  // of steps 80, 90, 100
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
  expect_in("most in loop 1 layer 0: 1", diagnose(log).findings[0].what);
  log.steps.back().load[7] = 1;
  EXPECT_TRUE(diagnose(log).findings.empty()) << "one slot in the window is enough";
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
  EXPECT_EQ(d.loops[0].state_rms, 1.0);
  EXPECT_EQ(d.findings.size(), 2u);
  EXPECT_TRUE(std::isfinite(d.last_loss));
  EXPECT_NEAR(d.cells[0].block_rms, 1.5, 1e-12);
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

TEST(Diagnose, AnExpertThatCouldExpectLittleIsNotDead) {
  RunLog log = planted_log(100);
  for (StepRecord& r : log.steps)  // 25 steps of 3 slots for each of the others: 65 expected on average
    for (size_t e = 0; e < 8; ++e) r.load[e] = e == 7 ? 0 : 3;
  EXPECT_TRUE(diagnose(log).findings.empty());
  for (StepRecord& r : log.steps)
    for (size_t e = 0; e < 7; ++e) r.load[e] = 5;
  expect_only(log, Severity::kWarning, "1 expert(s) got no slot");
}

TEST(Diagnose, TheTablesShowEveryCell) {
  const RunLog log = planted_log(100);
  const std::string text = render(log, diagnose(log));
  expect_in(
      "  loop  layer  entropy  largest share  dead  dropped  flipped by bias  largest logit  RMS before norm\n"
      "     1      0    1.000          12.5%     0     0.0%            12.5%           2.00            1.500\n",
      text);
  expect_in(
      "  loop  layer  overlap  by chance  same router  same state  experts met  by chance\n"
      "     1      0        -          -            -           -         2.00       2.00\n"
      "     1      1        -          -            -           -         2.00       2.00\n"
      "     2      0    0.500      0.250        0.625       0.750         3.00       3.50\n",
      text);
  expect_in("expert and loop share, of the load, 0.0000 nats in layer 0, 0.0000 nats in layer 1 (at most 1.10)", text);
  expect_in(
      "  loop    RMS  update  relative  cos -1  cos -2  cos -3  cos embedding  cos tokens       LOOM   unscaled\n"
      "     1  1.000   0.500     0.500   0.750       -       -          0.250       0.125  1.17 0.23  1.62 0.17\n"
      "     2  1.000   0.500     0.500   0.750   0.750       -          0.250       0.125  0.34 0.94  1.14 0.35\n",
      text);
}

TEST(Diagnose, WithoutLooksTheirColumnsAreEmpty) {
  RunLog log = planted_log(100);
  log.looks.clear();
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.verdict, "healthy (finished)");
  EXPECT_EQ(d.looks, 0);
  const std::string text = render(log, d);
  expect_in("no look at the states in this log", text);
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
}

TEST(Diagnose, TheLooksAreThoseOfTheWindowOrTheLastBefore) {
  RunLog log = planted_log(100);
  log.looks[9].relative_update[1] = 2;  // step 100; 80 and 90 have 0.5
  EXPECT_NEAR(diagnose(log).loops[1].relative_update, 1, 1e-12);
  log.looks.resize(3);  // the last one is of step 30
  log.looks[2].relative_update[1] = 4;
  EXPECT_EQ(diagnose(log).loops[1].relative_update, 4);
  EXPECT_EQ(diagnose(log).looks, 1);
}

TEST(Diagnose, SeveritiesHaveNames) {
  EXPECT_STREQ(name_of(Severity::kNote), "note");
  EXPECT_STREQ(name_of(Severity::kWarning), "warning");
  EXPECT_STREQ(name_of(Severity::kProblem), "problem");
}

}  // namespace heddle
