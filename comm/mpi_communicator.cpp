#include "comm/mpi_communicator.h"

#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "comm/call_watchdog.h"
#include "support/narrow.h"

namespace heddle {

MpiCommunicator::MpiCommunicator(MPI_Comm comm, bool owned, int64_t chunk_bytes)
    : comm_(comm), owned_(owned), chunk_bytes_(chunk_bytes) {
  require(chunk_bytes > 0 && std::in_range<int>(chunk_bytes), "chunks of {} bytes", chunk_bytes);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

MpiCommunicator::~MpiCommunicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Freeing is collective. While an error unwinds, the other ranks are elsewhere, and the job is about to end.
  if (owned_ && finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

void MpiCommunicator::check(int status, const char* operation) const {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail("{} between {} ranks failed on rank {}: {}", operation, size_, rank_,
       std::string(text, static_cast<size_t>(length)));
}

void MpiCommunicator::barrier() {
  const WatchedCall watched("barrier", rank_, size_);
  check(MPI_Barrier(comm_), "barrier");
}

void MpiCommunicator::broadcast(void* data, size_t bytes, int root) {
  const WatchedCall watched("broadcast", rank_, size_);
  auto* next = static_cast<char*>(data);
  for (size_t left = bytes; left > 0;) {
    const size_t part = std::min(left, static_cast<size_t>(chunk_bytes_));
    check(MPI_Bcast(next, narrow<int>(part), MPI_BYTE, root, comm_), "broadcast");
    next += part;
    left -= part;
  }
  if (rank_ == root) traffic_.other_bytes += static_cast<int64_t>(bytes) * (size_ - 1);
}

void MpiCommunicator::all_gather(const void* sent, size_t bytes, void* received) {
  const WatchedCall watched("all_gather", rank_, size_);
  // Chunks of every rank's contribution land side by side in scratch and go to their places from there.
  const auto* from = static_cast<const char*>(sent);
  auto* to = static_cast<char*>(received);
  std::vector<char> scratch;
  for (size_t first = 0; first < bytes;) {
    const size_t part = std::min(bytes - first, static_cast<size_t>(chunk_bytes_));
    scratch.resize(part * static_cast<size_t>(size_));
    check(MPI_Allgather(from + first, narrow<int>(part), MPI_BYTE, scratch.data(), narrow<int>(part), MPI_BYTE, comm_),
          "all-gather");
    for (size_t r = 0; r < static_cast<size_t>(size_); ++r)
      std::memcpy(to + r * bytes + first, scratch.data() + r * part, part);
    first += part;
  }
  traffic_.other_bytes += static_cast<int64_t>(bytes) * (size_ - 1);
}

namespace {
/// Stretch `first .. first + step` of the shard of rank r, as (offset, count); the count is 0 beyond its end.
std::pair<int64_t, int64_t> piece_of(std::span<const int64_t> begins, int r, int64_t first, int64_t step) {
  const int64_t begin = std::min(begins[r] + first, begins[r + 1]);
  return {begin, std::min(begin + step, begins[r + 1]) - begin};
}

int64_t longest_shard(std::span<const int64_t> begins) {
  int64_t longest = 0;
  for (size_t r = 0; r + 1 < begins.size(); ++r) longest = std::max(longest, begins[r + 1] - begins[r]);
  return longest;
}
}  // namespace

// Piece by piece of every rank's shard: its owner gets all contributions and adds them in rank order.
template <typename T>
void MpiCommunicator::sum_shards(std::span<T> values, std::span<const int64_t> begins, MPI_Datatype type) {
  const WatchedCall watched("sum over ranks", rank_, size_);
  const int64_t step = std::max<int64_t>(1, chunk_bytes_ / static_cast<int64_t>(sizeof(T)));
  std::vector<T> contributions;
  std::vector<MPI_Request> requests;
  for (int64_t first = 0; first < longest_shard(begins); first += step) {
    const auto [mine, mine_count] = piece_of(begins, rank_, first, step);
    contributions.resize(static_cast<size_t>(mine_count * size_));
    requests.clear();
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const auto [theirs, theirs_count] = piece_of(begins, r, first, step);
      check(MPI_Irecv(contributions.data() + mine_count * r, narrow<int>(mine_count), type, r, 0, comm_,
                      &requests.emplace_back()),
            "sum over ranks");
      check(MPI_Isend(values.data() + theirs, narrow<int>(theirs_count), type, r, 0, comm_, &requests.emplace_back()),
            "sum over ranks");
      traffic_.other_bytes += theirs_count * static_cast<int64_t>(sizeof(T));
    }
    check(MPI_Waitall(narrow<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "sum over ranks");
    T* const sum = values.data() + mine;
    std::copy_n(sum, mine_count, contributions.data() + mine_count * rank_);
    std::copy_n(contributions.data(), mine_count, sum);
    for (int r = 1; r < size_; ++r) {
      const T* const theirs = contributions.data() + mine_count * r;
      for (int64_t i = 0; i < mine_count; ++i) sum[i] += theirs[i];
    }
  }
}

template <typename T>
void MpiCommunicator::gather_shards(std::span<T> values, std::span<const int64_t> begins, MPI_Datatype type) {
  const WatchedCall watched("gathering of shards", rank_, size_);
  const int64_t step = std::max<int64_t>(1, chunk_bytes_ / static_cast<int64_t>(sizeof(T)));
  std::vector<MPI_Request> requests;
  for (int64_t first = 0; first < longest_shard(begins); first += step) {
    const auto [mine, mine_count] = piece_of(begins, rank_, first, step);
    requests.clear();
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const auto [theirs, theirs_count] = piece_of(begins, r, first, step);
      check(MPI_Irecv(values.data() + theirs, narrow<int>(theirs_count), type, r, 1, comm_, &requests.emplace_back()),
            "gathering of shards");
      check(MPI_Isend(values.data() + mine, narrow<int>(mine_count), type, r, 1, comm_, &requests.emplace_back()),
            "gathering of shards");
      traffic_.other_bytes += mine_count * static_cast<int64_t>(sizeof(T));
    }
    check(MPI_Waitall(narrow<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "gathering of shards");
  }
}

template <typename T>
void MpiCommunicator::ordered_sum(std::span<T> values, MPI_Datatype type) {
  if (size_ == 1) return;
  const auto count = static_cast<int64_t>(values.size());
  const int64_t shard = div_up(count, size_);
  std::vector<int64_t> begins;
  for (int64_t r = 0; r <= size_; ++r) begins.push_back(std::min(shard * r, count));
  sum_shards(values, begins, type);
  gather_shards(values, begins, type);
}

std::vector<int64_t> MpiCommunicator::begins_of(std::span<const int64_t> counts, size_t total) const {
  std::vector<int64_t> begins(1, 0);
  for (const int64_t count : counts) begins.push_back(begins.back() + count);
  require(static_cast<int>(counts.size()) == size_ && begins.back() == static_cast<int64_t>(total),
          "{} shards of {} elements in all for {} ranks and {} elements", counts.size(), begins.back(), size_, total);
  return begins;
}

void MpiCommunicator::reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) {
  sum_shards(values, begins_of(counts, values.size()), MPI_FLOAT);
}
void MpiCommunicator::all_gather_shards(std::span<float> values, std::span<const int64_t> counts) {
  gather_shards(values, begins_of(counts, values.size()), MPI_FLOAT);
}

void MpiCommunicator::all_reduce_sum(std::span<float> values) {
  ordered_sum(values, MPI_FLOAT);
}
void MpiCommunicator::all_reduce_sum(std::span<double> values) {
  ordered_sum(values, MPI_DOUBLE);
}

template <typename T>
void MpiCommunicator::reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation, const char* name) {
  const WatchedCall watched(name, rank_, size_);
  const size_t step = static_cast<size_t>(std::max<int64_t>(1, chunk_bytes_ / static_cast<int64_t>(sizeof(T))));
  for (size_t first = 0; first < values.size(); first += step) {
    const size_t part = std::min(step, values.size() - first);
    check(MPI_Allreduce(MPI_IN_PLACE, values.data() + first, narrow<int>(part), type, operation, comm_), name);
  }
  traffic_.other_bytes += static_cast<int64_t>(values.size_bytes()) * (size_ - 1);
}

void MpiCommunicator::all_reduce_sum(std::span<int64_t> values) {
  reduce(values, MPI_INT64_T, MPI_SUM, "sum of counts");
}
void MpiCommunicator::all_reduce_max(std::span<int64_t> values) {
  reduce(values, MPI_INT64_T, MPI_MAX, "maximum");
}

void MpiCommunicator::all_reduce_max(std::span<double> values) {
  // MPI_MAX with a NaN depends on the order of comparisons, and the ranks may come to different results.
  std::vector<double> all(values.size() * static_cast<size_t>(size_));
  all_gather(values.data(), values.size_bytes(), all.data());
  for (size_t i = 0; i < all.size(); ++i) {
    double& largest = values[i % values.size()];
    if (i < values.size() || std::isnan(all[i]) || all[i] > largest) largest = all[i];
  }
}

void MpiCommunicator::exchange_counts(std::span<const int64_t> sent, int64_t per_rank, std::span<int64_t> received) {
  const WatchedCall watched("exchange_counts", rank_, size_);
  require(static_cast<int64_t>(sent.size()) == per_rank * size_ && received.size() == sent.size(),
          "exchange of {} counts for {} ranks", sent.size(), size_);
  check(MPI_Alltoall(sent.data(), narrow<int>(per_rank), MPI_INT64_T, received.data(), narrow<int>(per_rank),
                     MPI_INT64_T, comm_),
        "exchange of counts");
  traffic_.other_bytes += per_rank * 8 * (size_ - 1);
}

void MpiCommunicator::exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                                    std::span<const int64_t> receive_rows, size_t row_bytes) {
  const WatchedCall watched("exchange_rows", rank_, size_);
  require(static_cast<int>(send_rows.size()) == size_ && static_cast<int>(receive_rows.size()) == size_,
          "exchange lists of {} and {} ranks, there are {}", send_rows.size(), receive_rows.size(), size_);
  require(send_rows[rank_] == receive_rows[rank_], "rank {} sends itself {} rows and expects {}", rank_,
          send_rows[rank_], receive_rows[rank_]);
  const auto* from = static_cast<const char*>(sent);
  auto* to = static_cast<char*>(received);
  std::vector<MPI_Request> requests;
  const auto for_each_chunk = [&](int64_t rows, auto&& call) {
    const auto bytes = rows * static_cast<int64_t>(row_bytes);
    for (int64_t first = 0; first < bytes; first += chunk_bytes_) call(first, std::min(chunk_bytes_, bytes - first));
  };
  // Messages of a pair of ranks keep their order, so one tag is enough for all chunks.
  constexpr int kTag = 2;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_)
      for_each_chunk(receive_rows[r], [&](int64_t first, int64_t part) {
        check(MPI_Irecv(to + first, narrow<int>(part), MPI_BYTE, r, kTag, comm_, &requests.emplace_back()),
              "exchange of rows");
      });
    to += receive_rows[r] * static_cast<int64_t>(row_bytes);
  }
  to = static_cast<char*>(received);
  for (int r = 0; r < size_; ++r) {
    const int64_t bytes = send_rows[r] * static_cast<int64_t>(row_bytes);
    if (r == rank_) {
      int64_t own = 0;
      for (int s = 0; s < r; ++s) own += receive_rows[s] * static_cast<int64_t>(row_bytes);
      if (bytes > 0) std::memcpy(to + own, from, static_cast<size_t>(bytes));
    } else {
      for_each_chunk(send_rows[r], [&](int64_t first, int64_t part) {
        check(MPI_Isend(from + first, narrow<int>(part), MPI_BYTE, r, kTag, comm_, &requests.emplace_back()),
              "exchange of rows");
      });
      traffic_.exchange_bytes += bytes;
    }
    from += bytes;
  }
  check(MPI_Waitall(narrow<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "exchange of rows");
}

std::unique_ptr<Communicator> MpiCommunicator::split(int colour) {
  const WatchedCall watched("split of the ranks", rank_, size_);
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, colour, rank_, &part), "split of the ranks");
  return std::make_unique<MpiCommunicator>(part, true, chunk_bytes_);
}

h5::File MpiCommunicator::open_shared(const std::string& path) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  H5Pset_fapl_mpio(access, comm_, MPI_INFO_NULL);
  try {
    h5::File file(path, access);
    H5Pclose(access);
    return file;
  } catch (...) {
    H5Pclose(access);
    throw;
  }
}

}  // namespace heddle
