// Configuration: INI files and command-line flags over one table of keys, stored by Boost.Program_options.
// Every key "section.name" stands in a file as "name = value" under "[section]" and on the command line as
// "--section.name value" or "--section.name=value"; flags override the file. Refused, with line number and the nearest
// known key: unknown keys, keys given twice in one source, values of the wrong kind (nan, 1e400, 3x, empty), values out
// of range; and keys that are set although nothing reads them under the other keys' values (add_condition).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace heddle {

/// Closed or half-open limits of a number, printed in errors.
struct Limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  ///< low itself is refused
  bool high_open = false;
};

/// The names of an enumeration's values in configurations and files, in order from 0.
template <typename Enumeration>
class Names {
 public:
  Names(std::initializer_list<const char*> names) : names_(names.begin(), names.end()) {}
  const std::vector<std::string>& list() const { return names_; }
  const std::string& operator()(Enumeration value) const { return names_.at(static_cast<size_t>(value)); }

 private:
  std::vector<std::string> names_;
};

/// Whether one of the words is --help or -h.
bool asks_for_help(const std::vector<std::string>& arguments);

class Config {
 public:
  /// Declares a key; `target` holds the default and receives the value. `help` is one line with the unit.
  void add(const std::string& key, int64_t& target, Limits limits, const std::string& help);
  void add(const std::string& key, double& target, Limits limits, const std::string& help);
  void add(const std::string& key, bool& target, const std::string& help);         ///< true | false
  void add(const std::string& key, std::string& target, const std::string& help);  ///< any text
  void add(const std::string& key, std::string& target, std::vector<std::string> choices, const std::string& help);
  void add(const std::string& key, std::vector<int64_t>& target, Limits limits, const std::string& help);  ///< "1,3,6"
  void add(const std::string& key, std::vector<double>& target, Limits limits, const std::string& help);   ///< "0.5,1"

  /// A choice of an enumeration whose values 0, 1, ... have these names.
  template <typename Enumeration>
  void add(const std::string& key, Enumeration& target, const Names<Enumeration>& names, const std::string& help) {
    add_choice(
        key, names.list(), [&target](size_t i) { target = static_cast<Enumeration>(i); },
        [&target] { return static_cast<size_t>(target); }, help);
  }

  /// Nothing reads these keys, or the keys of a section ("muon."), unless `holds`; `condition` says so in words that
  /// follow "needs" and "choose". Of several conditions of one key all must hold. The keys must be declared before.
  void add_condition(const std::vector<std::string>& keys, const std::string& condition, std::function<bool()> holds);

  /// Reads the flags; `--config FILE` names an INI file that is read first. Returns the positional arguments.
  /// Throws UsageError. "--help" is left to the caller (see help()).
  /// A key whose condition does not hold is refused, as a flag and as a line of the file. But a line of the file is
  /// only left out, with a warning, where flags are what took its condition away; and nobody minds a line that gives
  /// the default, nor a flag that takes a line of the file back to it.
  std::vector<std::string> parse(const std::vector<std::string>& arguments);

  /// Reads INI text (of a stored run or checkpoint); `source` names it in errors.
  void parse_text(const std::string& text, const std::string& source);

  /// Throws UsageError for a value that no text could have given a key: targets may be written by other code as well.
  void check_values() const;

  /// All keys with their present values, as INI text that parse_text reads back to the same values (numbers with enough
  /// digits), sections in order of declaration. Throws UsageError for a text that INI cannot hold (line ends, comment
  /// marks behind white space, white space at its ends).
  std::string resolved() const;

  /// Where the key's value came from: "default", "FILE:LINE" or "flag".
  std::string origin(const std::string& key) const;

  /// Whether the conditions of a key hold under the present values.
  bool is_read(const std::string& key) const;

  /// Table of keys, defaults and meanings for --help.
  std::string help() const;

 private:
  struct Condition {
    std::string words;
    std::function<bool()> holds;
  };
  struct Entry {
    std::string key, help, origin, default_value;
    std::function<void(const std::string& value)> assign;  ///< throws UsageError naming what is expected
    std::function<std::string()> print;
    std::vector<size_t> conditions;  ///< in conditions_

    bool is_set() const { return origin != "default"; }
    bool has_default() const { return print() == default_value; }
  };
  void add_choice(const std::string& key, const std::vector<std::string>& names, std::function<void(size_t)> set,
                  std::function<size_t()> get, const std::string& help);
  void add_entry(const std::string& key, const std::string& help, std::function<void(const std::string&)> assign,
                 std::function<std::string()> print);
  Entry* find(const std::string& key);
  std::string nearest(const std::string& key) const;
  const Condition* unmet(const Entry& entry) const;  ///< the first condition that does not hold, or null
  void assign_flag(Entry& entry, const std::string& value) const;
  void check_read(const std::vector<bool>& set_by_file, const std::vector<bool>& read_by_file);
  std::vector<Entry> entries_;
  std::vector<Condition> conditions_;
};

}  // namespace heddle
