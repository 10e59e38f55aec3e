// Muon and MuonH against numbers that a program of its own made in float64, and what they promise about matrices.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "optim/optimizer.h"
#include "support/random.h"

namespace heddle {
namespace {

/// Parameters on one rank, with gradients.
struct Scene {
  std::unique_ptr<Communicator> world = make_single_communicator();
  ProcessGroups groups{*world, 1};
  ParameterSet set;

  /// Memory of all that was added; values and gradients are seeded noise.
  void fill() {
    set.allocate_values();
    set.allocate_gradients();
    uint64_t stream = 0;
    for (Parameter& p : set.all()) {
      for (const Tensor* t : {&p.value, &p.gradient}) {
        ++stream;
        for (int64_t i = 0; i < t->count(); ++i)
          t->f32()[i] =
              static_cast<float>(
                  random_words(3, Draw::kTest, static_cast<uint32_t>(stream), static_cast<uint64_t>(i))[0] % 2001) *
                  1e-3F -
              1;
      }
      p.has_gradient = true;
    }
  }
};

using Numbers = std::vector<float>;

Numbers values_of(const Parameter& p) {
  const std::span<float> values = p.value.floats();
  return {values.begin(), values.end()};
}

void set(const Tensor& t, const Numbers& values) {
  ASSERT_EQ(t.count(), static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), t.f32());
}

double norm_of(const Numbers& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

/// Rates are 0.1 * factor / sqrt(4).
OptimizerConfig muon(const std::string& name) {
  OptimizerConfig c;
  c.name = name;
  c.tied_rate_power = 0.5;
  c.loops = 4;
  c.muon.learning_rate = 0.1;
  c.muon.momentum = 0.9;
  c.muon.weight_decay = 2;
  return c;
}

struct Case {
  const char* name;
  std::function<void(OptimizerConfig&)> change;
  Numbers wide, tall;  ///< weights after two steps
};

// Made by a separate program in float64 from the formulas of docs/model_family.md, sections 5 and 9: two steps with
// schedule factor 0.5 and gradient scale 0.5 from the weights and gradients in the test; the tall matrix and its
// gradients are the transpose of the wide ones.
const Case kCases[] = {
    {"newton_schulz",
     [](OptimizerConfig&) {},
     {0.911954306F, -1.83965544F, 0.461059245F, 0.189139133F, 1.3523071F, -0.894544663F},
     {0.892940964F, 0.17600821F, -1.80483734F, 1.32005601F, 0.452492999F, -0.871488878F}},
    {"three steps",
     [](OptimizerConfig& c) { c.muon.ns_steps = 3; },
     {0.910625736F, -1.8391636F, 0.462468169F, 0.189795589F, 1.35143533F, -0.893489234F},
     {0.891315719F, 0.176786738F, -1.80421459F, 1.31899054F, 0.454199107F, -0.87019552F}},
    {"polar_express",
     [](OptimizerConfig& c) { c.muon.orthogonalise = "polar_express"; },
     {0.90726962F, -1.83852686F, 0.465769849F, 0.184862664F, 1.34930906F, -0.889838758F},
     {0.887218764F, 0.170757888F, -1.80338737F, 1.3163781F, 0.458196599F, -0.865718187F}},
    {"polar_express of two steps",
     [](OptimizerConfig& c) {
       c.muon.orthogonalise = "polar_express";
       c.muon.ns_steps = 2;
     },
     {0.914862319F, -1.83944962F, 0.458406424F, 0.190694806F, 1.34781453F, -0.889342727F},
     {0.896482715F, 0.177826929F, -1.80462128F, 1.3145745F, 0.449280175F, -0.865127796F}},
    {"row_normalise",
     [](OptimizerConfig& c) { c.muon.row_normalise = true; },
     {0.910670253F, -1.84612019F, 0.467836015F, 0.184049941F, 1.34873504F, -0.889171431F},
     {0.895732515F, 0.187562813F, -1.8113789F, 1.32319851F, 0.459318711F, -0.873710378F}},
    {"second_moment",
     [](OptimizerConfig& c) { c.muon.second_moment = 0.8; },
     {0.910976333F, -1.84268647F, 0.466906994F, 0.199278473F, 1.35571168F, -0.889138949F},
     {0.891715943F, 0.188307874F, -1.80847853F, 1.32418519F, 0.459559436F, -0.864842117F}},
    {"cautious",
     [](OptimizerConfig& c) { c.muon.cautious = true; },
     {0.959140637F, -2.03522854F, 0.484809245F, 0.189139133F, 1.4235571F, -0.942044663F},
     {0.949957705F, 0.17600821F, -2.04314598F, 1.40628688F, 0.481236621F, -0.928976122F}},
    {"momentum from 0.5 in four steps",
     [](OptimizerConfig& c) {
       c.muon.momentum_start = 0.5;
       c.muon.momentum_steps = 4;
     },
     {0.913151073F, -1.83865156F, 0.45930831F, 0.190996803F, 1.35081714F, -0.893977208F},
     {0.894406699F, 0.178283382F, -1.80360785F, 1.31823119F, 0.45034855F, -0.87079389F}},
    {"muonh",
     [](OptimizerConfig& c) { c.name = "muonh"; },
     {1.00271087F, -2.04200499F, 0.513768713F, 0.163365601F, 1.47125851F, -0.965421329F},
     {1.00271087F, 0.163365601F, -2.04200499F, 1.47125851F, 0.513768713F, -0.965421329F}},
    {"muonh with every option",
     [](OptimizerConfig& c) {
       c.name = "muonh";
       c.muon.orthogonalise = "polar_express";
       c.muon.row_normalise = true;
       c.muon.second_moment = 0.8;
     },
     {0.994011386F, -2.05090084F, 0.53242721F, 0.17978103F, 1.46672139F, -0.94930266F},
     {0.996954176F, 0.173606395F, -2.04564037F, 1.47145933F, 0.529623385F, -0.95294553F}},
};

Numbers turned(const Numbers& wide) {
  return {wide[0], wide[3], wide[1], wide[4], wide[2], wide[5]};
}

TEST(Muon, TwoStepsOfAWideAndATallMatrixEqualTheFormulas) {
  const Numbers weights = {1, -2, 0.5F, 0.25F, 1.5F, -1};
  const Numbers gradients[2] = {{0.5F, 1, -1, 2, -0.5F, 0.25F}, {-1, 0.75F, 0.5F, 1, 1.5F, -2}};
  for (const Kernels* const kernels : {&ref::kernels(), &cpu::kernels()}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(fmt::format("{}, {}", kernels->name, c.name));
      OptimizerConfig config = muon("muon");
      c.change(config);
      Scene s;
      Parameter &wide = s.set.add("wide", {2, 3}), &tall = s.set.add("tall", {3, 2});
      s.fill();
      wide.tied_core = tall.tied_core = true;
      set(wide.value, weights);
      set(tall.value, turned(weights));
      Optimizer optimizer(config, s.set, s.groups, *kernels);
      for (int64_t n = 1; n <= 2; ++n) {
        set(wide.gradient, gradients[n - 1]);
        set(tall.gradient, turned(gradients[n - 1]));
        optimizer.step(0.5, n, 0.5);
      }
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(values_of(wide)[i], c.wide[i], 3e-6) << i;
        EXPECT_NEAR(values_of(tall)[i], c.tall[i], 3e-6) << i;
      }
    }
  }
}

