#include "support/config.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "support/atomic_file.h"
#include "support/error.h"
#include "support/ini.h"
#include "support/numbers.h"
#include "support/text_table.h"

namespace heddle {

namespace po = boost::program_options;

namespace {

std::string limits_text(const Limits& limits) {
  const bool low = std::isfinite(limits.low), high = std::isfinite(limits.high);
  if (low && high)
    return fmt::format("{}{} to {}{}", limits.low_open ? "above " : "", limits.low, limits.high_open ? "below " : "",
                       limits.high);
  if (low) return fmt::format("{}{}{}", limits.low_open ? "above " : "", limits.low, limits.low_open ? "" : " or more");
  if (high)
    return fmt::format("{}{}{}", limits.high_open ? "below " : "", limits.high, limits.high_open ? "" : " or less");
  return "any number";
}

void check_limits(double value, const Limits& limits) {
  const bool low = limits.low_open ? value > limits.low : value >= limits.low;
  const bool high = limits.high_open ? value < limits.high : value <= limits.high;
  if (!low || !high) throw UsageError(fmt::format("expected {}", limits_text(limits)));
}

int64_t integer_of(const std::string& text, const Limits& limits) {
  const std::optional<int64_t> value = parse_integer(text);
  if (!value) throw UsageError("expected a whole number");
  check_limits(static_cast<double>(*value), limits);
  return *value;
}

/// The parts of "a,b,c"; none for an empty text.
std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (size_t first = 0; first <= text.size();) {
    const size_t end = std::min(text.find(',', first), text.size());
    parts.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return parts;
}

double real_of(const std::string& text, const Limits& limits) {
  // Kernels compute in float32, where a smaller number loses its digits and then becomes 0.
  constexpr double kSmallest = 1e-37;
  const std::optional<double> value = parse_real(text);
  if (!value) throw UsageError("expected a finite number");
  check_limits(*value, limits);
  if (*value != 0 && std::abs(*value) < kSmallest)
    throw UsageError(fmt::format("float32 holds no number so small; expected {:.0g} or more{}", kSmallest,
                                 limits.low < 0 || (limits.low == 0 && !limits.low_open) ? ", or 0" : ""));
  return *value;
}

/// False for text that INI has no way to write: line ends, white space at the ends, comment marks behind white space.
bool fits_ini(const std::string& text) {
  if (text.find('\n') != std::string::npos) return false;
  const std::vector<IniEntry> read = parse_ini("text = " + text, "");
  return read.size() == 1 && read[0].value == text;
}

/// Insertions, deletions and replacements between two words.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string name_of(const std::string& key) {
  return key.substr(key.find('.') + 1);
}
/// "section." of "section.name", empty without a section.
std::string section_of(const std::string& key) {
  return key.substr(0, key.size() - name_of(key).size());
}

}  // namespace

void Config::add_entry(const std::string& key, const std::string& help, std::function<void(const std::string&)> assign,
                       std::function<std::string()> print) {
  require(find(key) == nullptr, "configuration key {} is declared twice", key);
  const std::string value = print();
  entries_.push_back({key, help, "default", value, std::move(assign), std::move(print), {}});
}

void Config::add(const std::string& key, int64_t& target, Limits limits, const std::string& help) {
  add_entry(
      key, help, [&target, limits](const std::string& text) { target = integer_of(text, limits); },
      [&target] { return fmt::format("{}", target); });
}

void Config::add(const std::string& key, double& target, Limits limits, const std::string& help) {
  add_entry(
      key, help, [&target, limits](const std::string& text) { target = real_of(text, limits); },
      [&target] { return fmt::format("{}", target); });
}

void Config::add(const std::string& key, bool& target, const std::string& help) {
  add_entry(
      key, help,
      [&target](const std::string& text) {
        if (text != "true" && text != "false") throw UsageError("expected true or false");
        target = text == "true";
      },
      [&target] { return std::string(target ? "true" : "false"); });
}

void Config::add(const std::string& key, std::string& target, const std::string& help) {
  add_entry(
      key, help, [&target](const std::string& text) { target = text; }, [&target] { return target; });
}

