// The shape of a launch: grid, block, dynamic shared memory, and where in the source it stands.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace heddle::cuda {

/// Blocks, threads per block, and bytes of DYNAMIC_SHARED memory. Remembers where it was written, for error messages:
/// launch(kernel, {blocks, 256}, stream, arguments...).
struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t dynamic_shared_bytes;
  const char* file;
  int line;

  LaunchShape(dim3 grid_dimensions, dim3 block_dimensions, size_t dynamic_shared = 0,
              const char* written_in = __builtin_FILE(), int written_at = __builtin_LINE())
      : grid(grid_dimensions),
        block(block_dimensions),
        dynamic_shared_bytes(dynamic_shared),
        file(written_in),
        line(written_at) {}
};

/// Throws Error naming the launch's place, unless the status is success.
void check_launch(cudaError_t status, const LaunchShape& shape);

/// Blocks that `items` need at `items_per_block`, as a grid dimension. 0 for 0 items: nothing may be launched then.
/// Throws Error where the number does not fit.
unsigned block_count(int64_t items, int64_t items_per_block);

/// Threads of one block that walks `items`: whole warps, at most 1024.
unsigned threads_of_one_block(int64_t items);

/// For kernels that count in 32 bits. Throws Error where the number does not fit.
int to_int(int64_t number);

}  // namespace heddle::cuda
