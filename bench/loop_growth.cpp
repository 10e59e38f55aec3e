// What more loops do to a model at its start: size of the stream, of the gradient, and of the change that one update
// makes, for R = 1 .. 16 loops of one dense core, as powers of R beside theory. What came out: docs/loop_benchmarks.md.
//
// Theory (DeepLoop's, in our letters). a: a visit's branch is R^-a of the stream at the end. G_t: gradient of the core
// through visit t alone. kappa = |sum_t G_t|^2 / sum_t |G_t|^2 ~ R^gamma: 0 for decorrelated visits, 1 for aligned.
//   gradient of the core              |sum_t G_t| ~ sqrt(kappa R) R^-a      = R^((1 + gamma) / 2 - a)
//   change of the output by one step  (sum_r U_r)(sum_t G_t) ~ kappa R R^-2a = R^(1 + gamma - 2 a)
// plain: the stream is a sum of R branches, R^1/2 (decorrelated) or R (aligned), and the head's norm divides by it, so
//   a = 1/2 or 1; gradient and change R^0 in both limits.
// scaled: branches times 1 / R; stream R^0, a = 1; gradient R^-1/2 or R^0; change R^-1 or R^0.
// deepnorm(p): alpha = (2N)^p, beta = (8N)^-p, N = R L; stream 1 by its norms, a = 2 p (beta / alpha).
//   p = 1/4: gradient R^0 or R^1/2, change R^0 or R. p = 1/2: gradient R^-1/2 or R^0, change R^-1 or R^0.
// Embedding and head reach the output whatever R is: in the numbers of all weights they hide this behind a constant.
// Left out are the Jacobians of later visits, which are near 1 with scaled branches or a large alpha. Under plain each
// is about 1 + c / stream: in an aligned stream (b s at visit s) the first visits gain a factor R^(c / b) over the
// last. |G_1| / |G_R| shows it.
//
// usage: bench_loop_growth [--store FILE] [--seeds N] [--json FILE]
//   --store: tokens from the first batch of a token store; else random ones
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "support/atomic_file.h"
#include "support/log.h"
#include "support/numbers.h"
#include "support/random.h"
#include "support/text_table.h"
#include "train/back_propagation.h"
#include "train/batches.h"