void Config::add(const std::string& key, std::string& target, std::vector<std::string> choices,
                 const std::string& help) {
  const std::string all = fmt::format("{}", fmt::join(choices, ", "));
  add_entry(
      key, fmt::format("{} ({})", help, all),
      [&target, choices = std::move(choices), all](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end())
          throw UsageError(fmt::format("expected one of: {}", all));
        target = text;
      },
      [&target] { return target; });
}

void Config::add_choice(const std::string& key, const std::vector<std::string>& names, std::function<void(size_t)> set,
                        std::function<size_t()> get, const std::string& help) {
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  add_entry(
      key, fmt::format("{} ({})", help, all),
      [names, set = std::move(set), all](const std::string& text) {
        const auto found = std::find(names.begin(), names.end(), text);
        if (found == names.end()) throw UsageError(fmt::format("expected one of: {}", all));
        set(static_cast<size_t>(found - names.begin()));
      },
      [names, get = std::move(get)] { return names.at(get()); });
}

void Config::add(const std::string& key, std::vector<int64_t>& target, Limits limits, const std::string& help) {
  add_entry(
      key, help,
      [&target, limits](const std::string& text) {
        if (text.empty()) throw UsageError("expected a whole number");
        std::vector<int64_t> values;
        for (const std::string& part : list_of(text)) values.push_back(integer_of(part, limits));
        target = std::move(values);
      },
      [&target] { return fmt::format("{}", fmt::join(target, ",")); });
}

void Config::add(const std::string& key, std::vector<double>& target, Limits limits, const std::string& help) {
  add_entry(
      key, help,
      [&target, limits](const std::string& text) {
        std::vector<double> values;
        for (const std::string& part : list_of(text)) values.push_back(real_of(part, limits));
        target = std::move(values);
      },
      [&target] { return fmt::format("{}", fmt::join(target, ",")); });
}

Config::Entry* Config::find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  return found == entries_.end() ? nullptr : &*found;
}

std::string Config::nearest(const std::string& key) const {
  // The wrong section, and a name that is cut off, count as one wrong letter; beyond a letter in four it is a guess.
  const std::string name = name_of(key);
  size_t best_distance = 2 + name.size() / 4;
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    const std::string known = name_of(entry.key);
    const bool cut_off = name.size() > 2 && known.starts_with(name);
    const size_t by_name = 1 + (cut_off ? (section_of(entry.key) != section_of(key)) : edit_distance(known, name));
    const size_t distance = std::min(by_name, edit_distance(entry.key, key));
    if (distance < best_distance) {
      best = &entry;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string("--help lists all keys") : fmt::format("the nearest known key is {}", best->key);
}

namespace {

po::options_description describe(const std::vector<std::string>& keys) {
  po::options_description description;
  for (const std::string& key : keys) description.add_options()(key.c_str(), po::value<std::string>());
  return description;
}

}  // namespace

void Config::parse_text(const std::string& text, const std::string& source) {
  std::map<std::string, int> lines;
  for (const IniEntry& ini : parse_ini(text, source)) {
    Entry* entry = find(ini.key);
    if (entry == nullptr)
      throw UsageError(fmt::format("{}:{}: unknown key {}", source, ini.line, ini.key), nearest(ini.key));
    if (const auto [first, is_new] = lines.emplace(ini.key, ini.line); !is_new)
      throw UsageError(fmt::format("{}:{}: {} stands already in line {}", source, ini.line, ini.key, first->second),
                       "keep one of the two lines");
    try {
      entry->assign(ini.value);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}:{}: {} = '{}': {}", source, ini.line, ini.key, ini.value, error.what()),
                       fmt::format("{} is: {}", ini.key, entry->help));
    }
    entry->origin = fmt::format("{}:{}", source, ini.line);
  }
}

