// What kernels may call, against answers made by hand: thread indices, barriers, warps, atomics, tensor cores.
#include "cuda/device.cuh"
#include "cuda/on_device.h"

namespace heddle::cuda {

namespace {

using DeviceCode = OnDevice;

cudaStream_t stream() {
  return context().compute_stream();
}

__global__ void index_kernel(int* visits) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  atomicAdd(&visits[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

__global__ void barrier_kernel(int* out) {
  SHARED_VAR(int, total);
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, static_cast<int>(threadIdx.x));
  const int odd = __syncthreads_count(threadIdx.x % 2);
  const int all = __syncthreads_and(threadIdx.x < 64), any = __syncthreads_or(threadIdx.x == 63);
  if (threadIdx.x == 5) {
    out[0] = total;
    out[1] = odd;
    out[2] = all;
    out[3] = any;
  }
}

__global__ void shuffle_kernel(int* out) {
  const int lane = lane_index();
  int* mine = out + lane * 6;
  mine[0] = __shfl_sync(kFullWarp, lane, 35);       // lane 35 % 32
  mine[1] = __shfl_up_sync(kFullWarp, lane, 3u);    // the first three keep theirs
  mine[2] = __shfl_down_sync(kFullWarp, lane, 3u);  // the last three keep theirs
  mine[3] = __shfl_xor_sync(kFullWarp, lane, 5);
  mine[4] = __shfl_sync(kFullWarp, lane, 1, 8);  // in groups of eight
  mine[5] = static_cast<int>(__shfl_xor_sync(kFullWarp, 2.5 * lane, 16) * 2.0);
}

__global__ void vote_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x;
  unsigned* mine = out + lane * 9;
  mine[0] = __ballot_sync(kFullWarp, lane % 4 == 1);
  mine[1] = static_cast<unsigned>(__any_sync(kFullWarp, lane == 31));
  mine[2] = static_cast<unsigned>(__all_sync(kFullWarp, lane < 31));
  mine[3] = __match_any_sync(kFullWarp, lane % 8);
  mine[4] = __reduce_add_sync(kFullWarp, lane);
  mine[5] = static_cast<unsigned>(__reduce_min_sync(kFullWarp, static_cast<int>(lane) - 7));
  mine[6] = __reduce_max_sync(kFullWarp, lane - 7u);
  mine[7] = __reduce_or_sync(kFullWarp, 1u << (lane % 3));
  if (lane < 16)
    mine[8] = __reduce_add_sync(0xffffu, lane);
  else
    mine[8] = __reduce_xor_sync(0xffff0000u, lane);
}

__global__ void atomics_kernel(int* integers, float* floats, unsigned long long* wide, __nv_bfloat16* halves) {
  const int lane = lane_index();
  atomicAdd(&integers[0], lane);
  atomicSub(&integers[1], 1);
  atomicMax(&integers[2], lane);
  atomicMin(&integers[3], -lane);
  atomicOr(&integers[4], 1 << lane);
  atomicAnd(&integers[5], ~(1 << lane));
  atomicCAS(&integers[6], lane, lane + 1);
  atomicExch(&integers[7], 9);
  atomicAdd(&floats[0], 0.5f);
  atomicAdd(&wide[0], 1ull << 33);
  atomicAdd(&halves[lane % 2], __float2bfloat16(1.0f));
}

__global__ void reductions_kernel(const float* values, float* out) {
  const float value = values[threadIdx.x];
  const float results[] = {warp_sum(value), warp_max(value), block_sum(value), block_max(-value), block_sum(1.0f)};
  for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + static_cast<unsigned>(i)] = results[i];
}

template <typename T>
__global__ void round_trip_kernel(const T* in, T* out) {
  const int first = static_cast<int>(threadIdx.x) * Pack<T>::kSize;
  Pack<T> pack = load_pack(in + first);
  for (int i = 0; i < Pack<T>::kSize; ++i) pack.values[i] = from_float<T>(2.0f * to_float(pack.values[i]));
  store_pack(out + first, pack);
}

/// C[16, 8] = A[16, 16] B[8, 16]^T by one warp.
__global__ void mma_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  const int group = lane_index() / 4, pair = 2 * (lane_index() % 4);
  float d[4] = {};
  uint32_t a_registers[4], b_registers[2];
  for (int i = 0; i < 4; ++i) a_registers[i] = fragment_pair(a + (group + 8 * (i % 2)) * 16 + pair + 8 * (i / 2));
  for (int i = 0; i < 2; ++i) b_registers[i] = fragment_pair(b + group * 16 + pair + 8 * i);
  mma_m16n8k16(d, a_registers, b_registers);
  for (int i = 0; i < 4; ++i) c[(group + 8 * (i / 2)) * 8 + pair + i % 2] = d[i];
}

