// Training steps of a case: losses, norms, rates, loads, biases, and the weights after the first and the last step.
#include <cmath>

#include "train/growth.h"
#include "verify/case_runner.h"

namespace heddle {

namespace {

void check_parameters(CaseRunner& run, LoopedModel& model, const std::string& group) {
  if (!run.has(group)) return;
  const std::string quantity = group.substr(1), update = quantity + " (update)";
  const auto compare = [&](const std::string& name, const Shape& shape, int64_t offset, const Tensor& value,
                           bool mine) {
    if (!run.has(group + "/" + name)) {
      if (loop_of_tensor(name, run.config.model.tied) >= model.active_loops()) return;  // comes with growth
      throw Error(fmt::format("'{}' lacks {}/{}", run.file.path(), group, name),
                  "only gradients may be absent, of tensors that have none");
    }
    h5::Extent extent(shape.begin(), shape.end());
    // Before growth a tensor by loop is shorter.
    const h5::Extent found = run.file.extent(group + "/" + name);
    if (model.active_loops() < run.config.model.loops && found.size() == extent.size() && found[0] < extent[0])
      extent[0] = static_cast<uint64_t>(model.active_loops());
    const auto expected = run.read<float>(group + "/" + name, extent);
    const auto held = std::min(value.count(), static_cast<int64_t>(expected.size()) - offset);
    const size_t count = mine ? static_cast<size_t>(held) : 0;
    const Tensor now = value.on_host();
    run.comparison.add(quantity, name, {now.f32(), count}, {expected.data() + offset, count});
    if (!run.has("/params_init/" + name) || run.file.extent("/params_init/" + name) != extent) return;
    const auto start = run.read<float>("/params_init/" + name, extent);
    if (expected == start) return;
    std::vector<float> ours(count), theirs(count);
    for (size_t i = 0; i < count; ++i) {
      ours[i] = now.f32()[i] - start[static_cast<size_t>(offset) + i];
      theirs[i] = expected[static_cast<size_t>(offset) + i] - start[static_cast<size_t>(offset) + i];
    }
    run.comparison.add(update, name, ours, theirs);
  };
  for (Parameter& p : model.parameters().all())
    compare(p.name, p.global_shape, p.global_offset(), p.value, run.contributes(p));
  for (int64_t l = 0; l < model.stored_moe_layers(); ++l)
    compare(model.balance_bias_name(l), model.balance_bias(l).shape(), 0, model.balance_bias(l), run.speaks());
}

/// Version 1 keeps all layers of the core in one dataset, version 2 has one for each.
struct LayerDatasets {
  const CaseRunner& run;
  std::string load, bias;
  int64_t offset = 0;  ///< of the layer in a row of the dataset
  h5::Extent extent;

  LayerDatasets(const CaseRunner& r, const LoopedModel& model, int64_t stored) : run(r) {
    const int64_t experts = model.config().moe.experts, steps = run.config.steps;
    const bool one = run.config.version == 1;
    const std::string suffix = one ? "" : "/" + model.moe_layer_name(stored);
    load = "/train/load" + suffix;
    bias = "/train/balance_bias" + suffix;
    offset = one ? stored * experts : 0;
    extent = run.extent({steps});
    if (one) extent.push_back(static_cast<uint64_t>(model.config().layers));
    for (const int64_t size : model.balance_bias(stored).shape()) extent.push_back(static_cast<uint64_t>(size));
  }
};

std::vector<float> grown_bias(const LoopedModel& model, int64_t stored) {
  const Tensor& bias = model.balance_bias(stored);
  std::vector<float> values = bias.get<float>();
  const int64_t active = model.active_loops();
  const std::string& name = model.moe_layer_name(stored);
  if (!model.config().tied && loop_of_tensor(name, false) >= active) std::fill(values.begin(), values.end(), 0.0F);
  if (bias.shape().size() == 2)
    std::fill(values.begin() + std::min(active, bias.dim(0)) * bias.dim(1), values.end(), 0.0F);
  return values;
}

void check_layer(CaseRunner& run, LoopedModel& model, const TrainStep& step, int64_t i, int64_t stored) {
  const LayerDatasets data(run, model, stored);
  const int64_t experts = model.config().moe.experts;
  const std::string tensor = fmt::format("step {} {}", i + 1, model.moe_layer_name(stored));
  if (run.has("/train/load")) {
    const auto expected = run.read<int32_t>(data.load, data.extent);
    const int64_t row = static_cast<int64_t>(expected.size()) / run.config.steps;
    const int64_t rows = model.balance_bias(stored).count() / experts;
    int64_t differences = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<int64_t> found = step.statistics().stored_load(stored, rows > 1 ? r : -1);
      for (int64_t e = 0; e < experts; ++e)
        differences += found[static_cast<size_t>(e)] != expected[i * row + data.offset + r * experts + e];
    }
    run.comparison.add_differences("train/load", tensor, run.speaks() ? differences : 0);
  }
  if (run.has("/train/balance_bias")) {
    const Tensor& bias = model.balance_bias(stored);
    const auto expected = run.read<float>(data.bias, data.extent);
    const int64_t row = static_cast<int64_t>(expected.size()) / run.config.steps;
    const size_t count = run.speaks() ? static_cast<size_t>(bias.count()) : 0;
    // Rows and layers that growth has not made yet stand as zeros there.
    const std::vector<float> found = grown_bias(model, stored);
    run.comparison.add("train/balance_bias", tensor, {found.data(), count},
                       {expected.data() + i * row + data.offset, count});
  }
}

}  // namespace

