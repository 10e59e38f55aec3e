#include "probe/information.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/random.h"

namespace heddle {

namespace {

/// Entropy of the empirical distribution of keys, nats.
double entropy(std::vector<int64_t> keys) {
  std::sort(keys.begin(), keys.end());
  const double n = static_cast<double>(keys.size());
  double sum = 0;
  for (size_t first = 0; first < keys.size();) {
    size_t last = first;
    while (last < keys.size() && keys[last] == keys[first]) ++last;
    const double p = static_cast<double>(last - first) / n;
    sum -= p * std::log(p);
    first = last;
  }
  return sum;
}

/// Uniform permutation of 0 .. n - 1 for one use of it.
std::vector<int64_t> permutation(int64_t n, uint32_t stream, uint64_t first_index) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) {
    const double u = random_uniform(0, Draw::kPermutation, stream, first_index + static_cast<uint64_t>(i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(u * static_cast<double>(i + 1))]);
  }
  return order;
}

/// One draw per slot.
struct Slots {
  std::vector<int64_t> expert, token, loop;
};

/// One key for each pair.
std::vector<int64_t> joint(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const int64_t width = *std::max_element(b.begin(), b.end()) + 1;
  std::vector<int64_t> keys(a.size());
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = a[i] * width + b[i];
  return keys;
}

double information(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return entropy(a) + entropy(b) - entropy(joint(a, b));
}

/// I(a; b | c).
double information_given(const std::vector<int64_t>& a, const std::vector<int64_t>& b, const std::vector<int64_t>& c) {
  return entropy(joint(c, a)) + entropy(joint(c, b)) - entropy(joint(joint(c, a), b)) - entropy(c);
}

}  // namespace

void ChoiceRecord::on_block(const BlockView& view) {
  if (view.place.stored_moe < 0) return;
  const int64_t k = config_.moe.top_k, stored = view.place.stored_moe, loop = view.place.loop;
  StoredLayer& layer = layers_[stored];
  std::vector<int32_t>& all = choices_[{stored, loop}];
  if (all.empty()) {
    all.assign(static_cast<size_t>(documents_.total_tokens() * k), 0);
    layer.part = view.place.part;
    layer.number = stored;
    layer.layer = view.place.layer;
    layer.loops.push_back(loop);
  }
  const std::vector<int32_t> index = view.routing.index.get<int32_t>();
  for (int64_t r = 0; r < batch().tokens.rows; ++r) {
    const auto first = index.begin() + r * batch().tokens.sequence * k;
    std::copy(first, first + batch().targets[static_cast<size_t>(r)] * k,
              all.begin() + documents_.tokens_before(batch().first + r) * k);
  }
}

void ChoiceRecord::finish(Communicator& world) {
  for (auto& [visit, all] : choices_) {
    std::vector<int64_t> wide(all.begin(), all.end());
    world.host().all_reduce_sum(std::span<int64_t>(wide));
    std::transform(wide.begin(), wide.end(), all.begin(), [](int64_t e) { return static_cast<int32_t>(e); });
  }
}

std::vector<ChoiceRecord::StoredLayer> ChoiceRecord::layers() const {
  std::vector<StoredLayer> list;
  for (const auto& [number, layer] : layers_) list.push_back(layer);
  return list;
}

std::vector<int64_t> ChoiceRecord::load(const StoredLayer& layer) const {
  std::vector<int64_t> slots(static_cast<size_t>(config_.moe.experts), 0);
  for (const int64_t loop : layer.loops)
    for (const int32_t expert : choices(layer.number, loop)) ++slots[static_cast<size_t>(expert)];
  return slots;
}

MutualInformation mutual_information(const std::vector<int32_t>& ids,
                                     const std::vector<const std::vector<int32_t>*>& choices) {
  const auto positions = static_cast<int64_t>(ids.size()), loops = static_cast<int64_t>(choices.size());
  require(positions > 0 && loops > 0, "{} positions in {} loops", positions, loops);
  const int64_t k = static_cast<int64_t>(choices[0]->size()) / positions;
  Slots found, chance;
  const std::vector<int64_t> other = permutation(positions, 0, 0);
  for (int64_t p = 0; p < positions; ++p) {
    const std::vector<int64_t> order = permutation(loops, 1, static_cast<uint64_t>(p * loops));
    for (int64_t t = 0; t < loops; ++t)
      for (int64_t i = 0; i < k; ++i) {
        found.expert.push_back((*choices[static_cast<size_t>(t)])[static_cast<size_t>(p * k + i)]);
        found.token.push_back(ids[static_cast<size_t>(p)]);
        found.loop.push_back(t);
        chance.token.push_back(ids[static_cast<size_t>(other[static_cast<size_t>(p)])]);
        chance.loop.push_back(order[static_cast<size_t>(t)]);
      }
  }
  MutualInformation result;
  result.slots = positions * loops * k;
  result.entropy = entropy(found.expert);
  result.token = {information(found.expert, found.token), information(found.expert, chance.token)};
  result.loop = {information(found.expert, found.loop), information(found.expert, chance.loop)};
  result.loop_given_token = {information_given(found.expert, found.loop, found.token),
                             information_given(found.expert, chance.loop, found.token)};
  return result;
}

void probe_information(LoopedModel& model, const ProbeDocuments& documents, const ChoiceRecord& choices,
                       ProbeResult& result) {
  std::vector<int64_t> gathered(static_cast<size_t>(documents.total_tokens()), 0);
  for (const DocumentBatch& batch : documents.batches()) {
    const std::vector<int32_t> tokens = batch.tokens.tokens.get<int32_t>();
    for (int64_t r = 0; r < batch.tokens.rows; ++r)
      std::copy_n(tokens.begin() + r * batch.tokens.sequence, batch.targets[static_cast<size_t>(r)],
                  gathered.begin() + documents.tokens_before(batch.first + r));
  }
  model.groups().world().host().all_reduce_sum(std::span<int64_t>(gathered));
  std::vector<int32_t> ids;
  for (const int64_t id : gathered) ids.push_back(static_cast<int32_t>(id));
  for (const ChoiceRecord::StoredLayer& layer : choices.layers()) {
    std::vector<const std::vector<int32_t>*> by_loop;
    for (const int64_t loop : layer.loops) by_loop.push_back(&choices.choices(layer.number, loop));
    MutualInformation& information = result.information.emplace_back(mutual_information(ids, by_loop));
    information.layer = model.moe_layer_name(layer.number);
  }
}

}  // namespace heddle
