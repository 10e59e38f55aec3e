#include "support/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/error.h"

namespace heddle {

namespace {

/// A configuration with one key of every kind.
struct Values {
  int64_t layers = 4;
  int64_t loops = 6;
  double rate = 3e-4;
  double dropout = 0;
  bool mask = true;
  std::string name = "run";
  std::string scheme = "loop";
  std::vector<int64_t> ends{1, 3, 6};
  Config config;

  Values() {
    config.add("model.layers", layers, {1, 1000}, "layers");
    config.add("model.loops", loops, {1}, "loops");
    config.add("train.learning_rate", rate, {0, 1, true, false}, "learning rate");
    config.add("train.dropout", dropout, {0, 1, false, true}, "dropout");
    config.add("data.mask", mask, "mask documents");
    config.add("run.name", name, "name of the run");
    config.add("model.scheme", scheme, {"loop", "full"}, "back-propagation");
    config.add("model.segment_ends", ends, {1, 100}, "last loops of segments");
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
};

/// What and hint of the UsageError that `action` throws; empty if it throws none.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what() + std::string(" | ") + error.hint();
  }
  return "";
}

std::string refusal_of_text(const std::string& text) {
  Values v;
  return refusal([&] { v.config.parse_text(text, "a.ini"); });
}

std::string refusal_of_flags(const std::vector<std::string>& flags) {
  Values v;
  return refusal([&] { v.config.parse(flags); });
}

void expect_in(const std::string& fragment, const std::string& message, const std::string& input) {
  EXPECT_NE(message.find(fragment), std::string::npos) << "input:\n"
                                                       << input << "\nexpected: " << fragment << "\nfound: " << message;
}

class ConfigFile : public testing::Test {
 protected:
  ~ConfigFile() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string path_ = testing::TempDir() + "heddle_config_" + std::to_string(getpid()) + ".ini";
};

}  // namespace

TEST(Config, TextSetsEveryKindOfKey) {
  Values v;
  v.config.parse_text(
      "# comment\n"
      "; another\n"
      "[model]\n"
      "layers=12   # behind a value\n"
      "  loops =  9\t; also\n"
      "scheme = full\n"
      "segment_ends = 2,9\n"
      "\n"
      "[train]\n"
      "learning_rate = 1e-3\n"
      "[data]\n"
      "mask = false\n"
      "[run]\n"
      "name = a#b;c d\n",
      "a.ini");
  EXPECT_EQ(v.layers, 12);
  EXPECT_EQ(v.loops, 9);
  EXPECT_EQ(v.scheme, "full");
  EXPECT_EQ(v.ends, (std::vector<int64_t>{2, 9}));
  EXPECT_EQ(v.rate, 1e-3);
  EXPECT_FALSE(v.mask);
  EXPECT_EQ(v.name, "a#b;c d") << "# and ; start a comment only behind white space";
  EXPECT_EQ(v.dropout, 0) << "an absent key keeps its default";
  EXPECT_EQ(v.config.origin("model.loops"), "a.ini:5");
  EXPECT_EQ(v.config.origin("train.dropout"), "default");
}

TEST(Config, ByteOrderMarkAndWindowsLineEndsAreAccepted) {
  Values v;
  v.config.parse_text("\xEF\xBB\xBF[model]\r\nlayers = 7\r\n[run]\r\nname = x\r\n", "a.ini");
  EXPECT_EQ(v.layers, 7);
  EXPECT_EQ(v.name, "x");
}

