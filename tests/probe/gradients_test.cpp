// Gradients by visit against the ordinary one, alignment and kappa by hand, read-backs against a change of the weights.
#include "probe/gradients.h"

#include "tests/probe/probe_scene.h"

namespace heddle {
namespace {

Gram gram_of(const std::vector<std::vector<double>>& vectors) {
  Gram gram(static_cast<int64_t>(vectors.size()));
  for (size_t i = 0; i < vectors.size(); ++i)
    for (size_t j = 0; j < vectors.size(); ++j)
      for (size_t e = 0; e < vectors[i].size(); ++e)
        gram.at(static_cast<int64_t>(i), static_cast<int64_t>(j)) += vectors[i][e] * vectors[j][e];
  return gram;
}

TEST(Alignment, IsOneForOrthogonalAndRForEqualVisits) {
  EXPECT_NEAR(alignment(gram_of({{3, 0, 0}, {0, 4, 0}, {0, 0, 1}})), 1, 1e-12);
  EXPECT_NEAR(alignment(gram_of({{1, 2}, {1, 2}, {1, 2}})), 3, 1e-12);
  EXPECT_NEAR(alignment(gram_of({{1, 2}, {-1, -2}})), 0, 1e-12);
  EXPECT_TRUE(std::isnan(alignment(gram_of({{0}, {0}}))));
}

TEST(Kappa, OfTwoVisitsByHand) {
  EXPECT_NEAR(kappa(gram_of({{1, 0}, {1, 0}}), gram_of({{0, 2}, {0, 2}})), 2, 1e-12) << "all aligned: R";
  EXPECT_NEAR(kappa(gram_of({{1, 0}, {0, 1}}), gram_of({{0, 2}, {2, 0}})), 1, 1e-12) << "orthogonal: 1";
  EXPECT_NEAR(kappa(gram_of({{1, 0}, {-1, 0}}), gram_of({{1, 0}, {1, 0}})), 0, 1e-12) << "read-backs cancel";
  // |(3,9)| |(1,2)| / (2 * 5 * 2)
  EXPECT_NEAR(kappa(gram_of({{3, 4}, {0, 5}}), gram_of({{1, 0}, {0, 2}})), std::sqrt(90.0 * 5) / 20, 1e-12);
  EXPECT_TRUE(std::isnan(kappa(gram_of({{0}, {0}}), gram_of({{1}, {1}}))));
}

/// Gradient of the mean loss over documents by the trainer's own full back-propagation, into the parameters.
void ordinary_gradient(ProbeScene& s, const ProbeDocuments& documents) {
  s.model->parameters().clear_gradients();
  const std::vector<double> weights;
  const RouterLossConfig losses;
  for (const DocumentBatch& batch : documents.batches()) {
    PieceRun run(*s.model, weights, losses, nullptr);
    run.run(batch.tokens, {0, 0, s.model->active_loops(), 0},
            {1 / static_cast<double>(documents.total_tokens()), batch.tokens.rows * batch.tokens.sequence, 1}, nullptr,
            false);
  }
}

void expect_sums(ModelConfig config, size_t visits_of_one) {
  ProbeScene s(config);
  s.model->parameters().allocate_gradients();
  const ProbeDocuments documents = s.documents();
  const std::vector<VisitGradient> visits = visit_gradients(*s.model, documents);
  ordinary_gradient(s, documents);
  size_t most = 0;
  for (const Parameter& p : s.model->parameters().all()) {
    if (!p.name.starts_with("core.")) continue;
    std::vector<float> sum(static_cast<size_t>(p.value.count()), 0);
    size_t count = 0;
    for (const VisitGradient& v : visits) {
      if (v.parameter != &p) continue;
      ++count;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += v.gradient[i];
    }
    most = std::max(most, count);
    ASSERT_GT(count, 0U) << p.name;
    EXPECT_GT(std::sqrt(dot(p.gradient, p.gradient)), 0) << p.name;
    EXPECT_LT(relative_error(sum, p.gradient.floats()), 1e-5) << p.name;
  }
  EXPECT_EQ(most, visits_of_one);
}

TEST(VisitGradients, AddUpToTheOrdinaryGradient) {
  expect_sums(tiny_model(), 4);
  expect_sums(plain_dense(), 3);
  ModelConfig untied = plain_dense();
  untied.tied = false;
  expect_sums(untied, 1);
}

TEST(VisitGradients, BelongToTheirLoop) {
  // A router that belongs to a loop has a gradient in that loop alone.
  ProbeScene s(tiny_model());
  for (const VisitGradient& v : visit_gradients(*s.model, s.documents()))
    if (v.parameter->name.find(".routers.") != std::string::npos) {
      EXPECT_TRUE(v.parameter->name.ends_with(fmt::format("routers.{}.weight", v.loop))) << v.parameter->name;
    }
}

TEST(GradientVisibleLoops, AreTheLastOfTruncatedBackPropagation) {
  EXPECT_EQ(gradient_visible_loops({BackPropagationMode::kTruncated, 2, false}, 5), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(gradient_visible_loops({BackPropagationMode::kTruncated, 7, false}, 2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(gradient_visible_loops({BackPropagationMode::kSegmented, 2, true}, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(gradient_visible_loops({BackPropagationMode::kFull, 0, false}, 2), (std::vector<int64_t>{0, 1}));
}

TEST(BranchToStream, IsBetaOverAlphaOrTheMultiplier) {
  ModelConfig c = plain_dense();
  EXPECT_EQ(branch_to_stream(c), 1);
  c.residual_multiplier = 0.25;
  EXPECT_EQ(branch_to_stream(c), 0.25);
  // N = 2 layers * 3 loops; beta / alpha = 1 / (4 N) at p = 1/2.
  c.residual = ResidualScheme::kDeepNorm;
  EXPECT_NEAR(branch_to_stream(c), 1.0 / 24, 1e-12);
  c.residual = ResidualScheme::kScaled;
  EXPECT_NEAR(branch_to_stream(c), 0.5 / (3 * std::sqrt(2.0)), 1e-12);
  c.residual = ResidualScheme::kSandwichOuter;
  EXPECT_TRUE(std::isnan(branch_to_stream(c)));
}

/// Final states of all counted positions, with choices by batch: recorded where there are none yet, else held.
std::vector<double> final_states(ProbeScene& s, const ProbeDocuments& documents,
                                 std::vector<VisitParameters>& choices) {
  const bool record = choices.empty();
  std::vector<double> all;
  size_t number = 0;
  for (const DocumentBatch& batch : documents.batches()) {
    if (record) choices.emplace_back().keep_choices(true);
    VisitParameters& visits = choices.at(number++);
    Interventions held;
    if (!record) held.choices = visits.choices();
    LoopedModel::Options options;
    options.observer = record ? &visits : nullptr;
    options.interventions = &held;
    Tape tape = s.model->tape(Tape::Mode::kForwardOnly);
    const Variable e = s.model->embed(tape, batch.tokens, options);
    LoopState state = s.model->start(batch.tokens, e);
    s.model->run_loops(tape, batch.tokens, e, 0, s.model->active_loops(), options, state);
    const Tensor y = s.model->read_out(tape, batch.tokens, e, state, options).value;
    for (int64_t r = 0; r < batch.tokens.rows; ++r)
      for (const float value : y.rows(r * batch.tokens.sequence, batch.targets[static_cast<size_t>(r)]).get<float>())
        all.push_back(static_cast<double>(value));
  }
  return all;
}

/// Moving the weights of all visits at once is moving the model's own: |sum U| without any stand-in.
void expect_read_backs(const ModelConfig& config) {
  ProbeScene s(config);
  std::vector<VisitParameters> choices;
  s.model->parameters().allocate_gradients();
  const ProbeDocuments documents = s.documents(3, 2);
  const auto group = [](const Parameter& p) { return p.name.starts_with("core.0.attn"); };
  const std::vector<VisitGradient> visits = visit_gradients(*s.model, documents);
  std::vector<int64_t> loops;
  for (int64_t t = 0; t < config.loops; ++t) loops.push_back(t);
  const Gram u = read_backs(*s.model, documents, visits, loops, group);
  final_states(s, documents, choices);
  ordinary_gradient(s, documents);
  double squares = 0, weights = 0;
  for (const Parameter& p : s.model->parameters().all())
    if (group(p)) {
      squares += dot(p.gradient, p.gradient);
      weights += dot(p.value, p.value);
    }
  const double step = 1e-3 * std::sqrt(weights);
  const auto moved = [&](double by) {
    for (Parameter& p : s.model->parameters().all())
      if (group(p))
        for (int64_t i = 0; i < p.value.count(); ++i)
          p.value.f32()[i] += static_cast<float>(by / std::sqrt(squares) * static_cast<double>(p.gradient.f32()[i]));
    return final_states(s, documents, choices);
  };
  const std::vector<double> up = moved(step), down = moved(-2 * step);
  double change = 0;
  for (size_t i = 0; i < up.size(); ++i) change += (up[i] - down[i]) * (up[i] - down[i]);
  change = std::sqrt(change) / (2 * step);
  EXPECT_NEAR(u.sum_norm(), change, 1e-2 * change);
  for (const int64_t t : loops) EXPECT_GT(u.norm(t), 1e-3 * change) << t;
}

TEST(ReadBacks, AddUpToTheChangeOfTheTiedWeights) {
  expect_read_backs(plain_dense());
}

TEST(ReadBacks, HoldTheChoicesOfExperts) {
  // Free choices would jump within the step.
  expect_read_backs(tiny_model());
}

TEST(GradientProbe, TruncatedGradientsAreTheLastVisits) {
  // Of the final loss, what B loops of gradient give the core is the sum of its last B visits.
  ProbeScene s(plain_dense());
  const ProbeDocuments documents = s.documents(3, 2);
  ProbeResult r;
  probe_gradients(*s.model, documents, {BackPropagationMode::kTruncated, 2, false}, GradientDetail::kKappa, r);
  ASSERT_EQ(r.gradients.cosines.size(), 4U);
  const std::vector<VisitGradient> visits = visit_gradients(*s.model, documents);
  const Gram g =
      gradient_gram(*s.model, visits, {0, 1, 2}, [](const Parameter& p) { return p.name.starts_with("core."); });
  for (int64_t b = 1; b < 3; ++b) {
    double product = 0, square = 0;
    for (int64_t i = 3 - b; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        product += g.at(i, j);
        if (j >= 3 - b) square += g.at(i, j);
      }
    const GradientCosine& c = r.gradients.cosines.at(static_cast<size_t>(b - 1));
    EXPECT_EQ(c.mode, "truncated");
    EXPECT_EQ(c.loops, b);
    EXPECT_NEAR(c.core, product / std::sqrt(square) / g.sum_norm(), 1e-5);
    EXPECT_LT(c.core, 0.999);
  }
  EXPECT_EQ(r.gradients.cosines[2].mode, "segmented");
  // Whole core and two branches of two layers, over the two visits with gradient; M = 2 * 2 * 2.
  ASSERT_EQ(r.gradients.kappas.size(), 5U);
  for (const Kappa& k : r.gradients.kappas) {
    EXPECT_EQ(k.loops, (std::vector<int64_t>{1, 2}));
    EXPECT_GT(k.kappa, 0);
    EXPECT_LE(k.kappa, 2 + 1e-9);
    EXPECT_NEAR(k.bound, 8 * k.kappa, 1e-9);
  }
  EXPECT_EQ(r.gradients.kappas[0].group, "core");
  EXPECT_EQ(r.gradients.kappas[4].group, "core.1.ffn");
  ASSERT_EQ(r.gradients.matrices.size(), 16U);
  EXPECT_EQ(r.gradients.matrices[0].visit_norms.size(), 3U);
}

TEST(GradientProbe, OfOneLoopHasNothingToCompare) {
  ModelConfig c = tiny_model();
  c.loops = 1;
  ProbeScene s(c);
  ProbeResult r;
  probe_gradients(*s.model, s.documents(), {}, GradientDetail::kKappa, r);
  EXPECT_TRUE(r.gradients.cosines.empty());
  EXPECT_TRUE(r.gradients.kappas.empty());
  ASSERT_FALSE(r.gradients.matrices.empty());
  for (const MatrixGradient& m : r.gradients.matrices) EXPECT_NEAR(m.alignment, 1, 1e-9) << m.name;
}

}  // namespace
}  // namespace heddle
