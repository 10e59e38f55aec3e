// What loops, layers and experts did with the tokens.
#include "report/figures.h"
#include "report/log_tables.h"
#include "report/look_tables.h"

namespace heddle::report {

namespace {

/// A heat map of loops and layers over the stretches of a run.
Json cell_map(const Run& run, size_t i, Json& tables, const Quantities& values, bool diverging) {
  if (run.log.header.experts == 0) return no_experts();
  if (run.log.steps.empty()) return no_steps();
  HeatMap map;
  map.table = store(tables, i, "cells", cells(run.log));
  map.x = "loop";
  map.x_title = "loop";
  map.y = "layer";
  map.y_title = "layer";
  map.columns = run.log.header.loops;
  map.rows = run.log.header.layers;
  map.values = values;
  map.diverging = diverging;
  map.controls = {frame_slider(stretches(run.log))};
  return chart(map);
}

Json overlap_map(const Run& run, size_t i, Json& tables, const Quantities& values, bool diverging) {
  if (run.log.header.experts > 0 && run.log.header.loops < 2) return missing("The run has one loop.");
  return cell_map(run, i, tables, values, diverging);
}

Json load_map(const Run& run, size_t i, Json& tables) {
  if (run.log.header.experts == 0) return no_experts();
  if (run.log.steps.empty()) return no_steps();
  HeatMap map;
  map.table = store(tables, i, "loads", loads(run.log));
  map.x = "expert";
  map.x_title = "expert";
  map.y = "loop";
  map.y_title = "loop";
  map.columns = run.log.header.experts;
  map.rows = run.log.header.loops;
  map.values = {{"share", "share of the slots"}};
  map.controls = {layer_list(run.log.header.layers), frame_slider(stretches(run.log))};
  return chart(map);
}

Json pair_map(const Run& run, size_t i, Json& tables) {
  const RunLogHeader& h = run.log.header;
  if (h.experts == 0) return no_experts();
  if (h.loops < 2) return missing("The run has one loop.");
  if (run.log.looks.empty()) return no_looks(run);
  HeatMap map;
  map.table = store(tables, i, "pairs", loop_pairs(run.log));
  map.x = "loop";
  map.x_title = "loop";
  map.y = "other";
  map.y_title = "loop";
  map.columns = map.rows = h.loops;
  map.values = {{"pair_overlap", "overlap of the choice"},
                {"pair_jaccard", "Jaccard index of the choice"},
                {"weight_overlap", "overlap of the mixing weights"},
                {"router_cosine", "cosine of the routers' weights"}};
  map.controls = {layer_list(h.layers), frame_slider(looks_shown(run.log))};
  return chart(map);
}

Json distinct_lines(const Run& run, size_t i, Json& tables) {
  if (run.log.header.experts == 0) return no_experts();
  if (run.log.looks.empty()) return no_looks(run);
  Lines lines;
  lines.tables = {store(tables, i, "distinct", distinct_experts(run.log))};
  lines.x = "loop";
  lines.x_title = "loop";
  lines.y = {{"experts", "distinct experts of a token so far"}};
  lines.series = "series";
  lines.controls = {frame_slider(looks_shown(run.log))};
  return chart(lines);
}

Json router_map(const Run& run, size_t i, Json& tables) {
  if (run.log.header.experts == 0) return no_experts();
  if (run.log.looks.empty()) return no_looks(run);
  HeatMap map;
  map.table = store(tables, i, "looks", look_cells(run.log));
  map.x = "loop";
  map.x_title = "loop";
  map.y = "layer";
  map.y_title = "layer";
  map.columns = run.log.header.loops;
  map.rows = run.log.header.layers;
  map.values = {{"token_entropy", "entropy of a token's mixing weights, nats"},
                {"flipped", "share of the slots that the balance bias changed"},
                {"router_logit_max", "largest logit"},
                {"router_z", "mean of logsumexp squared"}};
  if (run.log.header.loops > 1) {
    map.values.push_back({"router_agreement", "agreement with the router of the loop before, same state"});
    map.values.push_back({"state_agreement", "agreement of the router of the loop before, state then and now"});
  }
  map.controls = {frame_slider(looks_shown(run.log))};
  return chart(map);
}

}  // namespace

Json routing_section(const std::vector<Run>& runs, Json& tables) {
  Json figures = Json::array();
  const auto add = [&](const char* id, const char* title, const char* note, auto make) {
    figures.push_back(figure_by_run(runs, id, title, note, make));
  };
  add("entropy", "Use of the experts by loop and layer",
      "Over a stretch of steps. Entropy 1: all experts take as much; 0: one takes all.", [&](const Run& run, size_t i) {
        return cell_map(run, i, tables,
                        {{"entropy", "entropy of the load, normalised"},
                         {"largest_share", "largest share of one expert"},
                         {"dead", "experts without a slot"},
                         {"dropped", "share of the slots dropped"}},
                        false);
      });
  add("overlap", "Overlap with the next loop",
      "Share of a token's experts that the next loop chooses again, beside what independent choices would give: by the "
      "loads, or with uniform ones.",
      [&](const Run& run, size_t i) {
        return overlap_map(
            run, i, tables,
            {{"overlap", "overlap"}, {"chance", "by chance, same loads"}, {"uniform", "by chance, uniform loads"}},
            false);
      });
  add("over-chance", "Overlap above chance", "Above 0: loops choose alike more than their loads make them.",
      [&](const Run& run, size_t i) {
        return overlap_map(
            run, i, tables,
            {{"over_chance", "overlap less chance of the loads"}, {"over_uniform", "overlap less uniform chance"}},
            true);
      });
  add("load", "Load of the experts over time", "Share of the slots of a loop and layer, over a stretch of steps.",
      [&](const Run& run, size_t i) { return load_map(run, i, tables); });
  add("pairs", "Loop against loop", "Means over the tokens of one step.",
      [&](const Run& run, size_t i) { return pair_map(run, i, tables); });
  add("distinct", "Distinct experts against loops",
      "Experts that a token has met so far, mean over tokens. By chance: E (1 - (1 - k/E)^t).",
      [&](const Run& run, size_t i) { return distinct_lines(run, i, tables); });
  add("routers", "Routers by loop and layer", "Of one step.",
      [&](const Run& run, size_t i) { return router_map(run, i, tables); });
  return {{"id", "routing"}, {"title", "Routing"}, {"figures", figures}};
}

}  // namespace heddle::report