TEST(Config, BrokenTextIsRefusedWithItsLine) {
  struct Case {
    const char* text;
    std::vector<std::string> fragments;
  };
  const Case cases[] = {
      {"[model]\nlayrs = 3\n", {"a.ini:2:", "unknown key model.layrs", "nearest known key is model.layers"}},
      {"[train]\nlayers = 3\n", {"a.ini:2:", "unknown key train.layers", "nearest known key is model.layers"}},
      {"layers = 3\n", {"a.ini:1:", "unknown key layers", "model.layers"}},
      {"[model]\nlayers = 3\n\nlayers = 4\n", {"a.ini:4:", "model.layers stands already in line 2"}},
      {"[model]\nlayers = 3\n[train]\n[model]\nlayers = 3\n", {"a.ini:5:", "already in line 2"}},
      {"[model]\nlayers = 3x\n", {"a.ini:2:", "model.layers = '3x'", "whole number"}},
      {"[model]\nlayers =\n", {"a.ini:2:", "model.layers = ''", "whole number"}},
      {"[model]\nlayers = # none\n", {"a.ini:2:", "model.layers = ''"}},
      {"[model]\nlayers = 1e3\n", {"a.ini:2:", "whole number"}},
      {"[model]\nlayers = 0x10\n", {"a.ini:2:", "whole number"}},
      {"[model]\nlayers = 2.0\n", {"a.ini:2:", "whole number"}},
      {"[model]\nlayers = 99999999999999999999\n", {"a.ini:2:", "whole number"}},
      {"[model]\nlayers = 0\n", {"a.ini:2:", "1 to 1000"}},
      {"[model]\nlayers = 1001\n", {"a.ini:2:", "1 to 1000"}},
      {"[model]\nloops = 0\n", {"a.ini:2:", "1 or more"}},
      {"[train]\nlearning_rate = nan\n", {"a.ini:2:", "'nan'", "finite number"}},
      {"[train]\nlearning_rate = inf\n", {"a.ini:2:", "finite number"}},
      {"[train]\nlearning_rate = 1e400\n", {"a.ini:2:", "finite number"}},
      {"[train]\nlearning_rate = 0\n", {"a.ini:2:", "above 0 to 1"}},
      {"[train]\ndropout = 1\n", {"a.ini:2:", "0 to below 1"}},
      {"[data]\nmask = 1\n", {"a.ini:2:", "true or false"}},
      {"[data]\nmask = True\n", {"a.ini:2:", "true or false"}},
      {"[model]\nscheme = ful\n", {"a.ini:2:", "'ful'", "one of: loop, full"}},
      {"[model]\nsegment_ends = 1,,6\n", {"a.ini:2:", "whole number"}},
      {"[model]\nsegment_ends = 1,3,\n", {"a.ini:2:", "whole number"}},
      {"[model]\nsegment_ends = 1, 3\n", {"a.ini:2:", "whole number"}},
      {"[model]\nsegment_ends = 1,101\n", {"a.ini:2:", "1 to 100"}},
      {"[model\nlayers = 3\n", {"a.ini:1:", "not a section"}},
      {"[ ]\nlayers = 3\n", {"a.ini:1:", "not a section"}},
      {"[model]\nlayers\n", {"a.ini:2:", "neither a section nor name = value"}},
      {"[model]\n= 3\n", {"a.ini:2:", "neither a section nor name = value"}},
  };
  for (const Case& c : cases)
    for (const std::string& fragment : c.fragments) expect_in(fragment, refusal_of_text(c.text), c.text);
}

TEST(Config, ARefusedValueLeavesTheTargetAlone) {
  Values v;
  EXPECT_NE(refusal([&] { v.config.parse_text("[model]\nsegment_ends = 2,x\n", "a.ini"); }), "");
  EXPECT_EQ(v.ends, (std::vector<int64_t>{1, 3, 6}));
}

TEST(Config, OneSidedLimitsAreNamed) {
  double low = 0, high = 0, open = 0;
  Config config;
  config.add("a.high", high, {-INFINITY, 5}, "");
  config.add("a.open", open, {-INFINITY, 5, false, true}, "");
  config.add("a.low", low, {2, INFINITY, true}, "");
  expect_in("5 or less", refusal([&] { config.parse_text("[a]\nhigh = 6", ""); }), "high");
  expect_in("below 5", refusal([&] { config.parse_text("[a]\nopen = 5", ""); }), "open");
  expect_in("above 2", refusal([&] { config.parse_text("[a]\nlow = 2", ""); }), "low");
}

TEST(Config, RealsThatFloat32DoesNotHoldAreRefused) {
  double positive = 1, off = 0, signed_number = 0;
  std::vector<double> list;
  Config config;
  config.add("a.positive", positive, {0, 1, true}, "");
  config.add("a.off", off, {0, 1}, "");
  config.add("a.signed", signed_number, {-1, 1}, "");
  config.add("a.list", list, {0, 1}, "");
  const auto read = [&](const std::string& line) {
    return refusal([&] { config.parse_text("[a]\n" + line, "a.ini"); });
  };
  for (const char* line :
       {"positive = 1e-300", "positive = 9.9e-38", "off = 1e-38", "signed = -1e-40", "list = 1,1e-45"})
    expect_in("float32 holds no number so small; expected 1e-37 or more", read(line), line);
  expect_in("or more, or 0", read("off = 1e-38"), "off");
  EXPECT_EQ(read("positive = 1e-38").find(", or 0"), std::string::npos);
  for (const char* line : {"positive = 1e-37", "off = 0", "signed = -1e-37", "list = 0,1e-37"})
    EXPECT_EQ(read(line), "");
}

