#include "comm/dry_communicator.h"

#include <cstring>

#include "support/error.h"

namespace heddle {

namespace {

class DryCommunicator : public Communicator {
 public:
  DryCommunicator(int rank, int size) : rank_(rank), size_(size) {
    require(rank >= 0 && rank < size, "dry rank {} of {}", rank, size);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {}
  void broadcast(void*, size_t, int) override {}
  void all_gather(const void* sent, size_t bytes, void* received) override {
    for (int r = 0; r < size_; ++r) copy(static_cast<char*>(received) + bytes * static_cast<size_t>(r), sent, bytes);
  }
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_sum(std::span<int64_t>) override {}
  void reduce_scatter_sum(std::span<float>, std::span<const int64_t>) override {}
  void all_gather_shards(std::span<float>, std::span<const int64_t>) override {}
  void all_reduce_max(std::span<int64_t>) override {}
  void all_reduce_max(std::span<double>) override {}
  void exchange_counts(std::span<const int64_t> sent, int64_t per_rank, std::span<int64_t> received) override {
    const auto block = static_cast<size_t>(per_rank);
    for (size_t r = 0; r < static_cast<size_t>(size_); ++r)
      copy(received.data() + r * block, sent.data() + static_cast<size_t>(rank_) * block, block * sizeof(int64_t));
  }
  void exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                     std::span<const int64_t> receive_rows, size_t row_bytes) override {
    constexpr size_t kSmallRow = 16;
    if (row_bytes > kSmallRow) return;
    const auto* own = static_cast<const char*>(sent);
    for (int r = 0; r < rank_; ++r) own += static_cast<size_t>(send_rows[r]) * row_bytes;
    auto* to = static_cast<char*>(received);
    for (int r = 0; r < size_; ++r) {
      const size_t bytes = static_cast<size_t>(std::min(send_rows[rank_], receive_rows[r])) * row_bytes;
      copy(to, own, bytes);
      to += static_cast<size_t>(receive_rows[r]) * row_bytes;
    }
  }
  std::unique_ptr<Communicator> split(int) override { fail("a dry communicator cannot be split"); }
  h5::File open_shared(const std::string& path) override { fail("a dry communicator does not open '{}'", path); }
  Traffic traffic() const override { return {}; }

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  int rank_, size_;
};

}  // namespace

std::unique_ptr<Communicator> make_dry_communicator(int rank, int size) {
  return std::make_unique<DryCommunicator>(rank, size);
}

}  // namespace heddle
