#include <fmt/format.h>

#include <cmath>

#include "analysis/diagnose.h"
#include "analysis/published_states.h"
#include "analysis/routing_metrics.h"
#include "support/text_table.h"

namespace heddle {

namespace {

std::string number(double value, int digits = 3) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string whole(int64_t value) {
  return fmt::format("{}", value);
}

std::string render_findings(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    text += fmt::format("{}: {}\n  cause: {}\n  fix: {}\n", name_of(f.severity), f.what, f.cause, f.fix);
  return text;
}

std::string render_blocks(const Diagnosis& d) {
  std::string text = fmt::format("loops over the last {} steps (no experts):\n", d.window);
  TextTable table({{"loop"}, {"layer"}, {"RMS after block"}});
  for (const CellSummary& c : d.cells) table.add_row({whole(c.loop + 1), whole(c.layer), number(c.block_rms)});
  return text + table.render();
}

std::string render_load(const RunLogHeader& h, const Diagnosis& d) {
  std::string text =
      fmt::format("load over the last {} steps ({} experts, {} per token):\n", d.window, h.experts, h.top_k);
  TextTable table({{"loop"},
                   {"layer"},
                   {"entropy"},
                   {"largest share"},
                   {"dead"},
                   {"dropped"},
                   {"flipped by bias"},
                   {"largest logit"},
                   {"RMS before norm"}});
  for (const CellSummary& c : d.cells) {
    if (!c.visited) {
      table.add_row({whole(c.loop + 1), whole(c.layer), "not run", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.add_row({whole(c.loop + 1), whole(c.layer), number(c.entropy), fmt::format("{:.1f}%", 100 * c.largest_share),
                   whole(c.dead), fmt::format("{:.1f}%", 100 * c.dropped_share),
                   std::isnan(c.flipped) ? "-" : fmt::format("{:.1f}%", 100 * c.flipped), number(c.router_logit_max, 2),
                   number(c.block_rms)});
  }
  return text + table.render();
}

std::string render_choices(const RunLogHeader& h, const Diagnosis& d) {
  if (h.loops < 2) return "";
  const double uniform = static_cast<double>(h.top_k) / static_cast<double>(h.experts);
  std::string text = fmt::format(
      "choice beside that of the loop before (share of the {} experts; uniform chance {:.3f}). Counterfactual: what "
      "the\n"
      "router of the loop before would choose here, beside the actual choice and beside its own:\n",
      h.top_k, uniform);
  TextTable table({{"loop"},
                   {"layer"},
                   {"overlap"},
                   {"by chance"},
                   {"same router"},
                   {"same state"},
                   {"experts met"},
                   {"by chance"}});
  const std::vector<double> distinct = chance_distinct(h.experts, h.top_k, h.loops);
  for (const CellSummary& c : d.cells) {
    if (!c.visited) continue;
    table.add_row({whole(c.loop + 1), whole(c.layer), number(c.overlap), number(c.chance), number(c.router_agreement),
                   number(c.state_agreement), number(c.distinct, 2), number(distinct[static_cast<size_t>(c.loop)], 2)});
  }
  text += table.render();
  text += "  expert and loop share, of the load,";
  for (size_t layer = 0; layer < d.loop_information.size(); ++layer)
    text += fmt::format("{} {:.4f} nats in layer {}", layer == 0 ? "" : ",", d.loop_information[layer], layer);
  return text + fmt::format(" (at most {:.2f})\n", std::log(static_cast<double>(h.loops)));
}

std::string render_states(const Diagnosis& d) {
  if (d.looks == 0) return "no look at the states in this log (statistics.interval)\n";
  std::string text =
      "state at the end of each loop (LOOM: 329M at 9 loops, update RMS and cosine, and without residual scale):\n";
  TextTable table({{"loop"},
                   {"RMS"},
                   {"update"},
                   {"relative"},
                   {"cos -1"},
                   {"cos -2"},
                   {"cos -3"},
                   {"cos embedding"},
                   {"cos tokens"},
                   {"LOOM"},
                   {"unscaled"}});
  for (size_t t = 0; t < d.loops.size(); ++t) {
    const LoopSummary& s = d.loops[t];
    const auto published = [t](const PublishedState* states) {
      return t < kPublishedLoops ? fmt::format("{:.2f} {:.2f}", states[t].update_rms, states[t].cosine_back) : "-";
    };
    table.add_row({whole(static_cast<int64_t>(t) + 1), number(s.state_rms), number(s.update_rms),
                   number(s.relative_update), number(s.cosine_back[0]), number(s.cosine_back[1]),
                   number(s.cosine_back[2]), number(s.cosine_embedding), number(s.token_cosine), published(kLoomStates),
                   published(kLoomStatesUnscaled)});
  }
  return text + table.render();
}

}  // namespace

std::string render(const RunLog& log, const Diagnosis& d) {
  std::string text = fmt::format("verdict: {}\n", d.verdict);
  if (log.steps.empty()) return text;
  text += fmt::format("loss {:.4f} -> {:.4f} nats per token (means over {} steps), {:.0f} tokens/s\n", d.first_loss,
                      d.last_loss, d.window, d.tokens_per_second);
  if (!log.validations.empty())
    text += fmt::format("validation {:.4f} bits per byte after step {}\n", log.validations.back().bits_per_byte,
                        log.validations.back().step);
  if (log.header.experts == 0)
    text += render_blocks(d);
  else
    text += render_load(log.header, d) + render_choices(log.header, d);
  return text + render_states(d) + render_findings(d.findings);
}

}  // namespace heddle
