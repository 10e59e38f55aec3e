#include "runtime/grid.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <numeric>

#include "runtime/options.h"
#include "runtime/random.h"
#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

extern "C" {
extern uint3 blockIdx;
extern dim3 blockDim, gridDim;
}

namespace cuda_emulation {

namespace {

/// Random start and stride, coprime to the number of blocks: every block once, without a list of them.
struct BlockOrderOfGrid {
  uint64_t start = 0, stride = 1;

  explicit BlockOrderOfGrid(uint64_t blocks) {
    if (!options().shuffle || blocks < 2) return;
    const auto bound = static_cast<uint32_t>(std::min<uint64_t>(blocks, UINT32_MAX));
    start = random_below(bound);
    do {
      stride = 1 + random_below(bound - 1);
    } while (std::gcd(stride, blocks) != 1);
  }
};

GridOrder* create_grid_order() {
  const UnwatchedScope unwatched;
  return new GridOrder;
}

void delete_grid_order(GridOrder* order) {
  const UnwatchedScope unwatched;
  delete order;
}

}  // namespace

void run_grid(const LaunchRequest& request, const KernelBody& body) {
  blockDim = request.block;
  gridDim = request.grid;
  ThreadBlock& block = running_block();
  block.launch = &request;
  block.body = &body;
  block.thread_count = static_cast<int>(request.block.x * request.block.y * request.block.z);
  if (block.threads.size() < static_cast<size_t>(block.thread_count)) {
    const UnwatchedScope unwatched;
    block.threads.resize(static_cast<size_t>(block.thread_count));
    block.lane_operands.resize(block.threads.size());
    block.async_copies.resize(block.threads.size());
    block.ready.reserve(static_cast<size_t>(block.thread_count) + 1);
    block.warps.resize(static_cast<size_t>(block.thread_count / kWarpSize));
  }
  block.grid_order = create_grid_order();
  release_order(&block.grid_order->start);

  const uint64_t width = request.grid.x, height = request.grid.y;
  const uint64_t blocks = width * height * request.grid.z;
  const BlockOrderOfGrid order(blocks);
  uint64_t number = order.start;
  for (uint64_t i = 0; i < blocks; ++i, number = (number + order.stride) % blocks)
    run_block({static_cast<unsigned>(number % width), static_cast<unsigned>(number / width % height),
               static_cast<unsigned>(number / width / height)});

  acquire_order(&block.grid_order->end);
  delete_grid_order(block.grid_order);
  block.grid_order = nullptr;
}

}  // namespace cuda_emulation
