// Broken inputs through the real program: every one ends with its exit status and a message that says where and what,
// within a minute, without a crash, and without a change to any file that was there.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "launch/scene.h"
#include "support/error.h"

namespace heddle::testing {
namespace {

struct Row {
  const char* name;
  std::string command;
  int status;  ///< support/error.h: 1 failure, 2 usage or configuration, 3 mismatch
  std::vector<std::string> fragments;
};

class BrokenInputs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scene_ = std::make_unique<Scene>();
    before_ = scene_->content();
  }
  static void TearDownTestSuite() { scene_.reset(); }

  static void check(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      SCOPED_TRACE(fmt::format("{}: {}", row.name, row.command));
      const Outcome found = scene_->run(row.command);
      EXPECT_EQ(found.status, row.status) << found.output;
      for (const std::string& fragment : row.fragments)
        EXPECT_NE(found.output.find(fragment), std::string::npos) << "lacks '" << fragment << "':\n" << found.output;
      if (row.status != 3) {
        EXPECT_NE(found.output.find("error: "), std::string::npos) << found.output;
        EXPECT_NE(found.output.find("hint: "), std::string::npos) << "no hint:\n" << found.output;
      }
      for (const char* crash : {"what():", "terminate called", "Segmentation", "HDF5-DIAG", "Sanitizer"})
        EXPECT_EQ(found.output.find(crash), std::string::npos) << found.output;
      expect_nothing_changed();
    }
  }

  static void expect_nothing_changed() {
    const auto after = scene_->content();
    for (const auto& [file, content] : before_) {
      const auto found = after.find(file);
      if (found == after.end())
        ADD_FAILURE() << file << " is gone";
      else
        EXPECT_TRUE(found->second == content) << file << " has changed";
    }
    for (const auto& [file, content] : after) EXPECT_TRUE(before_.contains(file)) << file << " is new";
  }

  static std::unique_ptr<Scene> scene_;
  static std::map<std::string, std::string> before_;
};
std::unique_ptr<Scene> BrokenInputs::scene_;
std::map<std::string, std::string> BrokenInputs::before_;

/// A training start with more flags.
std::string train(const std::string& flags) {
  return "$H train --config small.ini --run.directory scratch/new " + flags;
}

/// A training start with an INI file of the given content.
std::string train_file(const std::string& content) {
  return "printf '" + content + "' > scratch/c.ini; $H train --config scratch/c.ini --run.directory scratch/new";
}

TEST_F(BrokenInputs, ConfigurationFiles) {
  check({
      {"unknown key", train_file("[train]\\nwarp = 3\\n"), 2, {"scratch/c.ini:2: unknown key train.warp"}},
      {"near miss",
       train_file("# c\\n\\n[train]\\nstpes = 3\\n"),
       2,
       {"scratch/c.ini:4: unknown key train.stpes", "the nearest known key is train.steps"}},
      {"wrong section",
       train_file("[model]\\ntop_k = 2\\n"),
       2,
       {"scratch/c.ini:2: unknown key model.top_k", "the nearest known key is moe.top_k"}},
      {"key twice",
       train_file("[train]\\nsteps = 3\\nseed = 1\\nsteps = 4\\n"),
       2,
       {"scratch/c.ini:4: train.steps stands already in line 2", "keep one of the two lines"}},
      {"trailing letters",
       train_file("[train]\\nsteps = 3x\\n"),
       2,
       {"scratch/c.ini:2: train.steps = '3x': expected a whole number"}},
      {"no sections", train_file("steps = 3\\n"), 2, {"scratch/c.ini:1: unknown key steps", "train.steps"}},
      {"garbage line",
       train_file("[train]\\nthis is not a setting\\n"),
       2,
       {"scratch/c.ini:2: 'this is not a setting' is neither a section nor name = value"}},
      {"open section", train_file("[train\\nsteps = 3\\n"), 2, {"scratch/c.ini:1: '[train' is not a section"}},
      {"empty section", train_file("[ ]\\nsteps = 3\\n"), 2, {"scratch/c.ini:1: '[ ]' is not a section"}},
      {"missing file", "$H train --config scratch/none.ini", 2, {"scratch/none.ini"}},
      {"folder as file", "$H train --config text", 2, {"'text'"}},
      {"binary file", "$H train --config store.h5", 2, {"store.h5:1: "}},
  });
}

