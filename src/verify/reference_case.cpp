#include "verify/reference_case.h"

#include <algorithm>
#include <filesystem>

#include "verify/case_runner.h"

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

std::vector<std::string> CaseReport::groups() const {
  std::vector<std::string> groups;
  for (const QuantityResult& q : quantities) {
    const std::string group = q.quantity.substr(0, q.quantity.find_first_of("/ "));
    if (q.status != QuantityResult::Status::kNotChecked && (groups.empty() || groups.back() != group))
      groups.push_back(group);
  }
  return groups;
}

namespace {

constexpr double kForwardTolerance = 1e-5, kGradientTolerance = 1e-4, kParameterTolerance = 1e-4,
                 kUpdateTolerance = 1e-3, kScheduleTolerance = 1e-6, kEqual = 0;

void declare_quantities(Comparison& comparison) {
  for (const char* group : {"forward", "forward_capacity"}) {
    for (const char* name :
         {"loss",        "cross_entropy",    "logit_z",    "aux",         "router_z",     "loop_loss",  "logits",
          "embed",       "prelude_state",    "coda_input", "final_state", "loop_input",   "loop_state", "layer_state",
          "attn_branch", "looping_residual", "moe_branch", "ffn_branch",  "router_score", "topk_weight"})
      comparison.declare(fmt::format("{}/{}", group, name), kForwardTolerance);
    comparison.declare(fmt::format("{}/topk_index", group), kEqual);
    comparison.declare(fmt::format("{}/load", group), kEqual);
  }
  comparison.declare("eval/loss", kForwardTolerance);
  comparison.declare("grads", kGradientTolerance);
  comparison.declare("grads_segment0", kGradientTolerance);
  for (const char* name : {"loss", "cross_entropy", "aux", "router_z"})
    comparison.declare(fmt::format("train/{}", name), kForwardTolerance);
  comparison.declare("train/grad_norm", kGradientTolerance);
  for (const char* name : {"lr", "lr_muon"}) comparison.declare(fmt::format("train/{}", name), kScheduleTolerance);
  for (const char* name : {"loops", "load"}) comparison.declare(fmt::format("train/{}", name), kEqual);
  comparison.declare("train/balance_bias", kScheduleTolerance);
  for (const char* group : {"params_step1", "params_final"}) {
    comparison.declare(group, kParameterTolerance);
    comparison.declare(fmt::format("{} (update)", group), kUpdateTolerance);
  }
  comparison.declare("initial", kEqual);
}

/// Version 1: the forward pass with and without capacity, gradients as training sees it.
void check_version_1(CaseRunner& run) {
  {
    const auto dropless = run.make_model(0);
    check_forward(run, *dropless, "/forward", "");
    const auto limited = run.make_model(run.config.capacity_factor);
    check_forward(run, *limited, "/forward_capacity", "");
  }
  const auto model = run.make_model(run.config.capacity_in_training ? run.config.capacity_factor : 0);
  check_gradients(run, *model, "/grads", {0, 0, run.config.model.loops, 0});
  check_gradients(run, *model, "/grads_segment0",
                  pieces_of(run.config.step.back_propagation, run.config.model.loops)[0]);
  check_training(run, *model);
}

void check_version_2(CaseRunner& run) {
  const auto model = run.make_model(run.config.capacity_factor);
  check_forward(run, *model, "/forward", "/grads");
  check_evaluation(run, *model);
  check_gradients(run, *model, "/grads_segment0", pieces_of(run.config.step.back_propagation, run.initial_loops())[0]);
  check_training(run, *model);
  check_initial(run);
}

}  // namespace

CaseReport verify_case(const std::string& folder, Communicator& world, int expert_parallel, const Kernels& kernels) {
  const std::filesystem::path path(folder);
  if (!std::filesystem::is_directory(path))
    throw UsageError(fmt::format("there is no case folder '{}'", folder),
                     "a case folder holds config.json and case.h5, as tests/golden/loom_r1 does");
  CaseConfig config = read_case_config((path / "config.json").string());
  CaseReport report;
  report.name = config.name.empty() ? path.filename().string() : config.name;
  check_layout(world.size(), expert_parallel, config.model.any_moe() ? config.model.moe.experts : 1);
  if (config.only_at_ranks && config.ranks != world.size())
    throw UsageError(fmt::format("'{}' counts capacity by rank: it holds for {} rank(s), not {}", folder, config.ranks,
                                 world.size()),
                     fmt::format("start it with mpirun -n {}", config.ranks));
  CaseRunner run(std::move(config), (path / "case.h5").string(), world, expert_parallel, kernels);
  declare_quantities(run.comparison);
  if (run.config.version == 1)
    check_version_1(run);
  else
    check_version_2(run);
  run.refuse_unread();
  report.quantities = run.comparison.finish(world);
  return report;
}

}  // namespace heddle
