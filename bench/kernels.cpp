// Kernels of a training step one by one, at the sizes of a preset: time, and the least time that moving their bytes or
// doing their operations takes at the device's speed,
//   floor = max(bytes / bytes per second, operations / operations per second),
// once with the speeds of its data and once with those of a measured copy and product of matrices. Every input is
// counted as read once and every output as written once. Before each call the caches are filled with something else.
// usage: bench_kernels --config configs/loom-1.7b.cfg --run.device cuda --run.precision bfloat16 [--bench.json FILE]
#include <cmath>
#include <numeric>

#include "bench/device/bench_config.h"
#include "bench/device/device_limits.h"
#include "comm/job.h"
#include "data/token_store.h"
#include "support/atomic_file.h"
#include "support/log.h"
#include "support/text_table.h"

namespace heddle::bench {
namespace {

struct Row {
  std::string kernel, shape;
  double bytes = 0, flops = 0;
  double seconds = 0;
  RealType factors = RealType::kFloat32;  ///< of products
};

double floor_of(const Row& row, const Speed& speed) {
  const double flops = speed.flops_per_second[static_cast<size_t>(row.factors)];
  const double memory = speed.bytes_per_second > 0 ? row.bytes / speed.bytes_per_second : 0;
  return std::max(memory, flops > 0 ? row.flops / flops : 0);
}

class KernelBench {
 public:
  KernelBench(const Device& device, const DeviceLimits& limits, DeviceClock& clock, const TrainConfig& config,
              int64_t vocabulary, int64_t repetitions)
      : k_(*device.kernels),
        clock_(clock),
        m_(config.model),
        type_(device.activations),
        real_(type_ == DType::kFloat32 ? RealType::kFloat32 : RealType::kBfloat16),
        e_(static_cast<double>(dtype_bytes(type_))),
        batch_(config.micro_batch),
        sequence_(config.sequence),
        n_(config.micro_batch * config.sequence),
        d_(config.model.hidden_size),
        vocabulary_(vocabulary),
        repetitions_(repetitions),
        evicting_(floats(2 * limits.cache_bytes / 4)),
        evicted_(floats(kEvictedColumns)) {}

  std::vector<Row> run() {
    vectors();
    norms_and_attention();
    dense_products();
    if (m_.any_moe()) {
      routing();
      experts();
    }
    ends();
    update();
    return std::move(rows_);
  }

 private:
  static constexpr int64_t kEvictedColumns = 1024;
  static constexpr int64_t kHeadRows = 2048;  ///< logits of more would be the largest tensor of all

  Tensor floats(int64_t count) const { return filled({count}, DType::kFloat32); }
  Tensor reals(int64_t count) const { return filled({count}, type_); }

  /// Numbers between -1 and 1.
  Tensor filled(Shape shape, DType type) const {
    static const std::vector<float> pattern = [] {
      std::vector<float> values(size_t{1} << 20);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 2654435761U) % 2048) / 1024 - 1;
      return values;
    }();
    const Tensor wide = Tensor::empty(std::move(shape), Purpose::kWorkspace);
    const auto step = static_cast<int64_t>(pattern.size());
    for (int64_t first = 0; first < wide.count(); first += step) {
      const int64_t count = std::min(step, wide.count() - first);
      wide.flat(first, {count}).set<float>({pattern.data(), static_cast<size_t>(count)});
    }
    if (type == DType::kFloat32) return wide;
    const Tensor narrow = Tensor::empty(wide.shape(), Purpose::kWorkspace, type);
    k_.scale(wide.count(), 1, wide.reals(), narrow.reals());
    return narrow;
  }
  template <typename T>
  static Tensor uploaded(const std::vector<T>& values, DType type) {
    const Tensor tensor = Tensor::empty({static_cast<int64_t>(values.size())}, Purpose::kWorkspace, type);
    tensor.set<T>(values);
    return tensor;
  }

