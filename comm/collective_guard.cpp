#include "comm/collective_guard.h"

#include "support/error.h"
#include "support/hash.h"

namespace heddle {

namespace {

/// What all guarded communicators of a job share: the number of calls so far, and the ranks that compare.
class Comparison {
 public:
  explicit Comparison(Communicator& world) : world_(world) {}

  /// Collective over the world. `what`: operation, communicator and the sizes that must agree.
  void compare(const std::string& what) {
    ++calls_;
    const std::string text = fmt::format("call {} at {}: {}", calls_, text_of(collective_place()), what);
    const uint64_t mine = hash64(text);
    std::vector<uint64_t> all(static_cast<size_t>(world_.size()));
    world_.all_gather(&mine, sizeof mine, all.data());
    for (size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0]) fail_with(all_gather_text(world_, text), r);
  }

 private:
  [[noreturn]] static void fail_with(const std::vector<std::string>& texts, size_t other) {
    throw Error(
        fmt::format("ranks make different collective calls. rank 0: {}; rank {}: {}", texts[0], other, texts[other]),
        "something that only one rank knows decided about a call; layout must not");
  }

  Communicator& world_;
  int64_t calls_ = 0;
};

class GuardedCommunicator : public Communicator {
 public:
  GuardedCommunicator(std::shared_ptr<Comparison> comparison, std::string name, Communicator& inner)
      : comparison_(std::move(comparison)), name_(std::move(name)), inner_(inner) {}
  GuardedCommunicator(std::shared_ptr<Comparison> comparison, std::string name, std::unique_ptr<Communicator> inner)
      : comparison_(std::move(comparison)), name_(std::move(name)), owned_(std::move(inner)), inner_(*owned_) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override {
    announce("barrier");
    inner_.barrier();
  }
  void broadcast(void* data, size_t bytes, int root) override {
    announce(fmt::format("broadcast of {} bytes from rank {}", bytes, root));
    inner_.broadcast(data, bytes, root);
  }
  void all_gather(const void* sent, size_t bytes, void* received) override {
    announce(fmt::format("all_gather of {} bytes", bytes));
    inner_.all_gather(sent, bytes, received);
  }
  void all_reduce_sum(std::span<float> values) override { reduce("all_reduce_sum of float32", values); }
  void all_reduce_sum(std::span<double> values) override { reduce("all_reduce_sum of float64", values); }
  void all_reduce_sum(std::span<int64_t> values) override { reduce("all_reduce_sum of int64", values); }
  void reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) override {
    announce_shards("reduce_scatter_sum", counts);
    inner_.reduce_scatter_sum(values, counts);
  }
  void all_gather_shards(std::span<float> values, std::span<const int64_t> counts) override {
    announce_shards("all_gather_shards", counts);
    inner_.all_gather_shards(values, counts);
  }
  void all_reduce_max(std::span<int64_t> values) override {
    announce(fmt::format("all_reduce_max of int64 [{}]", values.size()));
    inner_.all_reduce_max(values);
  }
  void all_reduce_max(std::span<double> values) override {
    announce(fmt::format("all_reduce_max of float64 [{}]", values.size()));
    inner_.all_reduce_max(values);
  }
  void exchange_counts(std::span<const int64_t> sent, int64_t per_rank, std::span<int64_t> received) override {
    announce(fmt::format("exchange_counts of {} per rank", per_rank));
    inner_.exchange_counts(sent, per_rank, received);
  }
  void exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                     std::span<const int64_t> receive_rows, size_t row_bytes) override {
    announce(fmt::format("exchange_rows of {} bytes each", row_bytes));
    inner_.exchange_rows(sent, send_rows, received, receive_rows, row_bytes);
  }
  std::unique_ptr<Exchange> start_exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                                                std::span<const int64_t> receive_rows, size_t row_bytes) override {
    announce(fmt::format("exchange_rows of {} bytes each", row_bytes));
    return inner_.start_exchange_rows(sent, send_rows, received, receive_rows, row_bytes);
  }
  std::unique_ptr<Exchange> start_all_reduce_sum(std::span<float> values) override {
    announce(fmt::format("all_reduce_sum of float32 [{}]", values.size()));
    return inner_.start_all_reduce_sum(values);
  }
  std::unique_ptr<Exchange> start_reduce_scatter_sum(std::span<float> values,
                                                     std::span<const int64_t> counts) override {
    announce_shards("reduce_scatter_sum", counts);
    return inner_.start_reduce_scatter_sum(values, counts);
  }
  std::unique_ptr<Communicator> split(int colour) override {
    announce("split");
    const std::string name = fmt::format("{} part {}", name_, ++parts_);
    return std::make_unique<GuardedCommunicator>(comparison_, name, inner_.split(colour));
  }
  h5::File open_shared(const std::string& path) override {
    announce("opening of " + path);
    return inner_.open_shared(path);
  }
  Traffic traffic() const override { return inner_.traffic(); }
  Communicator& host() override {
    if (&inner_.host() == &inner_) return *this;
    if (host_ == nullptr)
      host_ = std::make_unique<GuardedCommunicator>(comparison_, name_ + " of the host", inner_.host());
    return *host_;
  }

 private:
  void announce(const std::string& what) { comparison_->compare(fmt::format("{} on {}", what, name_)); }
  template <typename T>
  void reduce(const char* what, std::span<T> values) {
    announce(fmt::format("{} [{}]", what, values.size()));
    inner_.all_reduce_sum(values);
  }
  void announce_shards(const char* what, std::span<const int64_t> counts) {
    // Shards of experts differ between expert-parallel ranks only if the experts do, so their sum is compared.
    int64_t total = 0;
    for (const int64_t count : counts) total += count;
    announce(fmt::format("{} of float32 [{}]", what, total));
  }

  std::shared_ptr<Comparison> comparison_;
  std::string name_;
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::unique_ptr<Communicator> host_;
  int parts_ = 0;
};

}  // namespace

CollectivePlace& collective_place() {
  static CollectivePlace place;
  return place;
}

std::string text_of(const CollectivePlace& at) {
  std::vector<std::string> parts;
  for (const auto& [name, number] :
       {std::pair{"step", at.step}, {"segment", at.segment}, {"loop", at.loop}, {"layer", at.layer}})
    if (number >= 0) parts.push_back(fmt::format("{} {}", name, number));
  if (*at.phase != '\0') parts.emplace_back(at.phase);
  return parts.empty() ? "a place outside of the steps" : fmt::format("{}", fmt::join(parts, ", "));
}

std::unique_ptr<Communicator> guard_collectives(Communicator& world) {
  return std::make_unique<GuardedCommunicator>(std::make_shared<Comparison>(world), "world", world);
}

}  // namespace heddle
