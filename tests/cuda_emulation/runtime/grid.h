// A kernel's run: its blocks one after the other, in an order that the seed decides.
#pragma once

#include <cuda_emulation/launch.h>

namespace cuda_emulation {

void run_grid(const LaunchRequest& request, const KernelBody& body);

}  // namespace cuda_emulation
