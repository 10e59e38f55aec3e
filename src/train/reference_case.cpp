#include "train/reference_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "optim/gradients.h"
#include "support/hdf5.h"
#include "train/case_config.h"
#include "train/comparison.h"

namespace heddle {

bool CaseReport::passed() const {
  return std::none_of(quantities.begin(), quantities.end(),
                      [](const QuantityResult& q) { return q.status == QuantityResult::Status::kFail; }) &&
         checked() > 0;
}

int64_t CaseReport::checked() const {
  return std::count_if(quantities.begin(), quantities.end(),
                       [](const QuantityResult& q) { return q.status != QuantityResult::Status::kNotChecked; });
}

namespace {

constexpr double kForwardTolerance = 1e-5, kGradientTolerance = 1e-4, kParameterTolerance = 1e-4,
                 kUpdateTolerance = 1e-3, kScheduleTolerance = 1e-6, kEqual = 0;

/// Everything that is at hand while one case runs.
struct Runner {
  const CaseConfig config;
  const h5::File file;
  Communicator& world;
  const Kernels& kernels;
  ProcessGroups groups;
  Comparison comparison;
  int64_t first_row, rows;  ///< this rank's rows of the batch

  Runner(CaseConfig c, const std::string& path, Communicator& w, int expert_parallel, const Kernels& k)
      : config(std::move(c)), file(path, h5::File::Mode::kRead), world(w), kernels(k), groups(w, expert_parallel) {
    first_row = config.batch * world.rank() / world.size();
    rows = config.batch * (world.rank() + 1) / world.size() - first_row;
  }

  bool has(const std::string& name) const { return file.exists(name); }

  template <typename T>
  std::vector<T> read(const std::string& name, const h5::Extent& extent) const {
    const h5::Extent found = file.extent(name);
    const bool both_scalar = extent.empty() && h5::element_count(found) == 1;  // stored as [] or [1]
    if (found != extent && !both_scalar)
      fail("'{}': {} has shape [{}], expected [{}] from config.json", file.path(), name, fmt::join(found, ", "),
           fmt::join(extent, ", "));
    return file.read<T>(name);
  }

  h5::Extent extent(std::initializer_list<int64_t> sizes) const { return {sizes.begin(), sizes.end()}; }

  /// Compares this rank's rows of a [.., B, S, width] dataset at `block` of the leading axes.
  void compare_rows(const std::string& quantity, const std::vector<float>& expected, int64_t block, const float* found,
                    int64_t width) {
    const int64_t token = config.sequence * width;
    comparison.add(quantity, quantity, {found, static_cast<size_t>(rows * token)},
                   {expected.data() + (block * config.batch + first_row) * token, static_cast<size_t>(rows * token)});
  }
};

void load_parameters(const Runner& run, Loom& model) {
  const auto load = [&](const std::string& name, const Shape& global, int64_t offset, const Tensor& value) {
    const std::vector<float> all = run.read<float>("/params_init/" + name, h5::Extent(global.begin(), global.end()));
    std::copy_n(all.begin() + offset, value.count(), value.f32());
  };
  std::set<std::string> known;
  for (Parameter& p : model.parameters().all()) {
    load(p.name, p.global_shape, p.global_offset(), p.value);
    known.insert(p.name);
  }
  for (int64_t l = 0; l < model.config().layers; ++l) {
    load(Loom::balance_bias_name(l), {model.config().moe.experts}, 0, model.balance_bias(l));
    known.insert(Loom::balance_bias_name(l));
  }
  for (const std::string& name : run.file.datasets("/params_init"))
    if (!known.contains(name)) fail("'{}': /params_init/{} is not a tensor of this model", run.file.path(), name);
}

TokenBatch read_batch(const Runner& run, int64_t step) {
  const CaseConfig& c = run.config;
  const auto all = run.read<int32_t>("/batches/tokens", run.extent({c.steps, c.batch, c.sequence + 1}));
  TokenBatch batch{run.rows, c.sequence, {}, {}, {}, {}};
  const int64_t n = run.rows * c.sequence;
  for (Tensor* t : {&batch.tokens, &batch.targets, &batch.position})
    *t = Tensor::empty({n}, Purpose::kActivations, DType::kInt32);
  for (int64_t r = 0; r < run.rows; ++r) {
    const int32_t* row = all.data() + (step * c.batch + run.first_row + r) * (c.sequence + 1);
    for (int64_t s = 0; s <= c.sequence; ++s)
      if (row[s] < 0 || row[s] >= c.model.vocabulary_size)
        fail("'{}': token {} in /batches/tokens, vocabulary {}", run.file.path(), row[s], c.model.vocabulary_size);
    for (int64_t s = 0; s < c.sequence; ++s) {
      batch.tokens.i32()[r * c.sequence + s] = row[s];
      batch.targets.i32()[r * c.sequence + s] = row[s + 1];
      batch.position.i32()[r * c.sequence + s] = static_cast<int32_t>(s);
    }
  }
  return batch;
}

/// Compares the inside of a forward pass with the datasets of one group as it goes by.
class ForwardCheck : public ForwardObserver {
 public:
  ForwardCheck(Runner& run, Loom& model, std::string group, const TokenBatch& batch)
      : run_(run), model_(model), group_(std::move(group)), batch_(batch) {
    const CaseConfig& c = run.config;
    const ModelConfig& m = c.model;
    const int64_t n = c.batch * c.sequence;
    load("embed", {c.batch, c.sequence, m.hidden_size});
    load("loop_state", {m.loops, c.batch, c.sequence, m.hidden_size});
    for (const char* name : {"layer_state", "attn_branch", "looping_residual", "moe_branch"})
      load(name, {m.loops, m.layers, c.batch, c.sequence, m.hidden_size});
    load("router_score", {m.layers, m.loops, n, m.moe.experts});
    load("topk_weight", {m.layers, m.loops, n, m.moe.top_k});
    if (run.has(group_ + "/topk_index"))
      index_ = run.read<int32_t>(group_ + "/topk_index", run.extent({m.layers, m.loops, n, m.moe.top_k}));
    load_.assign(static_cast<size_t>(m.layers * m.loops * m.moe.experts), 0);
    loop_loss_.assign(static_cast<size_t>(m.loops), 0);
  }

