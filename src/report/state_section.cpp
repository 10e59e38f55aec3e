// What happens to the state from loop to loop.
#include "report/figures.h"
#include "report/log_tables.h"
#include "report/look_tables.h"

namespace heddle::report {

namespace {

using OfLooks = Table (*)(const RunLog&);

Json look_lines(const Run& run, size_t i, Json& tables, const std::string& name, OfLooks make,
                const std::string& title) {
  if (run.log.looks.empty()) return no_looks(run);
  Lines lines;
  lines.tables = {store(tables, i, name, make(run.log))};
  lines.x = "loop";
  lines.x_title = "loop";
  lines.y = {{"value", title}};
  lines.series = "series";
  lines.controls = {frame_slider(looks_shown(run.log))};
  return chart(lines);
}

Json block_map(const Run& run, const std::string& table, const Quantities& values,
               const std::vector<std::string>& frames) {
  HeatMap map;
  map.table = table;
  map.x = "loop";
  map.x_title = "loop";
  map.y = "layer";
  map.y_title = "layer";
  map.columns = run.log.header.loops;
  map.rows = run.log.header.layers;
  map.values = values;
  map.controls = {frame_slider(frames)};
  return chart(map);
}

Json rms_lines(const Run& run, size_t i, Json& tables) {
  if (run.log.steps.empty()) return no_steps();
  Lines lines;
  lines.tables = {store(tables, i, "state_rms", state_rms(run.log))};
  lines.x = "loop";
  lines.x_title = "loop";
  lines.y = {{"state_rms", "root mean square"}};
  lines.series = "series";
  lines.controls = {frame_slider(stretches(run.log))};
  return chart(lines);
}

}  // namespace

Json state_section(const std::vector<Run>& runs, Json& tables) {
  Json figures = Json::array();
  const auto add = [&](const char* id, const char* title, const char* note, auto make) {
    figures.push_back(figure_by_run(runs, id, title, note, make));
  };
  add("state-rms", "Size of the state",
      "Root mean square at the end of a loop, before its norm, over a stretch of steps.",
      [&](const Run& run, size_t i) { return rms_lines(run, i, tables); });
  add("update-rms", "Size of the update", "Root mean square of the state less that of the loop before, at one step.",
      [&](const Run& run, size_t i) {
        return look_lines(run, i, tables, "update_rms", update_rms, "root mean square");
      });
  add("relative-update", "Relative update", "Norm of the update over that of the state before, at one step.",
      [&](const Run& run, size_t i) {
        return look_lines(run, i, tables, "relative_update", relative_update, "relative update");
      });
  add("cosines", "Direction of the state",
      "Mean cosine over tokens with earlier states and with the embedding; between tokens: over all pairs, 1 where all "
      "tokens have become one.",
      [&](const Run& run, size_t i) { return look_lines(run, i, tables, "cosines", state_cosines, "cosine"); });
  add("block-rms", "Size of the stream by loop and layer", "Root mean square at the end of a block, before its norm.",
      [&](const Run& run, size_t i) {
        if (run.log.steps.empty()) return no_steps();
        return block_map(run, store(tables, i, "cells", cells(run.log)), {{"block_rms", "root mean square"}},
                         stretches(run.log));
      });
  add("branches", "Size of the branches by loop and layer", "Root mean square before scale and post norm, at one step.",
      [&](const Run& run, size_t i) {
        if (run.log.looks.empty()) return no_looks(run);
        return block_map(run, store(tables, i, "looks", look_cells(run.log)),
                         {{"attention_rms", "attention"},
                          {"feed_forward_rms", "feed-forward or experts"},
                          {"carry_rms", "looping residual that the visit adds"}},
                         looks_shown(run.log));
      });
  return {{"id", "states"}, {"title", "States"}, {"figures", figures}};
}

}  // namespace heddle::report
