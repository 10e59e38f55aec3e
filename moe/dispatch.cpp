#include "moe/dispatch.h"

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

size_t row_bytes(const Tensor& x) {
  return static_cast<size_t>(x.dim(1) * dtype_bytes(x.dtype()));
}

/// Where the collectives of a backward pass belong: the visit that made them.
CollectivePlace backward_place() {
  CollectivePlace place = collective_place();
  place.phase = "backward";
  return place;
}

/// Rows from their tokens' owner to the experts' owners.
Tensor send_to_experts(const Kernels& k, Communicator& group, const RoutePlan& plan, const Tensor& x) {
  const Tensor packed = sent_buffer(plan, x);
  k.gather_rows(plan.sent_rows, x.dim(1), plan.sent_token.i64(), x.reals(), packed.reals());
  Tensor received = received_buffer(plan, x);
  group.exchange_rows(packed.reals().data, plan.send_rows, received.reals().data, plan.receive_rows, row_bytes(x));
  return received;
}

/// The same rows the other way, summed per token into out [N,D].
void return_to_tokens(const Kernels& k, Communicator& group, const RoutePlan& plan, const Tensor& rows,
                      RealsGradient out) {
  const Tensor returned = sent_buffer(plan, rows);
  group.exchange_rows(rows.reals().data, plan.receive_rows, returned.reals().data, plan.send_rows, row_bytes(rows));
  if (out)
    k.sum_slots(plan.tokens, rows.dim(1), plan.token_begin.i64(), plan.token_sent.i64(), nullptr, returned.reals(),
                out.accumulate, out.data);
}

}  // namespace

Variable dispatch(Tape& tape, Communicator& group, const std::shared_ptr<const RoutePlan>& plan, const Variable& x) {
  const Kernels& k = tape.kernels();
  const int64_t width = x.value.dim(1);
  const Tensor rows = plan->local() ? x.value : send_to_experts(k, group, *plan, x.value);
  const Variable y = tape.result(slot_rows(*plan, x.value), {&x});
  k.gather_rows(plan->received_slots, width, plan->slot_row.i64(), rows.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k, &group, plan, x_slot = x.slot, y_slot = y.slot, width, place = backward_place()] {
      collective_place() = place;
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      if (plan->local()) {
        const RealsGradient dx = gradient_out(x_slot);
        k.sum_slots(plan->tokens, width, plan->row_begin.i64(), plan->row_slot.i64(), nullptr, dy.reals(),
                    dx.accumulate, dx.data);
        return;
      }
      const Tensor drows = received_buffer(*plan, dy);
      k.sum_slots(plan->received_rows, width, plan->row_begin.i64(), plan->row_slot.i64(), nullptr, dy.reals(), false,
                  drows.reals());
      return_to_tokens(k, group, *plan, drows, gradient_out(x_slot));
    });
  }
  return y;
}

Variable combine(Tape& tape, Communicator& group, const std::shared_ptr<const RoutePlan>& plan, const Variable& y,
                 const Variable& weights) {
  const Kernels& k = tape.kernels();
  const int64_t width = y.value.dim(1);
  const Variable out =
      tape.result(Tensor::empty({plan->tokens, width}, Purpose::kActivations, y.value.dtype()), {&y, &weights});
  if (plan->local()) {
    k.sum_slots(plan->tokens, width, plan->row_begin.i64(), plan->row_slot.i64(), plan->slot_weight.f32(),
                y.value.reals(), false, out.value.reals());
  } else {
    const Tensor rows = received_buffer(*plan, y.value);
    k.sum_slots(plan->received_rows, width, plan->row_begin.i64(), plan->row_slot.i64(), plan->slot_weight.f32(),
                y.value.reals(), false, rows.reals());
    return_to_tokens(k, group, *plan, rows, {out.value.reals(), false});
  }
  if (out.wants_gradient()) {
    tape.on_backward(
        [&k, &group, plan, y, weight_slot = weights.slot, out_slot = out.slot, width, place = backward_place()] {
          collective_place() = place;
          const Tensor dout = take_gradient(out_slot);
          if (!dout.defined()) return;
          const int64_t slots = plan->received_slots;
          const Tensor drows = plan->local() ? dout : send_to_experts(k, group, *plan, dout);
          Tensor dy = slot_rows(*plan, dout);
          const auto numbers = [](int64_t count, int64_t capacity) {
            return Tensor::empty({count}, Purpose::kExchange, DType::kFloat32, capacity);
          };
          const Tensor dweight = numbers(slots, plan->capacity.received_slots);
          k.sum_slots_backward(slots, width, plan->slot_row.i64(), plan->slot_weight.f32(), y.value.reals(),
                               drows.reals(), dy.reals(), dweight.f32());
          pass_gradient(k, y.slot, std::move(dy));

          // Each slot's weight gradient goes home: back to arrival order, through the exchange, to its place in [N,k].
          const Tensor arrived = numbers(slots, plan->capacity.received_slots);
          k.scatter(slots, plan->slot_arrival.i64(), dweight.f32(), arrived.f32());
          Tensor home = arrived;
          if (!plan->local()) {
            home = numbers(plan->sent_slots, plan->tokens * plan->choices);
            group.exchange_rows(arrived.f32(), plan->receive_slots, home.f32(), plan->send_slots, sizeof(float));
          }
          if (weight_slot == nullptr) return;
          Tensor dweights = Tensor::empty({plan->tokens, plan->choices}, Purpose::kActivations);
          k.fill_zero(dweights.count(), dweights.reals());
          k.scatter(plan->sent_slots, plan->sent_slot.i64(), home.f32(), dweights.f32());
          pass_gradient(k, weight_slot, std::move(dweights));
        });
  }
  return out;
}

}  // namespace heddle
