// Refused: the emulation has blocks and warps only.
#include <cooperative_groups.h>

#include "cuda/device.cuh"

namespace groups = cooperative_groups;
