// The exchange of data between ranks, behind an interface that MPI and NCCL fill. Rows and sums of floats lie in the
// memory of the job's device, where tensors are; everything else lies on the host. Over MPI both are the same. Every
// call is collective over the communicator: all its ranks make the same calls in the same order, also a rank that has
// nothing to send. A failure inside a call throws Error on the ranks that see it; launch/ then ends the whole job.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/hdf5.h"

namespace heddle {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The same ranks, where rows and floats lie on the host as well.
  virtual Communicator& host() { return *this; }

  virtual void barrier() = 0;

  /// data on `root` reaches every rank.
  virtual void broadcast(void* data, size_t bytes, int root) = 0;

  /// Concatenation, in rank order, of equal-sized contributions; received [size() * bytes].
  virtual void all_gather(const void* sent, size_t bytes, void* received) = 0;

  /// In place. Sums in rank order ((r0 + r1) + r2 ...), element by element: same bits on every rank and every run.
  /// Each element is summed by the owner of its shard (contiguous shards of ceil(count / size) elements), so a
  /// reduction to shards followed by a gather gives these very bits.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<int64_t> values) = 0;
  /// The two halves of all_reduce_sum, with shards of any sizes: counts[r] elements for rank r, one shard behind the
  /// other. Afterwards this rank's shard holds its sums, in rank order; the other shards are as they were.
  virtual void reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) = 0;
  /// In place: every rank's shard reaches all ranks.
  virtual void all_gather_shards(std::span<float> values, std::span<const int64_t> counts) = 0;
  virtual void all_reduce_max(std::span<int64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;  ///< a NaN of any rank gives NaN on every rank

  /// One 64-bit number block per pair of ranks: sent [size() * per_rank], block r goes to rank r; received likewise,
  /// block r came from rank r.
  virtual void exchange_counts(std::span<const int64_t> sent, int64_t per_rank, std::span<int64_t> received) = 0;

  /// Rows of row_bytes bytes: send_rows[r] consecutive rows of `sent` go to rank r, receive_rows[r] rows come from rank
  /// r, stored in rank order. Counts must agree pairwise (exchange_counts first). Any sizes, also above 2^31 bytes.
  virtual void exchange_rows(const void* sent, std::span<const int64_t> send_rows, void* received,
                             std::span<const int64_t> receive_rows, size_t row_bytes) = 0;

  /// Rows or sums under way. finish() makes what comes after it see them; the memory of both sides must stay until
  /// then.
  class Exchange {
   public:
    Exchange() = default;
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    virtual ~Exchange() = default;
    virtual void finish() {}
  };
  /// exchange_rows in two halves, for work in between. Over MPI all of it happens in the first.
  virtual std::unique_ptr<Exchange> start_exchange_rows(const void* sent, std::span<const int64_t> send_rows,
                                                        void* received, std::span<const int64_t> receive_rows,
                                                        size_t row_bytes) {
    exchange_rows(sent, send_rows, received, receive_rows, row_bytes);
    return std::make_unique<Exchange>();
  }
  /// all_reduce_sum and reduce_scatter_sum of floats in two halves, likewise.
  virtual std::unique_ptr<Exchange> start_all_reduce_sum(std::span<float> values) {
    all_reduce_sum(values);
    return std::make_unique<Exchange>();
  }
  virtual std::unique_ptr<Exchange> start_reduce_scatter_sum(std::span<float> values, std::span<const int64_t> counts) {
    reduce_scatter_sum(values, counts);
    return std::make_unique<Exchange>();
  }

  /// A communicator of the ranks that pass the same colour (0 or more), ordered by rank. Collective over this one.
  virtual std::unique_ptr<Communicator> split(int colour) = 0;

  /// An existing HDF5 file, opened by all ranks together, each of which may then write its own elements. Closing is
  /// collective too. Throws where the file system or MPI cannot do that, perhaps on some ranks only.
  virtual h5::File open_shared(const std::string& path) = 0;

  /// Bytes this rank handed to other ranks so far in exchange_rows, and in all other calls (for the log).
  struct Traffic {
    int64_t exchange_bytes = 0;
    int64_t other_bytes = 0;
  };
  virtual Traffic traffic() const = 0;
};

/// One rank without any library: what a start without a launcher gets.
std::unique_ptr<Communicator> make_single_communicator();

/// Gathers a text of each rank on every rank, in rank order.
std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text);

/// True where every rank passed true. Collective.
bool all_ranks(Communicator& communicator, bool value);

/// Collective: if any rank has a message (non-empty), every rank throws Error with the messages and their ranks.
/// Guards a step that may fail on one rank only (reading a file, say).
void throw_if_any_failed(Communicator& communicator, const std::string& message, const std::string& hint = "");

}  // namespace heddle