  void measure(const std::string& kernel, const std::string& shape, double bytes, double flops, RealType factors,
               const std::function<void()>& work) {
    // Reading leaves nothing in the caches that must be written back later.
    const auto evict = [&] {
      k_.sum_rows(evicting_.count() / kEvictedColumns, kEvictedColumns, evicting_.reals(), {evicted_.f32(), false});
    };
    rows_.push_back({kernel, shape, bytes, flops, median_seconds(clock_, repetitions_, work, evict), factors});
  }
  /// What only moves data.
  void moves(const std::string& kernel, const std::string& shape, double bytes, const std::function<void()>& work) {
    measure(kernel, shape, bytes, 0, RealType::kFloat32, work);
  }
  void product(const std::string& kernel, Transpose a, Transpose b, int64_t m, int64_t n, int64_t k, DType result) {
    const Tensor left = reals(m * k), right = reals(n * k), out = filled({m * n}, result);
    const int64_t lda = a == Transpose::kYes ? m : k, ldb = b == Transpose::kYes ? k : n;
    measure(kernel, fmt::format("{} x {} x {}", m, n, k),
            e_ * real(m * k + n * k) + static_cast<double>(dtype_bytes(result)) * real(m * n),
            2 * real(m * n) * real(k), real_,
            [&] { k_.matmul(a, b, m, n, k, 1, left.reals(), lda, right.reals(), ldb, 0, out.reals(), n); });
  }
  static double real(int64_t count) { return static_cast<double>(count); }

  void vectors();
  void norms_and_attention();
  void dense_products();
  void routing();
  void experts();
  void ends();
  void update();

  const Kernels& k_;
  DeviceClock& clock_;
  const ModelConfig& m_;
  const DType type_;     ///< of activations
  const RealType real_;  ///< the same
  const double e_;       ///< bytes of one
  const int64_t batch_, sequence_, n_, d_, vocabulary_, repetitions_;
  const Tensor evicting_, evicted_;
  std::vector<Row> rows_;
};

void KernelBench::vectors() {
  const int64_t count = n_ * d_;
  const double size = real(count);
  const std::string shape = fmt::format("{} x {}", n_, d_);
  const Tensor x = reals(count), y = reals(count), z = reals(count), sum = floats(count), total = floats(count);
  moves("copy", shape, 2 * e_ * size, [&] { k_.scale(count, 1, x.reals(), y.reals()); });
  moves("linear combination", shape, 3 * e_ * size,
        [&] { k_.linear_combination(count, 0.5F, x.reals(), 0.5F, y.reals(), z.reals()); });
  const LoopingResidualCoefficients c{.branch_scale = 0.1F, .beta_local = 0.5F, .beta_global = 0.5F};
  moves("looping residual", shape, (3 * e_ + 16) * size, [&] {
    k_.looping_residual_forward(count, c, x.reals(), y.reals(), sum.f32(), total.f32(), sum.f32(), total.f32(),
                                z.reals());
  });
  moves("looping residual, backward", shape, (2 * e_ + 16) * size, [&] {
    k_.looping_residual_backward(count, c, x.reals(), sum.f32(), total.f32(), z.reals(), sum.f32(), total.f32());
  });
}

void KernelBench::norms_and_attention() {
  const int64_t heads = m_.query_heads, kv_heads = m_.kv_heads, dim = m_.head_dim;
  const std::string shape = fmt::format("{} x {}", n_, d_);
  {
    const Tensor x = reals(n_ * d_), y = reals(n_ * d_), z = reals(n_ * d_), gain = floats(d_), inverse = floats(n_);
    const Tensor dgain = floats(d_);
    const double size = e_ * real(n_ * d_);
    moves("RMSNorm", shape, 2 * size,
          [&] { k_.rmsnorm_forward(n_, d_, 1e-6F, x.reals(), gain.f32(), y.reals(), inverse.f32()); });
    moves("RMSNorm, backward", shape, 3 * size, [&] {
      k_.rmsnorm_backward(n_, d_, x.reals(), gain.f32(), inverse.f32(), y.reals(), {z.reals(), false},
                          {dgain.f32(), false});
    });
  }
  const int64_t width = heads * dim, kv_width = kv_heads * dim;
  const Tensor q = reals(n_ * width), k = reals(n_ * kv_width), v = reals(n_ * kv_width), out = reals(n_ * width);
  const Tensor dq = reals(n_ * width), dk = reals(n_ * kv_width), dv = reals(n_ * kv_width), dout = reals(n_ * width);
  {
    std::vector<float> cosine(static_cast<size_t>(sequence_ * dim / 2)), sine(cosine.size());
    fill_rotary_table(sequence_, dim, m_.rope_theta, cosine.data(), sine.data());
    const Tensor cosines = uploaded(cosine, DType::kFloat32), sines = uploaded(sine, DType::kFloat32);
    std::vector<int32_t> positions(static_cast<size_t>(n_));
    for (int64_t i = 0; i < n_; ++i) positions[static_cast<size_t>(i)] = static_cast<int32_t>(i % sequence_);
    const Tensor position = uploaded(positions, DType::kInt32);
    moves("rotary positions", fmt::format("{} x {} heads of {}", n_, heads, dim), 2 * e_ * real(n_ * width),
          [&] { k_.rotary(n_, heads, dim, position.i32(), cosines.f32(), sines.f32(), false, q.reals(), dq.reals()); });
  }
  moves("sigmoid gate", fmt::format("{} x {}", n_, width), 3 * e_ * real(n_ * width),
        [&] { k_.sigmoid_gate_forward(n_ * width, q.reals(), out.reals(), dq.reals()); });
  moves("sigmoid gate, backward", fmt::format("{} x {}", n_, width), 5 * e_ * real(n_ * width),
        [&] { k_.sigmoid_gate_backward(n_ * width, q.reals(), out.reals(), dout.reals(), dq.reals(), out.reals()); });
  const AttentionShape attention{batch_, sequence_, heads, kv_heads, dim, 1 / std::sqrt(static_cast<float>(dim))};
  const Tensor lse = floats(n_ * heads), workspace = floats(k_.attention_workspace(attention) + 1);
  const std::string attention_shape =
      fmt::format("{} x {}, {} and {} heads of {}", batch_, sequence_, heads, kv_heads, dim);
  // Two products of each query with the keys up to it; the backward pass has five.
  const double pair = 2 * real(batch_ * heads * dim) * real(sequence_) * real(sequence_ + 1) / 2;
  measure("attention", attention_shape, 2 * e_ * real(n_ * (width + kv_width)), 2 * pair, real_, [&] {
    k_.attention_forward(attention, q.reals(), k.reals(), v.reals(), nullptr, out.reals(), lse.f32(), workspace.f32());
  });
  measure("attention, backward", attention_shape, 4 * e_ * real(n_ * (width + kv_width)), 5 * pair, real_, [&] {
    k_.attention_backward(attention, q.reals(), k.reals(), v.reals(), nullptr, out.reals(), lse.f32(), dout.reals(),
                          dq.reals(), dk.reals(), dv.reals(), workspace.f32());
  });
}