TEST(Muon, TheMomentumWarmsUp) {
  MuonConfig c;
  c.momentum = 0.95;
  EXPECT_DOUBLE_EQ(c.momentum_at(1), 0.95);
  c.momentum_start = 0.85;
  EXPECT_DOUBLE_EQ(c.momentum_at(1), 0.95) << "no steps to warm up in";
  c.momentum_steps = 10;
  EXPECT_DOUBLE_EQ(c.momentum_at(1), 0.85);
  EXPECT_DOUBLE_EQ(c.momentum_at(6), 0.9);
  EXPECT_DOUBLE_EQ(c.momentum_at(11), 0.95);
  EXPECT_DOUBLE_EQ(c.momentum_at(100), 0.95);
}

TEST(Muon, EveryMatrixOfATensorIsSteppedLikeATensorOfItsOwn) {
  // Three experts [4,6]; two shared experts as four rows of [8,5] each, and as three columns of [5,6] each.
  for (const char* name : {"muon", "muonh"}) {
    OptimizerConfig config = muon(name);
    config.muon.second_moment = 0.9;
    config.muon.row_normalise = true;
    Scene together;
    Parameter &experts = together.set.add_experts("experts", {3, 4, 6}, 0, 3), &rows = together.set.add("rows", {8, 5});
    Parameter& columns = together.set.add("columns", {5, 6});
    rows.pieces = columns.pieces = 2;
    columns.piece_axis = 1;
    together.fill();
    Scene apart;
    struct Part {
      const Parameter *from, *to;
      int64_t first, leading;
    };
    std::vector<Part> parts;
    for (int64_t e = 0; e < 3; ++e)
      parts.push_back({&experts, &apart.set.add(fmt::format("expert{}", e), {4, 6}), e * 24, 6});
    for (int64_t i = 0; i < 2; ++i) {
      parts.push_back({&rows, &apart.set.add(fmt::format("rows{}", i), {4, 5}), i * 20, 5});
      parts.push_back({&columns, &apart.set.add(fmt::format("columns{}", i), {5, 3}), i * 3, 6});
    }
    apart.fill();
    const auto at = [](const Part& part, const Tensor& whole, int64_t i) -> float& {
      const int64_t width = part.to->value.dim(1);
      return whole.f32()[part.first + i / width * part.leading + i % width];
    };
    for (const Part& part : parts)
      for (int64_t i = 0; i < part.to->value.count(); ++i) {
        part.to->value.f32()[i] = at(part, part.from->value, i);
        part.to->gradient.f32()[i] = at(part, part.from->gradient, i);
      }
    Optimizer one(config, together.set, together.groups, cpu::kernels()),
        many(config, apart.set, apart.groups, cpu::kernels());
    for (int64_t n = 1; n <= 3; ++n) {
      one.step(1, n, 1);
      many.step(1, n, 1);
    }
    for (const Part& part : parts)
      for (int64_t i = 0; i < part.to->value.count(); ++i)
        ASSERT_EQ(part.to->value.f32()[i], at(part, part.from->value, i)) << name << ' ' << part.to->name << ' ' << i;
  }
}

