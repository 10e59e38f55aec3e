// The three kinds of chart of a report as Vega specifications. A chart is {"spec", "data", "controls"}: "data" maps
// data sets of the specification to keys of the report's tables, and each control sets a signal to one of its options.
#pragma once

#include <string>
#include <vector>

#include "report/table.h"

namespace heddle::report {

/// Chooses one value of a field by a slider or a list; rows of other values are not shown.
struct Control {
  std::string field, label;
  Json options;         ///< [[value, text], ...]
  bool slider = false;  ///< starts at its last option; else a list, which starts at its first
};

/// A slider over frames with these texts.
Control frame_slider(const std::vector<std::string>& texts);
/// A list of the layers of a core.
Control layer_list(int64_t layers);

/// Columns that one chart can show, with titles; with several the reader chooses.
using Quantities = std::vector<std::pair<std::string, std::string>>;

/// Lines over numbers, one per value of `series`.
struct Lines {
  std::vector<std::string> tables;
  std::string x, x_title;
  Quantities y;
  std::string series;
  std::string low, high;        ///< columns of a band or error bars around y; empty: none
  bool few = true;              ///< x counts few things: whole ticks, points, and error bars instead of a band
  std::string label;            ///< column that names a point; empty: its x does
  std::string format = ".5~g";  ///< of y in a tooltip
  std::vector<Control> controls = {};
  std::string series_prefix = "";  ///< before the values of `series` in the legend
  Json reference = Json::array();  ///< ["x" or "y", value, text]: a line across the chart; empty: none
};
Json chart(const Lines& lines);

/// A colour per cell.
struct HeatMap {
  std::string table;
  std::string x, x_title, y, y_title;
  int64_t columns = 1, rows = 1;
  Quantities values;
  bool diverging = false;  ///< colours around zero
  std::string error;       ///< column of a standard error for the tooltip; empty: none
  std::vector<Control> controls = {};
};
Json chart(const HeatMap& map);

/// Horizontal bars, one per category and value of `series`.
struct Bars {
  std::string table;
  std::string category;
  std::string value, value_title;
  std::string series;  ///< empty: one bar per category
  int64_t categories = 1, series_count = 1;
  std::string error;            ///< column of a standard error; empty: none
  std::string format = ".4~g";  ///< of values on the axis and in a tooltip
};
Json chart(const Bars& bars);

}  // namespace heddle::report