  void on_embedding(const Tensor& embedding) override { rows("embed", 0, embedding.f32()); }

  void on_block(const BlockView& view) override {
    const int64_t block = view.loop * model_.config().layers + view.layer;
    rows("layer_state", block, view.layer_state.f32());
    rows("moe_branch", block, view.moe_branch.f32());
    const LoopingAccumulators& a = view.accumulators;
    std::vector<float> values(static_cast<size_t>(view.attention_branch.count()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(view.branch_scale * static_cast<double>(view.attention_branch.f32()[i]));
    rows("attn_branch", block, values.data());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<double>(a.n_local.value.f32()[i]) / a.d_local +
                                     static_cast<double>(a.n_global.value.f32()[i]) / a.d_global);
    rows("looping_residual", block, values.data());
    routing(view);
  }

  void on_loop_end(int64_t loop, const Tensor& state, const Tensor&) override {
    rows("loop_state", loop, state.f32());
    Tape tape(run_.kernels, Tape::Mode::kForwardOnly);
    loop_loss_[static_cast<size_t>(loop)] = model_.loss_sum(tape, Tape::constant(state), batch_, 0);
  }

  void finish(const Tensor& state) {
    const CaseConfig& c = run_.config;
    const ModelConfig& m = c.model;
    if (run_.has(group_ + "/logits")) {
      const auto expected = run_.read<float>(group_ + "/logits", run_.extent({c.batch, c.sequence, m.vocabulary_size}));
      run_.compare_rows(name("logits"), expected, 0, model_.logits(state).f32(), m.vocabulary_size);
    }
    run_.world.all_reduce_sum(std::span<double>(loop_loss_));
    run_.world.all_reduce_sum(std::span<int64_t>(load_));
    if (run_.world.rank() != 0) {
      // Sums over all ranks are compared once; the others name the tensors with nothing in them.
      loop_loss_.clear();
      load_.clear();
    }
    const double targets = static_cast<double>(c.batch * c.sequence);
    if (run_.has(group_ + "/loop_loss")) {
      const auto expected = run_.read<float>(group_ + "/loop_loss", run_.extent({m.loops}));
      for (size_t t = 0; t < expected.size(); ++t)
        scalar("loop_loss", fmt::format("loop {}", t + 1), t, targets, expected[t]);
    }
    if (run_.has(group_ + "/loss")) {
      const auto expected = run_.read<float>(group_ + "/loss", {});
      scalar("loss", "loss", static_cast<size_t>(m.loops - 1), targets, expected[0]);
    }
    if (run_.has(group_ + "/load")) {
      const auto expected = run_.read<int32_t>(group_ + "/load", run_.extent({m.layers, m.loops, m.moe.experts}));
      int64_t differences = 0;
      for (size_t i = 0; i < load_.size(); ++i) differences += load_[i] != expected[i];
      run_.comparison.add_differences(name("load"), "load", differences);
    }
  }

 private:
  std::string name(const std::string& dataset) const { return group_.substr(1) + "/" + dataset; }
  void load(const std::string& dataset, std::initializer_list<int64_t> sizes) {
    if (run_.has(group_ + "/" + dataset))
      expected_[dataset] = run_.read<float>(group_ + "/" + dataset, run_.extent(sizes));
  }
  void rows(const std::string& dataset, int64_t block, const float* found) {
    if (const auto e = expected_.find(dataset); e != expected_.end())
      run_.compare_rows(name(dataset), e->second, block, found, model_.config().hidden_size);
  }
  void scalar(const char* dataset, const std::string& tensor, size_t loop, double targets, float expected) {
    if (loop_loss_.empty())
      run_.comparison.add(name(dataset), tensor, std::span<const float>(), {});
    else
      run_.comparison.add(name(dataset), tensor, loop_loss_[loop] / targets, static_cast<double>(expected));
  }

  void routing(const BlockView& view) {
    const ModelConfig& m = model_.config();
    const int64_t k = m.moe.top_k, experts = m.moe.experts, block = view.layer * m.loops + view.loop;
    const int64_t all = run_.config.batch * run_.config.sequence, first = run_.first_row * run_.config.sequence;
    const int64_t n = view.routing.index.dim(0);
    if (const auto e = expected_.find("router_score"); e != expected_.end())
      run_.comparison.add(name("router_score"), "router_score", view.routing.scores.floats(),
                          {e->second.data() + (block * all + first) * experts, static_cast<size_t>(n * experts)});
    int64_t differing_sets = 0;
    std::vector<float> found, expected;
    const auto weights = expected_.find("topk_weight");
    for (int64_t row = 0; row < n; ++row) {
      std::vector<std::pair<int32_t, float>> ours, theirs;
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = row * k + j, there = (block * all + first + row) * k + j;
        ours.emplace_back(view.routing.index.i32()[at], view.routing.weights.f32()[at]);
        const bool kept = !view.routing.keep.defined() || view.routing.keep.u8()[at] != 0;
        load_[static_cast<size_t>(block * experts + ours.back().first)] += kept;
        if (!index_.empty())
          theirs.emplace_back(index_[there], weights == expected_.end() ? 0 : weights->second[there]);
      }
      std::sort(ours.begin(), ours.end());
      std::sort(theirs.begin(), theirs.end());
      bool same = true;
      for (size_t j = 0; j < theirs.size(); ++j) {
        same = same && ours[j].first == theirs[j].first;
        found.push_back(ours[j].second);
        expected.push_back(theirs[j].second);
      }
      differing_sets += !same;
    }
    if (index_.empty()) return;
    run_.comparison.add_differences(name("topk_index"), "topk_index", differing_sets);
    if (weights != expected_.end()) run_.comparison.add(name("topk_weight"), "topk_weight", found, expected);
  }

