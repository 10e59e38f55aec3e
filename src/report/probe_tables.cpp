#include "report/probe_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace heddle::report {

namespace {

const double kNone = std::nan("");

double low(const Estimate& e) {
  return std::isfinite(e.standard_error) ? e.mean - e.standard_error : e.mean;
}
double high(const Estimate& e) {
  return std::isfinite(e.standard_error) ? e.mean + e.standard_error : e.mean;
}

std::string name_of(const Effect& e) {
  std::vector<std::string> parts;
  if (e.loop >= 0) parts.push_back(fmt::format("loop {}", e.loop + 1));
  if (e.layer >= 0) parts.push_back(fmt::format("layer {}", e.layer));
  if (e.expert >= 0) parts.push_back(fmt::format("expert {}", e.expert));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string name_of(const DepthEntry& e) {
  if (e.layer < 0) return e.part;
  return e.loop < 0 ? fmt::format("{} layer {}", e.part, e.layer)
                    : fmt::format("loop {} layer {}", e.loop + 1, e.layer);
}

template <typename T, typename Name>
Json names(const std::vector<T>& all, Name name) {
  Json texts = Json::array();
  for (const T& one : all) texts.push_back(name(one));
  return texts;
}

}  // namespace

Table loss_by_loop(const std::vector<LoopLoss>& losses) {
  Table t;
  t.axis("series", Json::array({"loss"})).axis("loops", names(losses, [](const LoopLoss& l) { return l.loops; }));
  t.column("loss", [&](size_t i) { return losses[i].loss.mean; });
  t.column("low", [&](size_t i) { return low(losses[i].loss); });
  t.column("high", [&](size_t i) { return high(losses[i].loss); });
  return t;
}

Table named_effects(const std::vector<Effect>& effects) {
  Table t;
  t.axis("effect", names(effects, [](const Effect& e) { return name_of(e); }));
  t.column("change", [&](size_t i) { return effects[i].change.mean; });
  t.column("error", [&](size_t i) { return effects[i].change.standard_error; });
  return t;
}

Table loop_count_effects(const std::vector<Effect>& effects) {
  Table t;
  t.axis("series", Json::array({"change"})).axis("point", static_cast<int64_t>(effects.size()));
  t.column("loops", [&](size_t i) { return static_cast<double>(effects[i].loops); });
  t.column("change", [&](size_t i) { return effects[i].change.mean; });
  t.column("low", [&](size_t i) { return low(effects[i].change); });
  t.column("high", [&](size_t i) { return high(effects[i].change); });
  return t;
}

namespace {
/// The change or the error of the effect that `is` holds for; NaN without one.
template <typename Is>
double value_of(const std::vector<Effect>& effects, double Estimate::*member, Is is) {
  const auto found = std::find_if(effects.begin(), effects.end(), is);
  return found == effects.end() ? kNone : found->change.*member;
}
}  // namespace

Table block_effects(const ProbeResult& probe) {
  Table t;
  t.axis("loop", probe.loops, 1).axis("layer", probe.layers);
  const auto column = [&](const char* name, double Estimate::*member) {
    t.column(name, [&](size_t i) {
      const auto cell = static_cast<int64_t>(i);
      return value_of(probe.skipped_blocks, member,
                      [&](const Effect& e) { return e.loop == cell / probe.layers && e.layer == cell % probe.layers; });
    });
  };
  column("change", &Estimate::mean);
  column("error", &Estimate::standard_error);
  return t;
}

std::vector<int64_t> swapped_layers(const ProbeResult& probe) {
  std::set<int64_t> layers;
  for (const Effect& e : probe.router_swaps) layers.insert(e.layer);
  return {layers.begin(), layers.end()};
}

Table swap_effects(const ProbeResult& probe) {
  const std::vector<int64_t> layers = swapped_layers(probe);
  const auto count = static_cast<int64_t>(layers.size());
  Table t;
  t.axis("loop", probe.loops, 1).axis("other", probe.loops, 1).axis("layer", Json(layers));
  const auto column = [&](const char* name, double Estimate::*member) {
    t.column(name, [&](size_t i) {
      const auto cell = static_cast<int64_t>(i);
      const int64_t a = cell / count / probe.loops, b = cell / count % probe.loops;
      return value_of(probe.router_swaps, member, [&](const Effect& e) {
        return e.loop == std::min(a, b) && e.other_loop == std::max(a, b) && e.layer == layers[i % layers.size()];
      });
    });
  };
  column("change", &Estimate::mean);
  column("error", &Estimate::standard_error);
  return t;
}

Table depth_curve(const DepthCurve& depth) {
  Table t;
  t.axis("series", Json::array({"decoded"}));
  t.axis("entry", names(depth.entries, [](const DepthEntry& e) { return name_of(e); }));
  t.column("index", [](size_t i) { return static_cast<double>(i); });
  t.column("kl", [&](size_t i) { return depth.entries[i].kl.mean; });
  t.column("kl_low", [&](size_t i) { return low(depth.entries[i].kl); });
  t.column("kl_high", [&](size_t i) { return high(depth.entries[i].kl); });
  t.column("loss", [&](size_t i) { return depth.entries[i].loss.mean; });
  return t;
}

Table information(const std::vector<MutualInformation>& all) {
  Json pairs = Json::array();
  std::vector<MutualInformation::Value> values;
  for (const MutualInformation& m : all)
    for (const auto& [what, value] :
         {std::pair{"token", m.token}, {"loop", m.loop}, {"loop given token", m.loop_given_token}}) {
      pairs.push_back(fmt::format("{}: {}", m.layer, what));
      values.push_back(value);
    }
  Table t;
  t.axis("quantity", Json::array({"found", "by chance"})).axis("pair", pairs);
  t.column("nats", [&](size_t i) {
    const MutualInformation::Value& value = values[i % values.size()];
    return i < values.size() ? value.found : value.chance;
  });
  return t;
}

Table alignments(const std::vector<MatrixGradient>& matrices) {
  Table t;
  t.axis("matrix", names(matrices, [](const MatrixGradient& m) { return m.name; }));
  t.column("alignment", [&](size_t i) { return matrices[i].alignment; });
  return t;
}

Table kappas(const std::vector<Kappa>& all) {
  Table t;
  t.axis("group", names(all, [](const Kappa& k) { return k.group; }));
  t.column("kappa", [&](size_t i) { return all[i].kappa; });
  return t;
}

}  // namespace heddle::report
