// The tensors of a checkpoint as a rank sees them, and their way into and out of the file. Every element is written by
// exactly one rank, whatever the layout: the ranks that hold the same elements share the writing.
#pragma once

#include <string>
#include <vector>

#include "model/looped_model.h"
#include "optim/optimizer.h"
#include "support/hdf5.h"

namespace heddle {

/// A checkpoint whose content does not fit its checksums or cannot be read: another one may do.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

/// Runs what reads a file on this rank; if that fails on any rank, all ranks throw DamagedCheckpoint. Collective.
template <typename Read>
void reading_together(Communicator& world, Read read) {
  std::string failure, hint;
  try {
    read();
  } catch (const Error& error) {
    failure = error.what();
    hint = error.hint();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  try {
    throw_if_any_failed(world, failure, hint);
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what(), error.hint());
  }
}

struct StoredTensor {
  std::string dataset;
  Shape shape;                ///< global
  int64_t held_first = 0;     ///< index of held[0] in the global tensor
  Tensor held;                ///< all elements that this rank holds
  int64_t written_first = 0;  ///< in the global tensor; within the held ones
  Tensor written;             ///< the elements that this rank writes
};

/// Weights and balance biases.
std::vector<StoredTensor> model_tensors(LoopedModel& model);
/// Moments and whatever else the optimizer keeps of all parameters.
std::vector<StoredTensor> optimizer_tensors(LoopedModel& model, Optimizer& optimizer);

/// Checksum of every tensor over all its elements (support/hash.h), the same on every rank. Throws on every rank if an
/// element is not finite, naming the tensor. Collective.
std::vector<uint64_t> checksums(Communicator& world, const Kernels& kernels, const std::vector<StoredTensor>& tensors);

/// Makes the datasets, with their checksums; one rank does this.
void create_tensors(h5::File& file, const std::vector<StoredTensor>& tensors, const std::vector<uint64_t>& sums);
/// Writes this rank's elements into a file that all ranks have opened together.
void write_own_elements(h5::File& file, const std::vector<StoredTensor>& tensors);
/// Rank 0 writes everybody's elements; `file` is null on the others. Collective. Returns what went wrong, on rank 0.
std::string write_by_one(Communicator& world, h5::File* file, const std::vector<StoredTensor>& tensors);

/// Reads the held elements of every tensor and compares the checksums. Throws DamagedCheckpoint on every rank, naming
/// the tensor that is missing, of another shape, or damaged. Collective.
void read_tensors(Communicator& world, const std::string& path, const std::vector<StoredTensor>& tensors);

/// Name of the dataset's attribute.
inline constexpr const char* kChecksumAttribute = "checksum";

}  // namespace heddle