void check_training(CaseRunner& run, LoopedModel& model) {
  const CaseConfig& c = run.config;
  if (!run.has("/train") && !run.has("/params_step1") && !run.has("/params_final")) return;
  std::vector<int32_t> loops_of_steps(static_cast<size_t>(c.steps), 0);
  if (run.has("/train/loops")) {
    loops_of_steps = run.read<int32_t>("/train/loops", run.extent({c.steps}));
    run.check_loops("/train/loops", loops_of_steps, 1);
  }
  if (c.random_loops && !run.has("/train/loops")) fail("'{}': random loops without /train/loops", run.file.path());
  StepConfig step_config = c.step;
  for (const int32_t loops : loops_of_steps)
    step_config.largest_loops = std::max<int64_t>(step_config.largest_loops, loops);
  Optimizer optimizer(c.optimizer, model.parameters(), run.groups, run.kernels);
  TrainStep step(model, optimizer, step_config);
  const LoopSchedule schedule(c.loops, c.model.loops, 0);

  const auto compare = [&](const char* name, const std::vector<double>& found, int64_t width, int64_t i) {
    if (!run.has(fmt::format("/train/{}", name))) return;
    const h5::Extent extent = width > 0 ? run.extent({c.steps, width}) : run.extent({c.steps});
    const auto expected = run.read<double>(fmt::format("/train/{}", name), extent);
    for (size_t j = 0; j < found.size(); ++j) {
      const double there = expected[static_cast<size_t>(i) * found.size() + j];
      if (std::isnan(there) && std::isnan(found[j])) continue;  // a segment that this step does not have
      run.add_number(fmt::format("train/{}", name), fmt::format("step {} [{}]", i + 1, j), found[j], there);
    }
  };
  const auto segments = static_cast<int64_t>(step.segment_count());
  const bool one_update = !c.step.back_propagation.step_per_segment;
  for (int64_t i = 0; i < c.steps; ++i) {
    if (schedule.grows_at(i + 1)) grow(model, optimizer);
    const double factor = c.schedule.factor(i + 1);
    const int64_t loops = c.random_loops ? loops_of_steps[static_cast<size_t>(i)] : schedule.loops(i + 1);
    const StepResult result = step.run(run.read_batches(i), {i + 1, factor, loops});
    compare("lr", {c.optimizer.learning_rate * factor}, 0, i);
    compare("lr_muon", {c.optimizer.muon.learning_rate * factor}, 0, i);
    compare("loops", {static_cast<double>(result.loops)}, 0, i);
    compare("loss", result.segment_loss, segments, i);
    compare("cross_entropy", result.cross_entropy, segments, i);
    if (c.model.any_moe()) {
      compare("aux", result.aux, segments, i);
      compare("router_z", result.router_z, segments, i);
    }
    if (one_update) {
      double norm = std::nan("");
      for (const double n : result.gradient_norm)
        if (!std::isnan(n)) norm = n;
      compare("grad_norm", {norm}, 1, i);
    } else {
      compare("grad_norm", result.gradient_norm, segments, i);
    }
    for (int64_t stored = 0; stored < model.stored_moe_layers(); ++stored) check_layer(run, model, step, i, stored);
    if (i == 0) check_parameters(run, model, "/params_step1");
  }
  check_parameters(run, model, "/params_final");
}

}  // namespace heddle