TEST(Config, FlagsSetKeysAndLeavePositionalArguments) {
  Values v;
  const auto rest = v.config.parse({"first", "--model.layers", "12", "--train.learning_rate=0.5", "--run.name", "a b",
                                    "--data.mask=false", "second"});
  EXPECT_EQ(rest, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(v.layers, 12);
  EXPECT_EQ(v.rate, 0.5);
  EXPECT_EQ(v.name, "a b");
  EXPECT_FALSE(v.mask);
  EXPECT_EQ(v.config.origin("model.layers"), "flag");
}

TEST(Config, BrokenFlagsAreRefused) {
  struct Case {
    std::vector<std::string> flags;
    std::vector<std::string> fragments;
  };
  const Case cases[] = {
      {{"--model.layer", "3"}, {"unknown flag --model.layer", "nearest known key is model.layers"}},
      {{"--model.l", "3"}, {"unknown flag --model.l", "--help lists all keys"}},
      {{"--warmth", "3"}, {"unknown flag --warmth", "--help lists all keys"}},
      {{"--model.width", "3"}, {"unknown flag --model.width", "--help lists all keys"}},
      {{"--modle.loops", "3"}, {"nearest known key is model.loops"}},
      {{"--train.learning", "3"}, {"nearest known key is train.learning_rate"}},
      {{"--optimizer.learnign_rate", "3"}, {"nearest known key is train.learning_rate"}},
      {{"--layers", "3"}, {"unknown flag --layers", "model.layers"}},
      {{"--model.layers", "3", "--model.layers=3"}, {"--model.layers is given twice"}},
      {{"--model.layers"}, {"command line", "model.layers"}},
      {{"--model.layers", "--model.loops", "3"}, {"model.layers"}},
      {{"--model.layers", "3x"}, {"--model.layers '3x'", "whole number"}},
      {{"--model.layers", ""}, {"--model.layers ''", "whole number"}},
      {{"--model.layers", "-3"}, {"--model.layers '-3'", "1 to 1000"}},
      {{"--train.learning_rate", "nan"}, {"finite number"}},
      {{"--data.mask"}, {"command line", "data.mask"}},
      {{"-l", "3"}, {"'-l' is not a flag"}},
      {{"--config", "/nonexistent.ini"}, {"/nonexistent.ini"}},
      {{"--config", "/"}, {"'/'"}},
  };
  for (const Case& c : cases)
    for (const std::string& fragment : c.fragments)
      expect_in(fragment, refusal_of_flags(c.flags), fmt::format("{}", fmt::join(c.flags, " ")));
}

TEST_F(ConfigFile, AFlagOverridesTheFileInAnyOrder) {
  write("[model]\nlayers = 7\nloops = 2\n");
  for (const auto& flags : {std::vector<std::string>{"--config", path_, "--model.layers", "9"},
                            std::vector<std::string>{"--model.layers", "9", "--config=" + path_}}) {
    Values v;
    v.config.parse(flags);
    EXPECT_EQ(v.layers, 9);
    EXPECT_EQ(v.loops, 2);
    EXPECT_EQ(v.config.origin("model.layers"), "flag");
    EXPECT_EQ(v.config.origin("model.loops"), path_ + ":3");
  }
}

TEST_F(ConfigFile, ErrorsNameTheFile) {
  write("[model]\nlayers = many\n");
  expect_in(path_ + ":2:", refusal_of_flags({"--config", path_}), "file");
  expect_in("--config is given twice", refusal_of_flags({"--config", path_, "--config", path_}), "file");
}

/// Two keys: nothing reads the second without the first.
struct Conditional {
  bool grows = false;
  double at = 0.75;
  Config config;

  Conditional() {
    config.add("growth.on", grows, "");
    config.add("growth.at", at, {}, "");
    config.add_condition({"growth.at"}, "growth.on true", [this] { return grows; });
  }
  Conditional(const Conditional&) = delete;
  Conditional& operator=(const Conditional&) = delete;
};

std::string refusal_of_conditional(const std::vector<std::string>& flags) {
  Conditional c;
  return refusal([&] { c.config.parse(flags); });
}

TEST_F(ConfigFile, AKeyThatNothingReadsIsRefused) {
  EXPECT_EQ(refusal_of_conditional({"--growth.at", "0.5", "--growth.on", "true"}), "");
  EXPECT_EQ(refusal_of_conditional({"--growth.at", "0.5"}),
            "--growth.at has no effect: it needs growth.on true | leave it out, or choose growth.on true");
  EXPECT_NE(refusal_of_conditional({"--growth.at", "0.75"}), "") << "the default was asked for, and does nothing";
  write("[growth]\nat = 0.5\n");
  EXPECT_EQ(refusal_of_conditional({"--config", path_, "--growth.on", "true"}), "");
  expect_in(path_ + ":2: growth.at has no effect: it needs growth.on true", refusal_of_conditional({"--config", path_}),
            "file");
}

TEST_F(ConfigFile, ALineWhoseConditionAFlagTakesAwayIsLeftOutWithAWarning) {
  write("[growth]\non = true\nat = 0.5\n");
  Conditional c;
  testing::internal::CaptureStderr();
  c.config.parse({"--config", path_, "--growth.on", "false"});
  expect_in("warning: left out of '" + path_ + "' because of the flags: growth.at has no effect",
            testing::internal::GetCapturedStderr(), "flags");
  EXPECT_EQ(c.at, 0.75);
  EXPECT_EQ(c.config.origin("growth.at"), "default");
  EXPECT_FALSE(c.config.is_read("growth.at"));
  EXPECT_TRUE(c.config.is_read("growth.on"));
}

TEST_F(ConfigFile, DefaultsInAFileAndFlagsBackToThemAreFine) {
  write("[growth]\nat = 0.75\n");
  EXPECT_EQ(refusal_of_conditional({"--config", path_}), "");
  write("[growth]\nat = 0.5\n");
  EXPECT_EQ(refusal_of_conditional({"--config", path_, "--growth.at", "0.75"}), "");
}

TEST(Config, AConditionOfNoKeyIsAMistakeOfOurs) {
  Conditional c;
  EXPECT_THROW(c.config.add_condition({"growth.to"}, "", [] { return true; }), std::logic_error);
  EXPECT_THROW(c.config.add_condition({"loops."}, "", [] { return true; }), std::logic_error);
}

TEST(Config, ResolvedTextReadsBackToTheSameValues) {
  Values v;
  v.rate = 0.1 + 0.2;
  v.dropout = std::nextafter(0.5, 1.0);
  v.layers = 1000;
  v.loops = std::numeric_limits<int64_t>::max();
  v.mask = false;
  v.name = "runs/a;b#c = d";
  v.scheme = "full";
  v.ends = {2, 4};
  const std::string text = v.config.resolved();
  Values back;
  back.config.parse_text(text, "resolved");
  EXPECT_EQ(back.rate, v.rate);
  EXPECT_EQ(back.dropout, v.dropout);
  EXPECT_EQ(back.loops, v.loops);
  EXPECT_EQ(back.mask, v.mask);
  EXPECT_EQ(back.name, v.name);
  EXPECT_EQ(back.scheme, v.scheme);
  EXPECT_EQ(back.ends, v.ends);
  EXPECT_EQ(back.config.resolved(), text);
}

TEST(Config, TextThatIniCannotHoldIsUsedButNotStored) {
  for (const std::string name : {"two\nlines", "a #b", "a ;b", "#a", " a", "a\t", "a\r"}) {
    Values v;
    v.config.parse({"--run.name", name});
    EXPECT_EQ(v.name, name);
    expect_in("run.name", refusal([&] { v.config.resolved(); }), name);
  }
}

TEST(Config, ValuesThatCodePutThereAreChecked) {
  Values v;
  v.config.check_values();
  v.rate = -1;
  expect_in("train.learning_rate = -1: expected above 0 to 1", refusal([&] { v.config.check_values(); }), "rate");
  v.rate = std::nan("");
  expect_in("train.learning_rate = nan: expected a finite number", refusal([&] { v.config.check_values(); }), "nan");
}

TEST(Config, AnEmptyTextRoundTrips) {
  Values v;
  v.name = "";
  Values back;
  back.config.parse_text(v.config.resolved(), "resolved");
  EXPECT_EQ(back.name, "");
}

TEST(Config, KeysOfOneSectionStandTogetherWhereverTheyAreDeclared) {
  Values v;  // model.scheme is declared behind the sections train, data and run
  const std::string text = v.config.resolved();
  EXPECT_EQ(text.find("[model]"), text.rfind("[model]")) << text;
}

TEST(Config, KeysWithoutASectionStandFirst) {
  int64_t inner = 3;
  std::string outer = "x";
  Config config;
  config.add("a.inner", inner, {}, "");
  config.add("outer", outer, "");
  EXPECT_EQ(config.resolved(), "outer = x\n\n[a]\ninner = 3\n");
  config.parse_text("outer = y\n[a]\ninner = 4\n", "a.ini");
  EXPECT_EQ(config.resolved(), "outer = y\n\n[a]\ninner = 4\n");
}

TEST(Config, HelpNamesEveryKeyWithItsDefault) {
  const std::string help = Values().config.help();
  for (const char* fragment :
       {"--model.layers", "[4]", "--train.learning_rate", "[0.0003]", "back-propagation (loop, full)"})
    expect_in(fragment, help, "help");
}

TEST(Config, AKeyDeclaredTwiceIsAMistakeOfOurs) {
  int64_t value = 0;
  Config config;
  config.add("a.b", value, {}, "");
  EXPECT_THROW(config.add("a.b", value, {}, ""), std::logic_error);
}

}  // namespace heddle
