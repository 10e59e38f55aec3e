// The communicator of a job with one rank: no library, every exchange is a copy.
#include <cstring>

#include "comm/communicator.h"
#include "support/error.h"

namespace heddle {

namespace {

class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void broadcast(void*, size_t, int root) override { require(root == 0, "broadcast from rank {} of 1", root); }
  void all_gather(const void* sent, size_t bytes, void* received) override { copy(received, sent, bytes); }
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_sum(std::span<int64_t>) override {}
  void reduce_scatter_sum(std::span<float>, std::span<const int64_t>) override {}
  void all_gather_shards(std::span<float>, std::span<const int64_t>) override {}
  void all_reduce_max(std::span<int64_t>) override {}
  void all_reduce_max(std::span<double>) override {}
  void exchange_counts(std::span<const int64_t> sent, int64_t, std::span<int64_t> received) override {
    copy(received.data(), sent.data(), sent.size_bytes());
  }
  void exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                     std::span<const int64_t> receive_rows, size_t row_bytes) override {
    require(send_rows[0] == receive_rows[0], "exchange of {} rows for {}", send_rows[0], receive_rows[0]);
    copy(received, sent, static_cast<size_t>(send_rows[0]) * row_bytes);
  }
  std::unique_ptr<Communicator> split(int) override { return make_single_communicator(); }
  h5::File open_shared(const std::string& path) override { return {path, h5::File::Mode::kReadWrite}; }
  Traffic traffic() const override { return {}; }

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace heddle
