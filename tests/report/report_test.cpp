// Numbers of a report against ones made by hand.
#include "report/report.h"

#include <gtest/gtest.h>

#include "report/log_tables.h"
#include "report/look_tables.h"
#include "report/planted_report.h"
#include "report/probe_tables.h"
#include "report/thinning.h"

namespace heddle::report {

namespace {

/// A column of a table.
Json column(const Table& table, const char* name) {
  return table.json().at("columns").at(name);
}

Json axis(const Table& table, size_t which) {
  return table.json().at("axes").at(which);
}

const Json* find_figure(const Json& data, const std::string& id) {
  for (const Json& section : data.at("sections"))
    for (const Json& figure : section.at("figures"))
      if (figure.at("id") == id) return &figure;
  return nullptr;
}

}  // namespace

TEST(Table, RoundsToFiveDigits) {
  EXPECT_EQ(rounded(0.123456789).dump(), "0.12346");
  EXPECT_EQ(rounded(1234567.0).dump(), "1234600.0");
  EXPECT_EQ(rounded(3.0).dump(), "3");
  EXPECT_EQ(rounded(std::nan("")).dump(), "null");
  EXPECT_EQ(rounded(INFINITY).dump(), "null");
}

TEST(Table, HasACellForEveryCombination) {
  Table t;
  t.axis("a", Json::array({"x", "y"})).axis("b", 3, 1);
  t.column("v", [](size_t cell) { return static_cast<double>(cell); });
  EXPECT_EQ(t.json().dump(), R"({"axes":[["a",["x","y"]],["b",[1,2,3]]],"columns":{"v":[0,1,2,3,4,5]}})");
}

TEST(Thinning, KeepsEveryRowOnce) {
  const std::vector<Bucket> parts = buckets(10, 4);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].first, 0u);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(parts[i].first, parts[i - 1].last);
  EXPECT_EQ(parts[3].last, 10u);
  EXPECT_EQ(buckets(3, 4).size(), 3u);
  EXPECT_TRUE(buckets(0, 4).empty());
}

TEST(Thinning, LeavesOutWhatIsNotFinite) {
  const double values[] = {1, std::nan(""), 5, INFINITY};
  const Summary s = summarise({0, 4}, [&](size_t row) { return values[row]; });
  EXPECT_EQ(s.mean, 3);
  EXPECT_EQ(s.low, 1);
  EXPECT_EQ(s.high, 5);
  EXPECT_TRUE(std::isnan(summarise({1, 2}, [&](size_t row) { return values[row]; }).mean));
}

TEST(Curves, AreMeansOfBuckets) {
  RunLog log = planted_log(800);  // two steps to a point
  log.steps[0].loss = 1;
  log.steps[1].loss = 4;
  const Table t = curves("r", log);
  EXPECT_EQ(axis(t, 0).dump(), R"(["run",["r"]])");
  EXPECT_EQ(column(t, "step").size(), 400u);
  EXPECT_EQ(column(t, "step")[0], 2);
  EXPECT_EQ(column(t, "loss")[0], 2.5);
  EXPECT_EQ(column(t, "loss_low")[0], 1);
  EXPECT_EQ(column(t, "loss_high")[0], 4);
  EXPECT_EQ(column(t, "tokens_per_second")[0], 2048);
  // 2.5 nats over 4 bytes a token, in bits.
  EXPECT_EQ(column(t, "bits_per_byte")[0], rounded(2.5 / 4 / std::log(2.0)));
}

TEST(Cells, HaveEntropyLoadAndChance) {
  RunLog log = planted_log(1);
  // Loop 1 layer 0: two experts take all; loop 2 layer 0 takes the first of them three times as often as the second.
  for (size_t e = 0; e < 8; ++e) {
    log.steps[0].load[e] = e < 2 ? 1024 : 0;
    log.steps[0].load[16 + e] = e == 0 ? 1536 : e == 1 ? 512 : 0;
  }
  log.steps[0].dropped[0] = 2048;
  const Table t = cells(log);
  EXPECT_EQ(stretches(log), std::vector<std::string>{"step 1"});
  EXPECT_EQ(axis(t, 1).dump(), R"(["loop",[1,2,3]])");
  EXPECT_EQ(axis(t, 2).dump(), R"(["layer",[0,1]])");
  EXPECT_EQ(column(t, "entropy")[0], rounded(1.0 / 3));  // one bit of three
  EXPECT_EQ(column(t, "entropy")[1], 1);
  EXPECT_EQ(column(t, "dead")[0], 6);
  EXPECT_EQ(column(t, "dropped")[0], 0.5);
  EXPECT_EQ(column(t, "largest_share")[2], 0.75);
  EXPECT_EQ(column(t, "overlap")[0], 0.5);
  EXPECT_EQ(column(t, "chance")[0], 1);  // k (1/2 3/4 + 1/2 1/4)
  EXPECT_EQ(column(t, "chance")[1], 0.25);
  EXPECT_EQ(column(t, "uniform")[0], 0.25);
  EXPECT_EQ(column(t, "over_chance")[0], -0.5);
  EXPECT_EQ(column(t, "over_uniform")[0], 0.25);
  EXPECT_TRUE(column(t, "overlap")[4].is_null()) << "the last loop has no next one";
  EXPECT_EQ(column(loads(log), "share")[16], 0.75);
}

