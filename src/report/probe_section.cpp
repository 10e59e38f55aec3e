// What a checkpoint does when parts of it are left out or exchanged: the results of heddle probe.
#include "report/figures.h"
#include "report/probe_tables.h"

namespace heddle::report {

namespace {

constexpr const char* kChange = "change of the loss, nats per token";
using OfProbe = std::function<Json(const ProbeResult&, size_t)>;

Json effect_bars(const std::string& table, const std::vector<Effect>& effects) {
  Bars bars;
  bars.table = table;
  bars.category = "effect";
  bars.value = "change";
  bars.value_title = kChange;
  bars.categories = static_cast<int64_t>(effects.size());
  bars.error = "error";
  return chart(bars);
}

Json loss_lines(const ProbeResult& probe, const std::string& table) {
  Lines lines;
  lines.tables = {table};
  lines.x = "loops";
  lines.x_title = "loops";
  lines.y = {{"loss", "nats per token"}};
  lines.series = "series";
  lines.low = "low";
  lines.high = "high";
  lines.reference = Json::array({"y", rounded(probe.loss.mean), "whole model"});
  return chart(lines);
}

Json depth_lines(const DepthCurve& depth, const std::string& table) {
  Lines lines;
  lines.tables = {table};
  lines.x = "index";
  lines.x_title = "block";
  lines.y = {{"kl", "KL to the final prediction, nats"}, {"loss", "loss of the decoded entry, nats per token"}};
  lines.series = "series";
  lines.low = "kl_low";
  lines.high = "kl_high";
  lines.label = "entry";
  if (depth.effective_depth >= 0)
    lines.reference =
        Json::array({"x", depth.effective_depth, fmt::format("effective depth {}", depth.effective_depth)});
  return chart(lines);
}

Json block_map(const ProbeResult& probe, const std::string& table) {
  HeatMap map;
  map.table = table;
  map.x = "loop";
  map.x_title = "loop";
  map.y = "layer";
  map.y_title = "layer";
  map.columns = probe.loops;
  map.rows = probe.layers;
  map.values = {{"change", kChange}};
  map.diverging = true;
  map.error = "error";
  return chart(map);
}

Json swap_map(const ProbeResult& probe, const std::string& table) {
  HeatMap map;
  map.table = table;
  map.x = "loop";
  map.x_title = "loop";
  map.y = "other";
  map.y_title = "loop";
  map.columns = map.rows = probe.loops;
  map.values = {{"change", kChange}};
  map.diverging = true;
  map.error = "error";
  Control layers{"layer", "Layer", Json::array()};
  for (const int64_t l : swapped_layers(probe))
    layers.options.push_back(Json::array({l, l < 0 ? "all layers" : fmt::format("layer {}", l)}));
  map.controls = {layers};
  return chart(map);
}

Json plain_bars(const std::string& table, const char* category, const char* value, const char* title, size_t count) {
  Bars bars;
  bars.table = table;
  bars.category = category;
  bars.value = value;
  bars.value_title = title;
  bars.categories = static_cast<int64_t>(count);
  return chart(bars);
}

Json information_bars(const std::vector<MutualInformation>& all, const std::string& table) {
  Bars bars;
  bars.table = table;
  bars.category = "pair";
  bars.value = "nats";
  bars.value_title = "mutual information with the expert, nats";
  bars.series = "quantity";
  bars.categories = static_cast<int64_t>(3 * all.size());
  bars.series_count = 2;
  return chart(bars);
}

}  // namespace

Json probe_section(const std::vector<Run>& runs, Json& tables) {
  Json figures = Json::array();
  // A figure of what some run's probe holds; figures that no probe holds are left out.
  const auto add = [&](const char* id, const char* title, const char* note, auto holds, const OfProbe& make) {
    const bool any =
        std::any_of(runs.begin(), runs.end(), [&](const Run& run) { return run.probe && holds(*run.probe); });
    if (!any) return;
    figures.push_back(figure_by_run(runs, id, title, note, [&](const Run& run, size_t i) {
      if (!run.probe) return missing("The run has no probe.json: heddle probe writes it.");
      return holds(*run.probe) ? make(*run.probe, i) : missing("The probe of this run does not hold it.");
    }));
  };
  const auto effects = [&](const char* id, const char* title, const char* note,
                           std::vector<Effect> ProbeResult::*member) {
    add(
        id, title, note, [member](const ProbeResult& p) { return !(p.*member).empty(); },
        [&, member, name = std::string(id)](const ProbeResult& p, size_t i) {
          return effect_bars(store(tables, i, name, named_effects(p.*member)), p.*member);
        });
  };
  add(
      "loss-by-loop", "Loss by loop", "With the head after so many loops. Bars: one standard error over documents.",
      [](const ProbeResult& p) { return !p.loss_by_loop.empty(); },
      [&](const ProbeResult& p, size_t i) {
        return loss_lines(p, store(tables, i, "loss_by_loop", loss_by_loop(p.loss_by_loop)));
      });
  add(
      "depth", "Effective depth",
      "The stream after every block, decoded with final norm and head. Effective depth: the first block behind the "
      "peak "
      "whose KL is not above the threshold.",
      [](const ProbeResult& p) { return !p.depth.entries.empty(); },
      [&](const ProbeResult& p, size_t i) {
        return depth_lines(p.depth, store(tables, i, "depth", depth_curve(p.depth)));
      });
  effects("skipped-loops", "Loops skipped", "Whiskers: one standard error over documents, here and below.",
          &ProbeResult::skipped_loops);
  add(
      "skipped-blocks", "Blocks skipped", "One layer in one loop left out.",
      [](const ProbeResult& p) { return !p.skipped_blocks.empty(); },
      [&](const ProbeResult& p, size_t i) { return block_map(p, store(tables, i, "blocks", block_effects(p))); });
  effects("skipped-layers", "Layers skipped", "In all loops.", &ProbeResult::skipped_layers);
  effects("skipped-experts", "Experts skipped", "The experts of most slots, in all loops.",
          &ProbeResult::skipped_experts);
  add(
      "router-swaps", "Routers swapped", "The routers of two loops exchanged.",
      [](const ProbeResult& p) { return !p.router_swaps.empty(); },
      [&](const ProbeResult& p, size_t i) { return swap_map(p, store(tables, i, "swaps", swap_effects(p))); });
  effects("one-router", "One loop's routers for all loops", "", &ProbeResult::one_router);
  add(
      "loop-counts", "Other loop counts", "The whole model at another number of loops.",
      [](const ProbeResult& p) { return !p.loop_counts.empty(); },
      [&](const ProbeResult& p, size_t i) {
        Lines lines;
        lines.tables = {store(tables, i, "loop_counts", loop_count_effects(p.loop_counts))};
        lines.x = "loops";
        lines.x_title = "loops";
        lines.y = {{"change", kChange}};
        lines.series = "series";
        lines.low = "low";
        lines.high = "high";
        return chart(lines);
      });
  add(
      "information", "What the choice of an expert tells", "By chance: the same estimate with labels permuted.",
      [](const ProbeResult& p) { return !p.information.empty(); },
      [&](const ProbeResult& p, size_t i) {
        return information_bars(p.information, store(tables, i, "information", information(p.information)));
      });
  add(
      "alignment", "Gradients of the visits of a tied matrix",
      "1: the gradients of the visits are orthogonal; as many as there are visits: they are equal.",
      [](const ProbeResult& p) { return !p.gradients.matrices.empty(); },
      [&](const ProbeResult& p, size_t i) {
        return plain_bars(store(tables, i, "alignments", alignments(p.gradients.matrices)), "matrix", "alignment",
                          "alignment", p.gradients.matrices.size());
      });
  add(
      "kappa", "Kappa by group", "Of the visits that training gives a gradient.",
      [](const ProbeResult& p) { return !p.gradients.kappas.empty(); },
      [&](const ProbeResult& p, size_t i) {
        return plain_bars(store(tables, i, "kappas", kappas(p.gradients.kappas)), "group", "kappa", "kappa",
                          p.gradients.kappas.size());
      });
  if (figures.empty())
    figures.push_back(figure_by_run(
        runs, "no-probe", "Loss by loop, effects of skipping and swapping, effective depth", "",
        [](const Run&, size_t) { return missing("The run has no probe.json: heddle probe writes it."); }));
  return {{"id", "probe"}, {"title", "Probe"}, {"figures", figures}};
}

}  // namespace heddle::report
