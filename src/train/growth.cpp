#include "train/growth.h"

namespace heddle {

namespace {

/// Rows [before, loops) of a tensor by loop become copies of row before - 1.
void copy_rows(const Tensor& table, int64_t before, int64_t loops) {
  const int64_t width = table.count() / loops;
  for (int64_t row = before; row < loops; ++row)
    table.flat(row * width, {width}).copy_from(table.flat((before - 1) * width, {width}));
}

/// The name of the same tensor in another core or router: "core.3.x" for "core.1.x".
std::string renumbered(const std::string& name, const std::string& before, int64_t number) {
  const size_t first = name.find(before) + before.size();
  return name.substr(0, first) + std::to_string(number) + name.substr(name.find('.', first));
}

/// What stands in front of a loop's number in a name.
std::string mark_of(bool tied) {
  return tied ? ".routers." : "core.";
}

}  // namespace

int64_t loop_of_tensor(const std::string& name, bool tied) {
  const std::string mark = mark_of(tied);
  const size_t at = name.starts_with("core.") ? name.find(mark) : name.npos;
  return at == name.npos ? -1 : std::stoll(name.substr(at + mark.size()));
}

void grow(LoopedModel& model, Optimizer& optimizer) {
  const int64_t before = model.active_loops(), loops = model.config().loops;
  const bool tied = model.config().tied;
  ParameterSet& parameters = model.parameters();
  for (Parameter& p : parameters.all()) {
    const bool by_loop = p.name.starts_with("hyper.") || p.name == "condition.embedding" || p.name == "condition.loop";
    if (by_loop) copy_rows(p.value, before, loops);
    const int64_t loop = loop_of_tensor(p.name, tied);
    if (loop < before) continue;
    p.value.copy_from(parameters.find(renumbered(p.name, mark_of(tied), tied ? before - 1 : loop % before)).value);
    optimizer.weights_replaced(p, true);
  }
  for (int64_t stored = 0; stored < model.stored_moe_layers(); ++stored) {
    const std::string& name = model.moe_layer_name(stored);
    if (!name.starts_with("core.")) continue;
    const Tensor& bias = model.balance_bias(stored);
    if (tied && bias.shape().size() == 2) copy_rows(bias, before, loops);
    const int64_t loop = loop_of_tensor(name, tied);
    if (tied || loop < before) continue;
    const std::string source = renumbered(name, mark_of(tied), loop % before);
    for (int64_t other = 0; other < model.stored_moe_layers(); ++other)
      if (model.moe_layer_name(other) == source) bias.copy_from(model.balance_bias(other));
  }
  parameters.values_changed();
  model.set_active_loops(loops);
}

}  // namespace heddle