std::vector<std::string> Config::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> keys{"config"};
  for (const Entry& entry : entries_) keys.push_back(entry.key);
  const po::options_description known = describe(keys);
  po::options_description all;
  all.add(known);
  all.add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);

  po::variables_map values;
  std::set<std::string> seen;  // Boost would keep the first of two values without a word.
  std::vector<std::string> rest;
  try {
    namespace style = po::command_line_style;
    // No guessing: --model.l must not become --model.layers. No short options: a value may start with '-'.
    const po::parsed_options parsed =
        po::command_line_parser(arguments)
            .options(all)
            .positional(positional)
            .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
            .allow_unregistered()
            .run();
    for (const po::option& option : parsed.options) {
      if (option.unregistered)
        throw UsageError(fmt::format("unknown flag --{}", option.string_key), nearest(option.string_key));
      if (option.string_key == "positional") {
        if (const std::string& word = option.value.front(); word.size() > 1 && word.front() == '-')
          throw UsageError(fmt::format("'{}' is not a flag", word), "flags are --section.name VALUE");
        continue;
      }
      if (!seen.insert(option.string_key).second)
        throw UsageError(fmt::format("flag --{} is given twice", option.string_key), "keep one of them");
    }
    po::store(parsed, values);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("command line: {}", error.what()), "flags are --section.name VALUE");
  }
  if (values.count("positional") > 0) rest = values["positional"].as<std::vector<std::string>>();
  if (values.count("config") > 0) {
    const auto path = values["config"].as<std::string>();
    if (std::filesystem::is_directory(path))
      throw UsageError(fmt::format("'{}' is a folder, no configuration", path), "give the path of an INI file");
    if (!std::filesystem::exists(path))
      throw UsageError(fmt::format("--config '{}': there is no such file", path), "give the path of an INI file");
    constexpr size_t kLargest = size_t{1} << 24;
    parse_text(read_text_file(path, kLargest), path);
  }
  std::vector<bool> set_by_file, read_by_file;
  for (const Entry& entry : entries_) {
    set_by_file.push_back(entry.is_set());
    read_by_file.push_back(unmet(entry) == nullptr);
  }
  for (Entry& entry : entries_)
    if (values.count(entry.key) > 0) assign_flag(entry, values[entry.key].as<std::string>());
  check_read(set_by_file, read_by_file);
  return rest;
}

void Config::assign_flag(Entry& entry, const std::string& value) const {
  try {
    entry.assign(value);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{} '{}': {}", entry.key, value, error.what()),
                     fmt::format("{} is: {}", entry.key, entry.help));
  }
  entry.origin = "flag";
}

std::string Config::resolved() const {
  std::vector<std::string> sections;  // in order of their first key
  for (const Entry& entry : entries_)
    if (std::find(sections.begin(), sections.end(), section_of(entry.key)) == sections.end())
      sections.push_back(section_of(entry.key));
  // Keys without a section come first: behind a section they would belong to it.
  std::stable_partition(sections.begin(), sections.end(), [](const std::string& s) { return s.empty(); });
  std::string text;
  for (const std::string& section : sections) {
    if (!section.empty())
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.substr(0, section.size() - 1));
    for (const Entry& entry : entries_) {
      if (section_of(entry.key) != section) continue;
      const std::string value = entry.print();
      if (!fits_ini(value))
        throw UsageError(fmt::format("{} = '{}' cannot be stored", entry.key, value),
                         "use one line without white space at its ends and without # or ; behind white space");
      text += fmt::format("{} = {}\n", name_of(entry.key), value);
    }
  }
  return text;
}

void Config::check_values() const {
  for (const Entry& entry : entries_) {
    try {
      entry.assign(entry.print());
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{} = {}: {}", entry.key, entry.print(), error.what()),
                       fmt::format("{} is: {}", entry.key, entry.help));
    }
  }
}

std::string Config::origin(const std::string& key) const {
  for (const Entry& entry : entries_)
    if (entry.key == key) return entry.origin;
  return "";
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

std::string Config::help() const {
  using Align = TextTable::Align;
  TextTable table({{"key", Align::kLeft}, {"meaning [value]", Align::kLeft}});
  for (const Entry& entry : entries_)
    table.add_row({"--" + entry.key, fmt::format("{} [{}]", entry.help, entry.print())});
  return table.render();
}

}  // namespace heddle
