#include "comm/cuda/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "comm/call_watchdog.h"
#include "comm/cuda/collective_watch.h"
#include "comm/cuda/rank_sum.h"
#include "cuda/context.h"
#include "cuda/library_error.h"
#include "cuda/memory.h"
#include "support/narrow.h"

namespace heddle {

namespace {

using cuda::check;

/// Contributions of other ranks to a sum, piece by piece: at most this much at a time.
constexpr int64_t kStagingBytes = int64_t{64} << 20;

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(Communicator& host) : host_(host) { open(); }
  explicit NcclCommunicator(std::unique_ptr<Communicator> host) : owned_(std::move(host)), host_(*owned_) { open(); }
  ~NcclCommunicator() override { close(); }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  Communicator& host() override { return host_; }

  void barrier() override { host_.barrier(); }
  void broadcast(void* data, size_t bytes, int root) override { host_.broadcast(data, bytes, root); }
  void all_gather(const void* sent, size_t bytes, void* received) override { host_.all_gather(sent, bytes, received); }
  void all_reduce_sum(std::span<double> values) override { host_.all_reduce_sum(values); }
  void all_reduce_sum(std::span<int64_t> values) override { host_.all_reduce_sum(values); }
  void all_reduce_max(std::span<int64_t> values) override { host_.all_reduce_max(values); }
  void all_reduce_max(std::span<double> values) override { host_.all_reduce_max(values); }
  void exchange_counts(std::span<const int64_t> sent, int64_t per_rank, std::span<int64_t> received) override {
    host_.exchange_counts(sent, per_rank, received);
  }
  h5::File open_shared(const std::string& path) override { return host_.open_shared(path); }
  std::unique_ptr<Communicator> split(int colour) override {
    return std::make_unique<NcclCommunicator>(host_.split(colour));
  }
  Traffic traffic() const override {
    Traffic all = host_.traffic();
    all.exchange_bytes += traffic_.exchange_bytes;
    all.other_bytes += traffic_.other_bytes;
    return all;
  }

  void all_reduce_sum(std::span<float> values) override { start_all_reduce_sum(values)->finish(); }
  void reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) override {
    start_reduce_scatter_sum(values, counts)->finish();
  }
  std::unique_ptr<Exchange> start_all_reduce_sum(std::span<float> values) override;
  std::unique_ptr<Exchange> start_reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) override;
  void all_gather_shards(std::span<float> values, std::span<const int64_t> counts) override;
  void exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                     std::span<const int64_t> receive_rows, size_t row_bytes) override {
    start_exchange_rows(sent, send_rows, received, receive_rows, row_bytes)->finish();
  }
  std::unique_ptr<Exchange> start_exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                                                std::span<const int64_t> receive_rows, size_t row_bytes) override;

 private:
  void open();
  void close() noexcept;
  float* staging(int64_t count);
  void sum_shards(float* values, const std::vector<int64_t>& begins);
  void gather_shards(float* values, const std::vector<int64_t>& begins);
  std::vector<int64_t> begins_of(std::span<const int64_t> counts, size_t total) const;
  cudaStream_t stream() const { return cuda::context().communication_stream(); }

  std::unique_ptr<Communicator> owned_;
  Communicator& host_;
  ncclComm_t nccl_ = nullptr;  // none for a rank alone
  float* staging_ = nullptr;
  int64_t staging_count_ = 0;
  Traffic traffic_;
};

