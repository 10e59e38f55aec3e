#include "analysis/probe_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/text_table.h"

namespace heddle {

namespace {

using Column = TextTable::Column;

std::string number(double value, int digits = 4) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string change(const Estimate& e) {
  return std::isfinite(e.mean) ? fmt::format("{:+.4f}", e.mean) : "-";
}

std::string index(int64_t value, const char* otherwise) {
  return value < 0 ? otherwise : fmt::format("{}", value);
}

std::string join(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.3g}", text.empty() ? "" : " ", value);
  return text;
}

void losses(const ProbeResult& r, std::string& out) {
  out += "\nloss after each loop (coda, final norm and head), nats per token\n";
  TextTable table({Column{"loops"}, {"loss"}, {"s.e."}});
  for (const LoopLoss& l : r.loss_by_loop)
    table.add_row({fmt::format("{}", l.loops), number(l.loss.mean), number(l.loss.standard_error)});
  out += table.render();
}

void depth(const ProbeResult& r, std::string& out) {
  const DepthCurve& d = r.depth;
  out += fmt::format("\nlogit lens after each block: KL(final || block) and loss, nats per token\n");
  TextTable table(
      {Column{"entry"}, {"part", TextTable::Align::kLeft}, {"loop"}, {"layer"}, {"KL"}, {"s.e."}, {"loss"}});
  for (size_t e = 0; e < d.entries.size(); ++e) {
    const DepthEntry& entry = d.entries[e];
    table.add_row({fmt::format("{}", e), entry.part, index(entry.loop, ""), index(entry.layer, ""),
                   number(entry.kl.mean), number(entry.kl.standard_error), number(entry.loss.mean)});
  }
  out += table.render();
  out +=
      d.effective_depth < 0
          ? fmt::format("  KL effective depth: none (no entry behind the peak at {} has KL <= {})\n", d.peak,
                        d.threshold)
          : fmt::format("  KL effective depth: {} of {} blocks (the first entry behind the peak at {} with KL <= {})\n",
                        d.effective_depth, d.entries.size() - 1, d.peak, d.threshold);
}

/// One table of effects; `name` gives the cells in front of the change.
template <typename Name>
void effects(const std::string& title, std::vector<Column> columns, const std::vector<Effect>& list, Name name,
             std::string& out) {
  if (list.empty()) return;
  out += fmt::format("\n{}: change of the loss, nats per token\n", title);
  columns.push_back({"change"});
  columns.push_back({"s.e."});
  TextTable table(columns);
  for (const Effect& e : list) {
    std::vector<std::string> cells = name(e);
    cells.push_back(change(e.change));
    cells.push_back(number(e.change.standard_error));
    table.add_row(cells);
  }
  out += table.render();
}

void all_effects(const ProbeResult& r, std::string& out) {
  using Cells = std::vector<std::string>;
  const auto loop = [](const Effect& e) { return Cells{index(e.loop, "all")}; };
  const auto block = [](const Effect& e) { return Cells{index(e.loop, "all"), index(e.layer, "all")}; };
  effects("a loop skipped", {{"loop"}}, r.skipped_loops, loop, out);
  effects("a block skipped", {{"loop"}, {"layer"}}, r.skipped_blocks, block, out);
  effects(
      "a layer skipped in all loops", {{"layer"}}, r.skipped_layers,
      [](const Effect& e) { return Cells{index(e.layer, "all")}; }, out);
  effects(
      "an expert skipped in all its visits", {{"loop"}, {"layer"}, {"expert"}, {"slots"}}, r.skipped_experts,
      [](const Effect& e) {
        return Cells{index(e.loop, "all"), index(e.layer, ""), index(e.expert, ""), index(e.slots, "")};
      },
      out);
  effects(
      "routers of two loops swapped", {{"loop"}, {"with"}}, r.router_swaps,
      [](const Effect& e) {
        return Cells{index(e.loop, ""), index(e.other_loop, "")};
      },
      out);
  if (r.experts > 0 && r.loops > 1 && r.router_swaps.empty())
    out += "\nno router belongs to one of several loops: there is nothing to swap\n";
  effects("one loop's routers in all loops", {{"router"}}, r.one_router, loop, out);
  effects(
      "other loop counts", {{"loops"}}, r.loop_counts, [](const Effect& e) { return Cells{index(e.loops, "")}; }, out);
}

void information(const ProbeResult& r, std::string& out) {
  if (r.information.empty()) return;
  out += "\nmutual information of expert with ..., nats (by chance)\n";
  TextTable table({Column{"layer", TextTable::Align::kLeft},
                   {"slots"},
                   {"H(expert)"},
                   {"token"},
                   {"chance"},
                   {"loop"},
                   {"chance"},
                   {"loop given token"},
                   {"chance"}});
  for (const MutualInformation& m : r.information)
    table.add_row({m.layer, fmt::format("{}", m.slots), number(m.entropy), number(m.token.found),
                   number(m.token.chance), number(m.loop.found), number(m.loop.chance),
                   number(m.loop_given_token.found), number(m.loop_given_token.chance)});
  out += table.render();
}

void gradients(const ProbeResult& r, std::string& out) {
  const GradientProbe& g = r.gradients;
  if (!g.matrices.empty()) {
    out += "\ngradient by visit: alignment |sum G|^2 / sum |G|^2 (1: orthogonal; as many as visits: equal)\n";
    TextTable table({Column{"matrix", TextTable::Align::kLeft},
                     {"visits"},
                     {"alignment"},
                     {"|sum|"},
                     {"norm of each visit", TextTable::Align::kLeft}});
    for (const MatrixGradient& m : g.matrices)
      if (m.loops.size() > 1)
        table.add_row({m.name, fmt::format("{}", m.loops.size()), number(m.alignment, 3),
                       fmt::format("{:.3g}", m.sum_norm), join(m.visit_norms)});
    out += table.render();
  }
  if (!g.kappas.empty()) {
    out += "\nkappa over gradient-visible visits, and M kappa s^2\n";
    TextTable table({Column{"group", TextTable::Align::kLeft},
                     {"visits"},
                     {"kappa"},
                     {"bound"},
                     {"|U| of each visit", TextTable::Align::kLeft}});
    for (const Kappa& k : g.kappas)
      table.add_row({k.group, fmt::format("{}", k.loops.size()), number(k.kappa, 3), number(k.bound, 3),
                     join(k.read_back_norms)});
    out += table.render();
  }
  if (!g.cosines.empty()) {
    out += "\nshortened back-propagation against full: cosine of the gradients\n";
    TextTable table({Column{"mode", TextTable::Align::kLeft}, {"loops"}, {"core"}, {"all"}, {"norm ratio"}});
    for (const GradientCosine& c : g.cosines)
      table.add_row({c.mode, fmt::format("{}", c.loops), number(c.core, 3), number(c.all, 3), number(c.norm_ratio, 3)});
    out += table.render();
  }
}

}  // namespace

std::string render(const ProbeResult& r) {
  std::string out = fmt::format(
      "{} (step {}) on {} documents of the {} part of {}: {} tokens, {} loops of {} layers\nloss {} +- {}\n",
      r.checkpoint, r.step, r.documents, r.part, r.store, r.tokens, r.loops, r.layers, number(r.loss.mean),
      number(r.loss.standard_error));
  losses(r, out);
  if (!r.depth.entries.empty()) depth(r, out);
  all_effects(r, out);
  information(r, out);
  gradients(r, out);
  return out;
}

}  // namespace heddle