TEST(Cells, AreEmptyForLoopsThatWereNotRun) {
  RunLog log = planted_log(1);
  std::fill(log.steps[0].load.begin() + 32, log.steps[0].load.end(), 0);
  EXPECT_TRUE(column(cells(log), "entropy")[4].is_null());
  EXPECT_TRUE(column(loads(log), "share")[32].is_null());
}

TEST(Looks, DistinctExpertsStandBesideChance) {
  EXPECT_DOUBLE_EQ(distinct_by_chance(8, 2, 1), 2);
  EXPECT_DOUBLE_EQ(distinct_by_chance(8, 2, 2), 3.5);  // 8 (1 - 9/16)
  const Table t = distinct_experts(planted_log(10));
  EXPECT_EQ(axis(t, 1).dump(), R"(["series",["layer 0","layer 1","by chance"]])");
  EXPECT_EQ(column(t, "experts").dump(), "[2,3,4,2,3,4,2,3.5,4.625]");
}

TEST(Looks, TheLastOfAStretchIsShown) {
  const RunLog log = planted_log(1000);  // a hundred looks
  const std::vector<std::string> texts = looks_shown(log);
  EXPECT_EQ(texts.size(), 24u);
  EXPECT_EQ(texts.back(), "step 1000");
  EXPECT_EQ(column(loop_pairs(log), "pair_overlap")[1], 1);
  EXPECT_EQ(column(loop_pairs(log), "pair_overlap")[2], 0.5);
}

TEST(Looks, CosinesOfLoopsThatAreNotThereAreEmpty) {
  const Json values = column(state_cosines(planted_log(10)), "value");
  EXPECT_EQ(values.dump(), "[0.75,0.75,0.75,null,0.75,0.75,null,null,0.75,0.25,0.25,0.25,0.125,0.125,0.125]");
}

TEST(Memory, HasPeaksBesidePlans) {
  RunLog log = planted_log(1);
  log.memory = {{1, {10, 20}, {11, 22}, 28, 33}};
  const Table t = memory(log);
  EXPECT_EQ(axis(t, 1).dump(), R"(["purpose",["weights","activations","all together"]])");
  EXPECT_EQ(column(t, "bytes").dump(), "[10,20,28,11,22,33]");
}

TEST(Probe, SwapsStandBothWaysRound) {
  const Table t = swap_effects(large_probe());
  EXPECT_EQ(axis(t, 2).dump(), R"(["layer",[-1,0]])");
  const Json changes = column(t, "change"), errors = column(t, "error");
  EXPECT_TRUE(changes[0].is_null()) << "a loop is not swapped with itself";
  EXPECT_EQ(changes[(0 * 9 + 3) * 2], 0.06);
  EXPECT_EQ(changes[(3 * 9 + 0) * 2 + 1], 0.03);
  EXPECT_EQ(errors[2], 0.01);
}

TEST(Probe, EffectsAndErrorsKeepTheirPlaces) {
  const ProbeResult probe = large_probe();
  EXPECT_EQ(axis(named_effects(probe.skipped_experts), 0)[1][0], "layer 0, expert 7");
  EXPECT_EQ(column(named_effects(probe.skipped_loops), "change")[1], 0.25);
  EXPECT_EQ(column(loss_by_loop(probe.loss_by_loop), "low")[0], 3.48);
  EXPECT_EQ(column(loss_by_loop(probe.loss_by_loop), "high")[0], 3.52);
  EXPECT_EQ(column(block_effects(probe), "change")[4], 0.08);  // loop 2
  EXPECT_EQ(axis(depth_curve(probe.depth), 1)[1][5], "loop 2 layer 0");
  EXPECT_EQ(column(information(probe.information), "nats")[0], 0.8);
}

