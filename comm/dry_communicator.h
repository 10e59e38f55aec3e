// A rank of a job that does not run: for shapes and sizes at any number of ranks. Nothing is moved, and every other
// rank is taken to do what this one does.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace heddle {

/// Counts (and rows of up to 16 bytes, which say where others go) arrive as this rank would send them to itself. Sums
/// and larger rows stay as they are. split() is refused: the parts of a job that does not run are made by hand.
std::unique_ptr<Communicator> make_dry_communicator(int rank, int size);

}  // namespace heddle
