// NCCL over the memory of GPUs, beside a communicator of the same ranks for the host.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace heddle {

/// Rows and sums of floats go through NCCL on the communication stream, which waits for what the compute stream holds
/// at the call; the compute stream goes on when they are done. Everything else goes to `host`, which must outlive the
/// result. Needs the context (cuda/context.h). Collective.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host);

}  // namespace heddle
