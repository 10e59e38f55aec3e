// What the diagnosis makes of loops that choose alike, of states, and of a probe: cases whose answer is known.
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/diagnose.h"
#include "analysis/planted_log.h"

namespace heddle {
namespace {

/// Runs a check of one value in every look.
template <typename Change>
RunLog changed(const Change& change, RunLogHeader header = planted_header(), int64_t steps = 100) {
  RunLog log;
  log.header = std::move(header);
  for (int64_t s = 1; s <= steps; ++s) log.steps.push_back(planted_step(log.header, s));
  for (int64_t s = 10; s <= steps; s += 10) log.looks.push_back(planted_look(log.header, s));
  for (StatisticsRecord& look : log.looks) change(log, look);
  return log;
}

std::vector<std::string> kinds(const Diagnosis& d) {
  std::vector<std::string> found;
  for (const Finding& f : d.findings) found.push_back(f.kind);
  return found;
}
using Kinds = std::vector<std::string>;

void expect_in(const std::string& fragment, const std::string& text) {
  EXPECT_NE(text.find(fragment), std::string::npos) << "expected: " << fragment << "\nfound:\n" << text;
}

/// Overlap of loops 2 and 3 in layer 0 of the log's steps and looks.
void set_overlap(RunLog& log, double overlap) {
  for (StepRecord& r : log.steps) r.overlap[2] = overlap;
}
constexpr size_t kCell = 4;  // loop 3, layer 0

ProbeResult probe_with_swap(double mean, double error) {
  ProbeResult probe;
  probe.loops = 3;
  probe.layers = 2;
  probe.experts = 8;
  Effect swap;
  swap.loop = 1;
  swap.other_loop = 2;
  swap.change = {mean, error};
  swap.documents = 50;
  probe.router_swaps = {swap};
  return probe;
}

TEST(Findings, EqualChoicesAreAWarningUntilAProbeTellsWhetherTheyMatter) {
  RunLog log = changed([](RunLog&, StatisticsRecord&) {});
  set_overlap(log, 0.96);
  const Diagnosis alone = diagnose(log);
  EXPECT_EQ(kinds(alone), Kinds{"same_choice"});
  EXPECT_EQ(alone.worst, Severity::kWarning);
  expect_in("between loops 2 and 3 in layer 0 the overlap is 0.960 (0.250 by chance", alone.findings[0].what);
  // The routers agree on 0.625 only: it is the state that stands.
  expect_in("the state hardly changes", alone.findings[0].cause);

  const ProbeResult idle = probe_with_swap(0.001, 0.001);
  const Diagnosis collapsed = diagnose(log, &idle);
  EXPECT_EQ(kinds(collapsed), Kinds{"loops_collapsed"});
  EXPECT_EQ(collapsed.worst, Severity::kProblem);
  expect_in("changes the loss by +0.0010 +- 0.0010 nats per token: no difference", collapsed.findings[0].what);

  const ProbeResult counts = probe_with_swap(0.0021, 0.001);
  const Diagnosis matters = diagnose(log, &counts);
  EXPECT_EQ(kinds(matters), Kinds{"same_choice_matters"});
  EXPECT_EQ(matters.worst, Severity::kNote);
  const ProbeResult better = probe_with_swap(-0.0021, 0.001);  // it matters, whatever the sign
  EXPECT_EQ(kinds(diagnose(log, &better)), Kinds{"same_choice_matters"});
}

TEST(Findings, TheLimitsOfEqualChoices) {
  const auto none = [](RunLog&, StatisticsRecord&) {};
  RunLog log = changed(none);
  set_overlap(log, 0.949);
  EXPECT_TRUE(diagnose(log).findings.empty());
  set_overlap(log, 0.951);
  EXPECT_EQ(kinds(diagnose(log)), Kinds{"same_choice"});
  // As one router alone would give: routers that agree, and an overlap that is the counterfactual one.
  const auto copies = [](double agreement, double standing) {
    RunLog found = changed([&](RunLog&, StatisticsRecord& look) {
      look.router_agreement[kCell] = agreement;
      look.state_agreement[kCell] = standing;
    });
    set_overlap(found, 0.6);
    return kinds(diagnose(found));
  };
  EXPECT_EQ(copies(0.96, 0.64), Kinds{"same_choice"});
  EXPECT_EQ(copies(0.96, 0.66), Kinds{});
  EXPECT_EQ(copies(0.94, 0.6), Kinds{}) << "different routers that happen to agree as often";
}

TEST(Findings, RoutersThatAreStillCopiesAtTheStartAreNotCalledCollapsed) {
  const auto copies = [](RunLog&, StatisticsRecord& look) {
    for (size_t at = 2; at < 6; ++at) look.router_agreement[at] = look.state_agreement[at] = 1;
  };
  RunLog log = changed(copies);
  set_overlap(log, 1);
  const ProbeResult idle = probe_with_swap(0, 0);
  log.header.warmup_steps = 100;
  EXPECT_EQ(kinds(diagnose(log, &idle)), Kinds{"same_choice_early"});
  EXPECT_EQ(diagnose(log, &idle).worst, Severity::kNote);
  log.header.warmup_steps = 5;
  log.header.steps = 1000;
  EXPECT_EQ(kinds(diagnose(log, &idle)), Kinds{"same_choice_early"});
  log.header.steps = 999;
  EXPECT_EQ(kinds(diagnose(log, &idle)), Kinds{"loops_collapsed"});
}

TEST(Findings, OneRouterForAllLoopsIsSaidToBeByDesign) {
  RunLogHeader header = planted_header();
  header.config = "[moe]\nrouter = shared\n";
  RunLog log = changed(
      [](RunLog&, StatisticsRecord& look) {
        look.router_agreement[kCell] = 1;
        look.state_agreement[kCell] = 0.5;
      },
      header);
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(kinds(d), Kinds{"one_router"});
  EXPECT_EQ(d.worst, Severity::kNote);
}

/// States of 6 loops; the looks have these numbers in one of them.
RunLog with_states(size_t loop, double relative, double cosine, double two_before = 0.3) {
  RunLogHeader header = planted_header();
  header.loops = 6;
  return changed(
      [=](RunLog&, StatisticsRecord& look) {
        for (size_t t = 3; t < 6; ++t) look.relative_update[t] = 0.15;
        for (size_t t = 3; t < 6; ++t) look.cosine_back[t * 3] = 0.98;
        look.relative_update[loop] = relative;
        look.cosine_back[loop * 3] = cosine;
        look.cosine_back[loop * 3 + 1] = look.cosine_back[loop * 3 + 2] = two_before;
      },
      header);
}

TEST(Findings, AStateThatStandsStillIsFrozen) {
  const Diagnosis d = diagnose(with_states(4, 0.02, 0.999));
  EXPECT_EQ(kinds(d), Kinds{"frozen_state"});
  expect_in("stands still in loop 5: relative update 0.020, cosine with the loop before 0.9990", d.findings[0].what);
  EXPECT_EQ(kinds(diagnose(with_states(4, 0.061, 0.999))), Kinds{});
  EXPECT_EQ(kinds(diagnose(with_states(4, 0.02, 0.994))), Kinds{});
  // LOOM's published trace is neither frozen nor drifting in any loop.
  EXPECT_EQ(kinds(diagnose(with_states(4, 0.122, 0.992))), Kinds{});
}

TEST(Findings, AStateThatIsRewrittenInEveryLoopDrifts) {
  const Diagnosis d = diagnose(with_states(5, 1.163, 0.318));
  EXPECT_EQ(kinds(d), Kinds{"drifting_state"});
  expect_in("in loop 6 it changes by 1.16 of its norm, cosine with the loop before 0.318", d.findings[0].what);
  EXPECT_EQ(d.findings[0].what.find("circle"), std::string::npos);
  expect_in("goes in a circle", diagnose(with_states(5, 1.163, 0.318, 0.9)).findings[0].what);
  EXPECT_EQ(kinds(diagnose(with_states(4, 1.163, 0.318))), Kinds{}) << "not the last loop";
  EXPECT_EQ(kinds(diagnose(with_states(5, 0.59, 0.318))), Kinds{});
  EXPECT_EQ(kinds(diagnose(with_states(5, 1.163, 0.71))), Kinds{});
}

TEST(Findings, TokensThatAreAllAlike) {
  const Diagnosis d = diagnose(changed([](RunLog&, StatisticsRecord& look) { look.token_cosine[1] = 0.99; }));
  EXPECT_EQ(kinds(d), Kinds{"same_tokens"});
  expect_in("0.990 after loop 2", d.findings[0].what);
}

TEST(Findings, LoopsAndVisitsThatChangeNothingWhenSkipped) {
  const RunLog log = changed([](RunLog&, StatisticsRecord&) {});
  ProbeResult probe = probe_with_swap(0.1, 0.01);
  const auto skip = [](int64_t loop, int64_t layer, double mean, double error) {
    Effect e;
    e.loop = loop;
    e.layer = layer;
    e.change = {mean, error};
    e.documents = 40;
    return e;
  };
  probe.skipped_loops = {skip(0, -1, 0.5, 0.01), skip(1, -1, 0.021, 0.01)};
  probe.skipped_blocks = {skip(0, 0, 0.1, 0.01), skip(0, 1, 0.3, 0.1)};
  EXPECT_EQ(kinds(diagnose(log, &probe)), Kinds{});
  probe.skipped_loops[1].change.mean = 0.019;
  probe.skipped_blocks[1].change.mean = -0.3;  // better without
  const Diagnosis d = diagnose(log, &probe);
  EXPECT_EQ(kinds(d), (Kinds{"wasted_loops", "wasted_blocks"}));
  expect_in("loop 2 (+0.0190 +- 0.0100) nats per token, 40 documents", d.findings[0].what);
  expect_in("1 of 2 visits of a layer change nothing when skipped: loop 1 layer 1", d.findings[1].what);
  EXPECT_EQ(d.worst, Severity::kWarning);
  probe.skipped_loops[1].change.standard_error = std::nan("");  // one document tells nothing
  EXPECT_EQ(kinds(diagnose(log, &probe)), Kinds{"wasted_blocks"});
}

TEST(Findings, VisitsWhoseUpdatesAddUp) {
  const RunLog log = changed([](RunLog&, StatisticsRecord&) {});
  ProbeResult probe = probe_with_swap(0.1, 0.01);
  Kappa kappa;
  kappa.group = "core";
  kappa.loops = {0, 1, 2};
  kappa.kappa = 2.5;
  kappa.bound = 1.2;
  probe.gradients.kappas = {kappa};
  const Diagnosis d = diagnose(log, &probe);
  EXPECT_EQ(kinds(d), Kinds{"aligned_visits"});
  expect_in("kappa 2.50 of at most 3, M kappa s^2 = 1.20", d.findings[0].what);
  probe.gradients.kappas[0].bound = 0.125;
  EXPECT_EQ(kinds(diagnose(log, &probe)), Kinds{});
}

TEST(Alarms, OneColumnThatTakesAllIsNamedWithLayerAndLoopInTheFirstLook) {
  // 8 experts, k = 1, not renormalised, one column +20.
  RunLogHeader header = planted_header();
  header.top_k = 1;
  StepRecord step = planted_step(header, 1);
  const StatisticsRecord look = planted_look(header, 1);
  EXPECT_TRUE(alarms(header, step, look).empty());
  for (size_t e = 0; e < 8; ++e) step.load[3 * 8 + e] = e == 5 ? 1024 : 0;  // loop 2 layer 1
  const std::vector<Finding> found = alarms(header, step, look);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "experts_collapsed");
  EXPECT_EQ(found[0].severity, Severity::kProblem);
  expect_in("entropy 0.00 in loop 2 layer 1, one expert takes 100 % of the slots in loop 2 layer 1", found[0].what);
  RunLog log;
  log.header = header;
  log.steps = {step};
  const Diagnosis d = diagnose(log);
  EXPECT_EQ(d.cells[3].largest_share, 1);
  EXPECT_EQ(d.cells[3].entropy, 0);
  EXPECT_EQ(d.cells[3].dead, 7);
}

TEST(Alarms, WhatIsNormalAtTheStartIsNotAnAlarm) {
  const RunLogHeader header = planted_header();
  StepRecord step = planted_step(header, 1);
  StatisticsRecord look = planted_look(header, 1);
  step.overlap.assign(step.overlap.size(), 1);
  for (auto* agreement : {&look.router_agreement, &look.state_agreement}) agreement->assign(6, 1);
  look.relative_update.assign(3, 0.01);
  look.cosine_back.assign(9, 1);
  EXPECT_TRUE(alarms(header, step, look).empty());
  step.step = 50;
  EXPECT_EQ(alarms(header, step, look).size(), 2u);  // the same choice, and a state that stands still
}

}  // namespace
}  // namespace heddle
