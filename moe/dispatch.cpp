#include "moe/dispatch.h"

#include "comm/collective_guard.h"

namespace heddle {

namespace {

Tensor exchange_buffer(int64_t rows, int64_t width, int64_t capacity) {
  return Tensor::empty({rows, width}, Purpose::kExchange, DType::kFloat32, capacity);
}

Tensor sent_buffer(const RoutePlan& plan, int64_t width) {
  return exchange_buffer(static_cast<int64_t>(plan.sent_token.size()), width, plan.capacity.sent_rows);
}

Tensor received_buffer(const RoutePlan& plan, int64_t width) {
  return exchange_buffer(plan.received_rows, width, plan.capacity.received_rows);
}

/// One row per slot of the local experts.
Tensor slot_rows(const RoutePlan& plan, int64_t width) {
  return Tensor::empty({plan.received_slots, width}, Purpose::kActivations, DType::kFloat32,
                       plan.capacity.received_slots);
}

/// Where the collectives of a backward pass belong: the visit that made them.
CollectivePlace backward_place() {
  CollectivePlace place = collective_place();
  place.phase = "backward";
  return place;
}

/// Rows from their tokens' owner to the experts' owners; width floats per row.
Tensor send_to_experts(const Kernels& k, Communicator& group, const RoutePlan& plan, const Tensor& x) {
  const int64_t width = x.dim(1), sent = static_cast<int64_t>(plan.sent_token.size());
  const Tensor packed = sent_buffer(plan, width);
  k.gather_rows(sent, width, plan.sent_token.data(), x.f32(), packed.f32());
  Tensor received = received_buffer(plan, width);
  group.exchange_rows(packed.f32(), plan.send_rows, received.f32(), plan.receive_rows,
                      static_cast<size_t>(width) * sizeof(float));
  return received;
}

/// The same rows the other way, summed per token into out [N,D].
void return_to_tokens(const Kernels& k, Communicator& group, const RoutePlan& plan, const Tensor& rows,
                      GradientOut out) {
  const int64_t width = rows.dim(1);
  const Tensor returned = sent_buffer(plan, width);
  group.exchange_rows(rows.f32(), plan.receive_rows, returned.f32(), plan.send_rows,
                      static_cast<size_t>(width) * sizeof(float));
  if (out)
    k.sum_slots(plan.tokens, width, plan.token_begin.data(), plan.token_sent.data(), nullptr, returned.f32(),
                out.accumulate, out.data);
}

}  // namespace

Variable dispatch(Tape& tape, Communicator& group, const std::shared_ptr<const RoutePlan>& plan, const Variable& x) {
  const Kernels& k = tape.kernels();
  const int64_t width = x.value.dim(1);
  const Tensor rows = plan->local() ? x.value : send_to_experts(k, group, *plan, x.value);
  const Variable y = tape.result(slot_rows(*plan, width), {&x});
  k.gather_rows(plan->received_slots, width, plan->slot_row.data(), rows.f32(), y.value.f32());
  if (y.wants_gradient()) {
    tape.on_backward([&k, &group, plan, x_slot = x.slot, y_slot = y.slot, width, place = backward_place()] {
      collective_place() = place;
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      if (plan->local()) {
        const GradientOut dx = gradient_out(x_slot);
        k.sum_slots(plan->tokens, width, plan->row_begin.data(), plan->row_slot.data(), nullptr, dy.f32(),
                    dx.accumulate, dx.data);
        return;
      }
      const Tensor drows = received_buffer(*plan, width);
      k.sum_slots(plan->received_rows, width, plan->row_begin.data(), plan->row_slot.data(), nullptr, dy.f32(), false,
                  drows.f32());
      return_to_tokens(k, group, *plan, drows, gradient_out(x_slot));
    });
  }
  return y;
}

Variable combine(Tape& tape, Communicator& group, const std::shared_ptr<const RoutePlan>& plan, const Variable& y,
                 const Variable& weights) {
  const Kernels& k = tape.kernels();
  const int64_t width = y.value.dim(1);
  const Variable out = tape.result(Tensor::empty({plan->tokens, width}, Purpose::kActivations), {&y, &weights});
  if (plan->local()) {
    k.sum_slots(plan->tokens, width, plan->row_begin.data(), plan->row_slot.data(), plan->slot_weight.data(),
                y.value.f32(), false, out.value.f32());
  } else {
    const Tensor rows = received_buffer(*plan, width);
    k.sum_slots(plan->received_rows, width, plan->row_begin.data(), plan->row_slot.data(), plan->slot_weight.data(),
                y.value.f32(), false, rows.f32());
    return_to_tokens(k, group, *plan, rows, {out.value.f32(), false});
  }
  if (out.wants_gradient()) {
    tape.on_backward(
        [&k, &group, plan, y, weight_slot = weights.slot, out_slot = out.slot, width, place = backward_place()] {
          collective_place() = place;
          const Tensor dout = take_gradient(out_slot);
          if (!dout.defined()) return;
          const int64_t slots = plan->received_slots;
          const Tensor drows = plan->local() ? dout : send_to_experts(k, group, *plan, dout);
          Tensor dy = slot_rows(*plan, width);
          std::vector<float> dweight(static_cast<size_t>(slots)), arrived(static_cast<size_t>(slots));
          k.sum_slots_backward(slots, width, plan->slot_row.data(), plan->slot_weight.data(), y.value.f32(),
                               drows.f32(), dy.f32(), dweight.data());
          pass_gradient(k, y.slot, std::move(dy));

          // Each slot's weight gradient goes home: back to arrival order, through the exchange, to its place in [N,k].
          for (int64_t slot = 0; slot < slots; ++slot) arrived[plan->slot_arrival[slot]] = dweight[slot];
          std::vector<float> home(plan->sent_slot.size());
          if (plan->local())
            home = std::move(arrived);
          else
            group.exchange_rows(arrived.data(), plan->receive_slots, home.data(), plan->send_slots, sizeof(float));
          if (weight_slot == nullptr) return;
          Tensor dweights = Tensor::zeros({plan->tokens, plan->choices}, Purpose::kActivations);
          for (size_t i = 0; i < home.size(); ++i) dweights.f32()[plan->sent_slot[i]] = home[i];
          pass_gradient(k, weight_slot, std::move(dweights));
        });
  }
  return out;
}

}  // namespace heddle
