// The inside of one forward pass against the datasets of a group, with its losses and gradients.
#include <algorithm>

#include "optim/gradients.h"
#include "train/evaluation.h"
#include "verify/case_runner.h"

namespace heddle {

namespace {

/// Compares what goes by, rows of one micro-batch at a time.
class ForwardCheck : public ForwardObserver {
 public:
  ForwardCheck(CaseRunner& run, LoopedModel& model, std::string group)
      : run_(run), model_(model), group_(std::move(group)), loops_(run.initial_loops()) {
    const CaseConfig& c = run.config;
    const ModelConfig& m = c.model;
    const int64_t n = c.batch * c.sequence;
    for (const char* name : {"embed", "prelude_state", "coda_input", "final_state"})
      load(name, {c.batch, c.sequence, m.hidden_size});
    load("logits", {c.batch, c.sequence, m.vocabulary_size});
    for (const char* name : {"loop_input", "loop_state"}) load(name, {loops_, c.batch, c.sequence, m.hidden_size});
    for (const char* name : {"layer_state", "attn_branch", "ffn_branch", "moe_branch", "looping_residual"})
      load(name, {loops_, m.layers, c.batch, c.sequence, m.hidden_size});
    load("router_score", {m.layers, loops_, n, m.moe.experts});
    load("topk_weight", {m.layers, loops_, n, m.moe.top_k});
    if (run.has(group_ + "/topk_index"))
      index_ = run.read<int32_t>(group_ + "/topk_index", run.extent({m.layers, loops_, n, m.moe.top_k}));
    load_.assign(static_cast<size_t>(m.layers * loops_ * m.moe.experts), 0);
  }

  void select(const CaseRows& rows) { rows_ = rows; }

  void on_embedding(const Tensor& embedding) override { rows("embed", 0, embedding.on_host().f32()); }
  void on_prelude(const Tensor& state) override { rows("prelude_state", 0, state.on_host().f32()); }
  void on_loop_input(int64_t loop, const Tensor& input) override { rows("loop_input", loop, input.on_host().f32()); }
  void on_attention(const VisitPlace& place, const Tensor& branch) override {
    // Version 1 stored it times gamma.
    const double scale = run_.config.version == 1 ? model_.config().residual_scale(model_.config().loops) : 1;
    std::vector<float> values(static_cast<size_t>(branch.count()));
    const Tensor ours = branch.on_host();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(scale * static_cast<double>(ours.f32()[i]));
    core_rows("attn_branch", place, values.data());
  }
  void on_feed_forward(const VisitPlace& place, const Tensor& branch) override {
    core_rows("moe_branch", place, branch.on_host().f32());
    core_rows("ffn_branch", place, branch.on_host().f32());
  }

  void on_block(const BlockView& view) override {
    if (view.place.part != StackPart::kCore) return;
    core_rows("layer_state", view.place, view.layer_state.on_host().f32());
    if (view.accumulators != nullptr) {
      const LoopingAccumulators& a = *view.accumulators;
      std::vector<float> values(static_cast<size_t>(a.n_local.value.count()));
      const Tensor local = a.n_local.value.on_host(), global = a.n_global.value.on_host();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(static_cast<double>(local.f32()[i]) / a.d_local +
                                       static_cast<double>(global.f32()[i]) / a.d_global);
      core_rows("looping_residual", view.place, values.data());
    }
    if (view.place.stored_moe >= 0) routing(view);
  }

  void on_loop_end(int64_t loop, const Tensor& state, const Tensor&) override {
    rows("loop_state", loop, state.on_host().f32());
  }
  // Several exits may pass: the last one counts.
  void on_coda_input(const Tensor& input) override { coda_input_ = input.clone(); }
  void on_final_state(const Tensor& state) override { final_state_ = state.clone(); }

  void finish_rows() {
    rows("coda_input", 0, coda_input_.on_host().f32());
    rows("final_state", 0, final_state_.on_host().f32());
    if (const auto e = expected_.find("logits"); e != expected_.end())
      compare("logits", e->second, 0, model_.logits(final_state_).on_host().f32(), model_.config().vocabulary_size);
  }

  void finish() {
    const ModelConfig& m = model_.config();
    run_.world.all_reduce_sum(std::span<int64_t>(load_));
    if (!run_.has(group_ + "/load")) return;
    const auto expected = run_.read<int32_t>(group_ + "/load", run_.extent({m.layers, loops_, m.moe.experts}));
    int64_t differences = 0;
    for (size_t i = 0; i < load_.size(); ++i) differences += load_[i] != expected[i];
    run_.comparison.add_differences(name("load"), "load", run_.speaks() ? differences : 0);
  }

