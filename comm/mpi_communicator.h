// MPI over host memory.
#pragma once

#include <mpi.h>

#include "comm/communicator.h"

namespace heddle {

class MpiCommunicator : public Communicator {
 public:
  /// Takes over `comm` (freed on destruction if `owned`). No single MPI call moves more than chunk_bytes to one peer
  /// (at least one element): MPI counts are 32-bit, and scratch memory stays below chunk_bytes * size(). Same value on
  /// every rank.
  MpiCommunicator(MPI_Comm comm, bool owned, int64_t chunk_bytes = int64_t{4} << 20);
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override;
  void broadcast(void* data, size_t bytes, int root) override;
  void all_gather(const void* sent, size_t bytes, void* received) override;
  void all_reduce_sum(std::span<float> values) override;
  void all_reduce_sum(std::span<double> values) override;
  void all_reduce_sum(std::span<int64_t> values) override;
  void reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) override;
  void all_gather_shards(std::span<float> values, std::span<const int64_t> counts) override;
  void all_reduce_max(std::span<int64_t> values) override;
  void all_reduce_max(std::span<double> values) override;
  void exchange_counts(std::span<const int64_t> sent, int64_t per_rank, std::span<int64_t> received) override;
  void exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                     std::span<const int64_t> receive_rows, size_t row_bytes) override;
  std::unique_ptr<Communicator> split(int colour) override;
  h5::File open_shared(const std::string& path) override;
  Traffic traffic() const override { return traffic_; }

  /// Throws Error naming the operation and the ranks unless `status` is MPI_SUCCESS.
  void check(int status, const char* operation) const;

 private:
  /// begins: size() + 1 ascending offsets, shard r is [begins[r], begins[r + 1]).
  template <typename T>
  void sum_shards(std::span<T> values, std::span<const int64_t> begins, MPI_Datatype type);
  template <typename T>
  void gather_shards(std::span<T> values, std::span<const int64_t> begins, MPI_Datatype type);
  template <typename T>
  void ordered_sum(std::span<T> values, MPI_Datatype type);
  std::vector<int64_t> begins_of(std::span<const int64_t> counts, size_t total) const;
  template <typename T>
  void reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation, const char* name);

  MPI_Comm comm_;
  bool owned_;
  int64_t chunk_bytes_;
  int rank_ = 0, size_ = 1;
  Traffic traffic_;
};

}  // namespace heddle