TEST_F(BrokenInputs, ConfigurationValues) {
  check({
      {"flag twice", train("--train.steps 3 --train.steps 4"), 2, {"flag --train.steps is given twice", "keep one"}},
      {"unknown flag", train("--train.step 4"), 2, {"unknown flag --train.step", "train.steps"}},
      {"no abbreviations", train("--model.l 4"), 2, {"unknown flag --model.l"}},
      {"flag without value", train("--train.steps"), 2, {"train.steps"}},
      {"stray argument", train("more"), 2, {"train takes no argument 'more'"}},
      {"nan",
       train("--optimizer.learning_rate nan"),
       2,
       {"--optimizer.learning_rate 'nan': expected a finite number", "optimizer.learning_rate"}},
      {"too large for a double", train("--optimizer.learning_rate 1e400"), 2, {"'1e400': expected a finite number"}},
      {"too large for an integer", train("--train.steps 99999999999999999999"), 2, {"expected a whole number"}},
      {"empty number", train("--train.steps ''"), 2, {"train.steps"}},
      {"negative", train("--train.steps -3"), 2, {"--train.steps '-3': expected 1 to 1000000000000"}},
      {"real for a whole number", train("--train.steps 1e3"), 2, {"--train.steps '1e3': expected a whole number"}},
      {"yes for true", train("--data.document_mask yes"), 2, {"--data.document_mask 'yes': expected true or false"}},
      {"unknown choice", train("--optimizer.name lion"), 2, {"expected one of: adamw, sgd"}},
      {"more choices than experts",
       train("--moe.top_k 9"),
       2,
       {"moe.top_k = 9 with moe.experts = 4", "moe.top_k can be "}},
      {"no expert chosen", train("--moe.top_k 0"), 2, {"--moe.top_k '0': expected 1 to 64"}},
      {"key-value heads",
       train("--model.query_heads 4 --model.kv_heads 3"),
       2,
       {"model.kv_heads = 3 does not divide model.query_heads = 4"}},
      {"odd head", train("--model.head_dim 7"), 2, {"model.head_dim = 7 is odd", "use 8"}},
      {"capacity never binds", train("--moe.capacity_factor 2"), 2, {"moe.capacity_factor = 2 never binds"}},
      {"more than the memory of any machine",
       train("--model.hidden_size 16000000 --train.global_batch 64 --train.micro_batch 64"),
       2,
       {"a training step wants", "layout.expert_parallel"}},
      {"a summary into nowhere", train("--run.summary nowhere/s.json"), 1, {"cannot write 'nowhere/s.json'"}},
      {"a summary that is a folder", train("--run.summary scratch"), 1, {"cannot write 'scratch': it is a folder"}},
      {"experts over one rank",
       train("--layout.expert_parallel 3"),
       2,
       {"expert_parallel 3 does not divide 4 experts and 1 ranks; valid: 1"}},
      {"no store", "$H train --run.directory scratch/new", 2, {"data.store is empty", "heddle data build"}},
      {"no run folder", "$H train --config small.ini", 2, {"run.directory is empty", "--run.directory"}},
      {"run folder is a file", "$H train --config small.ini --run.directory small.ini", 1, {"small.ini"}},
  });
}

