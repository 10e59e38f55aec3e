// The matrix-product speed of this machine, measured: what utilisation is a share of.
#pragma once

#include "comm/communicator.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace heddle {

/// Floating-point operations per second of all ranks together, each multiplying square matrices of the given type for
/// about 50 milliseconds at the same time (of zeros, at which GPUs run fastest). Their size is the first power of two
/// from 512 to 8192 that takes half a millisecond. Collective.
double measure_peak_flops(Communicator& world, const Kernels& kernels, DType type);

}  // namespace heddle