void KernelBench::dense_products() {
  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  const int64_t width = m_.query_heads * m_.head_dim;
  product("query projection", kNo, kYes, n_, width, d_, type_);
  product("query projection, input gradient", kNo, kNo, n_, d_, width, type_);
  product("query projection, weight gradient", kYes, kNo, width, d_, n_, DType::kFloat32);
  if (m_.any_moe()) product("router logits", kNo, kYes, n_, m_.moe.experts, d_, DType::kFloat32);
}

void KernelBench::routing() {
  const int64_t experts = m_.moe.experts, k = m_.moe.top_k, slots = n_ * k;
  const std::string shape = fmt::format("{} tokens, {} of {} experts", n_, k, experts);
  const double choices = real(slots), tokens = real(n_);
  const Tensor scores = floats(n_ * experts), dscores = floats(n_ * experts), bias = floats(experts);
  const Tensor weights = floats(slots), dweights = floats(slots);
  k_.sigmoid_forward(n_ * experts, scores.f32(), scores.f32());
  const Tensor index = uploaded(std::vector<int32_t>(static_cast<size_t>(slots)), DType::kInt32);
  moves("choice of experts", shape, 4 * tokens * real(experts) + 4 * choices,
        [&] { k_.top_k(n_, experts, k, scores.f32(), bias.f32(), index.i32()); });
  moves("mixing weights", shape, 4 * tokens * real(experts) + 8 * choices,
        [&] { k_.route_weights_forward(n_, experts, k, true, scores.f32(), index.i32(), nullptr, weights.f32()); });
  moves("mixing weights, backward", shape, 8 * tokens * real(experts) + 8 * choices, [&] {
    k_.route_weights_backward(n_, experts, k, true, scores.f32(), index.i32(), nullptr, dweights.f32(),
                              {dscores.f32(), false});
  });
  const Tensor keep = uploaded(std::vector<uint8_t>(static_cast<size_t>(slots)), DType::kUint8);
  moves("capacity", shape, 9 * choices, [&] {
    k_.keep_largest(n_, k, experts, (slots + experts - 1) / experts, index.i32(), weights.f32(), keep.u8());
  });
  const auto list = [](int64_t count) { return Tensor::empty({count}, Purpose::kWorkspace, DType::kInt64); };
  const RouteShape route{n_, k, experts, 1};
  const Tensor counts = list(experts + 1), sent_token = list(slots), token_begin = list(n_ + 1);
  const Tensor token_sent = list(slots), sent_slot = list(slots), messages = list(slots);
  const auto message = reinterpret_cast<RouteMessage*>(messages.i64());
  moves("route plan, counts", shape, 4 * choices, [&] { k_.route_count(route, index.i32(), nullptr, counts.i64()); });
  moves("route plan, sender", shape, 24 * choices + 24 * tokens, [&] {
    k_.route_send(route, index.i32(), nullptr, weights.f32(), counts.i64(), sent_token.i64(), token_begin.i64(),
                  token_sent.i64(), sent_slot.i64(), message);
  });
  const Tensor slot_row = list(slots), slot_arrival = list(slots), slot_weight = floats(slots);
  const Tensor row_begin = list(n_ + 1), row_slot = list(slots);
  moves("route plan, receiver", shape, 36 * choices + 8 * tokens, [&] {
    k_.route_receive(route, n_, slots, counts.i64(), message, slot_row.i64(), slot_arrival.i64(), slot_weight.f32(),
                     row_begin.i64(), row_slot.i64());
  });
  const Tensor x = reals(n_ * d_), y = reals(slots * d_), dy = reals(slots * d_), dslot = floats(slots);
  const std::string rows_shape = fmt::format("{} slots of {} rows x {}", slots, n_, d_);
  const double rows = e_ * tokens * real(d_), slot_rows = e_ * choices * real(d_);
  moves("gather of rows", rows_shape, rows + slot_rows + 8 * choices,
        [&] { k_.gather_rows(slots, d_, slot_row.i64(), x.reals(), y.reals()); });
  moves("sum of slots", rows_shape, rows + slot_rows + 12 * choices + 8 * tokens,
        [&] { k_.sum_slots(n_, d_, row_begin.i64(), row_slot.i64(), slot_weight.f32(), y.reals(), false, x.reals()); });
  moves("sum of slots, backward", rows_shape, rows + 2 * slot_rows + 16 * choices, [&] {
    k_.sum_slots_backward(slots, d_, slot_row.i64(), slot_weight.f32(), y.reals(), x.reals(), dy.reals(), dslot.f32());
  });
}