TEST_F(BrokenInputs, ModelsOfTheFamilyThatCannotBe) {
  check({
      {"one expert, renormalised", train("--moe.top_k 1"), 2, {"moe.top_k = 1 with renormalised weights", "or more"}},
      {"no norm before branches", train("--norms.pre off"), 2, {"norms.pre and norms.post cannot be off", "gain"}},
      {"no norm behind branches", train("--norms.post off"), 2, {"norms.pre and norms.post cannot be off"}},
      {"looping residual in a scheme that has none",
       train("--residual.scheme deepnorm"),
       2,
       {"residual.looping with residual.scheme = deepnorm", "residual.looping false"}},
      {"visits that only deepnorm counts",
       train("--residual.count_gradient_visits true"),
       2,
       {"residual.count_gradient_visits with residual.scheme = scaled", "it belongs to deepnorm"}},
      {"lanes beside a re-injection",
       train("--hyper_connections.lanes 2"),
       2,
       {"hyper_connections.lanes replace the re-injection", "set reinjection.kind none"}},
      {"lanes that start from nothing",
       train("--hyper_connections.lanes 2 --reinjection.kind none --model.initial_state zero"),
       2,
       {"hyper_connections.lanes replace the re-injection", "model.initial_state embedding"}},
      {"a norm before the coda without boundary",
       train("--reinjection.before_coda norm"),
       2,
       {"reinjection.before_coda = norm with reinjection.kind = convex", "norm belongs to boundary"}},
      {"convex before the coda",
       train("--reinjection.before_coda full"),
       2,
       {"reinjection.before_coda = full with reinjection.kind = convex", "use off"}},
      {"nothing before the coda",
       train("--reinjection.before_coda full --reinjection.kind none"),
       2,
       {"reinjection.before_coda = full with reinjection.kind = none", "use off"}},
      {"biases by loop without one core",
       train("--model.tied false --moe.router shared_bias"),
       2,
       {"moe.router = shared_bias with model.tied false", "use moe.router per_loop or shared"}},
      {"unknown scheme",
       train("--residual.scheme curly"),
       2,
       {"--residual.scheme 'curly': expected one of: plain, scaled, layer_norm_scaling, deepnorm"}},
      {"unknown initialiser", train("--initialisation.kind warm"), 2, {"'warm': expected one of: loom, isodepth"}},
      {"1025 loops", train("--model.loops 1025"), 2, {"--model.loops '1025': expected 1 to 1024"}},
      {"no layer", train("--model.layers 0"), 2, {"--model.layers '0': expected 1 to 65536"}},
  });
}

TEST_F(BrokenInputs, SchedulesThatCannotBe) {
  const std::string dense = "--feed_forward.core dense --residual.looping false ";
  check({
      {"segments of no loops",
       train("--backprop.mode segmented"),
       2,
       {"backprop.mode = segmented with backprop.loops = 0", "--backprop.loops 3"}},
      {"states kept never", train("--backprop.mode checkpointed"), 2, {"backprop.mode = checkpointed with backprop"}},
      {"nothing with gradient", train("--backprop.mode truncated"), 2, {"backprop.mode = truncated with backprop"}},
      {"unknown schedule",
       train("--backprop.mode sideways"),
       2,
       {"'sideways': expected one of: full, checkpointed, truncated, segmented"}},
      {"lanes without gradient",
       train("--hyper_connections.lanes 2 --reinjection.kind none --backprop.mode truncated --backprop.loops 1"),
       2,
       {"hyper_connections.lanes with backprop.mode truncated", "use full or checkpointed"}},
      {"a weight too many",
       train("--loss.loop_weights 1,1,1"),
       2,
       {"loss.loop_weights has 3 weights for model.loops = 2", "give one for each loop"}},
      {"no weight at all", train("--loss.loop_weights 0,0"), 2, {"loss.loop_weights are all 0", "needs a loss"}},
      {"weights of segments",
       train("--loss.loop_weights 1,1 --backprop.mode segmented --backprop.loops 1"),
       2,
       {"loss.loop_weights with backprop.mode segmented", "use full, checkpointed or truncated"}},
      {"matrices that stay zero",
       train("--optimizer.name muonh --initialisation.kind exponents"),
       2,
       {"optimizer.name = muonh with matrices that start at zero", "use muon"}},
      {"a modulation that stays zero",
       train("--optimizer.name muonh --conditioning.kind modulation"),
       2,
       {"optimizer.name = muonh with matrices that start at zero", "conditioning.kind embedding"}},
      {"experts of a dense model over ranks",
       train(dense + "--layout.expert_parallel 2"),
       2,
       {"layout.expert_parallel = 2 with a model without experts", "use 1"}},
      {"fewer unique tokens than a window",
       train("--data.unique_tokens 5"),
       2,
       {"data.unique_tokens = 5 is 0 windows of 16 tokens", "or 0 for all"}},
      {"a negative weight", train("--loss.loop_weights 1,-1"), 2, {"--loss.loop_weights '1,-1': expected 0 to 1000"}},
      {"losses through experts of the coda",
       train("--loss.loop_weights 1,1 --model.coda_layers 1 --feed_forward.outer moe"),
       2,
       {"loss.loop_weights with experts in the coda", "set feed_forward.outer dense"}},
      {"weights of random loops",
       train("--loss.loop_weights 1,1 --loop_count.distribution uniform --loop_count.high 2"),
       2,
       {"loss.loop_weights with a loop count that changes", "fixed and no growth"}},
      {"weights while growing",
       train("--loss.loop_weights 1,1 --growth.initial_loops 1"),
       2,
       {"loss.loop_weights with a loop count that changes"}},
      {"a range without an end",
       train("--loop_count.distribution uniform"),
       2,
       {"loop_count.low = 1 and loop_count.high = 0 leave nothing to draw from", "give both"}},
      {"a range upside down",
       train("--loop_count.distribution uniform --loop_count.low 5 --loop_count.high 4"),
       2,
       {"loop_count.low = 5 and loop_count.high = 4 leave nothing to draw from"}},
      {"unknown distribution",
       train("--loop_count.distribution normal"),
       2,
       {"expected one of: fixed, uniform, poisson"}},
      {"growth that shrinks",
       train("--growth.initial_loops 2"),
       2,
       {"growth.initial_loops = 2 is not below model.loops = 2", "use 0 for none"}},
      {"growth behind the end", train("--growth.initial_loops 1 --growth.at 1"), 2, {"--growth.at '1': expected 0"}},
      {"more steps than coefficients",
       train("--muon.orthogonalise polar_express --muon.ns_steps 6"),
       2,
       {"muon.ns_steps = 6, but polar_express has coefficients for 5", "--muon.ns_steps 5"}},
      {"a negative momentum",
       train("--muon.momentum_start -0.5"),
       2,
       {"muon.momentum_start = -0.5 is no momentum", "-1 for muon.momentum"}},
  });
}