 private:
  std::string name(const std::string& dataset) const { return group_.substr(1) + "/" + dataset; }
  void load(const std::string& dataset, std::initializer_list<int64_t> sizes) {
    if (run_.has(group_ + "/" + dataset))
      expected_[dataset] = run_.read<float>(group_ + "/" + dataset, run_.extent(sizes));
  }
  /// Rows of a [.., B, S, width] dataset at `block` of the leading axes.
  void compare(const std::string& dataset, const std::vector<float>& expected, int64_t block, const float* found,
               int64_t width) {
    const auto row = static_cast<size_t>(run_.config.sequence * width);
    run_.comparison.add(name(dataset), dataset, std::span<const float>(), {});
    for (size_t r = 0; r < rows_.size(); ++r)
      run_.comparison.add(name(dataset), dataset, {found + r * row, row},
                          {expected.data() + static_cast<size_t>(block * run_.config.batch + rows_[r]) * row, row});
  }
  void rows(const std::string& dataset, int64_t block, const float* found) {
    if (const auto e = expected_.find(dataset); e != expected_.end())
      compare(dataset, e->second, block, found, model_.config().hidden_size);
  }
  void core_rows(const std::string& dataset, const VisitPlace& place, const float* found) {
    if (place.part == StackPart::kCore) rows(dataset, place.loop * model_.config().layers + place.layer, found);
  }

