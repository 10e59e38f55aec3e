// Softmax cross-entropy: a block walks over its row twice, for the largest logit and the sum of exponentials in one
// pass, and for the gradient. A long row gets the largest block, so that few rows are on their way at a time and the
// second pass finds its row in the L2 cache.
#include "cuda/context.h"
#include "cuda/device.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

constexpr int kMostThreads = 1024;
constexpr int kAtOnce = 8;  ///< elements of a thread that are on their way together

/// For a row of `count` elements.
unsigned threads_for(int64_t count) {
  return count > 4096 ? kMostThreads : 128;
}

__device__ __forceinline__ float capped(float x, float cap) {
  return cap > 0 ? cap * tanhf(x / cap) : x;
}

/// Calls visit(first, elements) for the elements first, first + blockDim.x, ... of this thread, up to kAtOnce together.
template <typename Visit>
__device__ __forceinline__ void for_each_group(int64_t count, const Visit& visit) {
  const auto stride = static_cast<int>(blockDim.x);
  for (int64_t first = threadIdx.x; first < count; first += stride * kAtOnce)
    visit(first, static_cast<int>(min(int64_t{kAtOnce}, (count - first + stride - 1) / stride)));
}

/// The largest of some logits, and the sum of exp(logit - largest); in double, since float loses digits at a vocabulary
/// of 50,000.
struct Total {
  float largest = -INFINITY;
  double sum = 0;

  __device__ void add(const float (&logits)[kAtOnce]) {
    float top = largest;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) top = fmaxf(top, logits[i]);
    if (top > largest) {
      sum *= static_cast<double>(expf(largest - top));
      largest = top;
    }
    // What is all minus infinity so far is shifted by 0.
    const float shift = largest == -INFINITY ? 0.0f : largest;
    float terms = 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) terms += expf(logits[i] - shift);
    sum += static_cast<double>(terms);
  }
};

/// Of the whole block. NaN among the logits makes the sum NaN.
__device__ __forceinline__ Total total_of_block(const Total& mine) {
  Total total;
  total.largest = block_max(mine.largest);
  const float shrink = mine.largest == total.largest ? 1.0f : expf(mine.largest - total.largest);
  total.sum = block_sum(mine.sum * static_cast<double>(shrink));
  return total;
}

/// The first pass; with kStoreCapped the logits become the capped ones.
template <bool kStoreCapped>
__device__ __forceinline__ Total sum_row(float* row, int64_t vocabulary, float cap) {
  Total total;
  const auto stride = static_cast<int>(blockDim.x);
  for_each_group(vocabulary, [&](int64_t first, int count) {
    float logits[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      logits[i] = i < count ? capped(row[first + i * stride], cap) : -INFINITY;
      if (kStoreCapped && i < count) row[first + i * stride] = logits[i];
    }
    total.add(logits);
  });
  return total_of_block(total);
}

/// gradient = factor exp(logit - largest) - (gradient_scale at the target), times the cap's slope; may be the row.
template <typename T>
__device__ __forceinline__ void store_gradient(const float* row, T* gradient, int64_t vocabulary, int64_t target,
                                               float largest, float factor, const CrossEntropyOptions& options) {
  const auto stride = static_cast<int>(blockDim.x);
  for_each_group(vocabulary, [&](int64_t first, int count) {
    float logits[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) logits[i] = i < count ? row[first + i * stride] : 0.0f;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (i >= count) continue;
      const int64_t at = first + i * stride;
      const float logit = capped(logits[i], options.soft_cap);
      const float pull = factor * expf(logit - largest) - (at == target ? options.gradient_scale : 0.0f);
      const float part = options.soft_cap > 0 ? logit / options.soft_cap : 0.0f;
      gradient[at] = from_float<T>(pull * (1.0f - part * part));
    }
  });
}

/// A row that does not count: its gradient is 0, whatever it holds.
template <typename T>
__device__ __forceinline__ void pass_over_row(float* row, T* gradient, int64_t vocabulary, float cap) {
  for (int64_t at = threadIdx.x; at < vocabulary; at += blockDim.x) {
    if (gradient != nullptr)
      gradient[at] = from_float<T>(0.0f);
    else if (cap > 0)
      row[at] = capped(row[at], cap);
  }
}

/// A block for each row.
template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_kernel(int64_t vocabulary, const int32_t* __restrict__ targets, CrossEntropyOptions options,
                         float* logits, T* gradients, double* __restrict__ loss, double* __restrict__ log_total) {
  const int64_t row_number = blockIdx.x;
  const int64_t target = targets[row_number];
  float* const row = logits + row_number * vocabulary;
  T* const gradient = gradients == nullptr ? nullptr : gradients + row_number * vocabulary;
  double row_loss = 0, row_log_total = 0;
  if (target == kIgnoredTarget) {
    pass_over_row(row, gradient, vocabulary, options.soft_cap);
  } else {
    const float target_logit = capped(row[target], options.soft_cap);
    __syncthreads();  // before any logit is replaced
    const Total total = gradient == nullptr && options.soft_cap > 0 ? sum_row<true>(row, vocabulary, options.soft_cap)
                                                                    : sum_row<false>(row, vocabulary, options.soft_cap);
    row_log_total = static_cast<double>(total.largest) + log(total.sum);
    row_loss = row_log_total - static_cast<double>(target_logit);
    if (gradient != nullptr) {
      const double of_total = 1 + 2 * static_cast<double>(options.z_weight) * row_log_total;
      const auto factor = static_cast<float>(static_cast<double>(options.gradient_scale) * of_total / total.sum);
      store_gradient(row, gradient, vocabulary, target, total.largest, factor, options);
    }
  }
  if (threadIdx.x == 0) loss[row_number] = row_loss, log_total[row_number] = row_log_total;
}

constexpr int kCapThreads = 256, kCapElements = 4 * kCapThreads;

/// A block for kCapElements neighbours.
__global__ void __launch_bounds__(kCapThreads) soft_cap_kernel(int64_t count, float cap, const float* x, float* y) {
  const int64_t first = int64_t{blockIdx.x} * kCapElements + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kCapElements; i += kCapThreads)
    if (first + i < count) y[first + i] = capped(x[first + i], cap);
}

}  // namespace

void soft_cap(int64_t count, float cap, const float* x, float* y) {
  if (count == 0) return;
  launch(soft_cap_kernel, {block_count(count, kCapElements), kCapThreads}, context().compute_stream(), count, cap, x,
         y);
}

void cross_entropy(int64_t rows, int64_t vocabulary, const int32_t* targets, const CrossEntropyOptions& options,
                   float* logits, Reals gradient, double* loss, double* log_total) {
  if (rows == 0) return;
  with_stored(gradient.type, [&]<typename T>(T) {
    launch(cross_entropy_kernel<T>, {block_count(rows, 1), threads_for(vocabulary)}, context().compute_stream(),
           vocabulary, targets, options, logits, stored<T>(gradient), loss, log_total);
  });
}

}  // namespace heddle::cuda