  Runner& run_;
  Loom& model_;
  std::string group_;
  const TokenBatch& batch_;
  std::map<std::string, std::vector<float>> expected_;
  std::vector<int32_t> index_;
  std::vector<int64_t> load_;  ///< [layers, loops, experts]
  std::vector<double> loop_loss_;
};

void check_forward(Runner& run, Loom& model, const std::string& group, bool capacity) {
  if (!run.has(group)) return;
  const TokenBatch batch = read_batch(run, 0);
  ForwardCheck check(run, model, group, batch);
  Loom::Options options;
  options.use_capacity = capacity;
  options.observer = &check;
  Tape tape(run.kernels, Tape::Mode::kForwardOnly);
  const Variable embedding = model.embed(tape, batch, options);
  LoopState state = Loom::start(embedding);
  model.run_loops(tape, batch, embedding, 0, model.config().loops, options, state);
  check.finish(state.state.value);
}

/// This rank's share of a tensor in a comparison over ranks: replicated ones by rank 0, experts by one replica.
bool contributes(const Runner& run, const Parameter& p, int expert_parallel) {
  return p.sharing == Sharing::kReplicated ? run.world.rank() == 0 : run.world.rank() < expert_parallel;
}

void check_gradients(Runner& run, Loom& model, const std::string& group, int64_t loops, int expert_parallel) {
  if (!run.has(group)) return;
  const std::string quantity = group.substr(1);
  const TokenBatch batch = read_batch(run, 0);
  Loom::Options options;
  options.use_capacity = run.config.capacity_in_training;
  model.parameters().clear_gradients();
  Tape tape(run.kernels);
  const Variable embedding = model.embed(tape, batch, options);
  LoopState state = Loom::start(embedding);
  model.run_loops(tape, batch, embedding, 0, loops, options, state);
  model.loss_sum(tape, state.state, batch, 1 / static_cast<double>(run.config.batch * run.config.sequence));
  tape.backward();
  reduce_gradients(model.parameters(), Shards(model.parameters(), run.groups, false));
  for (Parameter& p : model.parameters().all()) {
    const bool expected_there = run.has(group + "/" + p.name);
    if (expected_there != p.has_gradient) {
      run.comparison.add_differences(quantity, p.name + (expected_there ? " (missing here)" : " (unexpected here)"), 1);
      continue;
    }
    if (!expected_there) continue;
    const auto all = run.read<float>(group + "/" + p.name, h5::Extent(p.global_shape.begin(), p.global_shape.end()));
    const size_t count = contributes(run, p, expert_parallel) ? static_cast<size_t>(p.value.count()) : 0;
    run.comparison.add(quantity, p.name, {p.gradient.f32(), count}, {all.data() + p.global_offset(), count});
  }
}

void check_parameters(Runner& run, Loom& model, const std::string& group, int expert_parallel) {
  if (!run.has(group)) return;
  const std::string quantity = group.substr(1), update = quantity + " (update)";
  const auto compare = [&](const std::string& name, const Shape& shape, int64_t offset, const Tensor& value,
                           bool mine) {
    if (!run.has(group + "/" + name)) return;
    const h5::Extent extent(shape.begin(), shape.end());
    const auto expected = run.read<float>(group + "/" + name, extent);
    const auto start = run.read<float>("/params_init/" + name, extent);
    const size_t count = mine ? static_cast<size_t>(value.count()) : 0;
    run.comparison.add(quantity, name, {value.f32(), count}, {expected.data() + offset, count});
    if (expected == start) return;
    std::vector<float> ours(count), theirs(count);
    for (size_t i = 0; i < count; ++i) {
      ours[i] = value.f32()[i] - start[static_cast<size_t>(offset) + i];
      theirs[i] = expected[static_cast<size_t>(offset) + i] - start[static_cast<size_t>(offset) + i];
    }
    run.comparison.add(update, name, ours, theirs);
  };
  for (Parameter& p : model.parameters().all())
    compare(p.name, p.global_shape, p.global_offset(), p.value, contributes(run, p, expert_parallel));
  for (int64_t l = 0; l < model.config().layers; ++l)
    compare(Loom::balance_bias_name(l), {model.config().moe.experts}, 0, model.balance_bias(l), run.world.rank() == 0);
}

void check_training(Runner& run, Loom& model, int expert_parallel) {
  const CaseConfig& c = run.config;
  if (!run.has("/train") && !run.has("/params_step1") && !run.has("/params_final")) return;
  Optimizer optimizer(c.optimizer, model.parameters(), run.groups, run.kernels);
  TrainStep step(model, optimizer, c.step);
  const auto segments = static_cast<int64_t>(step.segment_count());
  const bool speaks = run.world.rank() == 0;
  const auto compare = [&](const char* name, const std::vector<double>& found, const std::vector<double>& expected,
                           int64_t i) {
    const std::string quantity = fmt::format("train/{}", name);
    for (size_t j = 0; j < found.size(); ++j) {
      const std::string tensor = fmt::format("step {} [{}]", i + 1, j);
      if (speaks)
        run.comparison.add(quantity, tensor, found[j], expected[static_cast<size_t>(i) * found.size() + j]);
      else
        run.comparison.add(quantity, tensor, std::span<const float>(), {});
    }
  };
  for (int64_t i = 0; i < c.steps; ++i) {
    const double factor = c.schedule.factor(i + 1), rate = c.optimizer.learning_rate * factor;
    const StepResult result = step.run({read_batch(run, i)}, factor, i + 1);
    if (run.has("/train/lr")) compare("lr", {rate}, run.read<double>("/train/lr", run.extent({c.steps})), i);
    if (run.has("/train/loss"))
      compare("loss", result.segment_loss, run.read<double>("/train/loss", run.extent({c.steps, segments})), i);
    if (run.has("/train/grad_norm"))
      compare("grad_norm", result.gradient_norm, run.read<double>("/train/grad_norm", run.extent({c.steps, segments})),
              i);
    const h5::Extent per_layer = run.extent({c.steps, c.model.layers, c.model.moe.experts});
    const int64_t experts = c.model.moe.experts;
    for (int64_t l = 0; l < c.model.layers; ++l) {
      const int64_t at = (i * c.model.layers + l) * experts;
      if (run.has("/train/load")) {
        const auto expected = run.read<int32_t>("/train/load", per_layer);
        const std::vector<int64_t> found = step.statistics().layer_load(l);
        int64_t differences = 0;
        for (int64_t e = 0; e < experts; ++e) differences += found[e] != expected[at + e];
        run.comparison.add_differences("train/load", fmt::format("step {} layer {}", i + 1, l),
                                       speaks ? differences : 0);
      }
      if (run.has("/train/balance_bias")) {
        const auto expected = run.read<float>("/train/balance_bias", per_layer);
        const size_t count = speaks ? static_cast<size_t>(experts) : 0;
        run.comparison.add("train/balance_bias", fmt::format("step {} layer {}", i + 1, l),
                           {model.balance_bias(l).f32(), count}, {expected.data() + at, count});
      }
    }
    if (i == 0) check_parameters(run, model, "/params_step1", expert_parallel);
  }
  check_parameters(run, model, "/params_final", expert_parallel);
}

void declare_quantities(Comparison& comparison) {
  for (const char* group : {"forward", "forward_capacity"}) {
    for (const char* name : {"loss", "loop_loss", "logits", "embed", "loop_state", "layer_state", "attn_branch",
                             "looping_residual", "moe_branch", "router_score", "topk_weight"})
      comparison.declare(fmt::format("{}/{}", group, name), kForwardTolerance);
    comparison.declare(fmt::format("{}/topk_index", group), kEqual);
    comparison.declare(fmt::format("{}/load", group), kEqual);
  }
  comparison.declare("grads", kGradientTolerance);
  comparison.declare("grads_segment0", kGradientTolerance);
  comparison.declare("train/loss", kForwardTolerance);
  comparison.declare("train/grad_norm", kGradientTolerance);
  comparison.declare("train/lr", kScheduleTolerance);
  comparison.declare("train/load", kEqual);
  comparison.declare("train/balance_bias", kScheduleTolerance);
  for (const char* group : {"params_step1", "params_final"}) {
    comparison.declare(group, kParameterTolerance);
    comparison.declare(fmt::format("{} (update)", group), kUpdateTolerance);
  }
}

}  // namespace

CaseReport verify_case(const std::string& folder, Communicator& world, int expert_parallel, const Kernels& kernels) {
  const std::filesystem::path path(folder);
  CaseConfig config = read_case_config((path / "config.json").string());
  CaseReport report;
  report.name = config.name.empty() ? path.filename().string() : config.name;
  check_layout(world.size(), expert_parallel, config.model.moe.experts);
  const double factor = config.capacity_factor;
  const bool capacity_in_training = config.capacity_in_training;
  Runner run(std::move(config), (path / "case.h5").string(), world, expert_parallel, kernels);
  declare_quantities(run.comparison);

  ModelConfig model_config = run.config.model;
  const auto make_model = [&](double capacity) {
    model_config.moe.capacity_factor = capacity;
    auto model = std::make_unique<Loom>(model_config, run.groups, kernels);
    model->parameters().allocate_gradients();
    load_parameters(run, *model);
    return model;
  };
  {
    const auto model = make_model(factor);
    check_forward(run, *model, "/forward", false);
    check_forward(run, *model, "/forward_capacity", true);
  }
  const auto model = make_model(capacity_in_training ? factor : 0);
  check_gradients(run, *model, "/grads", model_config.loops, expert_parallel);
  check_gradients(run, *model, "/grads_segment0",
                  segments_of(model_config.loops, run.config.step.segment_loops)[0].second, expert_parallel);
  check_training(run, *model, expert_parallel);
  report.quantities = run.comparison.finish(world);
  return report;
}

}  // namespace heddle
