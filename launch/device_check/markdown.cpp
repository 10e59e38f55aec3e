#include "launch/device_check/report.h"
#include "support/error.h"
#include "support/numbers.h"

namespace heddle::device_check {

namespace {

using Cells = std::vector<std::string>;

std::string row(const Cells& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

/// Heading and the line below it; the first `left` columns are aligned to the left.
std::string heading(const Cells& titles, size_t left) {
  Cells lines;
  for (size_t i = 0; i < titles.size(); ++i) lines.push_back(i < left ? "---" : "---:");
  return row(titles) + row(lines);
}

/// A number of a document, and "-" where it has none.
template <typename Print>
std::string number(const nlohmann::json& document, const char* key, Print print) {
  const auto found = document.find(key);
  return found == document.end() || !found->is_number() ? "-" : print(found->get<double>());
}
std::string fixed(const nlohmann::json& document, const char* key, double factor, int digits) {
  return number(document, key, [&](double x) { return fmt::format("{:.{}f}", factor * x, digits); });
}
std::string percent(const nlohmann::json& document, const char* key) {
  return number(document, key, [](double x) { return fmt::format("{:.1f}%", 100 * x); });
}
std::string bytes(const nlohmann::json& document, const char* key) {
  return number(document, key, [](double x) { return human_bytes(x); });
}

std::string machine_and_parts(const nlohmann::json& results) {
  std::string text = "| machine | |\n|---|---|\n";
  for (const auto& [key, value] : results.at("machine").items()) text += row({key, value.get<std::string>()});
  text += "\n## Parts\n\n" + heading({"part", "status", "note", "seconds"}, 3);
  for (const nlohmann::json& part : results.at("parts"))
    text += row({part.at("part"), part.at("status"), part.at("note"), part.at("seconds")});
  for (const nlohmann::json& name : results.at("unreadable"))
    text += fmt::format("\n{}.json is not whole.\n", name.get<std::string>());
  return text;
}

std::string verify_table(const nlohmann::json& verify) {
  std::string text = "\n## Reference cases\n\n" + heading({"case", "result", "largest error / tolerance", "of"}, 2);
  for (const nlohmann::json& one : verify.at("cases")) {
    double largest = 0;
    std::string worst = "-";
    for (const nlohmann::json& q : one.at("quantities")) {
      const double tolerance = q.at("tolerance").get<double>();
      if (tolerance == 0 || !q.contains("error") || !q.at("error").is_number()) continue;
      const double share = q.at("error").get<double>() / tolerance;
      if (share < largest) continue;
      largest = share;
      worst = q.at("quantity");
    }
    text +=
        row({one.at("case"), one.at("passed").get<bool>() ? "ok" : "FAILED", fmt::format("{:.3f}", largest), worst});
  }
  return text;
}

std::string tests_text(const nlohmann::json& tests) {
  std::string text =
      fmt::format("\n## Kernel tests\n\n{} tests, {} failed, {} skipped.\n", tests.at("tests").get<int64_t>(),
                  tests.at("failures").get<int64_t>(), tests.at("skipped").get<int64_t>());
  for (const nlohmann::json& name : tests.at("failed")) text += fmt::format("- FAILED: {}\n", name.get<std::string>());
  return text;
}

std::string curves_text(const nlohmann::json& curves) {
  std::string text = "\n## Loss of the tiny run against the CPU's\n\n" +
                     heading({"run", "result", "steps", "largest difference, first 10 steps", "tolerance",
                              "mean difference, last 20", "tolerance", "largest difference"},
                             2);
  for (const nlohmann::json& c : curves)
    text += row({c.at("name"), c.at("passed").get<bool>() ? "ok" : "FAILED", fixed(c, "steps", 1, 0),
                 fixed(c, "largest_first", 1, 6), fixed(c, "tolerance_first", 1, 6), fixed(c, "mean_last", 1, 5),
                 fixed(c, "tolerance_last", 1, 5), fixed(c, "largest", 1, 4)});
  for (const nlohmann::json& c : curves) {
    text += fmt::format("\n{}:\n\n{}", c.at("name").get<std::string>(), heading({"step", "CPU", "here"}, 0));
    for (const nlohmann::json& point : c.at("points"))
      text += row({fixed(point, "step", 1, 0), fixed(point, "reference", 1, 4), fixed(point, "loss", 1, 4)});
  }
  return text;
}

std::string speed_text(const nlohmann::json& device) {
  const auto one = [](const nlohmann::json& speed) {
    return fmt::format("{} GB/s, {} TFLOP/s in float32, {} in bfloat16", fixed(speed, "bytes_per_second", 1e-9, 0),
                       fixed(speed, "float32_flops_per_second", 1e-12, 1),
                       fixed(speed, "bfloat16_flops_per_second", 1e-12, 1));
  };
  return fmt::format("{}. By its data: {}. Measured: {}.\n", device.at("description").get<std::string>(),
                     one(device.at("peak")), one(device.at("measured")));
}

std::string kernels_text(const nlohmann::json& bench) {
  std::string text = fmt::format("\n## Kernels of {}\n\n{} sequences of {} tokens, {}. ",
                                 bench.at("preset").get<std::string>(), bench.at("micro_batch").get<int64_t>(),
                                 bench.at("sequence_length").get<int64_t>(), bench.at("precision").get<std::string>());
  text += speed_text(bench.at("device")) +
          "The floor is the larger of bytes / bandwidth and operations / speed, by the data and as measured.\n\n" +
          heading({"kernel", "shape", "us", "GB/s", "TFLOP/s", "floor, us", "measured floor, us", "share of it"}, 2);
  for (const nlohmann::json& k : bench.at("kernels")) {
    const double seconds = k.at("seconds"), flops = k.at("flops"), measured = k.at("measured_floor_seconds");
    text += row({k.at("kernel"), k.at("shape"), fixed(k, "seconds", 1e6, 1),
                 fmt::format("{:.0f}", 1e-9 * k.at("bytes").get<double>() / seconds),
                 flops > 0 ? fmt::format("{:.1f}", 1e-12 * flops / seconds) : "-", fixed(k, "floor_seconds", 1e6, 1),
                 fixed(k, "measured_floor_seconds", 1e6, 1), fmt::format("{:.0f}%", 100 * measured / seconds)});
  }
  return text;
}

std::string training_text(const nlohmann::json& bench) {
  std::string text = fmt::format(
      "\n## Training steps of {}\n\nSequences of {} tokens, {}; segments of {} loops. Utilisation is that of the "
      "formula's operations, of the speed by the data and of the measured product.\n\n",
      bench.at("preset").get<std::string>(), bench.at("sequence_length").get<int64_t>(),
      bench.at("precision").get<std::string>(), bench.at("segment_loops").get<int64_t>());
  text += heading({"loops", "gradient", "sequences", "s/step", "tokens/s", "utilisation", "of measured",
                   "peak of tensors", "device in use", "loss"},
                  2);
  for (const nlohmann::json& s : bench.at("steps"))
    text += row({fixed(s, "loops", 1, 0), s.at("mode"),
                 s.at("micro_batch").get<int64_t>() == 0 ? "does not fit" : fixed(s, "micro_batch", 1, 0),
                 fixed(s, "seconds_per_step", 1, 4), fixed(s, "tokens_per_second", 1, 0), percent(s, "utilisation"),
                 percent(s, "measured_utilisation"), bytes(s, "peak_bytes"), bytes(s, "device_bytes"),
                 fixed(s, "loss", 1, 3)});
  for (const nlohmann::json& what : bench.at("not_run"))
    text += fmt::format("\nNot run for lack of time: {}.\n", what.get<std::string>());
  return text;
}

}  // namespace

std::string markdown(const nlohmann::json& results) {
  std::string text = fmt::format("# Device check: {}\n\n",
                                 results.at("passed").get<bool>() ? "all parts passed" : "NOT all parts passed");
  text += machine_and_parts(results);
  if (results.contains("verify")) text += verify_table(results.at("verify"));
  if (results.contains("kernel_tests")) text += tests_text(results.at("kernel_tests"));
  if (!results.at("curves").empty()) text += curves_text(results.at("curves"));
  for (const nlohmann::json& bench : results.at("training")) text += training_text(bench);
  for (const nlohmann::json& bench : results.at("kernels")) text += kernels_text(bench);
  return text;
}

}  // namespace heddle::device_check