/// A group of calls that NCCL starts together. Ends also where a call throws, or the next group would be part of it.
/// Its end connects to peers that are new, and so may wait.
class Group {
 public:
  explicit Group(const Communicator& of) : of_(of) { check(ncclGroupStart(), "ncclGroupStart"); }
  ~Group() {
    if (open_) ncclGroupEnd();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  void end() {
    open_ = false;
    const WatchedCall watched("ncclGroupEnd", of_.rank(), of_.size());
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  const Communicator& of_;
  bool open_ = true;
};

void NcclCommunicator::open() {
  if (size() == 1) return;
  ncclUniqueId id = {};
  std::string failure;
  if (rank() == 0) {
    const ncclResult_t status = ncclGetUniqueId(&id);
    if (status != ncclSuccess) failure = fmt::format("ncclGetUniqueId: {}", ncclGetErrorString(status));
  }
  throw_if_any_failed(host_, failure, "NCCL_DEBUG=INFO makes NCCL say more");
  host_.broadcast(&id, sizeof id, 0);
  const WatchedCall watched("the start of a NCCL communicator", rank(), size());
  check(ncclCommInitRank(&nccl_, size(), id, rank()), "ncclCommInitRank");
  CollectiveWatch::instance().add(nccl_);
}

void NcclCommunicator::close() noexcept {
  if (nccl_ == nullptr) return;
  CollectiveWatch::instance().remove(nccl_);
  // While an error unwinds, the other ranks are elsewhere: an orderly end would wait for them.
  if (std::uncaught_exceptions() > 0)
    ncclCommAbort(nccl_);
  else
    ncclCommDestroy(nccl_);
  if (staging_ != nullptr) cudaFree(staging_);
}

float* NcclCommunicator::staging(int64_t count) {
  if (count > staging_count_) {
    cuda::device_free(std::exchange(staging_, nullptr));
    staging_ = static_cast<float*>(cuda::device_malloc(static_cast<size_t>(count) * sizeof(float)));
    staging_count_ = count;
  }
  return staging_;
}

/// Stretch `first .. first + step` of shard r, as (offset, count); the count is 0 beyond its end.
std::pair<int64_t, int64_t> piece_of(const std::vector<int64_t>& begins, int r, int64_t first, int64_t step) {
  const auto shard = static_cast<size_t>(r);
  const int64_t begin = std::min(begins[shard] + first, begins[shard + 1]);
  return {begin, std::min(begin + step, begins[shard + 1]) - begin};
}

void NcclCommunicator::sum_shards(float* values, const std::vector<int64_t>& begins) {
  int64_t longest = 0;
  for (size_t r = 0; r + 1 < begins.size(); ++r) longest = std::max(longest, begins[r + 1] - begins[r]);
  const int64_t step = std::max<int64_t>(1, kStagingBytes / static_cast<int64_t>(sizeof(float)) / size());
  float* const contributions = staging(std::min(step, longest) * size());
  for (int64_t first = 0; first < longest; first += step) {
    const auto [mine, mine_count] = piece_of(begins, rank(), first, step);
    Group group(*this);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const auto [theirs, theirs_count] = piece_of(begins, r, first, step);
      const auto receive = static_cast<size_t>(mine_count), send = static_cast<size_t>(theirs_count);
      if (receive > 0)
        check(ncclRecv(contributions + mine_count * r, receive, ncclFloat, r, nccl_, stream()), "ncclRecv");
      if (send > 0) check(ncclSend(values + theirs, send, ncclFloat, r, nccl_, stream()), "ncclSend");
      traffic_.other_bytes += theirs_count * static_cast<int64_t>(sizeof(float));
    }
    group.end();
    cuda::sum_ranks(mine_count, size(), rank(), contributions, values + mine, stream());
  }
}

void NcclCommunicator::gather_shards(float* values, const std::vector<int64_t>& begins) {
  Group group(*this);
  for (int r = 0; r < size(); ++r) {
    const auto [begin, count] = piece_of(begins, r, 0, begins.back());
    if (count == 0) continue;
    check(ncclBroadcast(values + begin, values + begin, static_cast<size_t>(count), ncclFloat, r, nccl_, stream()),
          "ncclBroadcast");
    if (r == rank()) traffic_.other_bytes += count * static_cast<int64_t>(sizeof(float)) * (size() - 1);
  }
  group.end();
}

/// What the communication stream does until a mark.
class StreamExchange final : public Communicator::Exchange {
 public:
  StreamExchange() : end_(cuda::context().mark_communication()) {}
  ~StreamExchange() override {
    if (cuda::has_context()) cuda::context().release(end_);
  }
  void finish() override { cuda::context().compute_waits_for(end_); }

