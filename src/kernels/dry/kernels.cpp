// The table that computes nothing: to run the shapes of a step without its numbers (train/memory_plan.h).
#include "kernels/entries.h"

namespace heddle::dry {

namespace {

template <typename Function>
struct Nothing;
template <typename Result, typename... Arguments>
struct Nothing<Result(Arguments...)> {
  static Result call(Arguments...) { return Result(); }
};

/// A function of any kernel's type that does nothing and returns zero.
template <typename Function>
void clear(Function*& entry) {
  entry = Nothing<Function>::call;
}

}  // namespace

Kernels kernels(const Kernels& of) {
  Kernels t{};
  t.name = "dry";
  for_each_kernel([&](auto entry) { clear(t.*entry.kPointer); });
  // How much scratch memory, and who sends what where, are shapes too.
  t.logits_at_once = of.logits_at_once;
  t.attention_workspace = of.attention_workspace;
  t.route_count = cpu::kernels().route_count;
  t.route_send = cpu::kernels().route_send;
  t.route_receive = cpu::kernels().route_receive;
  return t;
}

}  // namespace heddle::dry
