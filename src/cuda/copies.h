// Copies between the host and the GPU, and fills. Light enough for .cu files: no formatting library. Needs the context.
// All are enqueued on the compute stream: they see what was enqueued there before, and the host must wait
// (Context::synchronize_compute) before it reads what was copied to it or changes what is copied from it. Host memory
// that is not pinned works too, slower: the call then returns when the host memory is free again.
#pragma once

#include <cstddef>

namespace heddle::cuda {

void copy_to_device(void* device, const void* host, size_t bytes);
void copy_to_host(void* host, const void* device, size_t bytes);
/// Between two places of this GPU that do not overlap.
void copy_on_device(void* to, const void* from, size_t bytes);
/// Every byte becomes `value`.
void fill_bytes(void* device, unsigned char value, size_t bytes);

}  // namespace heddle::cuda
