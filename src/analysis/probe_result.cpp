#include "analysis/probe_result.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/atomic_file.h"
#include "support/error.h"

namespace heddle {

namespace {

// Key order is that of the structs: the file is read by people too.
using Json = nlohmann::ordered_json;

/// Writes members under their names; the same visit() lists them for writing and reading.
class Writer {
 public:
  Json json = Json::object();

  void operator()(const char* key, const std::string& value) { json[key] = value; }
  void operator()(const char* key, int64_t value) { json[key] = value; }
  void operator()(const char* key, double value) { json[key] = std::isfinite(value) ? Json(value) : Json(); }
  void operator()(const char* key, const std::vector<int64_t>& values) { json[key] = values; }
  void operator()(const char* key, const std::vector<double>& values) {
    Json& list = json[key] = Json::array();
    for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json());
  }
  /// A number that most things of this kind do not have.
  void optional(const char* key, int64_t value) {
    if (value >= 0) json[key] = value;
  }
  template <typename T>
  void object(const char* key, T& value);
  template <typename T>
  void objects(const char* key, std::vector<T>& values);
};

/// Reads them back, with the place in errors.
class Reader {
 public:
  Reader(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json_.is_object()) fail("{}: expected an object, found {}", place_, json_.type_name());
  }

  void operator()(const char* key, std::string& value) {
    const Json& found = at(key);
    if (!found.is_string()) wrong(key, "a text", found);
    value = found.get<std::string>();
  }
  void operator()(const char* key, int64_t& value) { value = whole(key, at(key)); }
  void operator()(const char* key, double& value) { value = real(key, at(key)); }
  void operator()(const char* key, std::vector<int64_t>& values) {
    for (const Json& one : list(key)) values.push_back(whole(key, one));
  }
  void operator()(const char* key, std::vector<double>& values) {
    for (const Json& one : list(key)) values.push_back(real(key, one));
  }
  void optional(const char* key, int64_t& value) {
    if (json_.contains(key)) (*this)(key, value);
  }
  template <typename T>
  void object(const char* key, T& value);
  template <typename T>
  void objects(const char* key, std::vector<T>& values);

 private:
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail("{} lacks the key \"{}\"", place_, key);
    return *found;
  }
  const Json& list(const char* key) const {
    const Json& found = at(key);
    if (!found.is_array()) wrong(key, "a list", found);
    return found;
  }
  [[noreturn]] void wrong(const char* key, const char* expected, const Json& found) const {
    fail("{}: \"{}\" is {}, expected {}", place_, key, found.type_name(), expected);
  }
  int64_t whole(const char* key, const Json& found) const {
    if (!found.is_number_integer()) wrong(key, "a whole number", found);
    return found.get<int64_t>();
  }
  double real(const char* key, const Json& found) const {
    if (found.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!found.is_number()) wrong(key, "a number or null", found);
    return found.get<double>();
  }

  const Json& json_;
  std::string place_;
};

template <typename Archive>
void visit(Archive& a, Estimate& e) {
  a("mean", e.mean);
  a("standard_error", e.standard_error);
}

template <typename Archive>
void visit(Archive& a, Effect& e) {
  a.optional("loop", e.loop);
  a.optional("other_loop", e.other_loop);
  a.optional("layer", e.layer);
  a.optional("expert", e.expert);
  a.optional("loops", e.loops);
  a.optional("slots", e.slots);
  a.object("change", e.change);
  a("documents", e.documents);
}

template <typename Archive>
void visit(Archive& a, LoopLoss& l) {
  a("loops", l.loops);
  a.object("loss", l.loss);
}

template <typename Archive>
void visit(Archive& a, DepthEntry& d) {
  a("part", d.part);
  a.optional("loop", d.loop);
  a.optional("layer", d.layer);
  a.object("kl", d.kl);
  a.object("loss", d.loss);
}

template <typename Archive>
void visit(Archive& a, DepthCurve& d) {
  a("threshold", d.threshold);
  a.optional("peak", d.peak);
  a.optional("effective_depth", d.effective_depth);
  a.objects("entries", d.entries);
}

template <typename Archive>
void visit(Archive& a, MutualInformation::Value& v) {
  a("found", v.found);
  a("chance", v.chance);
}

template <typename Archive>
void visit(Archive& a, MutualInformation& m) {
  a("layer", m.layer);
  a("slots", m.slots);
  a("entropy", m.entropy);
  a.object("token", m.token);
  a.object("loop", m.loop);
  a.object("loop_given_token", m.loop_given_token);
}

