// Start values under every initialiser (docs/model_family.md section 9, "Initialisers"). Every element is a function of
// (seed, tensor name, global index), so experts do not depend on the layout.
#include <cmath>

#include "model/looped_model.h"
#include "support/hash.h"
#include "support/parallel.h"
#include "support/random.h"

namespace heddle {

namespace {

/// Distribution of a tensor's elements.
struct Draws {
  enum class Kind { kConstant, kNormal, kWrappedNormal, kUniform } kind = Kind::kConstant;
  double size = 0;  ///< the constant, the standard deviation, or the bound of a uniform distribution
};
Draws constant(double value) {
  return {Draws::Kind::kConstant, value};
}
Draws normal(double deviation) {
  return {Draws::Kind::kNormal, deviation};
}
Draws wrapped(double deviation) {
  return {Draws::Kind::kWrappedNormal, deviation};
}
Draws uniform(double bound) {
  return {Draws::Kind::kUniform, bound};
}

/// The LOOM release's "truncated" normal: fmod wraps the tail beyond 3, and the factor restores unit variance.
double wrapped_normal(double z) {
  constexpr double kUnitVariance = 1.014762601732121;
  return std::fmod(z, 3.0) * kUnitVariance;
}

void fill(Parameter& p, uint64_t seed, const std::string& stream_name, Draws draws) {
  const auto stream = static_cast<uint32_t>(hash64(stream_name));
  const int64_t count = p.value.count(), offset = p.global_offset();
  std::vector<float> values(static_cast<size_t>(count));
  float* const out = values.data();
  parallel_for(count, count > kParallelElements, [=](int64_t i) {
    const auto index = static_cast<uint64_t>(offset + i);
    double value = draws.size;
    switch (draws.kind) {
      case Draws::Kind::kNormal:
        value *= random_normal(seed, Draw::kInitialisation, stream, index);
        break;
      case Draws::Kind::kWrappedNormal:
        value *= wrapped_normal(random_normal(seed, Draw::kInitialisation, stream, index));
        break;
      case Draws::Kind::kUniform:
        value *= 2 * random_uniform(seed, Draw::kInitialisation, stream, index) - 1;
        break;
      case Draws::Kind::kConstant:
        break;
    }
    out[i] = static_cast<float>(value);
  });
  p.value.set<float>(values);
}

/// Ones where column = row (modulo the columns that repeat), zeros elsewhere: [rows, columns].
void fill_identity(const Parameter& p, int64_t rows, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(rows * columns), 0);
  for (int64_t r = 0; r < rows; ++r) values[static_cast<size_t>(r * columns + r)] = 1;
  p.value.set<float>(values);
}

/// The places of a matrix that initialisers tell apart.
enum class Place { kEmbedding, kHead, kMatrix, kValueOrUp, kOutput, kDown, kRouter };

Place place_of(const Parameter& p) {
  const auto is = [&](const char* part) { return p.name.find(part) != p.name.npos; };
  if (p.role == Role::kEmbedding) return Place::kEmbedding;
  if (p.role == Role::kHead) return Place::kHead;
  if (p.role == Role::kRouter) return Place::kRouter;
  if (is(".v_proj.") || is(".up_proj.")) return Place::kValueOrUp;
  if (is(".o_proj.")) return Place::kOutput;
  if (is(".down_proj.")) return Place::kDown;
  return Place::kMatrix;
}

/// Rows plus columns of one matrix of a tensor.
double rows_and_columns(const Parameter& p) {
  const auto axes = p.global_shape.size();
  int64_t rows = p.global_shape[axes - 2], columns = p.global_shape[axes - 1];
  if (p.pieces > 1) (p.piece_axis == 0 ? rows : columns) /= p.pieces;
  return static_cast<double>(rows + columns);
}

Draws draws_of(const ModelConfig& c, const Parameter& p) {
  const Place place = place_of(p);
  const double width = static_cast<double>(c.hidden_size), by_width = 1 / std::sqrt(width);
  const bool expert = p.name.find(".moe.") != p.name.npos;
  const bool writes = place == Place::kOutput || place == Place::kDown;
  switch (c.initialisation) {
    case Initialisation::kLoom: {
      if (place == Place::kRouter) return normal(by_width);
      const int64_t inner = expert ? c.moe.intermediate : c.dense_intermediate;
      return wrapped(place == Place::kDown ? 1 / std::sqrt(static_cast<double>(inner)) : by_width);
    }
    case Initialisation::kIsoDepth:
      if (place == Place::kEmbedding) return normal(1);
      if (place == Place::kHead) return normal(0.001);
      return uniform(std::sqrt(3.0) * by_width * (place == Place::kDown ? 0.5 : 1));
    case Initialisation::kExponents:
      if (place == Place::kEmbedding) return normal(c.initial_embedding_std);
      if (place == Place::kHead || writes) return constant(0);
      return uniform(c.initial_uniform_scale * by_width);
    case Initialisation::kHuginn: {
      const auto depth = static_cast<double>(c.prelude_layers + c.loops * c.layers + c.coda_layers);
      return normal(std::sqrt(0.4) * by_width / (writes ? std::sqrt(2 * depth) : 1));
    }
    case Initialisation::kDeepNorm: {
      if (place == Place::kEmbedding || place == Place::kHead) return normal(by_width);
      const double gain = writes || place == Place::kValueOrUp ? c.deepnorm_beta() : 1;
      return normal(gain * std::sqrt(2 / rows_and_columns(p)));
    }
  }
  return constant(0);
}

/// Tensors that start alike under every initialiser; false for the others.
bool fill_common(const ModelConfig& c, Parameter& p, uint64_t seed) {
  const double by_width = std::sqrt(0.4 / static_cast<double>(c.hidden_size));
  // Decay exp(-Delta) = .447 at the start, as Parcae's.
  const double dt_bias = std::log(1 / 0.447 - 1);
  if (p.name.ends_with("norm.weight") || p.name == "hyper.write")
    fill(p, seed, p.name, constant(1));
  else if (p.name.ends_with(".bias") || p.name == "reinject.A_log" || p.name == "condition.embedding" ||
           p.name == "condition.out.weight")
    fill(p, seed, p.name, constant(0));
  else if (p.name == "reinject.alpha")
    fill(p, seed, p.name, constant(c.reinjection_alpha));
  else if (p.name == "reinject.dt_bias")
    fill(p, seed, p.name, constant(dt_bias));
  else if (p.name == "condition.loop")
    fill(p, seed, p.name, normal(1));
  else if (p.name == "reinject.weight" && c.reinjection == Reinjection::kLinear &&
           c.reinjection_order == InjectionOrder::kHe)
    fill(p, seed, p.name, normal(by_width));
  else if (p.name == "reinject.weight")
    fill_identity(p, c.hidden_size, p.global_shape[1]);
  else if (p.name == "hyper.read" || p.name == "hyper.mix") {
    const bool read = p.name == "hyper.read";
    const int64_t h = c.lanes;
    std::vector<float> values(static_cast<size_t>(p.value.count()), 0);
    for (int64_t t = 0; t < c.loops; ++t)
      for (int64_t i = 0; i < (read ? 1 : h); ++i)
        values[static_cast<size_t>(read ? t * h + t % h : (t * h + i) * h + i)] = 1;
    p.value.set<float>(values);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void LoopedModel::initialise(uint64_t seed) {
  for (Parameter& p : parameters_.all()) {
    if (fill_common(config_, p, seed)) continue;
    // LOOM: the routers of all loops start as copies of router 0.
    const size_t at = config_.initialisation == Initialisation::kLoom ? p.name.find("routers.") : p.name.npos;
    fill(p, seed, at == p.name.npos ? p.name : p.name.substr(0, at) + "routers.0.weight", draws_of(config_, p));
  }
  for (const MoeLayer& moe : moe_layers_) moe.layer->moe.balance_bias.fill_zero();
  parameters_.values_changed();
}

}  // namespace heddle