TEST(Report, SaysWhatARunLacks) {
  RunLog log = planted_log(0);
  log.header.experts = 0;
  log.header.loops = 1;
  log.header.statistics_interval = 0;
  const Json data = report_data({{"empty", log, std::nullopt}});
  EXPECT_EQ(data.at("verdicts")[0].at("missing").size(), 6u) << data.at("verdicts").dump(2);
  for (const char* id : {"loss", "validation", "entropy", "load", "pairs", "cosines", "no-probe", "memory"}) {
    const Json* figure = find_figure(data, id);
    ASSERT_NE(figure, nullptr) << id;
    EXPECT_TRUE(figure->at("charts")[0].contains("missing")) << id;
  }
}

TEST(Report, HasAChartForEveryRunThatHasNumbers) {
  const Json data = report_data({{"a", large_log(50), large_probe()}, {"b", planted_log(50), std::nullopt}});
  const Json* entropy = find_figure(data, "entropy");
  ASSERT_NE(entropy, nullptr);
  ASSERT_EQ(entropy->at("charts").size(), 2u);
  EXPECT_EQ(entropy->at("charts")[1].at("data").at("source").dump(), R"(["1.cells"])");
  EXPECT_EQ(find_figure(data, "loss")->at("charts")[0].at("data").at("source").dump(), R"(["0.curves","1.curves"])");
  EXPECT_TRUE(find_figure(data, "depth")->at("charts")[1].contains("missing"));
  for (const Json& section : data.at("sections"))
    for (const Json& figure : section.at("figures"))
      for (const Json& chart : figure.at("charts"))
        for (const Json& key : chart.value(Json::json_pointer("/data/source"), Json::array()))
          EXPECT_TRUE(data.at("tables").contains(key.get<std::string>())) << key;
}

TEST(Report, MarksKeysThatDiffer) {
  report::Run a{"a", planted_log(1), std::nullopt}, b = a;
  a.log.header.config = "[model]\nlayers = 2\nloops = 3\n";
  b.log.header.config = "[model]\nlayers = 2\nloops = 4\n[moe]\nexperts = 8\n";
  EXPECT_EQ(report_data({a, b}).at("configuration").dump(),
            R"([["model.layers",["2","2"],false],["model.loops",["3","4"],true],["moe.experts",[null,"8"],true]])");
}

TEST(Page, NothingInItsDataIsHtml) {
  const std::string evil = "</script><script>alert(1)</script><!--";
  report::Run run{evil, planted_log(3), std::nullopt};
  run.log.header.config = "[data]\nstore = " + evil + "\xff\n";
  const Json data = report_data({run});
  const std::string safe = script_safe(data);
  EXPECT_EQ(safe.find('<'), std::string::npos);
  EXPECT_EQ(Json::parse(safe).at("runs")[0], evil) << "a parser reads the name back";
  EXPECT_NE(safe.find("\xEF\xBF\xBD"), std::string::npos) << "bytes that are not UTF-8";
  EXPECT_EQ(page(data).find(evil), std::string::npos);
}

TEST(Page, HoldsAllItsPartsAndLoadsNothing) {
  const std::string html = page(report_data({{"r", planted_log(3), std::nullopt}}));
  EXPECT_EQ(html.find("{{"), std::string::npos) << html.substr(html.find("{{"), 80);
  EXPECT_NE(html.find("Redistribution and use in source and binary forms"), std::string::npos);
  size_t scripts = 0;
  for (size_t at = 0; (at = html.find("<script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 4u) << "no script ends early, and none is inside another";
  for (const char* loads : {"<link", " src=", "@import", "url("}) {
    const size_t library = html.find("<script>"), behind = html.rfind("<script>");
    EXPECT_GT(html.find(loads), library) << loads;
    EXPECT_EQ(html.find(loads, behind), std::string::npos) << loads;
  }
}

TEST(Page, OfALongRunStaysSmall) {
  const std::string html = page(report_data({{"long", large_log(20000), large_probe()}}));
  EXPECT_LT(html.size(), 5u << 20);
  EXPECT_GT(html.size(), 500u << 10) << "the library alone is larger";
}

}  // namespace heddle::report
