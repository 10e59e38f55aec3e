// Calls between ncclGroupStart and ncclGroupEnd.
#pragma once

namespace cuda_emulation {

bool inside_group();

}  // namespace cuda_emulation