TEST(Muon, AnExpertDoesNotDependOnTheOthers) {
  Numbers results[2];
  for (const bool other : {false, true}) {
    Scene s;
    Parameter& experts = s.set.add_experts("experts", {2, 4, 6}, 0, 2);
    s.fill();
    if (other)
      for (int64_t i = 24; i < 48; ++i) experts.gradient.f32()[i] *= 1000, experts.value.f32()[i] += 1;
    Optimizer optimizer(muon("muon"), s.set, s.groups, cpu::kernels());
    optimizer.step(1, 1, 1);
    results[other] = values_of(experts);
  }
  EXPECT_TRUE(std::equal(results[0].begin(), results[0].begin() + 24, results[1].begin()));
  EXPECT_NE(results[0][30], results[1][30]);
}

TEST(Muon, RolesSayWhoIsStepped) {
  for (const bool routers : {false, true}) {
    Scene s;
    for (const Role role : {Role::kMatrix, Role::kEmbedding, Role::kHead, Role::kRouter})
      s.set.add(fmt::format("p{}", static_cast<int>(role)), {3, 4}).role = role;
    s.set.add("gain", {4}).role = Role::kVector;
    s.fill();
    OptimizerConfig config = muon("muon");
    config.muon.routers = routers;
    config.muon.second_moment = 0.9;
    Optimizer optimizer(config, s.set, s.groups, cpu::kernels());
    optimizer.step(1, 1, 1);
    for (const Parameter& p : s.set.all()) {
      const Optimizer::State& state = optimizer.states()[p.place];
      const bool by_matrix = p.role == Role::kMatrix || (routers && p.role == Role::kRouter);
      EXPECT_EQ(state.second.count(), by_matrix ? 4 : p.value.count()) << p.name;
      // AdamW's first step divides the mean by its correction: M = (1 - 0.9) g; Muon's momentum has 0.9, too.
      EXPECT_NEAR(state.first.f32()[1], 0.1F * p.gradient.f32()[1], 1e-6) << p.name;
    }
  }
}