namespace heddle {
namespace {

constexpr int64_t kLoops[] = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr int64_t kRows = 8, kSequence = 64, kRandomVocabulary = 512;
constexpr float kRate = 1e-2F;

struct Scheme {
  const char* name;
  ResidualScheme residual;
  double power;  ///< p of deepnorm
  Initialisation initialisation;
  /// Powers of R by theory, decorrelated and aligned: stream, gradient of the core, change by the core's update.
  double stream[2], gradient[2], change[2];
};
constexpr Scheme kSchemes[] = {
    {"plain", ResidualScheme::kPlain, 0, Initialisation::kLoom, {0.5, 1}, {0, 0}, {0, 0}},
    {"scaled", ResidualScheme::kScaled, 0, Initialisation::kLoom, {0, 0}, {-0.5, 0}, {-1, 0}},
    {"deepnorm(1/4)", ResidualScheme::kDeepNorm, 0.25, Initialisation::kDeepNorm, {0, 0}, {0, 0.5}, {0, 1}},
    {"deepnorm(1/2)", ResidualScheme::kDeepNorm, 0.5, Initialisation::kDeepNorm, {0, 0}, {-0.5, 0}, {-1, 0}},
};

ModelConfig model_of(const Scheme& scheme, int64_t loops, int64_t vocabulary) {
  ModelConfig c;
  c.vocabulary_size = vocabulary;
  c.hidden_size = 64;
  c.layers = 2;
  c.loops = loops;
  c.query_heads = 4;
  c.kv_heads = 4;
  c.head_dim = 16;
  c.output_gate = false;
  c.core_feed_forward = FeedForwardKind::kDense;
  c.dense_intermediate = 176;
  c.norms.block = c.norms.loop_end = NormKind::kOff;
  c.norms.post = c.norms.final = NormKind::kPlain;
  c.looping_residual = false;
  c.reinjection = Reinjection::kNone;
  c.residual = scheme.residual;
  c.deepnorm_power = scheme.power;
  c.initialisation = scheme.initialisation;
  c.validate();
  return c;
}

/// What is measured at one scheme, loop count and seed. NaN where a number was not finite.
struct Measured {
  double stream = 0;         ///< RMS of the state after the last loop
  double gradient = 0;       ///< norm over all weights
  double core_gradient = 0;  ///< of the core
  double change = 0;         ///< RMS of the change of the logits by one SGD step of rate kRate on all weights
  double core_change = 0;    ///< on the core alone
  double halved = 0;         ///< change at half the rate over half the change: 1 where the change is linear
  double core_halved = 0;
  double kappa = 0;          ///< |sum_t G_t|^2 / sum_t |G_t|^2 over the core
  double first_to_last = 0;  ///< |G_1| / |G_R|
};
struct Quantity {
  const char* name;
  double Measured::*value;
};
constexpr Quantity kQuantities[] = {
    {"stream RMS", &Measured::stream},
    {"gradient, all", &Measured::gradient},
    {"gradient, core", &Measured::core_gradient},
    {"change, all", &Measured::change},
    {"change, core", &Measured::core_change},
    {"kappa", &Measured::kappa},
    {"|G_1| / |G_R|", &Measured::first_to_last},
};

double square_sum(const Tensor& x) {
  double sum = 0;
  for (const float v : x.floats()) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

double rms_of_difference(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double d = static_cast<double>(a.f32()[i]) - static_cast<double>(b.f32()[i]);
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(a.count()));
}

struct Output {
  Tensor state, logits;
};
Output forward(LoopedModel& model, const TokenBatch& batch) {
  Tape tape = model.tape(Tape::Mode::kForwardOnly);
  const Variable e = model.embed(tape, batch, {});
  LoopState state = model.start(batch, e);
  model.run_loops(tape, batch, e, 0, model.config().loops, {}, state);
  const Tensor last = state.state.value.clone();
  return {last, model.logits(model.read_out(tape, batch, e, state, {}).value)};
}

/// Gradient of the mean loss over the batch, through all loops.
void back_propagate(LoopedModel& model, const TokenBatch& batch) {
  int64_t counted = 0;
  for (int64_t i = 0; i < batch.targets.count(); ++i) counted += batch.targets.i32()[i] != kIgnoredTarget;
  const RouterLossConfig no_losses;
  const std::vector<double> last_loop_only;
  model.parameters().allocate_gradients();
  model.parameters().clear_gradients();
  PieceRun run(model, last_loop_only, no_losses, nullptr);
  run.run(batch, pieces_of({}, model.config().loops)[0], {1 / static_cast<double>(counted), batch.targets.count(), 1},
          nullptr, false);
}

bool in_core(const Parameter& p) {
  return p.name.starts_with("core.");
}

/// RMS of the logits' change by w -= rate * gradient for the weights that `which` takes; the weights come back.
double change_by_step(LoopedModel& model, const TokenBatch& batch, const Tensor& before, float rate, bool core_only) {
  std::vector<Tensor> kept;
  for (Parameter& p : model.parameters().all()) {
    kept.push_back(p.value.clone());
    if (core_only && !in_core(p)) continue;
    for (int64_t i = 0; i < p.value.count(); ++i) p.value.f32()[i] -= rate * p.gradient.f32()[i];
  }
  const double change = rms_of_difference(forward(model, batch).logits, before);
  size_t at = 0;
  for (Parameter& p : model.parameters().all()) p.value.copy_from(kept[at++]);
  return change;
}

/// kappa and |G_1| / |G_R| from an untied twin with the same weights in every loop: its gradients are those of single
/// visits. Throws Error if they do not add up to the tied model's.
void measure_visits(LoopedModel& tied, const ModelConfig& config, ProcessGroups& groups, const TokenBatch& batch,
                    Measured& m) {
  ModelConfig apart = config;
  apart.tied = false;
  LoopedModel twin(apart, groups, tied.kernels());
  const auto name_in_twin = [](const Parameter& p, int64_t loop) {
    return in_core(p) ? fmt::format("core.{}.{}", loop, p.name.substr(5)) : p.name;
  };
  for (const Parameter& p : tied.parameters().all())
    for (int64_t t = 0; t < (in_core(p) ? config.loops : 1); ++t)
      twin.parameters().find(name_in_twin(p, t)).value.copy_from(p.value);
  back_propagate(twin, batch);
  double of_sum = 0, of_parts = 0, error = 0;
  std::vector<double> of_visit(static_cast<size_t>(config.loops));
  for (const Parameter& p : tied.parameters().all()) {
    if (!in_core(p)) continue;
    const Tensor sum = Tensor::zeros(p.local_shape, Purpose::kWorkspace);
    for (int64_t t = 0; t < config.loops; ++t) {
      const Tensor& g = twin.parameters().find(name_in_twin(p, t)).gradient;
      of_visit[static_cast<size_t>(t)] += square_sum(g);
      for (int64_t i = 0; i < g.count(); ++i) sum.f32()[i] += g.f32()[i];
    }
    of_sum += square_sum(sum);
    const double difference = rms_of_difference(sum, p.gradient);
    error += difference * difference * static_cast<double>(sum.count());
  }
  if (error > 1e-6 * of_sum) throw Error("gradients of single visits do not add up to the tied gradient");
  for (const double squares : of_visit) of_parts += squares;
  m.kappa = of_sum / of_parts;
  m.first_to_last = std::sqrt(of_visit.front() / of_visit.back());
}

Measured measure(const Scheme& scheme, int64_t loops, uint64_t seed, int64_t vocabulary, const TokenBatch& batch) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  const ModelConfig config = model_of(scheme, loops, vocabulary);
  LoopedModel model(config, groups, cpu::kernels());
  model.initialise(seed);
  const Output before = forward(model, batch);
  back_propagate(model, batch);
  Measured m;
  m.stream = std::sqrt(square_sum(before.state) / static_cast<double>(before.state.count()));
  for (const Parameter& p : model.parameters().all()) {
    m.gradient += square_sum(p.gradient);
    if (in_core(p)) m.core_gradient += square_sum(p.gradient);
  }
  m.gradient = std::sqrt(m.gradient);
  m.core_gradient = std::sqrt(m.core_gradient);
  m.change = change_by_step(model, batch, before.logits, kRate, false);
  m.core_change = change_by_step(model, batch, before.logits, kRate, true);
  m.halved = change_by_step(model, batch, before.logits, kRate / 2, false) / (m.change / 2);
  m.core_halved = change_by_step(model, batch, before.logits, kRate / 2, true) / (m.core_change / 2);
  measure_visits(model, config, groups, batch, m);
  return m;
}

TokenBatch random_batch() {
  TokenBatch batch{kRows, kSequence, {}, {}, {}, {}, {}};
  for (Tensor* t : {&batch.tokens, &batch.targets, &batch.position})
    *t = Tensor::zeros({kRows * kSequence}, Purpose::kActivations, DType::kInt32);
  const auto draw = [](int64_t i) {
    return static_cast<int32_t>(random_uniform(1, Draw::kTest, 0, static_cast<uint64_t>(i)) * kRandomVocabulary);
  };
  for (int64_t i = 0; i < kRows * kSequence; ++i) {
    batch.tokens.i32()[i] = draw(i + i / kSequence);  // rows of kSequence + 1 tokens
    batch.targets.i32()[i] = draw(i + i / kSequence + 1);
    batch.position.i32()[i] = static_cast<int32_t>(i % kSequence);
  }
  return batch;
}

struct Mean {
  double mean = 0, error = 0;
  int64_t count = 0;
};
Mean mean_of(const std::vector<double>& values) {
  Mean m;
  for (const double v : values)
    if (std::isfinite(v)) m.mean += v, ++m.count;
  if (m.count == 0) return {std::nan(""), std::nan(""), 0};
  m.mean /= static_cast<double>(m.count);
  double squares = 0;
  for (const double v : values)
    if (std::isfinite(v)) squares += (v - m.mean) * (v - m.mean);
  const auto n = static_cast<double>(m.count);
  m.error = m.count > 1 ? std::sqrt(squares / (n - 1) / n) : std::nan("");
  return m;
}

/// Slope of log y over log R by least squares, over R >= 2; NaN if any y is not a positive finite number.
double power_of(const std::vector<double>& y) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t i = 0; i < std::size(kLoops); ++i) {
    if (kLoops[i] < 2) continue;
    if (!(y[i] > 0) || !std::isfinite(y[i])) return std::nan("");
    const double x = std::log(static_cast<double>(kLoops[i])), v = std::log(y[i]);
    n += 1, sx += x, sy += v, sxx += x * x, sxy += x * v;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

std::string with_error(const Mean& m) {
  return fmt::format("{:.2f} ± {:.2f}", m.mean, m.error);
}

/// [seed][loop count] of one scheme.
using Grid = std::vector<std::vector<Measured>>;

/// Powers of one quantity, a value per seed.
std::vector<double> powers(const Grid& grid, double Measured::*value) {
  std::vector<double> result;
  for (const std::vector<Measured>& by_loops : grid) {
    std::vector<double> y;
    for (const Measured& m : by_loops) y.push_back(m.*value);
    result.push_back(power_of(y));
  }
  return result;
}

/// Values at each loop count, mean over seeds, and how many measurements were not finite or not linear.
void print_values(const std::vector<Grid>& grids) {
  for (const Quantity& quantity : kQuantities) {
    std::vector<TextTable::Column> columns{{quantity.name, TextTable::Align::kLeft}};
    for (const int64_t loops : kLoops) columns.push_back({fmt::format("R {}", loops)});
    TextTable table(columns);
    for (size_t s = 0; s < grids.size(); ++s) {
      std::vector<std::string> cells{kSchemes[s].name};
      for (size_t r = 0; r < std::size(kLoops); ++r) {
        std::vector<double> values;
        for (const std::vector<Measured>& seed : grids[s]) values.push_back(seed[r].*quantity.value);
        cells.push_back(fmt::format("{:.4g}", mean_of(values).mean));
      }
      table.add_row(cells);
    }
    fmt::print("{}\n", table.render());
  }
}

void print_checks(const std::vector<Grid>& grids) {
  int64_t count = 0, not_finite = 0, not_linear = 0;
  double worst = 0;
  for (size_t s = 0; s < grids.size(); ++s)
    for (size_t seed = 0; seed < grids[s].size(); ++seed)
      for (size_t r = 0; r < std::size(kLoops); ++r) {
        const Measured& m = grids[s][seed][r];
        ++count;
        bool finite = true;
        for (const Quantity& q : kQuantities) finite &= std::isfinite(m.*q.value);
        const double off = std::max(std::abs(m.halved - 1), std::abs(m.core_halved - 1));
        worst = std::max(worst, off);
        not_finite += !finite;
        not_linear += !(off <= 0.1);
        if (!finite || !(off <= 0.1))
          fmt::print(
              "  {} R {} seed {}: {}\n", kSchemes[s].name, kLoops[r], seed + 1,
              finite ? fmt::format("half the rate changes {:.3f} of half (all), {:.3f} (core)", m.halved, m.core_halved)
                     : std::string("not finite"));
      }
  fmt::print(
      "{} measurements: {} not finite, {} with a change that half the rate does not halve within 10 % "
      "(worst: {:.1f} %)\n\n",
      count, not_finite, not_linear, 100 * worst);
}

void print_powers(const std::vector<Grid>& grids) {
  TextTable table({{"scheme", TextTable::Align::kLeft},
                   {"quantity", TextTable::Align::kLeft},
                   {"power of R"},
                   {"decorrelated"},
                   {"aligned"},
                   {"with measured gamma and a"}});
  for (size_t s = 0; s < grids.size(); ++s) {
    const Scheme& scheme = kSchemes[s];
    const double gamma = mean_of(powers(grids[s], &Measured::kappa)).mean;
    const double a = scheme.residual == ResidualScheme::kPlain    ? mean_of(powers(grids[s], &Measured::stream)).mean
                     : scheme.residual == ResidualScheme::kScaled ? 1
                                                                  : 2 * scheme.power;
    for (const Quantity& q : kQuantities) {
      std::string low = "-", high = "-", own = "-";
      const auto theory = [&](const double(&limits)[2]) {
        low = fmt::format("{:.2f}", limits[0]);
        high = fmt::format("{:.2f}", limits[1]);
      };
      if (q.value == &Measured::stream) theory(scheme.stream);
      if (q.value == &Measured::kappa) theory({0, 1});
      if (q.value == &Measured::core_gradient) {
        theory(scheme.gradient);
        own = fmt::format("{:.2f}", (1 + gamma) / 2 - a);
      }
      if (q.value == &Measured::core_change) {
        theory(scheme.change);
        own = fmt::format("{:.2f}", 1 + gamma - 2 * a);
      }
      table.add_row({scheme.name, q.name, with_error(mean_of(powers(grids[s], q.value))), low, high, own});
    }
  }
  fmt::print("{}", table.render());
}

nlohmann::json json_of(const std::vector<Grid>& grids, const std::string& tokens) {
  nlohmann::json all{{"loops", kLoops}, {"rate", kRate}, {"tokens", tokens}, {"schemes", nlohmann::json::object()}};
  for (size_t s = 0; s < grids.size(); ++s)
    for (const Quantity& q : kQuantities) {
      nlohmann::json& entry = all["schemes"][kSchemes[s].name][q.name];
      for (const std::vector<Measured>& seed : grids[s]) {
        nlohmann::json row = nlohmann::json::array();
        for (const Measured& m : seed) row.push_back(m.*q.value);
        entry["by_seed"].push_back(row);
      }
      const Mean power = mean_of(powers(grids[s], q.value));
      entry["power"] = {{"mean", power.mean}, {"standard_error", power.error}, {"seeds", power.count}};
    }
  return all;
}

void run(const std::string& store_path, int64_t seeds, const std::string& json_path) {
  TokenBatch batch = random_batch();
  int64_t vocabulary = kRandomVocabulary;
  std::string tokens = fmt::format("{} random tokens", kRows * kSequence);
  if (!store_path.empty()) {
    const TokenStore store = TokenStore::open(store_path);
    const Loader loader(store, {kSequence, kRows, 1, false});
    batch = token_batch(loader.fetch(0, 0, kRows), {0, kRows});
    vocabulary = store.vocabulary_size();
    tokens = fmt::format("{} tokens of {}", kRows * kSequence, store_path);
  }
  fmt::print("D 64, L 2, dense, tied, V {}; {}; {} seeds; SGD rate {}\n\n", vocabulary, tokens, seeds, kRate);
  std::vector<Grid> grids;
  for (const Scheme& scheme : kSchemes) {
    Grid& grid = grids.emplace_back();
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      std::vector<Measured>& by_loops = grid.emplace_back();
      for (const int64_t loops : kLoops)
        by_loops.push_back(measure(scheme, loops, static_cast<uint64_t>(seed), vocabulary, batch));
    }
  }
  print_values(grids);
  print_checks(grids);
  print_powers(grids);
  if (!json_path.empty()) publish_text(json_path, json_of(grids, tokens).dump(2) + "\n");
}

}  // namespace
}  // namespace heddle

int main(int count, char** arguments) {
  std::string store, json;
  std::optional<int64_t> seeds = 5;
  bool understood = count % 2 == 1;
  for (int i = 1; understood && i + 1 < count; i += 2) {
    const std::string key = arguments[i], value = arguments[i + 1];
    if (key == "--store")
      store = value;
    else if (key == "--json")
      json = value;
    else if (key == "--seeds")
      seeds = heddle::parse_integer(value);
    else
      understood = false;
  }
  if (!understood || !seeds || *seeds < 1 || *seeds > 1000) {
    fmt::print(stderr, "usage: bench_loop_growth [--store FILE] [--seeds N] [--json FILE]   (N seeds, 1 to 1000)\n");
    return 2;
  }
  try {
    heddle::require_writable_target(json);
    heddle::run(store, *seeds, json);
  } catch (const heddle::Error& error) {
    fmt::print(stderr, "error: {}\n  hint: {}\n", error.what(), error.hint());
    return 1;
  }
  return 0;
}
