// The matrix-product speed of this machine, measured: what utilisation is a share of.
#pragma once

#include "comm/communicator.h"
#include "kernels/kernels.h"

namespace heddle {

/// Floating-point operations per second of all ranks together, each multiplying 512 x 512 matrices for about
/// 50 milliseconds at the same time. Collective.
double measure_peak_flops(Communicator& world, const Kernels& kernels);

}  // namespace heddle