template <typename Archive>
void visit(Archive& a, MatrixGradient& m) {
  a("name", m.name);
  a("loops", m.loops);
  a("visit_norms", m.visit_norms);
  a("sum_norm", m.sum_norm);
  a("alignment", m.alignment);
}

template <typename Archive>
void visit(Archive& a, Kappa& k) {
  a("group", k.group);
  a("loops", k.loops);
  a("gradient_norms", k.gradient_norms);
  a("read_back_norms", k.read_back_norms);
  a("kappa", k.kappa);
  a("bound", k.bound);
}

template <typename Archive>
void visit(Archive& a, GradientCosine& c) {
  a("mode", c.mode);
  a("loops", c.loops);
  a("core", c.core);
  a("all", c.all);
  a("norm_ratio", c.norm_ratio);
}

template <typename Archive>
void visit(Archive& a, GradientProbe& g) {
  a.objects("matrices", g.matrices);
  a.objects("kappas", g.kappas);
  a.objects("cosines", g.cosines);
}

template <typename Archive>
void visit(Archive& a, ProbeResult& r) {
  a("checkpoint", r.checkpoint);
  a("store", r.store);
  a("part", r.part);
  a("step", r.step);
  a("loops", r.loops);
  a("layers", r.layers);
  a("prelude_layers", r.prelude_layers);
  a("coda_layers", r.coda_layers);
  a("experts", r.experts);
  a("top_k", r.top_k);
  a("documents", r.documents);
  a("tokens", r.tokens);
  a("sequence", r.sequence);
  a.object("loss", r.loss);
  a.objects("loss_by_loop", r.loss_by_loop);
  a.object("depth", r.depth);
  a.objects("skipped_loops", r.skipped_loops);
  a.objects("skipped_blocks", r.skipped_blocks);
  a.objects("skipped_layers", r.skipped_layers);
  a.objects("skipped_experts", r.skipped_experts);
  a.objects("router_swaps", r.router_swaps);
  a.objects("one_router", r.one_router);
  a.objects("loop_counts", r.loop_counts);
  a.objects("information", r.information);
  a.object("gradients", r.gradients);
}

template <typename T>
void Writer::object(const char* key, T& value) {
  Writer inner;
  visit(inner, value);
  json[key] = std::move(inner.json);
}

template <typename T>
void Writer::objects(const char* key, std::vector<T>& values) {
  Json list = Json::array();
  for (T& value : values) {
    Writer inner;
    visit(inner, value);
    list.push_back(std::move(inner.json));
  }
  json[key] = std::move(list);
}

template <typename T>
void Reader::object(const char* key, T& value) {
  Reader inner(at(key), fmt::format("{}, \"{}\"", place_, key));
  visit(inner, value);
}

template <typename T>
void Reader::objects(const char* key, std::vector<T>& values) {
  int64_t number = 0;
  for (const Json& one : list(key)) {
    Reader inner(one, fmt::format("{}, \"{}\"[{}]", place_, key, number++));
    visit(inner, values.emplace_back());
  }
}

}  // namespace

std::string probe_json(const ProbeResult& result) {
  Writer writer;
  writer("schema", std::string(kProbeSchema));
  writer("version", kProbeVersion);
  ProbeResult copy = result;  // visit() serves both directions, so it takes what it may write to
  visit(writer, copy);
  return writer.json.dump(1) + "\n";
}

ProbeResult read_probe_result(const std::string& path) {
  const Json json = Json::parse(read_text_file(path), nullptr, false);
  if (json.is_discarded())
    throw Error(fmt::format("'{}' is not whole, or no JSON", path), "heddle probe writes it anew");
  Reader reader(json, fmt::format("'{}'", path));
  if (!json.contains("schema") || json["schema"] != kProbeSchema)
    throw Error(fmt::format("'{}' is not the result of a probe: its \"schema\" is {}", path,
                            json.contains("schema") ? json["schema"].dump() : "missing"),
                "heddle probe RUN writes RUN/probe.json");
  int64_t version = 0;
  reader("version", version);
  if (version != kProbeVersion)
    throw Error(fmt::format("'{}' has version {} of the schema {}; this build reads {}", path, version, kProbeSchema,
                            kProbeVersion),
                "probe the checkpoint again with this build");
  ProbeResult result;
  visit(reader, result);
  return result;
}

}  // namespace heddle