TEST_F(BrokenInputs, Text) {
  const std::string to = " -o scratch/s.h5 --data.tokenizer bytes";
  check({
      {"no input", "$H data build" + to, 2, {"no input text is given"}},
      {"no output", "$H data build text", 2, {"-o STORE is missing"}},
      {"missing file", "$H data build scratch/none.txt" + to, 1, {"there is no file or folder 'scratch/none.txt'"}},
      {"empty folder",
       "mkdir scratch/e; $H data build scratch/e" + to,
       1,
       {"the folder 'scratch/e' holds no .txt or .jsonl file"}},
      {"blank documents",
       "printf ' \\n\\n \\n' > scratch/a.txt; $H data build scratch/a.txt" + to,
       1,
       {"hold no document that is not blank"}},
      {"empty file", ": > scratch/a.txt; $H data build scratch/a.txt" + to, 1, {"hold no document that is not blank"}},
      {"broken UTF-8",
       "printf 'ab\\377cd\\n' > scratch/a.txt; $H data build scratch/a.txt --data.invalid_utf8 refuse" + to,
       1,
       {"scratch/a.txt: 1 broken UTF-8 sequences", "--data.invalid_utf8 replace"}},
      {"bad JSON",
       "printf '{\"text\":\"a\"}\\n{\"text\":\\n' > scratch/a.jsonl; $H data build scratch/a.jsonl" + to,
       1,
       {"scratch/a.jsonl:2: not valid JSON"}},
      {"no text field",
       "printf '\\n\\n{\"words\":\"a\"}\\n' > scratch/a.jsonl; $H data build scratch/a.jsonl" + to,
       1,
       {"scratch/a.jsonl:3: the object has no \"text\""}},
      {"vocabulary too large",
       "$H data build text/b.txt -o scratch/s.h5 --data.tokenizer sentencepiece --data.vocabulary_size 8000",
       1,
       {"the text is too small for a vocabulary of 8000: it supports at most", "--data.vocabulary_size"}},
      {"unknown key", "$H data build text --data.vocab 300" + to, 2, {"unknown flag --data.vocab"}},
      {"another store is there",
       "$H data build text/b.txt -o store.h5 --data.tokenizer bytes",
       1,
       {"'store.h5' exists and was built from other inputs or settings", "--force"}},
      {"a rebuild that fails keeps the store",
       "printf 'ab\\377cd\\n' > scratch/a.txt; $H data build scratch/a.txt -o store.h5 --force --data.tokenizer bytes "
       "--data.invalid_utf8 refuse",
       1,
       {"1 broken UTF-8 sequences"}},
      {"output is no store", "$H data build text -o small.ini --data.tokenizer bytes", 1, {"small.ini"}},
      {"output is a folder", "$H data build text -o run --data.tokenizer bytes", 1, {"'run' is a directory"}},
      {"tokenizer of no store", "$H data build text -o scratch/s.h5 --data.tokenizer_from small.ini", 1, {"small.ini"}},
  });
}

