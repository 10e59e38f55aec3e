#include "moe/dispatch.h"

#include <utility>

#include "comm/collective_guard.h"

namespace heddle {

namespace {

/// Buffers for rows that are as wide as those of x, and stored alike.
Tensor sent_buffer(const RoutePlan& plan, const Tensor& x) {
  return Tensor::empty({plan.sent_rows, x.dim(1)}, Purpose::kExchange, x.dtype(), plan.capacity.sent_rows);
}

Tensor received_buffer(const RoutePlan& plan, const Tensor& x) {
  return Tensor::empty({plan.received_rows, x.dim(1)}, Purpose::kExchange, x.dtype(), plan.capacity.received_rows);
}

/// One row per slot of the local experts.
Tensor slot_rows(const RoutePlan& plan, const Tensor& x) {
  return Tensor::empty({plan.received_slots, x.dim(1)}, Purpose::kActivations, x.dtype(), plan.capacity.received_slots);
}

/// One number per slot.
Tensor slot_numbers(int64_t count, int64_t capacity) {
  return Tensor::empty({count}, Purpose::kExchange, DType::kFloat32, capacity);
}

/// Where the collectives of a backward pass belong: the visit that made them.
CollectivePlace backward_place() {
  CollectivePlace place = collective_place();
  place.phase = "backward";
  return place;
}

/// Rows between tokens and experts, with the memory that they leave and reach.
class Travel {
 public:
  /// From their tokens' owner to the experts' owners.
  void to_experts(const Kernels& k, Communicator& group, const RoutePlan& plan, const Tensor& x) {
    left_ = sent_buffer(plan, x);
    k.gather_rows(plan.sent_rows, x.dim(1), plan.sent_token.i64(), x.reals(), left_.reals());
    reached_ = received_buffer(plan, x);
    start(group, plan.send_rows, plan.receive_rows);
  }
  /// The same rows the other way.
  void to_tokens(Communicator& group, const RoutePlan& plan, Tensor rows) {
    left_ = std::move(rows);
    reached_ = sent_buffer(plan, left_);
    start(group, plan.receive_rows, plan.send_rows);
  }

  bool under_way() const { return exchange_ != nullptr; }
  Tensor arrive() {
    exchange_->finish();
    exchange_.reset();
    left_ = {};
    return std::exchange(reached_, {});
  }

 private:
  void start(Communicator& group, const std::vector<int64_t>& send, const std::vector<int64_t>& receive) {
    const auto row_bytes = static_cast<size_t>(left_.dim(1) * dtype_bytes(left_.dtype()));
    exchange_ = group.start_exchange_rows(left_.reals().data, send, reached_.reals().data, receive, row_bytes);
  }

  Tensor left_, reached_;
  std::unique_ptr<Communicator::Exchange> exchange_;
};

/// Sums rows that came back per token, into out [N,D].
void sum_returned(const Kernels& k, const RoutePlan& plan, const Tensor& rows, RealsGradient out) {
  if (out)
    k.sum_slots(plan.tokens, rows.dim(1), plan.token_begin.i64(), plan.token_sent.i64(), nullptr, rows.reals(),
                out.accumulate, out.data);
}

}  // namespace

struct Dispatch::State {
  Communicator& group;
  std::shared_ptr<const RoutePlan> plan;
  Variable x;
  Travel travel;
};

Dispatch::Dispatch(Tape& tape, Communicator& group, std::shared_ptr<const RoutePlan> plan, const Variable& x)
    : state_(std::make_shared<State>(State{group, std::move(plan), x, {}})) {
  const Kernels& k = tape.kernels();
  if (state_->plan->local()) return;
  state_->travel.to_experts(k, group, *state_->plan, x.value);
  if (!tape.recording() || !x.wants_gradient()) return;
  tape.on_backward([&k, state = state_, x_slot = x.slot] {
    if (state->travel.under_way()) sum_returned(k, *state->plan, state->travel.arrive(), gradient_out(x_slot));
  });
}

Variable Dispatch::finish(Tape& tape) {
  const Kernels& k = tape.kernels();
  const RoutePlan& p = *state_->plan;
  const Variable x = std::exchange(state_->x, {});
  const int64_t width = x.value.dim(1);
  const Tensor rows = p.local() ? x.value : state_->travel.arrive();
  const Variable y = tape.result(slot_rows(p, x.value), {&x});
  k.gather_rows(p.received_slots, width, p.slot_row.i64(), rows.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k, state = state_, x_slot = x.slot, y_slot = y.slot, width, place = backward_place()] {
      collective_place() = place;
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      const RoutePlan& plan = *state->plan;
      if (plan.local()) {
        const RealsGradient dx = gradient_out(x_slot);
        k.sum_slots(plan.tokens, width, plan.row_begin.i64(), plan.row_slot.i64(), nullptr, dy.reals(), dx.accumulate,
                    dx.data);
        return;
      }
      Tensor drows = received_buffer(plan, dy);
      k.sum_slots(plan.received_rows, width, plan.row_begin.i64(), plan.row_slot.i64(), nullptr, dy.reals(), false,
                  drows.reals());
      state->travel.to_tokens(state->group, plan, std::move(drows));
    });
  }
  return y;
}