void KernelBench::experts() {
  const int64_t experts = m_.moe.experts, inner = m_.moe.intermediate, slots = n_ * m_.moe.top_k;
  std::vector<int64_t> offsets(static_cast<size_t>(experts) + 1);
  for (int64_t g = 0; g <= experts; ++g) offsets[static_cast<size_t>(g)] = slots * g / experts;
  const Tensor x = reals(slots * d_), w = reals(experts * inner * d_), gate = reals(slots * inner);
  const Tensor up = reals(slots * inner), h = reals(slots * inner), dw = floats(experts * inner * d_);
  const std::string shape = fmt::format("{} x {} x {} in {} groups", slots, inner, d_, experts);
  const double flops = 2 * real(slots) * real(inner) * real(d_);
  const double sides = e_ * real(slots) * real(inner + d_), matrices = real(experts * inner * d_);
  measure("experts, up", shape, sides + e_ * matrices, flops, real_,
          [&] { k_.grouped_matmul_forward(experts, offsets.data(), inner, d_, x.reals(), w.reals(), up.reals()); });
  measure("experts, up, input gradient", shape, sides + e_ * matrices, flops, real_, [&] {
    k_.grouped_matmul_input_gradient(experts, offsets.data(), inner, d_, up.reals(), w.reals(), false, x.reals());
  });
  measure("experts, up, weight gradient", shape, sides + 4 * matrices, flops, real_, [&] {
    k_.grouped_matmul_weight_gradient(experts, offsets.data(), inner, d_, up.reals(), x.reals(), false, dw.f32());
  });
  const int64_t count = slots * inner;
  moves("SwiGLU", fmt::format("{} x {}", slots, inner), 3 * e_ * real(count),
        [&] { k_.swiglu_forward(count, gate.reals(), up.reals(), h.reals()); });
  moves("SwiGLU, backward", fmt::format("{} x {}", slots, inner), 5 * e_ * real(count),
        [&] { k_.swiglu_backward(count, gate.reals(), up.reals(), h.reals(), gate.reals(), up.reals()); });
}