TEST_F(BrokenInputs, TokenStores) {
  check({
      {"missing", train("--data.store scratch/none.h5"), 1, {"there is no file 'scratch/none.h5'"}},
      {"not HDF5", train("--data.store small.ini"), 1, {"'small.ini' is not an HDF5 file"}},
      {"empty", ": > scratch/s.h5; $H data show scratch/s.h5", 1, {"'scratch/s.h5' is not an HDF5 file"}},
      {"cut",
       "head -c 9000 store.h5 > scratch/s.h5; $H data show scratch/s.h5",
       1,
       {"cannot open the HDF5 file 'scratch/s.h5'", "cut off"}},
      {"cut at the start",
       "head -c 600 store.h5 > scratch/s.h5; $H data show scratch/s.h5",
       1,
       {"'scratch/s.h5'", "cut off"}},
      {"other HDF5 file",
       train("--data.store case/case.h5"),
       1,
       {"'case/case.h5' is an HDF5 file, but not a token store"}},
      {"no validation part", "$H eval run --eval.store whole.h5", 1, {"token store 'whole.h5' has no validation part"}},
      {"no held-out part", "$H data baselines whole.h5", 1, {"whole.h5"}},
      {"fewer tokens than a window",
       train("--train.sequence_length 100000"),
       1,
       {"token store 'store.h5' has ", "one sample of 100000 inputs needs 100001"}},
      {"vocabulary smaller than the store's",
       train("--model.vocabulary_size 100"),
       2,
       {"model.vocabulary_size = 100, but the token store has 257 ids"}},
      {"two stores", "$H data show store.h5 other.h5", 2, {"expected one token store, found 2 arguments"}},
      {"a flipped byte",
       "cp store.h5 scratch/s.h5; printf 'Z' | dd of=scratch/s.h5 bs=1 seek=12000 conv=notrunc status=none; "
       "$H data show scratch/s.h5 --verify",
       1,
       {"scratch/s.h5", "content hash"}},
      {"a flipped byte before training",
       "cp store.h5 scratch/s.h5; printf 'Z' | dd of=scratch/s.h5 bs=1 seek=12000 conv=notrunc status=none; " +
           train("--data.store scratch/s.h5"),
       1,
       {"scratch/s.h5", "content hash"}},
  });
}

