#include "report/table.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace heddle::report {

Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) < 1e5 && value == std::trunc(value)) return static_cast<int64_t>(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return std::strtod(text, nullptr);
}

Table& Table::axis(const std::string& name, Json values) {
  cells_ *= values.size();
  axes_.push_back(Json::array({name, std::move(values)}));
  return *this;
}

Table& Table::axis(const std::string& name, int64_t count, int64_t first) {
  Json values = Json::array();
  for (int64_t i = 0; i < count; ++i) values.push_back(first + i);
  return axis(name, std::move(values));
}

Table& Table::column(const std::string& name, const std::function<double(size_t cell)>& value) {
  Json& values = columns_[name] = Json::array();
  for (size_t cell = 0; cell < cells_; ++cell) values.push_back(rounded(value(cell)));
  return *this;
}

}  // namespace heddle::report
