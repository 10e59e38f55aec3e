#include "probe/depth.h"

#include <algorithm>
#include <cmath>

#include "support/parallel.h"

namespace heddle {

namespace {

// Rows whose logits exist at once, twice: the model's and those of one block.
constexpr int64_t kRows = 32;

/// The stream after the embedding and after every block, in order.
class StreamKeeper final : public ForwardObserver {
 public:
  void on_embedding(const Tensor& embedding) override { keep({"embedding", -1, -1, {}, {}}, embedding); }
  void on_block(const BlockView& view) override {
    const VisitPlace& place = view.place;
    const bool core = place.part == StackPart::kCore;
    const char* part = core ? "core" : place.part == StackPart::kPrelude ? "prelude" : "coda";
    keep({part, core ? place.loop : -1, place.layer, {}, {}}, view.layer_state);
  }
  std::vector<DepthEntry> entries;
  std::vector<Tensor> streams;  ///< [N,D] each

 private:
  void keep(DepthEntry entry, const Tensor& stream) {
    entries.push_back(std::move(entry));
    streams.push_back(stream.clone());
  }
};

/// logits [n,V] to log probabilities.
std::vector<double> log_softmax(const Tensor& logits) {
  const std::vector<float> values = logits.get<float>();
  const int64_t n = logits.dim(0), v = logits.dim(1);
  std::vector<double> out(values.size());
  const float* const in = values.data();
  double* const to = out.data();
  parallel_for(n, n * v > kParallelElements, [=](int64_t row) {
    const float* const x = in + row * v;
    const double top = static_cast<double>(*std::max_element(x, x + v));
    double sum = 0;
    for (int64_t i = 0; i < v; ++i) sum += std::exp(static_cast<double>(x[i]) - top);
    const double normaliser = top + std::log(sum);
    for (int64_t i = 0; i < v; ++i) to[row * v + i] = static_cast<double>(x[i]) - normaliser;
  });
  return out;
}

/// Sums over rows of KL(p || q), in the order of rows.
double kl_sum(const std::vector<double>& log_p, const std::vector<double>& log_q, int64_t rows) {
  const auto v = static_cast<int64_t>(log_p.size()) / rows;
  std::vector<double> by_row(static_cast<size_t>(rows), 0);
  const double *const p = log_p.data(), *const q = log_q.data();
  double* const out = by_row.data();
  parallel_for(rows, rows * v > kParallelElements, [=](int64_t row) {
    for (int64_t i = row * v; i < (row + 1) * v; ++i) out[row] += std::exp(p[i]) * (p[i] - q[i]);
  });
  double sum = 0;
  for (const double one : by_row) sum += one;
  return sum;
}

/// Minus the sum of the targets' log probabilities.
double loss_sum(const std::vector<double>& log_p, std::span<const int32_t> targets) {
  const size_t v = log_p.size() / targets.size();
  double sum = 0;
  for (size_t row = 0; row < targets.size(); ++row) sum -= log_p[row * v + static_cast<size_t>(targets[row])];
  return sum;
}

}  // namespace

int64_t effective_depth(const std::vector<double>& kl, double threshold) {
  require(!kl.empty(), "a curve without entries has no depth");
  const auto peak = std::max_element(kl.begin(), kl.end());
  const auto first = std::find_if(peak + 1, kl.end(), [&](double value) { return value <= threshold; });
  return first == kl.end() ? -1 : first - kl.begin();
}

DepthCurve probe_depth(LoopedModel& model, const ProbeDocuments& documents) {
  DepthCurve curve;
  std::vector<double> kl, loss;  // [entries, documents]
  const auto n = static_cast<size_t>(documents.count());
  for (const DocumentBatch& here : documents.batches()) {
    StreamKeeper keeper;
    LoopedModel::Options options;
    options.use_capacity = false;
    options.observer = &keeper;
    Tape tape = model.tape(Tape::Mode::kForwardOnly);
    const TokenBatch& batch = here.tokens;
    const Variable embedding = model.embed(tape, batch, options);
    LoopState state = model.start(batch, embedding);
    model.run_loops(tape, batch, embedding, 0, model.active_loops(), options, state);
    const Tensor final_state = model.read_out(tape, batch, embedding, state, options).value;
    if (curve.entries.empty()) {
      curve.entries = keeper.entries;
      kl.assign(curve.entries.size() * n, 0);
      loss = kl;
    }
    const std::vector<int32_t> targets = batch.targets.get<int32_t>();
    for (int64_t r = 0; r < batch.rows; ++r) {
      const auto document = static_cast<size_t>(here.first + r);
      const int64_t first = r * batch.sequence, counted = here.targets[static_cast<size_t>(r)];
      for (int64_t done = 0; done < counted; done += kRows) {
        const int64_t rows = std::min(kRows, counted - done);
        const std::vector<double> log_p = log_softmax(model.logits(final_state.rows(first + done, rows)));
        for (size_t e = 0; e < curve.entries.size(); ++e) {
          const std::vector<double> log_q = log_softmax(model.lens(keeper.streams[e].rows(first + done, rows)));
          kl[e * n + document] += kl_sum(log_p, log_q, rows);
          loss[e * n + document] +=
              loss_sum(log_q, std::span(targets).subspan(static_cast<size_t>(first + done), static_cast<size_t>(rows)));
        }
      }
    }
  }
  sum_over_ranks(model.groups().world(), kl);
  sum_over_ranks(model.groups().world(), loss);
  std::vector<double> means;
  for (size_t e = 0; e < curve.entries.size(); ++e) {
    DepthEntry& entry = curve.entries[e];
    entry.kl = estimate(std::span(kl).subspan(e * n, n), documents.tokens());
    entry.loss = estimate(std::span(loss).subspan(e * n, n), documents.tokens());
    means.push_back(entry.kl.mean);
  }
  curve.peak = std::max_element(means.begin(), means.end()) - means.begin();
  curve.effective_depth = effective_depth(means, curve.threshold);
  return curve;
}

}  // namespace heddle
