// Shared memory of the running block, with red zones that find what is written beside it.
#pragma once

namespace cuda_emulation {

/// Before and after a block. free_shared fails if a red zone was written.
void create_dynamic_shared();
void free_shared();

}  // namespace cuda_emulation