TEST(Muon, LeavesMatricesWithoutGradientAlone) {
  Scene s;
  Parameter& p = s.set.add("p", {3, 4});
  s.fill();
  Optimizer optimizer(muon("muon"), s.set, s.groups, cpu::kernels());
  optimizer.step(1, 1, 1);
  p.has_gradient = false;
  const Numbers before = values_of(p);
  optimizer.step(1, 2, 1);
  EXPECT_EQ(values_of(p), before);
  EXPECT_EQ(optimizer.states()[0].steps, 1);
}

TEST(MuonH, KeepsTheNormOfEveryMatrix) {
  Scene s;
  Parameter &experts = s.set.add_experts("experts", {2, 4, 6}, 0, 2), &columns = s.set.add("columns", {5, 6});
  columns.pieces = 2;
  columns.piece_axis = 1;
  s.fill();
  const auto norms = [&] {
    const Numbers e = values_of(experts), c = values_of(columns);
    Numbers left, right;
    for (size_t i = 0; i < c.size(); ++i) (i % 6 < 3 ? left : right).push_back(c[i]);
    return std::vector<double>{norm_of({e.begin(), e.begin() + 24}), norm_of({e.begin() + 24, e.end()}), norm_of(left),
                               norm_of(right)};
  };
  const std::vector<double> before = norms();
  const Numbers start = values_of(experts);
  Optimizer optimizer(muon("muonh"), s.set, s.groups, cpu::kernels());
  for (int64_t n = 1; n <= 20; ++n) optimizer.step(1, n, 1);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(norms()[i], before[i], 1e-6 * before[i]) << i;
  EXPECT_NEAR(optimizer.states()[0].target.f32()[1], before[1], 1e-6);
  EXPECT_GT(std::abs(values_of(experts)[0] - start[0]), 1e-3);
}

TEST(MuonH, KeepsTheNormOfReplacedWeights) {
  Scene s;
  Parameter& p = s.set.add("p", {3, 4});
  s.fill();
  Optimizer optimizer(muon("muonh"), s.set, s.groups, cpu::kernels());
  optimizer.step(1, 1, 1);
  for (float& value : p.value.floats()) value *= 3;
  const double norm = norm_of(values_of(p));
  optimizer.weights_replaced(p, false);
  EXPECT_EQ(optimizer.states()[0].steps, 1);
  EXPECT_NE(optimizer.states()[0].first.f32()[0], 0);
  optimizer.step(1, 2, 1);
  EXPECT_NEAR(norm_of(values_of(p)), norm, 1e-5);
  for (float& value : p.value.floats()) value *= 2;
  optimizer.weights_replaced(p, true);
  EXPECT_EQ(optimizer.states()[0].steps, 0);
  EXPECT_EQ(optimizer.states()[0].first.f32()[0], 0);
  optimizer.step(1, 3, 1);
  EXPECT_NEAR(norm_of(values_of(p)), 2 * norm, 1e-5);
}

}  // namespace
}  // namespace heddle