/// Tiles of 128 floats, the next one on its way while one is summed.
__global__ void pipeline_kernel(const float* in, float* out, int tiles) {
  SHARED_ARRAY(float, buffers, 2 * 128);
  const unsigned mine = 4 * threadIdx.x;
  copy_async<16>(buffers + mine, in + mine);
  copy_async_commit();
  float sum = 0.0f;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      copy_async<16>(buffers + (tile + 1) % 2 * 128 + mine, in + (tile + 1) * 128 + mine);
      copy_async_commit();
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 128; i += 32) sum += buffers[tile % 2 * 128 + static_cast<int>(127 - i)];
    __syncthreads();
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) *out = sum;
}

__global__ void large_shared_kernel(float* out) {
  DYNAMIC_SHARED(float, values);
  for (int i = static_cast<int>(threadIdx.x); i < 50000; i += static_cast<int>(blockDim.x)) values[i] = 1.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < 50000; i += static_cast<int>(blockDim.x)) sum += values[49999 - i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = sum;
}

}  // namespace

TEST_F(DeviceCode, EveryThreadOfEveryBlockRunsOnce) {
  DeviceArray<int> visits(std::vector<int>(2 * 3 * 2 * 4 * 8 * 3));
  launch(index_kernel, {dim3(2, 3, 2), dim3(4, 8, 3)}, stream(), visits.data());
  EXPECT_EQ(visits.values(), std::vector<int>(visits.size(), 1));
}

TEST_F(DeviceCode, BarriersCountPredicates) {
  DeviceArray<int> out(std::vector<int>(4));
  launch(barrier_kernel, {1, 128}, stream(), out.data());
  EXPECT_EQ(out.values(), (std::vector<int>{128 * 127 / 2, 64, 0, 1}));
}

TEST_F(DeviceCode, Shuffles) {
  DeviceArray<int> out(std::vector<int>(32 * 6));
  launch(shuffle_kernel, {1, 32}, stream(), out.data());
  const std::vector<int> values = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    const auto first = values.begin() + lane * 6;
    EXPECT_EQ(std::vector<int>(first, first + 6),
              (std::vector<int>{3, lane < 3 ? lane : lane - 3, lane > 28 ? lane : lane + 3, lane ^ 5, lane / 8 * 8 + 1,
                                5 * (lane ^ 16)}))
        << lane;
  }
}

TEST_F(DeviceCode, VotesAndReductionsOfAWarp) {
  DeviceArray<unsigned> out(std::vector<unsigned>(32 * 9));
  launch(vote_kernel, {1, 32}, stream(), out.data());
  const std::vector<unsigned> values = out.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto first = values.begin() + lane * 9;
    // 16 ^ 17 ^ ... ^ 31 = 0, four to the power of anything here.
    EXPECT_EQ(std::vector<unsigned>(first, first + 9),
              (std::vector<unsigned>{0x22222222u, 1, 0, 0x01010101u << (lane % 8), 496, static_cast<unsigned>(-7),
                                     static_cast<unsigned>(-1), 7, lane < 16 ? 120u : 0u}))
        << lane;
  }
}

