// Curves over steps, all runs in one chart.
#include "report/figures.h"
#include "report/log_tables.h"

namespace heddle::report {

namespace {

using Has = std::function<bool(const Run&)>;
using Make = std::function<Table(const Run&)>;

/// One chart over the runs that have rows.
Json over_runs(const std::vector<Run>& runs, Json& tables, const std::string& name, const Has& has, const Make& make,
               Lines lines, const std::string& otherwise) {
  for (size_t i = 0; i < runs.size(); ++i)
    if (has(runs[i])) lines.tables.push_back(store(tables, i, name, make(runs[i])));
  if (lines.tables.empty()) return missing(otherwise);
  lines.x = "step";
  lines.x_title = "step";
  lines.series = "run";
  return chart(lines);
}

}  // namespace

Json training_section(const std::vector<Run>& runs, Json& tables) {
  const Has stepped = [](const Run& run) { return !run.log.steps.empty(); };
  const auto of_steps = [&](Lines lines) {
    lines.few = false;
    return over_runs(
        runs, tables, "curves", stepped, [](const Run& run) { return curves(run.name, run.log); }, std::move(lines),
        "No step is in the log yet.");
  };
  Json figures = Json::array();
  const auto add = [&](const char* id, const char* title, const char* note, Json chart) {
    figures.push_back({{"id", id}, {"title", title}, {"note", note}, {"charts", Json::array({std::move(chart)})}});
  };
  Lines loss;
  loss.y = {{"loss", "nats per token"}, {"bits_per_byte", "bits per byte"}};
  loss.low = "loss_low";
  loss.high = "loss_high";
  add("loss", "Loss in training",
      "Cross-entropy after the last loop with a loss. A point is the mean of the steps up to it, the band their range.",
      of_steps(loss));
  Lines validation;
  validation.y = {{"bits_per_byte", "bits per byte"}, {"loss", "nats per token"}};
  add("validation", "Loss in validation", "All loops, capacity off.",
      over_runs(
          runs, tables, "validations", [](const Run& run) { return !run.log.validations.empty(); },
          [](const Run& run) { return validations(run.name, run.log); }, validation,
          "No validation is in the log yet."));
  Lines speed;
  speed.y = {{"tokens_per_second", "tokens per second"}};
  speed.format = ",.4~r";
  add("throughput", "Throughput", "Targets of all ranks per second of a step, without validations and checkpoints.",
      of_steps(speed));
  Lines optimizer;
  optimizer.y = {
      {"gradient_norm", "gradient norm before clipping"}, {"learning_rate", "learning rate"}, {"loops", "loops run"}};
  add("optimizer", "Gradient norm, learning rate, loops", "", of_steps(optimizer));
  if (std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.log.header.segments > 1; }))
    figures.push_back(figure_by_run(runs, "segments", "Loss by segment",
                                    "After the loops of each segment, before its update.",
                                    [&](const Run& run, size_t i) {
                                      if (run.log.header.segments < 2)
                                        return missing("The run has one loss in a step.");
                                      if (run.log.steps.empty()) return no_steps();
                                      Lines lines;
                                      lines.tables = {store(tables, i, "segments", segment_losses(run.log))};
                                      lines.x = "step";
                                      lines.x_title = "step";
                                      lines.y = {{"loss", "nats per token"}};
                                      lines.series = "segment";
                                      lines.series_prefix = "segment ";
                                      lines.few = false;
                                      return chart(lines);
                                    }));
  return {{"id", "training"}, {"title", "Training"}, {"figures", figures}};
}

}  // namespace heddle::report
