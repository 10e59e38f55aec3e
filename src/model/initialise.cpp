// LOOM's start values (docs/loom.md section 2). Every element is a function of (seed, tensor name, global index),
// so experts do not depend on the layout.
#include <cmath>

#include "model/looped_model.h"
#include "support/hash.h"
#include "support/parallel.h"
#include "support/random.h"

namespace heddle {

namespace {

/// The release's "truncated" normal: fmod wraps the tail beyond 3, and the factor restores unit variance.
double wrapped_normal(double z) {
  constexpr double kUnitVariance = 1.014762601732121;
  return std::fmod(z, 3.0) * kUnitVariance;
}

void fill_normal(Parameter& p, uint64_t seed, const std::string& stream_name, double deviation, bool wrapped) {
  const auto stream = static_cast<uint32_t>(hash64(stream_name));
  const int64_t count = p.value.count(), offset = p.global_offset();
  float* const out = p.value.f32();
  parallel_for(count, count > kParallelElements, [=](int64_t i) {
    const double z = random_normal(seed, Draw::kInitialisation, stream, static_cast<uint64_t>(offset + i));
    out[i] = static_cast<float>(deviation * (wrapped ? wrapped_normal(z) : z));
  });
}

}  // namespace

void LoopedModel::initialise(uint64_t seed) {
  const double by_width = 1 / std::sqrt(static_cast<double>(config_.hidden_size));
  const double by_expert = 1 / std::sqrt(static_cast<double>(config_.moe.intermediate));
  for (Parameter& p : parameters_.all()) {
    const bool down = p.name.ends_with("down_proj.weight");
    if (p.name.ends_with("out_norm.weight")) {
      for (float& value : p.value.floats()) value = 1;
    } else if (const size_t at = p.name.find("routers."); at != std::string::npos) {
      // The routers of all loops start as copies of router 0.
      fill_normal(p, seed, p.name.substr(0, at) + "routers.0.weight", by_width, false);
    } else {
      fill_normal(p, seed, p.name, down ? by_expert : by_width, true);
    }
  }
  for (const MoeLayer& moe : moe_layers_) moe.layer->moe.balance_bias.fill_zero();
}

}  // namespace heddle
