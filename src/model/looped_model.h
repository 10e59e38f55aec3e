// The looped model: prelude, a core that is visited R times, coda, head (docs/model_family.md section 2).
//   e = prelude(norm(embed(tokens))); h_0 = e | 0 | noise
//   loop t: u = reinject(h, e, t); L layers; h = norm(u)
//   loss:   cross-entropy of head(norm(coda(reinject_coda(h, e))))
// The model is a set of parameters and functions over a tape; which loops get gradient, and when weights move, is the
// business of the trainer.
#pragma once

#include <vector>

#include "comm/process_groups.h"
#include "model/layer.h"
#include "model/model_config.h"
#include "model/observer.h"

namespace heddle {

/// What enters a loop: the state, or the lanes of hyper-connections, and the accumulators of the looping residual.
struct LoopState {
  Variable state;               ///< [N,D]; with lanes: the last loop's output
  std::vector<Variable> lanes;  ///< [N,D] each
  LoopingAccumulators accumulators;
};

/// A LoopState without its graph: what crosses a segment end.
struct LoopCarry {
  Tensor state;
  std::vector<Tensor> lanes;
  Tensor n_global;
  double d_global = 0;
};

class LoopedModel {
 public:
  /// Makes all parameters (not initialised). Experts are those of this rank. Collective where groups are.
  /// activations: how they are stored; with kBfloat16 the matrices get copies that products read.
  LoopedModel(const ModelConfig& config, ProcessGroups& groups, const Kernels& kernels,
              DType activations = DType::kFloat32);

  const ModelConfig& config() const { return config_; }
  const Kernels& kernels() const { return kernels_; }
  Tape tape(Tape::Mode mode) const { return Tape(kernels_, mode, activations_); }
  ProcessGroups& groups() { return groups_; }
  ParameterSet& parameters() { return parameters_; }
  const std::vector<RowMarks>& row_marks() const { return row_marks_; }  ///< of visits in training forwards

  /// Stored layers with experts, in the order prelude, core (by loop where untied), coda.
  int64_t stored_moe_layers() const { return static_cast<int64_t>(moe_layers_.size()); }
  const std::string& moe_layer_name(int64_t stored) const { return moe_layers_.at(at(stored)).name; }  ///< "core.0"
  const Tensor& balance_bias(int64_t stored) const { return moe_layers_.at(at(stored)).layer->moe.balance_bias; }
  std::string balance_bias_name(int64_t stored) const { return moe_layer_name(stored) + ".moe.balance_bias"; }

  /// Start values (docs/model_family.md section 9), each element a function of (seed, name, global index).
  void initialise(uint64_t seed);

  /// Loops that have tensors of their own by now: the configured count, or fewer before growth. Loops beyond use those
  /// of the last.
  int64_t active_loops() const { return active_loops_; }
  void set_active_loops(int64_t loops) { active_loops_ = loops; }

  struct Options {
    int64_t constants_loops = 0;  ///< R in the constants; 0: the configured count
    bool use_capacity = true;
    ForwardObserver* observer = nullptr;
    RouterLosses* losses = nullptr;
    const Interventions* interventions = nullptr;  ///< the same on all ranks; null: none
  };

  Variable embed(Tape& tape, const TokenBatch& batch, const Options& options);  ///< e [N,D]
  LoopState start(const TokenBatch& batch, const Variable& embedding) const;
  /// Continues without the graph, or (leaves) with fresh slots that receive the gradient.
  static LoopState resume(const LoopCarry& carry);
  static LoopState resume_with_leaves(const Tape& tape, const LoopCarry& carry);
  static LoopCarry detach(const LoopState& state);

  /// Loops first .. last - 1 (from 0). Beyond the last router (lane row, core), the last one serves.
  void run_loops(Tape& tape, const TokenBatch& batch, const Variable& embedding, int64_t first, int64_t last,
                 const Options& options, LoopState& state);

  /// What the head reads after the loops that made `state`: re-injection, coda, final norm; [N,D].
  Variable read_out(Tape& tape, const TokenBatch& batch, const Variable& embedding, const LoopState& state,
                    const Options& options);
  /// Sums over this rank's counted targets; a root of the tape, which seeds the gradients of
  /// gradient_scale * (sum of cross-entropies + logit_z_loss * sum of squares).
  HeadSums loss(Tape& tape, const Variable& final_state, const TokenBatch& batch, double gradient_scale);
  Tensor logits(const Tensor& final_state);  ///< [N,V]
  /// Logit lens: final norm and head on any stream [N,D], without re-injection and coda; logits [N,V].
  Tensor lens(const Tensor& stream);

  /// What the router of a loop makes of x [N,D], what a layer of the core feeds its experts. Not collective.
  RouterDecision decide_by_router(int64_t loop, int64_t layer, const Tensor& x) const;
  /// [E,D] of that router; equal pointers: the same.
  const Parameter* router_of(int64_t loop, int64_t layer) const;

 private:
  Tensor stored_as(const Tensor& x, DType type) const;  ///< x itself, or a copy
  struct MoeLayer {
    std::string name;
    Layer* layer;
  };
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  float eps() const { return static_cast<float>(config_.norm_eps); }
  Norm make_norm(NormKind kind, const std::string& name, int64_t width);
  Layer make_layer(const std::string& prefix, bool experts);
  void make_attention(Layer& layer, const std::string& prefix);
  void make_experts(Layer& layer, const std::string& prefix, bool rows_by_loop);
  void make_boundary();
  void make_routers();
  void assign_roles();

  int64_t constants_loops(const Options& options) const {
    return options.constants_loops > 0 ? options.constants_loops : config_.loops;
  }
  const Layer& core_layer(int64_t loop, int64_t layer) const {
    return cores_[config_.tied ? 0 : at(row_of(loop))][at(layer)];
  }
  /// Row of the tensors that belong to a loop (from 0).
  int64_t row_of(int64_t loop) const { return std::min(loop, active_loops_ - 1); }
  LayerVisit visit_of(const Tape& tape, StackPart part, int64_t loop, int64_t layer, const Layer& weights,
                      const Options& options);
  Variable reinject(Tape& tape, const LoopState& state, const Variable& embedding, int64_t loop) const;
  Variable boundary(Tape& tape, const Variable& h, const Variable& embedding, bool inject) const;
  Variable inject(Tape& tape, const Variable& h, const Variable& embedding) const;
  Variable condition(Tape& tape, const Variable& u, int64_t loop, Variable& modulation) const;
  void write_lanes(Tape& tape, LoopState& state, int64_t loop) const;

  ModelConfig config_;
  ProcessGroups& groups_;
  const Kernels& kernels_;
  const DType activations_;
  ParameterSet parameters_;
  LayerFunction layer_function_;
  Parameter *embedding_ = nullptr, *head_ = nullptr;
  Norm embedding_norm_, loop_norm_, final_norm_;
  std::vector<Layer> prelude_, coda_;
  std::vector<std::vector<Layer>> cores_;  ///< one, or one per loop
  std::vector<MoeLayer> moe_layers_;
  Parameter *reinject_weight_ = nullptr, *reinject_alpha_ = nullptr, *reinject_dt_ = nullptr, *reinject_a_ = nullptr;
  Parameter *lane_read_ = nullptr, *lane_mix_ = nullptr, *lane_write_ = nullptr;
  Parameter *condition_embedding_ = nullptr, *condition_in_ = nullptr, *condition_loop_ = nullptr,
            *condition_out_ = nullptr;
  std::vector<RowMarks> row_marks_;  ///< prelude, [loops, layers] of the core, coda
  int64_t active_loops_ = 0;
};

}  // namespace heddle
