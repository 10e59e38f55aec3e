#include "train/back_propagation.h"

#include <algorithm>

#include "support/narrow.h"

namespace heddle {

const Names<BackPropagationMode> kBackPropagationModes{"full", "checkpointed", "truncated", "segmented"};

std::vector<Piece> pieces_of(const BackPropagation& schedule, int64_t loops) {
  const int64_t n = schedule.loops > 0 ? schedule.loops : loops;
  switch (schedule.mode) {
    case BackPropagationMode::kTruncated:
      return {{0, std::max<int64_t>(0, loops - n), loops, 0}};
    case BackPropagationMode::kCheckpointed:
      return {{0, 0, loops, n}};
    case BackPropagationMode::kSegmented: {
      std::vector<Piece> pieces;
      for (int64_t first = 0; first < loops; first += n)
        pieces.push_back({first, first, std::min(first + n, loops), 0});
      return pieces;
    }
    case BackPropagationMode::kFull:
      break;
  }
  return {{0, 0, loops, 0}};
}

namespace {
/// Of the loss after a loop (from 0) of a piece that ends before `last`.
double weight_of_loop(const std::vector<double>& loop_weights, int64_t loop, int64_t last) {
  if (loop_weights.empty()) return loop == last - 1 ? 1 : 0;
  return loop < static_cast<int64_t>(loop_weights.size()) ? loop_weights[static_cast<size_t>(loop)] : 0;
}
}  // namespace

LoopWork work_of(const BackPropagation& schedule, const std::vector<double>& loop_weights, int64_t loops) {
  const std::vector<Piece> pieces = pieces_of(schedule, loops);
  LoopWork work{loops, 0, static_cast<int64_t>(pieces.size()), 0};
  for (const Piece& piece : pieces) {
    work.without_gradient += piece.gradient_from - piece.first;
    for (int64_t loop = piece.first; loop < piece.last; ++loop)
      work.exits += weight_of_loop(loop_weights, loop, piece.last) != 0;
  }
  return work;
}

double PieceRun::weight_of(int64_t loop, int64_t last) const {
  return weight_of_loop(loop_weights_, loop, last);
}

RouterLosses PieceRun::make_losses(const MicroStep& micro_step) const {
  const MoeConfig& moe = model_.config().moe;
  return {router_losses_, moe.experts, moe.top_k, micro_step.tokens, micro_step.weight};
}

PieceRun::StateGradient PieceRun::take(const LoopState& leaves) const {
  StateGradient gradient{take_gradient(leaves.state.slot), take_gradient(leaves.accumulators.n_global.slot), {}};
  for (const Variable& lane : leaves.lanes) gradient.lanes.push_back(take_gradient(lane.slot));
  return gradient;
}

void PieceRun::pass(const LoopState& to, StateGradient gradient) const {
  const auto give = [&](const Variable& value, Tensor g) {
    if (g.defined()) pass_gradient(model_.kernels(), value.slot, std::move(g));
  };
  give(to.state, std::move(gradient.state));
  give(to.accumulators.n_global, std::move(gradient.n_global));
  for (size_t i = 0; i < gradient.lanes.size(); ++i) give(to.lanes[i], std::move(gradient.lanes[i]));
}

void PieceRun::exit(const TokenBatch& batch, const Variable& embedding, const LoopState& state, double weight,
                    const MicroStep& micro_step, PieceSums& sums, GradientListener* listener) {
  Tape tape = model_.tape(Tape::Mode::kRecord);
  tape.set_listener(listener);
  RouterLosses losses = make_losses(micro_step);
  LoopedModel::Options options;
  options.observer = observer_;
  options.losses = &losses;
  const Variable y = model_.read_out(tape, batch, embedding, state, options);
  losses.finish(model_.groups().world());
  const HeadSums head = model_.loss(tape, y, batch, weight * micro_step.gradient_scale);
  tape.backward();
  sums.cross_entropy += weight * head.cross_entropy;
  sums.logit_z += weight * head.logit_z;
  sums.last_cross_entropy = head.cross_entropy;
  sums.aux += losses.aux();
  sums.router_z += losses.router_z();
}

LoopState PieceRun::run_without_gradient(const TokenBatch& batch, const Variable& embedding, LoopState state,
                                         int64_t first, int64_t last, int64_t end, const MicroStep& micro_step,
                                         PieceSums& sums) {
  Tape tape = model_.tape(Tape::Mode::kForwardOnly);
  LoopedModel::Options options;
  options.observer = observer_;
  for (int64_t loop = first; loop < last; ++loop) {
    model_.run_loops(tape, batch, Tape::constant(embedding.value), loop, loop + 1, options, state);
    if (const double weight = weight_of(loop, end); weight != 0)
      exit(batch, embedding, state, weight, micro_step, sums);
  }
  return state;
}

LoopState PieceRun::run_and_keep(const Tape& leaves_of, const TokenBatch& batch, const Variable& embedding,
                                 const Piece& piece, int64_t last, const LoopedModel::Options& options,
                                 const MicroStep& micro_step, PieceSums& sums) {
  Tape tape = model_.tape(Tape::Mode::kForwardOnly);
  LoopState state = model_.start(batch, Tape::constant(embedding.value));
  for (int64_t loop = piece.first; loop < last; ++loop) {
    if ((loop - piece.first) % piece.kept_every == 0) kept_.push_back(LoopedModel::detach(state));
    model_.run_loops(tape, batch, Tape::constant(embedding.value), loop, loop + 1, options, state);
    if (const double weight = weight_of(loop, piece.last); weight != 0) {
      const LoopState ends = LoopedModel::resume_with_leaves(leaves_of, LoopedModel::detach(state));
      exit(batch, embedding, ends, weight, micro_step, sums);
      exits_.emplace(loop, take(ends));
    }
  }
  return LoopedModel::resume_with_leaves(leaves_of, LoopedModel::detach(state));
}

PieceSums PieceRun::run(const TokenBatch& batch, const Piece& piece, const MicroStep& micro_step, LoopCarry* carry,
                        bool want_carry, GradientListener* listener) {
  PieceSums sums;
  RouterLosses losses = make_losses(micro_step);
  LoopedModel::Options options;
  options.observer = observer_;
  options.losses = &losses;
  const bool recomputes = piece.kept_every > 0 && piece.last - piece.first > piece.kept_every;
  Tape entry = model_.tape(Tape::Mode::kRecord);
  entry.set_listener(listener);
  const Variable embedding = model_.embed(entry, batch, options);
  LoopState state = piece.first == 0 ? model_.start(batch, embedding) : LoopedModel::resume(*carry);
  if (carry != nullptr) *carry = {};

  StateGradient gradient;
  {
    Tape tape = model_.tape(Tape::Mode::kRecord);
    if (!recomputes) tape.set_listener(listener);
    int64_t recorded_from = piece.gradient_from;
    LoopState leaves;
    if (piece.gradient_from > piece.first) {
      state = model_.start(batch, Tape::constant(embedding.value));
      state = run_without_gradient(batch, embedding, std::move(state), piece.first, piece.gradient_from, piece.last,
                                   micro_step, sums);
    } else if (recomputes) {
      recorded_from = piece.first + (piece.last - piece.first - 1) / piece.kept_every * piece.kept_every;
      leaves = run_and_keep(tape, batch, embedding, piece, recorded_from, options, micro_step, sums);
      state = leaves;
    }
    for (int64_t loop = recorded_from; loop < piece.last; ++loop) {
      model_.run_loops(tape, batch, embedding, loop, loop + 1, options, state);
      if (const double weight = weight_of(loop, piece.last); weight != 0)
        exit(batch, embedding, state, weight, micro_step, sums,
             !recomputes && loop == piece.last - 1 ? listener : nullptr);
    }
    losses.finish(model_.groups().world());
    sums.aux += losses.aux();
    sums.router_z += losses.router_z();
    if (want_carry) *carry = LoopedModel::detach(state);
    state = {};
    tape.backward();
    gradient = take(leaves);
  }
  losses.replay();
  recompute(batch, embedding, piece, losses, std::move(gradient), listener);
  entry.backward();
  return sums;
}

void PieceRun::recompute(const TokenBatch& batch, const Variable& embedding, const Piece& piece, RouterLosses& losses,
                         StateGradient gradient, GradientListener* listener) {
  LoopedModel::Options options;
  options.losses = &losses;
  for (auto segment = static_cast<int64_t>(kept_.size()) - 1; segment >= 0; --segment) {
    Tape tape = model_.tape(Tape::Mode::kRecord);
    if (segment == 0) tape.set_listener(listener);
    const int64_t first = piece.first + segment * piece.kept_every;
    const LoopState leaves = segment == 0 ? model_.start(batch, embedding)
                                          : LoopedModel::resume_with_leaves(tape, kept_[static_cast<size_t>(segment)]);
    kept_.pop_back();
    LoopState state = leaves;
    for (int64_t loop = first; loop < first + piece.kept_every; ++loop) {
      model_.run_loops(tape, batch, embedding, loop, loop + 1, options, state);
      if (const auto sent = exits_.find(loop); sent != exits_.end()) {
        pass(state, std::move(sent->second));
        exits_.erase(sent);
      }
    }
    pass(state, std::move(gradient));
    state = {};
    tape.backward();
    // The first segment starts at the embedding, whose slot has its gradient already.
    gradient = segment == 0 ? StateGradient{} : take(leaves);
  }
}

}  // namespace heddle
