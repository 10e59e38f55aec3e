// The specifications are lines.json, heat_map.json and bars.json; here they get their fields, titles and controls.
#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/assets.h"

namespace heddle::report {

namespace {

// Colours that people with any colour vision tell apart (Okabe and Ito).
const char* const kColours[] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999"};

Json filter(const std::string& expression) {
  return {{"type", "filter"}, {"expr", expression}};
}

Json formula(const std::string& name, const std::string& expression) {
  return {{"type", "formula"}, {"as", name}, {"expr", expression}};
}

/// As a text in an expression.
std::string quoted(const std::string& text) {
  return Json(text).dump();
}
std::string field(const std::string& name) {
  return "datum[" + quoted(name) + "]";
}

/// The one of a list of scales or marks that has this name.
Json& named(Json& list, const std::string& name) {
  return *std::find_if(list.begin(), list.end(), [&](const Json& one) { return one["name"] == name; });
}
void remove(Json& list, const std::string& name) {
  list.erase(std::find_if(list.begin(), list.end(),
                          [&](const Json& one) { return one.contains("name") && one["name"] == name; }));
}

Json start(std::string_view specification, const std::vector<std::string>& tables) {
  return {{"spec", Json::parse(specification)}, {"data", {{"source", tables}}}, {"controls", Json::array()}};
}

/// Declares the signals of the controls, and of the quantity that is shown; fills "controls".
void add_controls(Json& chart, std::vector<Control> controls, const Quantities& quantities) {
  Control quantity{"quantity", "Show", Json::array()};
  Json titles = Json::object();
  for (const auto& [column, title] : quantities) {
    quantity.options.push_back(Json::array({column, title}));
    titles[column] = title;
  }
  controls.insert(controls.begin(), quantity);
  Json& signals = chart["spec"]["signals"];
  for (const Control& c : controls) {
    signals.push_back({{"name", c.field}, {"value", (c.slider ? c.options.back() : c.options.front())[0]}});
    if (c.options.size() > 1)
      chart["controls"].push_back(
          {{"signal", c.field}, {"label", c.label}, {"slider", c.slider}, {"options", c.options}});
  }
  signals.push_back({{"name", "titles"}, {"value", titles}});
}

/// Data sets over "source": "range", all that a slider passes, so that scales stand still; and "shown".
void add_data(Json& spec, const std::vector<Control>& controls, const Json& formulas) {
  Json range = Json::array(), shown = Json::array();
  for (const Control& c : controls) (c.slider ? shown : range).push_back(filter(field(c.field) + " === " + c.field));
  for (const Json& f : formulas) range.push_back(f);
  Json& data = spec["data"];
  data.insert(data.begin(), Json{{"name", "shown"}, {"source", "range"}, {"transform", shown}});
  data.insert(data.begin(), Json{{"name", "range"}, {"source", "source"}, {"transform", range}});
}

void add_colours(Json& spec) {
  named(spec["scales"], "colour")["range"] = kColours;
}

/// A line across the chart at a value of one of its axes, and its text.
void add_reference(Json& marks, const Json& at) {
  const bool across = at[0] == "y";
  const std::string axis = at[0];
  const Json place = {{"scale", axis}, {"value", at[1]}};
  Json rule, text;
  rule[axis] = text[axis] = place;
  rule[across ? "x2" : "y2"]["signal"] = across ? "width" : "height";
  rule["stroke"]["signal"] = "muted";
  rule["strokeDash"]["value"] = {4, 3};
  text[across ? "x" : "y"]["value"] = across ? 4 : 2;
  text["dx"]["value"] = across ? 0 : 4;
  text["text"]["value"] = at[2];
  text["baseline"]["value"] = across ? "bottom" : "top";
  text["fill"]["signal"] = "ink";
  const Json both = Json::array(
      {Json{{"type", "rule"}, {"encode", {{"update", rule}}}}, Json{{"type", "text"}, {"encode", {{"update", text}}}}});
  marks.insert(marks.begin() + 1, both.begin(), both.end());
}

/// What a tooltip says of the standard error in a column, if there is one: a probe of one document has none.
std::string error_text(const std::string& column) {
  return column.empty() ? "" : fmt::format(" + (isValid({0}) ? ' \u00b1 ' + format({0}, '.2~g') : '')", field(column));
}

/// What a tooltip says of the spread.
std::string spread_text(bool few) {
  const char* const text = few ? "' \u00b1 ' + format((datum.high - datum.low) / 2, '.2~g')"
                               : "' (' + format(datum.low, '.4~g') + ' to ' + format(datum.high, '.4~g') + ')'";
  return fmt::format(" + (datum.high > datum.low ? {} : '')", text);
}

}  // namespace

Control frame_slider(const std::vector<std::string>& texts) {
  Control c{"frame", "Time", Json::array(), true};
  for (size_t i = 0; i < texts.size(); ++i) c.options.push_back(Json::array({i, texts[i]}));
  return c;
}

Control layer_list(int64_t layers) {
  Control c{"layer", "Layer", Json::array()};
  for (int64_t l = 0; l < layers; ++l) c.options.push_back(Json::array({l, fmt::format("layer {}", l)}));
  return c;
}

Json chart(const Lines& lines) {
  Json chart = start(kLinesSpec, lines.tables);
  Json& spec = chart["spec"];
  const bool spread = !lines.low.empty();
  add_controls(chart, lines.controls, lines.y);
  // The spread belongs to the first quantity alone.
  const auto end = [&](const std::string& column) {
    return spread ? fmt::format("quantity === {} ? {} : datum.y", quoted(lines.y[0].first), field(column)) : "datum.y";
  };
  const std::string name =
      lines.label.empty() ? quoted(lines.x_title + " ") + " + format(datum.x, ',~g')" : field(lines.label);
  add_data(spec, lines.controls,
           Json::array({formula("x", field(lines.x)), formula("y", "datum[quantity]"),
                        formula("series", quoted(lines.series_prefix) + " + " + field(lines.series)),
                        formula("low", end(lines.low)), formula("high", end(lines.high)), formula("name", name),
                        formula("text", fmt::format("isValid(datum.y) ? format(datum.y, '{}'){} : 'no value'",
                                                    lines.format, spread ? spread_text(lines.few) : "")),
                        Json{{"type", "extent"}, {"field", "low"}, {"signal", "lows"}},
                        Json{{"type", "extent"}, {"field", "high"}, {"signal", "highs"}}}));
  add_colours(spec);
  Json& across = spec["axes"][0];
  across["title"] = lines.x_title;
  across["format"] = lines.few ? "d" : ",d";
  across["tickMinStep"] = 1;
  Json& marks = spec["marks"];
  if (!spread || lines.few) remove(marks[0]["marks"], "band");
  if (!spread || !lines.few) remove(marks, "errors");
  if (!lines.few) remove(marks, "points");
  if (!lines.reference.empty()) add_reference(marks, lines.reference);
  return chart;
}

Json chart(const HeatMap& map) {
  Json chart = start(kHeatMapSpec, {map.table});
  Json& spec = chart["spec"];
  add_controls(chart, map.controls, map.values);
  const std::string error = error_text(map.error);
  add_data(
      spec, map.controls,
      Json::array(
          {formula("x", field(map.x)), formula("y", field(map.y)), formula("value", "datum[quantity]"),
           formula("text", fmt::format("isValid(datum.value) ? format(datum.value, '.4~g'){} : 'no value'", error)),
           formula("name", fmt::format("{} + datum.x + {} + datum.y", quoted(map.x_title + " "),
                                       quoted(", " + map.y_title + " "))),
           formula("series", "titles[quantity]"), Json{{"type", "extent"}, {"field", "value"}, {"signal", "extent"}}}));
  spec["height"] = std::clamp<int64_t>(map.rows * 34, 100, 320);
  spec["axes"][0]["title"] = map.x_title;
  spec["axes"][1]["title"] = map.y_title;
  if (map.diverging) {
    Json& colour = named(spec["scales"], "colour");
    colour["range"]["scheme"] = "purpleorange";
    colour["domain"]["signal"] = "[-reach, reach]";
  }
  if (map.columns > 16) remove(spec["marks"], "number");
  return chart;
}

Json chart(const Bars& bars) {
  Json chart = start(kBarsSpec, {bars.table});
  Json& spec = chart["spec"];
  add_controls(chart, {}, {{bars.value, bars.value_title}});
  const std::string error = bars.error.empty() ? "0" : fmt::format("(isValid({0}) ? {0} : 0)", field(bars.error));
  const std::string spread = error_text(bars.error);
  add_data(spec, {},
           Json::array({formula("y", field(bars.category)), formula("value", "datum[quantity]"),
                        formula("series", bars.series.empty() ? "titles[quantity]" : field(bars.series)),
                        formula("low", "datum.value - " + error), formula("high", "datum.value + " + error),
                        formula("name", "datum.y"),
                        formula("text", fmt::format("format(datum.value, '{}'){}", bars.format, spread))}));
  spec["height"] = 24 + bars.categories * std::max<int64_t>(20, 13 * bars.series_count);
  add_colours(spec);
  spec["axes"][0]["format"] = bars.format;
  if (bars.series.empty()) spec["legends"] = Json::array();
  if (bars.error.empty()) remove(spec["marks"], "errors");
  return chart;
}

}  // namespace heddle::report