struct Combine::State {
  Communicator& group;
  std::shared_ptr<const RoutePlan> plan;
  Variable y;
  SlotPointer weights;
  bool wants_gradient;
  Travel travel;

  /// drows: gradients of the rows of the experts' results.
  void backward(const Kernels& k, const Tensor& drows);
};

Combine::Combine(Tape& tape, Communicator& group, std::shared_ptr<const RoutePlan> plan, const Variable& y,
                 const Variable& weights)
    : state_(std::make_shared<State>(
          State{group, std::move(plan), y, weights.slot, y.wants_gradient() || weights.wants_gradient(), {}})) {
  const Kernels& k = tape.kernels();
  const RoutePlan& p = *state_->plan;
  if (p.local()) return;
  Tensor rows = received_buffer(p, y.value);
  k.sum_slots(p.received_rows, y.value.dim(1), p.row_begin.i64(), p.row_slot.i64(), p.slot_weight.f32(),
              y.value.reals(), false, rows.reals());
  state_->travel.to_tokens(group, p, std::move(rows));
  if (!tape.recording() || !state_->wants_gradient) return;
  tape.on_backward([&k, state = state_] {
    if (state->travel.under_way()) state->backward(k, state->travel.arrive());
  });
}

Variable Combine::finish(Tape& tape, const Variable& base, const Tensor& into) {
  const Kernels& k = tape.kernels();
  const RoutePlan& p = *state_->plan;
  const Tensor& y = state_->y.value;
  const bool onto = base.value.defined();
  const Tensor sums = onto             ? base.value
                      : into.defined() ? into
                                       : Tensor::empty({p.tokens, y.dim(1)}, Purpose::kActivations, y.dtype());
  if (p.local())
    k.sum_slots(p.tokens, y.dim(1), p.row_begin.i64(), p.row_slot.i64(), p.slot_weight.f32(), y.reals(), onto,
                sums.reals());
  else
    sum_returned(k, p, state_->travel.arrive(), {sums.reals(), onto});
  const Variable weights{{}, state_->weights, {}};
  const Variable out = tape.result(sums, {&state_->y, &weights, &base});
  if (out.wants_gradient()) {
    tape.on_backward([&k, state = state_, base_slot = base.slot, out_slot = out.slot, place = backward_place()] {
      collective_place() = place;
      Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      if (state->plan->local())
        state->backward(k, dout);
      else
        state->travel.to_experts(k, state->group, *state->plan, dout);
      pass_gradient(k, base_slot, std::move(dout));
    });
  }
  return out;
}

void Combine::State::backward(const Kernels& k, const Tensor& drows) {
  const RoutePlan& p = *plan;
  const int64_t slots = p.received_slots, most = p.capacity.received_slots;
  Tensor dy = slot_rows(p, drows);
  const Tensor dweight = slot_numbers(slots, most);
  k.sum_slots_backward(slots, drows.dim(1), p.slot_row.i64(), p.slot_weight.f32(), y.value.reals(), drows.reals(),
                       dy.reals(), dweight.f32());
  pass_gradient(k, y.slot, std::move(dy));

  // Each slot's weight gradient goes home: back to arrival order, through the exchange, to its place in [N,k].
  const Tensor arrived = slot_numbers(slots, most);
  k.scatter(slots, p.slot_arrival.i64(), dweight.f32(), arrived.f32());
  Tensor home = arrived;
  if (!p.local()) {
    home = slot_numbers(p.sent_slots, p.tokens * p.choices);
    group.exchange_rows(arrived.f32(), p.receive_slots, home.f32(), p.send_slots, sizeof(float));
  }
  if (weights == nullptr) return;
  Tensor dweights = Tensor::empty({p.tokens, p.choices}, Purpose::kActivations);
  k.fill_zero(dweights.count(), dweights.reals());
  k.scatter(p.sent_slots, p.sent_slot.i64(), home.f32(), dweights.f32());
  pass_gradient(k, weights, std::move(dweights));
}

}  // namespace heddle
