// The whole model: its gradients against differences, detachment between segments, early exit, start values.
#include "model/looped_model.h"

#include "tests/autograd/gradient_check.h"
#include "tests/train/tiny_model.h"

namespace heddle {
namespace {

struct Fixture {
  explicit Fixture(ModelConfig config = tiny_model(), const Kernels& kernels = cpu::kernels())
      : world(make_single_communicator()), groups(*world, 1), model(config, groups, kernels) {
    model.initialise(3);
    model.parameters().allocate_gradients();
    // Unequal norm weights and routers, so that a mix-up of two tensors shows.
    uint32_t stream = 60;
    for (Parameter& p : model.parameters().all()) {
      const Tensor noise = random_tensor(p.value.shape(), stream++, 0.05);
      for (int64_t i = 0; i < noise.count(); ++i) p.value.f32()[i] += noise.f32()[i];
    }
  }
  std::unique_ptr<Communicator> world;
  ProcessGroups groups;
  LoopedModel model;
};

/// Loss of loops [first, last) from a carry (none: from the start); with gradients while `mode` records.
double loss_of(LoopedModel& model, const TokenBatch& batch, int64_t first, int64_t last, const LoopCarry* carry,
               Tape::Mode mode, ForwardObserver* observer = nullptr) {
  Tape tape(model.kernels(), mode);
  LoopedModel::Options options;
  options.observer = observer;
  const Variable embedding = model.embed(tape, batch, options);
  LoopState state = carry == nullptr ? model.start(batch, embedding) : LoopedModel::resume(*carry);
  model.run_loops(tape, batch, embedding, first, last, options, state);
  const double loss = model.loss(tape, model.read_out(tape, batch, embedding, state, options), batch, 1).cross_entropy;
  state = {};
  tape.backward();
  return loss;
}

/// Remembers all choices of experts, to notice when a shift of the weights changes one.
class ChoiceRecorder : public ForwardObserver {
 public:
  std::vector<int32_t> all;
  void on_block(const BlockView& view) override {
    all.insert(all.end(), view.routing.index.i32(), view.routing.index.i32() + view.routing.index.count());
  }
};

/// Directional differences in every parameter by itself; the loss is smooth only while no choice changes.
void expect_model_gradients(LoopedModel& model, const TokenBatch& batch, int64_t first, int64_t last,
                            const LoopCarry* carry) {
  model.parameters().clear_gradients();
  loss_of(model, batch, first, last, carry, Tape::Mode::kRecord);
  int64_t checked = 0, expected_checks = 0;
  uint32_t stream = 500;
  for (Parameter& p : model.parameters().all()) {
    ++stream;
    if (!p.has_gradient) continue;
    ++expected_checks;
    const Tensor start = p.value.clone();
    // Along the gradient itself and a random direction of the same length: the first cannot cancel.
    const double norm = std::sqrt(dot(p.gradient, p.gradient));
    ASSERT_GT(norm, 0) << p.name;
    for (const bool along_gradient : {true, false}) {
      Tensor direction = along_gradient ? p.gradient.clone() : random_tensor(p.value.shape(), stream);
      const double length = std::sqrt(dot(direction, direction));
      const double weight_norm = std::sqrt(dot(start, start));
      const auto at = [&](double step, std::vector<int32_t>& choices) {
        for (int64_t i = 0; i < start.count(); ++i)
          p.value.f32()[i] = static_cast<float>(static_cast<double>(start.f32()[i]) +
                                                step / length * static_cast<double>(direction.f32()[i]));
        ChoiceRecorder recorder;
        const double loss = loss_of(model, batch, first, last, carry, Tape::Mode::kForwardOnly, &recorder);
        choices = recorder.all;
        return loss;
      };
      // The longest step that changes no choice.
      for (double h = 1e-2 * weight_norm; h > 1e-5 * weight_norm; h /= 2) {
        std::vector<int32_t> up_choices, down_choices;
        const double up = at(h, up_choices), down = at(-h, down_choices);
        if (up_choices != down_choices) continue;
        const double expected = dot(p.gradient, direction) / length, measured = (up - down) / (2 * h);
        const double rounding = 5e-6 / h;  // a loss of some 300 in single precision
        EXPECT_NEAR(measured, expected, 1e-2 * norm + rounding)
            << p.name << (along_gradient ? " along its gradient" : " in a random direction") << ", step " << h;
        if (along_gradient) {
          EXPECT_GT(norm, 2 * rounding) << p.name << ": the step is too short to see anything";
          ++checked;
        }
        break;
      }
      p.value.copy_from(start);
    }
  }
  EXPECT_EQ(checked, expected_checks) << "no step left the choices of experts alone";
}

TEST(LoopedModelGradient, ThroughAllLoops) {
  Fixture f;
  expect_model_gradients(f.model, tiny_batch({0, 4}, 1), 0, 4, nullptr);
  for (const Parameter& p : f.model.parameters().all()) EXPECT_TRUE(p.has_gradient) << p.name;
}

TEST(LoopedModelGradient, OfOneSegmentWithADetachedState) {
  Fixture f;
  const TokenBatch batch = tiny_batch({0, 4}, 1);
  LoopCarry carry;
  {
    Tape tape(f.model.kernels(), Tape::Mode::kForwardOnly);
    const Variable embedding = f.model.embed(tape, batch, {});
    LoopState state = f.model.start(batch, embedding);
    f.model.run_loops(tape, batch, embedding, 0, 2, {}, state);
    carry = LoopedModel::detach(state);
  }
  expect_model_gradients(f.model, batch, 2, 4, &carry);
  // Routers of loops 0 and 1 are not visited; the embedding is, through re-injection.
  for (const Parameter& p : f.model.parameters().all()) {
    const size_t at = p.name.find("routers.");
    const bool visited = at == std::string::npos || p.name[at + 8] >= '2';
    EXPECT_EQ(p.has_gradient, visited) << p.name;
  }
}

TEST(LoopedModel, SegmentsOfAForwardPassEqualOnePass) {
  Fixture f;
  const TokenBatch batch = tiny_batch({0, 3}, 1);
  Tape tape(f.model.kernels(), Tape::Mode::kForwardOnly);
  const Variable embedding = f.model.embed(tape, batch, {});
  LoopState whole = f.model.start(batch, embedding), parts = f.model.start(batch, embedding);
  f.model.run_loops(tape, batch, embedding, 0, 4, {}, whole);
  for (int64_t t = 0; t < 4; ++t) {
    f.model.run_loops(tape, batch, embedding, t, t + 1, {}, parts);
    const LoopCarry carry = LoopedModel::detach(parts);
    parts = LoopedModel::resume(carry);
  }
  EXPECT_EQ(relative_error(parts.state.value.floats(), whole.state.value.floats()), 0);
}

TEST(LoopedModel, TheFutureAndOtherDocumentsAreNotSeen) {
  Fixture f;
  TokenBatch batch = tiny_batch({1, 1}, 1);  // two documents, the second from position 5 on
  ASSERT_EQ(batch.document_start.i32()[5], 5);
  const auto states = [&] {
    Tape tape(f.model.kernels(), Tape::Mode::kForwardOnly);
    const Variable embedding = f.model.embed(tape, batch, {});
    LoopState state = f.model.start(batch, embedding);
    f.model.run_loops(tape, batch, embedding, 0, 4, {}, state);
    return state.state.value;
  };
  const Tensor before = states();
  const auto changed = [&](int64_t position) {
    int32_t& token = batch.tokens.i32()[position];
    const int32_t old = token;
    token = (token + 1) % 61;
    const Tensor after = states();
    token = old;
    std::vector<int64_t> positions;
    for (int64_t s = 0; s < 16; ++s)
      if (relative_error(after.rows(s, 1).floats(), before.rows(s, 1).floats()) > 1e-5) positions.push_back(s);
    return positions;
  };
  EXPECT_EQ(changed(3), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(changed(14), (std::vector<int64_t>{14, 15}));
  EXPECT_EQ(changed(5), (std::vector<int64_t>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(LoopedModel, NoRowsGiveZeroGradientsToAll) {
  Fixture f;
  for (Parameter& p : f.model.parameters().all())
    std::fill_n(p.gradient.f32(), p.gradient.count(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(loss_of(f.model, tiny_batch({0, 0}, 1), 0, 4, nullptr, Tape::Mode::kRecord), 0);
  for (const Parameter& p : f.model.parameters().all()) {
    EXPECT_TRUE(p.has_gradient) << p.name;
    for (const float g : p.gradient.floats()) ASSERT_EQ(g, 0.0F) << p.name;
  }
}

TEST(LoopedModel, LoopsBeyondTheLastRouterUseTheLastOne) {
  ModelConfig config = tiny_model();
  config.loops = 2;
  Fixture f(config);
  const TokenBatch batch = tiny_batch({0, 2}, 1);
  EXPECT_TRUE(std::isfinite(loss_of(f.model, batch, 0, 5, nullptr, Tape::Mode::kForwardOnly)));
}

TEST(LoopedModel, BothKernelTablesAgree) {
  Fixture fast, plain(tiny_model(), ref::kernels());
  const TokenBatch batch = tiny_batch({0, 4}, 1);
  const double a = loss_of(fast.model, batch, 0, 4, nullptr, Tape::Mode::kRecord);
  const double b = loss_of(plain.model, batch, 0, 4, nullptr, Tape::Mode::kRecord);
  EXPECT_NEAR(a, b, 1e-5 * b);
  size_t i = 0;
  for (const Parameter& p : fast.model.parameters().all())
    EXPECT_LE(relative_error(p.gradient.floats(), plain.model.parameters().all()[i++].gradient.floats()), 1e-4)
        << p.name;
}

TEST(LoopedModelStart, RoutersStartEqualNormsAtOneAndBiasAtZero) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  LoopedModel model(tiny_model(), groups, cpu::kernels());
  model.initialise(1);
  ParameterSet& set = model.parameters();
  for (int t = 1; t < 4; ++t)
    EXPECT_EQ(relative_error(set.find(fmt::format("core.1.moe.routers.{}.weight", t)).value.floats(),
                             set.find("core.1.moe.routers.0.weight").value.floats()),
              0);
  EXPECT_GT(relative_error(set.find("core.1.moe.routers.0.weight").value.floats(),
                           set.find("core.0.moe.routers.0.weight").value.floats()),
            1);
  for (const float gain : set.find("core.0.moe.out_norm.weight").value.floats()) EXPECT_EQ(gain, 1.0F);
  for (const float bias : model.balance_bias(0).floats()) EXPECT_EQ(bias, 0.0F);
  // Deviation 1 / sqrt(D) of the head, 1 / sqrt(F) of the down projections.
  const auto deviation = [&](const char* name) {
    const Tensor& value = set.find(name).value;
    return std::sqrt(dot(value, value) / static_cast<double>(value.count()));
  };
  EXPECT_NEAR(deviation("lm_head.weight"), 1 / std::sqrt(32.0), 0.05 / std::sqrt(32.0));
  EXPECT_NEAR(deviation("core.0.moe.experts.down_proj.weight"), 1 / std::sqrt(16.0), 0.05 / std::sqrt(16.0));
}

TEST(ModelConfig, ConstantsByHand) {
  ModelConfig c = tiny_model();  // L 2, R 4
  EXPECT_DOUBLE_EQ(c.residual_scale(4), 0.5 / (4 * std::sqrt(2.0)));
  EXPECT_DOUBLE_EQ(c.reinjection_gate(1), 0);
  EXPECT_DOUBLE_EQ(c.reinjection_gate(3), 0.5 / (3 * std::sqrt(2.0)));
  c.reinjection_lambda = 10;
  EXPECT_DOUBLE_EQ(c.reinjection_gate(2), 1);
}

TEST(ModelConfig, RefusesWhatCannotBe) {
  const auto refused = [](void (*change)(ModelConfig&), const char* part) {
    ModelConfig c = tiny_model();
    change(c);
    try {
      c.validate();
      ADD_FAILURE() << "accepted; expected an error with " << part;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused([](ModelConfig& c) { c.moe.top_k = 9; }, "moe.top_k = 9 with moe.experts = 8");
  refused([](ModelConfig& c) { c.moe.top_k = 1; }, "moe.top_k = 1");
  refused([](ModelConfig& c) { c.kv_heads = 3; }, "model.kv_heads = 3");
  refused([](ModelConfig& c) { c.head_dim = 7; }, "model.head_dim = 7");
  refused([](ModelConfig& c) { c.moe.capacity_factor = 4; }, "never binds");
}

}  // namespace
}  // namespace heddle