 private:
  cudaEvent_t end_;
};

std::unique_ptr<Communicator::Exchange> NcclCommunicator::start_all_reduce_sum(std::span<float> values) {
  if (size() == 1) return std::make_unique<Exchange>();
  const auto count = static_cast<int64_t>(values.size());
  const int64_t shard = div_up(count, size());
  std::vector<int64_t> begins;
  for (int64_t r = 0; r <= size(); ++r) begins.push_back(std::min(shard * r, count));
  cuda::context().communication_waits_for_compute();
  sum_shards(values.data(), begins);
  gather_shards(values.data(), begins);
  CollectiveWatch::instance().enqueued("all_reduce_sum", rank(), size());
  return std::make_unique<StreamExchange>();
}

std::vector<int64_t> NcclCommunicator::begins_of(std::span<const int64_t> counts, size_t total) const {
  require(static_cast<int>(counts.size()) == size(), "{} shards for {} ranks", counts.size(), size());
  std::vector<int64_t> begins = {0};
  for (const int64_t count : counts) begins.push_back(begins.back() + count);
  require(begins.back() == static_cast<int64_t>(total), "shards of {} elements in all for {}", begins.back(), total);
  return begins;
}

std::unique_ptr<Communicator::Exchange> NcclCommunicator::start_reduce_scatter_sum(std::span<float> values,
                                                                                   std::span<const int64_t> counts) {
  const std::vector<int64_t> begins = begins_of(counts, values.size());
  if (size() == 1) return std::make_unique<Exchange>();
  cuda::context().communication_waits_for_compute();
  sum_shards(values.data(), begins);
  CollectiveWatch::instance().enqueued("reduce_scatter_sum", rank(), size());
  return std::make_unique<StreamExchange>();
}

void NcclCommunicator::all_gather_shards(std::span<float> values, std::span<const int64_t> counts) {
  const std::vector<int64_t> begins = begins_of(counts, values.size());
  if (size() == 1) return;
  cuda::context().communication_waits_for_compute();
  gather_shards(values.data(), begins);
  CollectiveWatch::instance().enqueued("all_gather_shards", rank(), size());
  cuda::context().compute_waits_for_communication();
}

std::unique_ptr<Communicator::Exchange> NcclCommunicator::start_exchange_rows(const void* sent,
                                                                              std::span<const int64_t> send_rows,
                                                                              void* received,
                                                                              std::span<const int64_t> receive_rows,
                                                                              size_t row_bytes) {
  require(send_rows.size() == static_cast<size_t>(size()) && receive_rows.size() == send_rows.size(),
          "rows for {} and from {} ranks, of {}", send_rows.size(), receive_rows.size(), size());
  const auto* from = static_cast<const char*>(sent);
  auto* to = static_cast<char*>(received);
  cuda::context().communication_waits_for_compute();
  std::optional<Group> group;
  if (nccl_ != nullptr) group.emplace(*this);
  for (int r = 0; r < size(); ++r) {
    const size_t send = static_cast<size_t>(send_rows[static_cast<size_t>(r)]) * row_bytes;
    const size_t receive = static_cast<size_t>(receive_rows[static_cast<size_t>(r)]) * row_bytes;
    if (r == rank()) {
      require(send == receive, "a rank sends itself {} bytes and receives {}", send, receive);
      if (send > 0)
        check(cudaMemcpyAsync(to, from, send, cudaMemcpyDeviceToDevice, stream()), "copy of a rank's own rows");
    } else {
      if (send > 0) check(ncclSend(from, send, ncclUint8, r, nccl_, stream()), "ncclSend");
      if (receive > 0) check(ncclRecv(to, receive, ncclUint8, r, nccl_, stream()), "ncclRecv");
      traffic_.exchange_bytes += static_cast<int64_t>(send);
    }
    from += send;
    to += receive;
  }
  if (group) group->end();
  if (nccl_ != nullptr) CollectiveWatch::instance().enqueued("exchange_rows", rank(), size());
  return std::make_unique<StreamExchange>();
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host) {
  return std::make_unique<NcclCommunicator>(host);
}

}  // namespace heddle