TEST_F(BrokenInputs, Checkpoints) {
  const std::string copy = "cp -r run scratch/r; C=scratch/r/checkpoints/step_00000003; ";
  const std::string resume = "$H train --config small.ini --run.directory scratch/r --run.resume true --train.steps 5 ";
  check({
      {"missing", "$H eval scratch/none", 1, {"there is no file 'scratch/none'"}},
      {"not one", "$H eval small.ini", 1, {"'small.ini' is not an HDF5 file"}},
      {"a store", "$H eval store.h5", 1, {"'store.h5' is an HDF5 file, but not a Heddle checkpoint"}},
      {"a run without any",
       "mkdir scratch/r; $H eval scratch/r",
       1,
       {"the run 'scratch/r' has no complete checkpoint"}},
      {"cut",
       copy + "head -c 60000 run/checkpoints/step_00000003.h5 > scratch/c.h5; $H eval scratch/c.h5",
       1,
       {"cannot open the HDF5 file 'scratch/c.h5'", "cut off"}},
      {"cut in its run",
       copy + "head -c 60000 run/checkpoints/step_00000003.h5 > $C.h5; $H generate scratch/r",
       1,
       {"the run 'scratch/r' has no complete checkpoint"}},
      {"only a cut one to resume from",
       copy + "head -c 60000 run/checkpoints/step_00000003.h5 > $C.h5; " + resume,
       1,
       {"'scratch/r/checkpoints/step_00000003.h5' is damaged", "another run.directory"}},
      {"another model",
       copy + resume + "--model.hidden_size 24",
       2,
       {"model.hidden_size was 16 when", "--model.hidden_size 16"}},
      {"another function of the same weights",
       copy + resume + "--model.rope_theta 500",
       2,
       {"model.rope_theta was 10000 when", "another function"}},
      {"another number of experts per token", copy + resume + "--moe.top_k 3", 2, {"moe.top_k was 2 when"}},
      {"another optimizer", copy + resume + "--optimizer.name sgd", 2, {"optimizer.name was adamw when"}},
      {"a flipped byte and no other",
       copy + "printf 'Z' | dd of=$C.h5 bs=1 seek=20000 conv=notrunc status=none; " + resume,
       1,
       {"no checkpoint of 'scratch/r' can be read", "damaged"}},
      {"a log that cannot be read",
       copy + "head -c 5000 run/log.h5 > scratch/r/log.h5; " + resume,
       1,
       {"cannot go on with its log", "move 'scratch/r/log.h5' away"}},
      {"a missing moment",
       copy + "cp no_moment.h5 $C.h5; printf '{\"bytes\":%d,\"step\":3}' $(wc -c < $C.h5) > $C.complete; " + resume,
       1,
       {"lacks /optimizer/second/embed_tokens.weight"}},
      {"other segments",
       copy + resume + "--backprop.mode segmented --backprop.loops 2",
       2,
       {"backprop.loops was 0 when", "kept by segment"}},
      {"other loops in the past",
       copy + resume + "--growth.initial_loops 1",
       2,
       {"growth.initial_loops was 0 when", "other loops"}},
      {"random loops from now on",
       copy + resume + "--loop_count.distribution poisson",
       2,
       {"loop_count.distribution was fixed when", "other loops"}},
      {"another residual",
       copy + resume + "--residual.multiplier 2",
       2,
       {"residual.multiplier was 1 when", "another function"}},
      {"other data",
       copy + resume + "--data.store other.h5",
       1,
       {"was trained on other data than 'other.h5'", "resume with the store of the run"}},
      {"another batch",
       copy + resume + "--train.global_batch 4",
       2,
       {"train.global_batch was 2 when", "--train.global_batch 2"}},
      {"another tokenizer",
       "$H data build text -o scratch/s.h5 --data.tokenizer sentencepiece --data.vocabulary_size 320"
       " --data.validation_fraction 0.1 --data.split blank_lines >scratch/log && $H eval run --eval.store scratch/s.h5",
       1,
       {"'scratch/s.h5' has another tokenizer"}},
      {"the run is there already",
       "$H train --config small.ini --run.directory run",
       1,
       {"'run' already holds a run", "--run.resume true"}},
      {"an empty prompt", "$H generate run", 2, {"an empty prompt", "--prompt"}},
      {"a log that is none", "$H diagnose store.h5", 1, {"'store.h5' is an HDF5 file, but not a Heddle run log"}},
      {"a cut log",
       "head -c 5000 run/log.h5 > scratch/l.h5; $H diagnose scratch/l.h5",
       1,
       {"'scratch/l.h5'", "cut off"}},
      {"no log", "mkdir scratch/r; $H diagnose scratch/r", 1, {"there is no file 'scratch/r/log.h5'"}},
  });
}

TEST_F(BrokenInputs, Cases) {
  // A copy of the case whose config.json goes through sed.
  const auto edited = [](const std::string& sed) {
    return "cp -r case scratch/c; sed '" + sed + "' case/config.json > scratch/c/config.json; $H verify scratch/c";
  };
  check({
      {"none given", "$H verify", 2, {"verify needs at least one case folder"}},
      {"no folder", "$H verify scratch/none", 1, {"there is no file 'scratch/none/config.json'"}},
      {"no config.json",
       "cp -r case scratch/c; rm scratch/c/config.json; $H verify scratch/c",
       1,
       {"there is no file 'scratch/c/config.json'", "a case folder holds config.json and case.h5"}},
      {"no case.h5",
       "cp -r case scratch/c; rm scratch/c/case.h5; $H verify scratch/c",
       1,
       {"there is no file 'scratch/c/case.h5'"}},
      {"invalid JSON", edited("3s/,//"), 1, {"'scratch/c/config.json' is not valid JSON", "line 4"}},
      {"not an object",
       "cp -r case scratch/c; echo 3 > scratch/c/config.json; $H verify scratch/c",
       1,
       {"'scratch/c/config.json' is not a JSON object"}},
      {"wrong version",
       edited("s/\"format_version\": 1/\"format_version\": 7/"),
       1,
       {"format_version is 7; this build reads versions 1 and 2"}},
      {"missing key", edited("/\"seq_len\"/d"), 1, {"'scratch/c/config.json' lacks the key \"seq_len\""}},
      {"wrong kind", edited("s/\"seq_len\": 24/\"seq_len\": \"long\"/"), 1, {"\"seq_len\" is \"long\""}},
      {"negative size", edited("s/\"seq_len\": 24/\"seq_len\": -24/"), 1, {"\"seq_len\" is -24, expected 1 or more"}},
      {"wrong shape", edited("s/\"seq_len\": 24/\"seq_len\": 23/"), 1, {"scratch/c/case.h5", "has shape ["}},
      {"another recipe",
       edited("s/\"tied_embeddings\": false/\"tied_embeddings\": true/"),
       1,
       {"recipe.tied_embeddings is true; this build computes false only"}},
      {"cut",
       "cp -r case scratch/c; head -c 90000 case/case.h5 > scratch/c/case.h5; $H verify scratch/c",
       1,
       {"cannot open the HDF5 file 'scratch/c/case.h5'", "cut off"}},
      {"a changed value", "$H verify changed", 3, {"forward/logits", "FAILED", "0 of 1 cases within tolerance"}},
      {"one good, one changed", "$H verify case changed", 3, {"1 of 2 cases within tolerance"}},
  });
}

