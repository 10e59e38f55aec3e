#include "moe/router_losses.h"

namespace heddle {

void RouterLosses::add_logits(Tape& tape, const Variable& logits) {
  if (!(config_.z > 0 || config_.measure) || tokens_ == 0) return;
  const double scale = weight_ / static_cast<double>(tokens_);
  const double sum = router_z_loss(tape, logits, static_cast<float>(config_.z * scale));
  if (!replaying_) router_z_ += scale * sum;
}

void RouterLosses::add_choice(Tape& tape, RouterVisit visit, const Tensor& index, const Variable& scores) {
  if (!(config_.aux > 0 || config_.measure)) return;
  Visit added{visit, {}, expert_share(tape, scores)};
  if (replaying_) {
    start_gradient(added);
    return;
  }
  added.slots = Tensor::empty({experts_}, Purpose::kWorkspace, DType::kInt64);
  added.slots.fill_zero();
  tape.kernels().count_choices(index.count(), experts_, index.i32(), nullptr, added.slots.i64());
  visits_.push_back(std::move(added));
}

void RouterLosses::start_gradient(const Visit& visit) {
  if (!visit.share.wants_gradient() || tokens_ == 0) return;
  const std::vector<float>& gradient = gradients_.at(visit.visit);
  require(!gradient_out(visit.share.slot).accumulate, "the share of a visit has one reader");
  visit.share.slot->gradient.set<float>(gradient);
}

void RouterLosses::finish(Communicator& world) {
  if (visits_.empty()) return;  // on all ranks alike
  std::vector<int64_t> slots;
  for (const Visit& visit : visits_) {
    const std::vector<int64_t> counted = visit.slots.get<int64_t>();
    slots.insert(slots.end(), counted.begin(), counted.end());
  }
  world.all_reduce_sum(std::span<int64_t>(slots));
  if (tokens_ == 0) {
    visits_.clear();
    return;
  }
  const auto e = static_cast<size_t>(experts_);
  const double tokens = static_cast<double>(tokens_), all_slots = tokens * static_cast<double>(k_);

  // Means of f over the visits that count together: those of one stored layer, or one visit alone.
  std::map<RouterVisit, std::vector<double>> frequency;
  std::map<RouterVisit, double> members;
  const auto group_of = [this](const Visit& v) {
    return config_.scope == AuxScope::kSummed ? RouterVisit{v.visit.layer, -1} : v.visit;
  };
  for (size_t v = 0; v < visits_.size(); ++v) {
    std::vector<double>& f = frequency[group_of(visits_[v])];
    f.resize(e, 0);
    members[group_of(visits_[v])] += 1;
    for (size_t i = 0; i < e; ++i) f[i] += static_cast<double>(slots[v * e + i]) / all_slots;
  }
  for (const Visit& visit : visits_) {
    const RouterVisit group = group_of(visit);
    const std::vector<double>& f = frequency[group];
    const double n = members[group];
    const std::vector<float> share = visit.share.value.get<float>();
    std::vector<float>& gradient = gradients_[visit.visit];
    gradient.assign(e, 0);
    for (size_t i = 0; i < e; ++i) {
      const double slope = static_cast<double>(experts_) * (f[i] / n) / n * weight_ / tokens;
      aux_ += slope * static_cast<double>(share[i]);
      gradient[i] = static_cast<float>(config_.aux * slope);
    }
    start_gradient(visit);
  }
  visits_.clear();
}

}  // namespace heddle
