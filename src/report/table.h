// Numbers on their way into a report: dense tables over named axes, which the page unrolls into one row per cell. A
// number has five significant digits, which is more than a chart shows and a third of what a double takes as text.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace heddle::report {

using Json = nlohmann::ordered_json;

/// Five significant digits; null for what is not finite.
Json rounded(double value);

/// Every combination of the axes' values is a cell, the last axis fastest; a column has one value per cell. In JSON
/// {"axes": [[name, [value, ...]], ...], "columns": {name: [value, ...]}}.
class Table {
 public:
  /// The values of an axis, numbers or texts.
  Table& axis(const std::string& name, Json values);
  /// An axis of `count` numbers from `first`.
  Table& axis(const std::string& name, int64_t count, int64_t first = 0);
  /// Calls value(cell) for every cell, counted from 0; axes come before columns.
  Table& column(const std::string& name, const std::function<double(size_t cell)>& value);
  size_t cells() const { return cells_; }
  Json json() const { return {{"axes", axes_}, {"columns", columns_}}; }

 private:
  size_t cells_ = 1;
  Json axes_ = Json::array(), columns_ = Json::object();
};

}  // namespace heddle::report