TEST_F(DeviceCode, Atomics) {
  DeviceArray<int> integers(std::vector<int>{0, 0, 0, 0, 0, -1, 0, 0});
  DeviceArray<float> floats(std::vector<float>{1.0f});
  DeviceArray<unsigned long long> wide(std::vector<unsigned long long>{1});
  DeviceArray<__nv_bfloat16> halves(std::vector<__nv_bfloat16>(2, __float2bfloat16(0.0f)));
  launch(atomics_kernel, {2, 32}, stream(), integers.data(), floats.data(), wide.data(), halves.data());
  const std::vector<int> found = integers.values();
  EXPECT_EQ(std::vector<int>(found.begin(), found.begin() + 6), (std::vector<int>{992, -64, 31, -31, -1, 0}));
  EXPECT_GE(found[6], 1);  // how far the chain of exchanges gets depends on the order
  EXPECT_EQ(found[7], 9);
  EXPECT_EQ(floats.values()[0], 33.0f);
  EXPECT_EQ(wide.values()[0], 1 + (64ull << 33));
  EXPECT_EQ(__bfloat162float(halves.values()[1]), 32.0f);
}

TEST_F(DeviceCode, ReductionsOfABlock) {
  std::vector<float> values(96);
  for (size_t i = 0; i < 96; ++i) values[i] = static_cast<float>(i);
  DeviceArray<float> in(values), out(96 * 5);
  launch(reductions_kernel, {1, 96}, stream(), in.data(), out.data());
  const std::vector<float> found = out.values();
  for (size_t i = 0; i < 96; ++i) {
    const float warp = static_cast<float>(i / 32);
    EXPECT_EQ(
        std::vector<float>(found.begin() + static_cast<long>(i) * 5, found.begin() + static_cast<long>(i) * 5 + 5),
        (std::vector<float>{496.0f + 1024.0f * warp, 31.0f + 32.0f * warp, 4560.0f, 0.0f, 96.0f}));
  }
}

TEST_F(DeviceCode, PacksOfFloatAndBfloat16) {
  DeviceArray<float> floats(std::vector<float>(128, 1.5f)), doubled(128);
  launch(round_trip_kernel<float>, {1, 32}, stream(), floats.data(), doubled.data());
  EXPECT_EQ(doubled.values(), std::vector<float>(128, 3.0f));
  DeviceArray<__nv_bfloat16> halves(std::vector<__nv_bfloat16>(256, __float2bfloat16(1.5f))), doubled_halves(256);
  launch(round_trip_kernel<__nv_bfloat16>, {1, 32}, stream(), halves.data(), doubled_halves.data());
  for (const __nv_bfloat16 value : doubled_halves.values()) EXPECT_EQ(__bfloat162float(value), 3.0f);
}

TEST_F(DeviceCode, TensorCoreProduct) {
  std::vector<__nv_bfloat16> a(16 * 16), b(8 * 16);
  for (size_t i = 0; i < a.size(); ++i) a[i] = __float2bfloat16(static_cast<float>(i * 7 % 13) - 6.0f);
  for (size_t i = 0; i < b.size(); ++i) b[i] = __float2bfloat16(static_cast<float>(i * 5 % 11) - 5.0f);
  DeviceArray<__nv_bfloat16> device_a(a), device_b(b);
  DeviceArray<float> c(16 * 8);
  launch(mma_kernel, {1, 32}, stream(), device_a.data(), device_b.data(), c.data());
  const std::vector<float> found = c.values();
  for (size_t row = 0; row < 16; ++row)
    for (size_t column = 0; column < 8; ++column) {
      float sum = 0.0f;
      for (size_t i = 0; i < 16; ++i) sum += __bfloat162float(a[row * 16 + i]) * __bfloat162float(b[column * 16 + i]);
      EXPECT_EQ(found[row * 8 + column], sum);  // small integers: exact in any order
    }
}

TEST_F(DeviceCode, AsynchronousCopiesFormAPipeline) {
  std::vector<float> values(5 * 128);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  DeviceArray<float> in(values), out(1);
  launch(pipeline_kernel, {1, 32}, stream(), in.data(), out.data(), 5);
  EXPECT_EQ(out.values()[0], 640.0f * 639.0f / 2.0f);
}

TEST_F(DeviceCode, LargeSharedMemoryNeedsLeave) {
  DeviceArray<float> out(1);
  allow_dynamic_shared(large_shared_kernel, 200000);
  launch(large_shared_kernel, {1, 256, 200000}, stream(), out.data());
  EXPECT_EQ(out.values()[0], 50000.0f);
}

}  // namespace heddle::cuda
