// One section of a case's config.json: values with their place in errors, and a memory of the keys that were asked for.
#pragma once

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/config.h"
#include "support/error.h"

namespace heddle {

/// A JSON object of a case, whose keys are read with their place in errors. Copies share what is known of its keys.
class Section {
 public:
  using Json = nlohmann::json;

  Section(const Json& json, const std::string& path) : node_(std::make_shared<Node>()) {
    if (!json.is_object()) fail("'{}': expected an object, found {}", path, json.dump());
    node_->json = json;
    node_->path = path;
  }

  Section section(const char* key) const {
    Json value;
    read(key, value);
    const Section inner(value, path() + "', section '" + key);
    node_->sections.push_back(inner);
    return inner;
  }
  const std::string& path() const { return node_->path; }
  bool has(const char* key) const {
    know(key);
    return json().contains(key) && !json()[key].is_null();
  }
  /// Keys that help a reader of the file.
  void leave(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) know(key);
  }
  template <typename T>
  void read(const char* key, T& target) const {
    know(key);
    const auto found = json().find(key);
    if (found == json().end())
      throw Error(fmt::format("'{}' lacks the key \"{}\"", path(), key), "see docs/reference_cases.md");
    try {
      // The library would cut 3.5 down to 3.
      if (std::is_same_v<T, int64_t> && !found->is_number_integer())
        fail("'{}': \"{}\" is {}, expected a whole number", path(), key, found->dump());
      target = found->template get<T>();
    } catch (const Json::exception&) {
      fail("'{}': \"{}\" is {}, which is not of the expected kind", path(), key, found->dump());
    }
  }
  template <typename T>
  void optional(const char* key, T& target) const {
    if (has(key)) read(key, target);
  }
  void count(const char* key, int64_t& target, int64_t least = 1, int64_t most = 1 << 24) const {
    read(key, target);
    if (target < least) fail("'{}': \"{}\" is {}, expected {} or more", path(), key, target, least);
    if (target > most) fail("'{}': \"{}\" is {}, expected {} or less", path(), key, target, most);
  }
  void optional_count(const char* key, int64_t& target, int64_t least = 1) const {
    if (has(key)) count(key, target, least);
  }
  template <typename Enumeration>
  void choice(const char* key, Enumeration& target, const Names<Enumeration>& names) const {
    std::string text;
    read(key, text);
    const auto found = std::find(names.list().begin(), names.list().end(), text);
    if (found == names.list().end())
      fail("'{}': \"{}\" is \"{}\", expected one of: {}", path(), key, text, fmt::join(names.list(), ", "));
    target = static_cast<Enumeration>(found - names.list().begin());
  }
  template <typename Enumeration>
  void optional_choice(const char* key, Enumeration& target, const Names<Enumeration>& names) const {
    if (has(key)) choice(key, target, names);
  }
  void name(const char* key, std::string& target, std::initializer_list<const char*> names) const {
    read(key, target);
    if (std::find(names.begin(), names.end(), target) == names.end())
      fail("'{}': \"{}\" is \"{}\", expected one of: {}", path(), key, target, fmt::join(names, ", "));
  }
  /// A choice that the case may spell out, of which this build computes one only.
  void only(const char* key, const Json& value) const {
    if (has(key) && json()[key] != value)
      fail("'{}': \"{}\" is {}; this build computes {} only", path(), key, json()[key].dump(), value.dump());
  }
  /// Refuses keys, here and in the sections, that nothing has asked for: they may be misspelt, or mean something that
  /// this build does not compute.
  void refuse_unknown() const {
    for (const auto& [key, value] : json().items())
      if (!node_->known.contains(key)) fail("'{}': unknown key \"{}\"", path(), key);
    for (const Section& section : node_->sections) section.refuse_unknown();
  }

 private:
  struct Node {
    Json json;
    std::string path;
    std::set<std::string> known;
    std::vector<Section> sections;
  };
  const Json& json() const { return node_->json; }
  void know(const char* key) const { node_->known.insert(key); }
  std::shared_ptr<Node> node_;
};

}  // namespace heddle
