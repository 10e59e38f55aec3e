// Loss-free balancing: the bias of an expert rises while it gets less than the mean load
// (docs/loom.md section 4.5).
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace heddle {

/// bias[e] += rate * sign(mean(load) - load[e]), sign(0) = 0. load: slots per expert of the whole global batch, summed
/// over loops, segments, micro-batches and ranks. Call once per global batch.
void update_balance_bias(std::span<const int64_t> load, float rate, const Tensor& bias);

}  // namespace heddle