TEST_F(BrokenInputs, CasesOfTheFamily) {
  const auto edited = [](const std::string& sed, const char* from = "family") {
    return fmt::format("cp -r {0} scratch/c; sed '{1}' {0}/config.json > scratch/c/config.json; $H verify scratch/c",
                       from, sed);
  };
  const std::string random = "s/\"growth\": null/\"loop_count\": {\"distribution\": \"uniform\"}/";
  check({
      {"missing section",
       edited("s/\"hyper_connections\"/\"hyper\"/"),
       1,
       {"'scratch/c/config.json' lacks the key \"hyper_connections\""}},
      {"missing key in a section",
       edited("s/\"alpha_learned\"/\"learned\"/"),
       1,
       {"scratch/c/config.json", "reinjection", "lacks the key \"alpha_learned\""}},
      {"a section that is a number",
       edited("s/\"growth\": null/\"growth\": 3/"),
       1,
       {"scratch/c/config.json", "growth", "expected an object, found 3"}},
      {"unknown choice",
       edited("s/\"scheme\": \"plain\"/\"scheme\": \"curly\"/"),
       1,
       {"\"scheme\" is \"curly\", expected one of: plain, scaled, layer_norm_scaling"}},
      {"unknown name",
       edited("s/\"name\": \"adamw\"/\"name\": \"lion\"/"),
       1,
       {"\"name\" is \"lion\", expected one of: adamw, sgd, muon, muonh"}},
      {"wrong kind", edited("s/\"tied\": true/\"tied\": \"yes\"/"), 1, {"\"tied\" is \"yes\"", "expected kind"}},
      {"no layer", edited("s/\"n_layers\": 2/\"n_layers\": 0/"), 1, {"\"n_layers\" is 0, expected 1 or more"}},
      {"truncated to nothing",
       edited("s/\"mode\": \"full\"/\"mode\": \"truncated\"/"),
       1,
       {"backprop", "\"loops\" is 0, expected 1 or more"}},
      {"experts without their section",
       edited("s/\"moe\": {/\"mixture\": {/"),
       1,
       {"scratch/c/config.json", "a feed-forward of \"moe\" without the section \"moe\""}},
      {"a model that cannot be",
       edited("s/\"before_coda\": \"off\"/\"before_coda\": \"full\"/"),
       2,
       {"reinjection.before_coda = full with reinjection.kind = none"}},
      {"wrong shape",
       edited("s/\"n_routed_experts\": 7/\"n_routed_experts\": 6/"),
       1,
       {"scratch/c/case.h5", "/params_init/core.0.moe.", "has shape [7, ", "expected [6, "}},
      {"a tensor that the model does not have",
       edited("s/\"final\": \"gain\"/\"final\": \"plain\"/"),
       1,
       {"/params_init/final_norm.weight is not a tensor of this model"}},
      {"a tensor that the case does not have",
       edited("s/\"output_gate\": false/\"output_gate\": true/"),
       1,
       {"scratch/c/case.h5", "/params_init/core.0.attn.g_proj.weight"}},
      {"random loops that nobody wrote down",
       edited(random, "no_loops"),
       1,
       {"case.h5", "random loops without /train/loops"}},
      {"a step of no loops", edited(random, "loops_0"), 1, {"case.h5", "loops holds 0, expected 1 to 1024"}},
      {"a step of negative loops", edited("", "loops_-1"), 1, {"case.h5", "/eval/loops holds -1"}},
      {"a step of too many loops", edited(random, "loops_2000"), 1, {"case.h5", "loops holds 2000"}},
      {"a fraction of a loop",
       edited("s/\"loops\": 3/\"loops\": 2.5/"),
       1,
       {"\"loops\" is 2.5, expected a whole number"}},
      {"too many loops", edited("s/\"loops\": 3/\"loops\": 3000000000/"), 1, {"3000000000, expected 1024 or less"}},
      {"no rank", edited("s/\"steps\": 3/\"steps\": 3, \"ranks\": 0/"), 1, {"\"ranks\" is 0, expected 1 or more"}},
      {"no micro-batch",
       edited("s/\"steps\": 3/\"steps\": 3, \"micro_batches\": 0/"),
       1,
       {"\"micro_batches\" is 0, expected 1 or more"}},
      {"a modulation of negative width",
       edited("s/\"steps\": 3/\"steps\": 3, \"conditioning\": \"modulation\", \"conditioning_width\": -3/"),
       1,
       {"\"conditioning_width\" is -3, expected 1 or more"}},
      {"a weight for one loop of three",
       edited("s/\"loop_weights\": .*/\"loop_weights\": [1]/"),
       1,
       {"scratch/c/config.json", "1 loop_weights for 3 loops"}},
      {"growth that shrinks",
       edited("s/\"growth\": null/\"growth\": {\"initial_loops\": 3, \"at_step\": 2, \"rewarm_steps\": 0}/"),
       1,
       {"growth from 3 loops to 3"}},
      {"more steps than coefficients",
       edited("s/\"ns_steps\": 5/\"ns_steps\": 9, \"orthogonalise\": \"polar_express\"/"),
       1,
       {"section 'muon'", "\"ns_steps\" is 9, but polar_express has coefficients for 5 steps"}},
      {"a changed value", "$H verify changed_family", 3, {"forward/logits", "FAILED", "0 of 1 cases within tolerance"}},
      {"both versions, one changed", "$H verify case family changed_family", 3, {"2 of 3 cases within tolerance"}},
  });
}