void KernelBench::ends() {
  std::vector<int32_t> ids(static_cast<size_t>(n_));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(vocabulary_));
  const Tensor tokens = uploaded(ids, DType::kInt32);
  const std::string shape = fmt::format("{} x {} of {}", n_, d_, vocabulary_);
  {
    const Tensor x = reals(n_ * d_), table = floats(vocabulary_ * d_), dtable = floats(vocabulary_ * d_);
    const double size = real(n_ * d_);
    moves("embedding", shape, (4 + e_) * size + 4 * real(n_),
          [&] { k_.embedding_forward(n_, d_, 1, tokens.i32(), table.f32(), x.reals()); });
    moves("embedding, backward", shape, (8 + e_) * size + 4 * real(n_), [&] {
      k_.embedding_backward(n_, d_, vocabulary_, 1, tokens.i32(), x.reals(), {dtable.f32(), true});
    });
  }
  const int64_t rows = std::min<int64_t>(n_, kHeadRows);
  product("head", Transpose::kNo, Transpose::kYes, rows, vocabulary_, d_, DType::kFloat32);
  product("head, weight gradient", Transpose::kYes, Transpose::kNo, vocabulary_, d_, rows, DType::kFloat32);
  const Tensor logits = floats(rows * vocabulary_), gradient = reals(rows * vocabulary_);
  const Tensor loss = Tensor::empty({rows}, Purpose::kWorkspace, DType::kFloat64), total = loss.clone();
  moves("cross-entropy and gradient", fmt::format("{} x {}", rows, vocabulary_), (4 + e_) * real(rows * vocabulary_),
        [&] {
          k_.cross_entropy(rows, vocabulary_, tokens.i32(), {.gradient_scale = 1}, logits.f32(), gradient.reals(),
                           loss.f64(), total.f64());
        });
}

void KernelBench::update() {
  // The largest tensor of a layer.
  const int64_t count = m_.any_moe() ? m_.moe.experts * m_.moe.intermediate * d_ : m_.dense_intermediate * d_;
  const Tensor gradient = floats(count), parameter = floats(count), first = floats(count), second = floats(count);
  second.fill_zero();
  const AdamWCoefficients c{.learning_rate = 1e-4F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .weight_decay = 0.1F};
  const std::string shape = fmt::format("{}", count);
  moves("AdamW", shape, 28 * real(count),
        [&] { k_.adamw(count, c, gradient.f32(), parameter.f32(), first.f32(), second.f32()); });
  moves("sum of squares", shape, 4 * real(count), [&] { k_.sum_of_squares(count, gradient.reals()); });
}

std::string microseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.1f}", 1e6 * seconds) : "-";
}

void print(const std::vector<Row>& rows, const DeviceLimits& limits) {
  using Align = TextTable::Align;
  TextTable table({{"kernel", Align::kLeft},
                   {"shape", Align::kLeft},
                   {"us"},
                   {"GB/s"},
                   {"TFLOP/s"},
                   {"floor"},
                   {"measured floor"},
                   {"share"}});
  for (const Row& row : rows)
    table.add_row({row.kernel, row.shape, microseconds(row.seconds),
                   fmt::format("{:.0f}", 1e-9 * row.bytes / row.seconds),
                   row.flops > 0 ? fmt::format("{:.1f}", 1e-12 * row.flops / row.seconds) : "-",
                   microseconds(floor_of(row, limits.peak)), microseconds(floor_of(row, limits.measured)),
                   fmt::format("{:.0f}%", 100 * floor_of(row, limits.measured) / row.seconds)});
  log_line(table.render(0));
}

nlohmann::json results(const std::vector<Row>& rows, const DeviceLimits& limits, const TrainConfig& config) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    const double peak = floor_of(row, limits.peak);
    list.push_back({{"kernel", row.kernel},
                    {"shape", row.shape},
                    {"seconds", row.seconds},
                    {"bytes", row.bytes},
                    {"flops", row.flops},
                    {"floor_seconds", peak > 0 ? nlohmann::json(peak) : nlohmann::json(nullptr)},
                    {"measured_floor_seconds", floor_of(row, limits.measured)}});
  }
  return {{"device", to_json(limits)},          {"preset", preset_name(config)}, {"micro_batch", config.micro_batch},
          {"sequence_length", config.sequence}, {"precision", config.precision}, {"kernels", std::move(list)}};
}

}  // namespace
}  // namespace heddle::bench

int main(int count, char** arguments) {
  using namespace heddle;
  bench::BenchConfig config;
  int64_t repetitions = 20;
  return bench::run_bench(
      count, arguments, config,
      [&](Config& keys) {
        keys.add("bench.repetitions", repetitions, {1, 10000, false, false}, "calls of a kernel, at most");
      },
      [&] {
        Job job;
        const auto device = open_device(job, config.train.device, config.train.precision);
        bench::DeviceClock clock(device->device());
        const bench::DeviceLimits limits = bench::device_limits(device->device(), clock, config.product_size);
        const int64_t vocabulary = config.train.model.vocabulary_size > 0
                                       ? config.train.model.vocabulary_size
                                       : TokenStore::open(config.train.store).vocabulary_size();
        const auto rows =
            bench::KernelBench(device->device(), limits, clock, config.train, vocabulary, repetitions).run();
        bench::print(rows, limits);
        if (!config.json.empty()) publish_text(config.json, bench::results(rows, limits, config.train).dump(2) + "\n");
      });
}