  void routing(const BlockView& view) {
    const ModelConfig& m = model_.config();
    const int64_t k = m.moe.top_k, experts = m.moe.experts, block = view.place.layer * loops_ + view.place.loop;
    const int64_t sequence = run_.config.sequence, all = run_.config.batch * sequence;
    const int64_t n = view.routing.index.dim(0);
    if (const auto e = expected_.find("router_score"); e != expected_.end())
      compare("router_score", e->second, block, view.routing.scores.on_host().f32(), experts);
    int64_t differing_sets = 0;
    std::vector<float> found, expected;
    const auto weights = expected_.find("topk_weight");
    const Tensor index = view.routing.index.on_host(), mixing = view.routing.weights.on_host();
    const Tensor keep = view.routing.keep.on_host();
    for (int64_t row = 0; row < n; ++row) {
      std::vector<std::pair<int32_t, float>> ours, theirs;
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = row * k + j;
        const int64_t token = rows_[static_cast<size_t>(row / sequence)] * sequence + row % sequence;
        const int64_t there = (block * all + token) * k + j;
        ours.emplace_back(index.i32()[at], mixing.f32()[at]);
        const bool kept = !keep.defined() || keep.u8()[at] != 0;
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

  CaseRunner& run_;
  LoopedModel& model_;
  std::string group_;
  int64_t loops_;
  CaseRows rows_;
  std::map<std::string, std::vector<float>> expected_;
  std::vector<int32_t> index_;
  std::vector<int64_t> load_;  ///< [layers, loops, experts]
  Tensor coda_input_, final_state_;
};

/// Forward and backward of one piece over all micro-batches of the first batch; the sums are over all ranks.
struct PieceResult {
  PieceSums sums;
  double targets = 0;
};

PieceResult run_piece(CaseRunner& run, LoopedModel& model, const Piece& piece, ForwardCheck* check) {
  const std::vector<TokenBatch> batches = run.read_batches(0);
  const MoeConfig& moe = model.config().moe;
  const RouterLossConfig router_losses{moe.aux_loss, moe.router_z_loss, moe.aux_scope,
                                       run.config.step.measure_router_losses};
  std::vector<int64_t> counts(batches.size() + 1, 0);
  for (size_t i = 0; i < batches.size(); ++i) {
    counts[i] = batches[i].targets.count();
    for (const int32_t target : batches[i].targets.get<int32_t>()) counts.back() += target != kIgnoredTarget;
  }
  run.world.all_reduce_sum(std::span<int64_t>(counts));
  const auto targets = static_cast<double>(counts.back());
  PieceRun piece_run(model, run.config.step.loop_weights, router_losses, check);
  PieceResult result;
  result.targets = targets;
  model.parameters().clear_gradients();
  double sums[5] = {};
  for (size_t i = 0; i < batches.size(); ++i) {
    if (check != nullptr) check->select(run.micro_batches[i]);
    const double all_tokens = static_cast<double>(run.config.batch * run.config.sequence);
    const MicroStep micro_step{1 / targets, counts[i], static_cast<double>(counts[i]) / all_tokens};
    const PieceSums s = piece_run.run(batches[i], piece, micro_step, nullptr, false);
    if (check != nullptr) check->finish_rows();
    const double parts[] = {s.cross_entropy, s.last_cross_entropy, s.logit_z, s.aux, s.router_z};
    for (size_t j = 0; j < std::size(sums); ++j) sums[j] += parts[j];
  }
  run.world.all_reduce_sum(std::span<double>(sums));
  result.sums = {sums[0], sums[1], sums[2], sums[3], sums[4]};
  return result;
}

void compare_gradients(CaseRunner& run, LoopedModel& model, const std::string& group) {
  const std::string quantity = group.substr(1);
  reduce_gradients(model.parameters(), Shards(model.parameters(), run.groups, false));
  for (Parameter& p : model.parameters().all()) {
    const bool expected_there = run.has(group + "/" + p.name);
    if (expected_there != p.has_gradient) {
      run.comparison.add_differences(quantity, p.name + (expected_there ? " (missing here)" : " (unexpected here)"), 1);
      continue;
    }
    if (!expected_there) continue;
    // Rows by loop that come with growth have a gradient of zero, and none in the file.
    h5::Extent extent(p.global_shape.begin(), p.global_shape.end());
    const h5::Extent found = run.file.extent(group + "/" + p.name);
    if (run.initial_loops() < run.config.model.loops && found.size() == extent.size() && found[0] < extent[0])
      extent[0] = static_cast<uint64_t>(run.initial_loops());
    const auto all = run.read<float>(group + "/" + p.name, extent);
    const auto held = std::min(static_cast<int64_t>(all.size()) - p.global_offset(), p.value.count());
    const size_t count = run.contributes(p) ? static_cast<size_t>(held) : 0;
    run.comparison.add(quantity, p.name, {p.gradient.on_host().f32(), count}, {all.data() + p.global_offset(), count});
  }
}

/// Cross-entropy after each of some loop counts, over all ranks.
std::vector<double> losses_at(CaseRunner& run, LoopedModel& model, const std::vector<int64_t>& loops, bool capacity) {
  std::vector<double> sums(loops.size() + 1, 0);
  for (const TokenBatch& batch : run.read_batches(0)) {
    add_losses(model, batch, loops, 0, capacity, std::span(sums).first(loops.size()));
    for (const int32_t target : batch.targets.get<int32_t>()) sums.back() += target != kIgnoredTarget;
  }
  run.world.all_reduce_sum(std::span<double>(sums));
  for (size_t i = 0; i < loops.size(); ++i) sums[i] /= sums.back();
  sums.pop_back();
  return sums;
}

std::vector<int64_t> counts_up_to(int64_t loops) {
  std::vector<int64_t> counts;
  for (int64_t t = 1; t <= loops; ++t) counts.push_back(t);
  return counts;
}

}  // namespace

void check_forward(CaseRunner& run, LoopedModel& model, const std::string& group, const std::string& gradients) {
  if (!run.has(group)) return;
  const BackPropagation& schedule = run.config.step.back_propagation;
  const int64_t loops = run.initial_loops();
  // Segmented: one piece over all loops.
  const Piece piece =
      schedule.mode == BackPropagationMode::kSegmented ? Piece{0, 0, loops, 0} : pieces_of(schedule, loops)[0];
  ForwardCheck check(run, model, group);
  const PieceResult result = run_piece(run, model, piece, &check);
  check.finish();
  if (!gradients.empty() && run.has(gradients)) compare_gradients(run, model, gradients);

  const std::string quantity = group.substr(1) + "/";
  const ModelConfig& m = model.config();
  const double cross_entropy = result.sums.cross_entropy / result.targets, z = result.sums.logit_z / result.targets;
  const double objective = cross_entropy + m.logit_z_loss * z + m.moe.aux_loss * result.sums.aux +
                           m.moe.router_z_loss * result.sums.router_z;
  const auto compare = [&](const char* name, double found) {
    if (run.has(group + "/" + name))
      run.add_number(quantity + name, name, found, static_cast<double>(run.read<float>(group + "/" + name, {})[0]));
  };
  compare("loss", objective);
  compare("cross_entropy", cross_entropy);
  compare("logit_z", z);
  compare("aux", result.sums.aux);
  compare("router_z", result.sums.router_z);
  if (run.has(group + "/loop_loss")) {
    const auto expected = run.read<float>(group + "/loop_loss", run.extent({loops}));
    const std::vector<double> found = losses_at(run, model, counts_up_to(loops), true);
    for (size_t t = 0; t < expected.size(); ++t)
      run.add_number(quantity + "loop_loss", fmt::format("loop {}", t + 1), found[t], static_cast<double>(expected[t]));
  }
}

void check_gradients(CaseRunner& run, LoopedModel& model, const std::string& group, const Piece& piece) {
  if (!run.has(group)) return;
  run_piece(run, model, piece, nullptr);
  compare_gradients(run, model, group);
}

void check_evaluation(CaseRunner& run, LoopedModel& model) {
  if (!run.has("/eval")) return;
  const auto counts = run.read<int32_t>("/eval/loops", run.file.extent("/eval/loops"));
  run.check_loops("/eval/loops", counts, 1);
  if (!std::is_sorted(counts.begin(), counts.end()))
    fail("'{}': the counts of /eval/loops do not rise", run.file.path());
  const std::vector<int64_t> loops(counts.begin(), counts.end());
  const auto expected = run.read<float>("/eval/loss", {loops.size()});
  const std::vector<double> found = losses_at(run, model, loops, false);
  for (size_t i = 0; i < loops.size(); ++i)
    run.add_number("eval/loss", fmt::format("{} loops", loops[i]), found[i], static_cast<double>(expected[i]));
}

}  // namespace heddle