TEST_F(BrokenInputs, Launches) {
  const std::string two = "$MPIRUN -n 2 --threads 1 -- ";
  // Rank 1 alone opens a store that is none, while rank 0 waits for it.
  const std::string one_bad =
      "sh -c 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then S=small.ini; else S=store.h5; fi; "
      "exec $H train --config small.ini --run.directory scratch/new --data.store $S'";
  check({
      {"no command", "$H 2>&1 | sed s/usage/error/ | sed s/exit.status/hint/; $H 2>/dev/null", 2, {"COMMAND"}},
      {"unknown command", "$H trian", 2, {"there is no command 'trian'", "heddle --help"}},
      {"unknown data command", "$H data biuld", 2, {"there is no command 'biuld'"}},
      {"diagnose under a launcher",
       "export H; " + two + "$H diagnose run",
       2,
       {"heddle diagnose works alone, but OMPI_COMM_WORLD_SIZE says 2 processes", "without mpirun"}},
      {"the variables of a launcher without one", "OMPI_COMM_WORLD_SIZE=2 $H data show store.h5", 2, {"works alone"}},
      {"an error on both ranks",
       two + "$H train --config small.ini --run.directory scratch/new --data.store small.ini",
       1,
       {"'small.ini' is not an HDF5 file"}},
      {"an error on one rank", "export H; " + two + one_bad, 1, {"[rank 1]", "'small.ini' is not an HDF5 file"}},
      {"experts over two ranks",
       two + train("--moe.experts 3 --layout.expert_parallel 2"),
       2,
       {"expert_parallel 2 does not divide 3 experts and 2 ranks; valid: 1"}},
      {"a run that is there",
       two + "$H train --config small.ini --run.directory run",
       1,
       {"'run' already holds a run"}},
  });
}

}  // namespace
}  // namespace heddle::testing
