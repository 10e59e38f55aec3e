// Linear combinations and sums with learned weights. The sums of squares are in sums.cu.
#include "kernels/cuda/elementwise.cuh"

#include <vector>

#include "cuda/copies.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

struct Combination {
  float alpha, beta;
  __device__ void operator()(float x, float y, float& out) const { out = alpha * x + beta * y; }
};

struct Scaling {
  float alpha;
  __device__ void operator()(float x, float& out) const { out = alpha * x; }
};

/// xs: the addresses of the terms, in device memory.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    weighted_sum_kernel(int64_t count, int64_t terms, const T* base, const float* __restrict__ weights,
                        const T* const* __restrict__ xs, T* out) {
  constexpr int kPack = kPackSize<T>;
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  const auto start = load<kPack>(base, first, count);
  float sum[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum[i] = start[i];
#pragma unroll 4
  for (int64_t k = 0; k < terms; ++k) {
    const auto x = load<kPack>(xs[k], first, count);
    const float weight = weights[k];
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += weight * x[i];
  }
  store(out, first, count, sum);
}

/// Elements whose products one block adds up.
constexpr int64_t kDotPiece = int64_t{1} << 14;

/// dx = *weight * dout (+ old_dx), unless dx is null; partials[block] = dout . x over the block's piece, unless they
/// are null.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    weighted_term_kernel(int64_t count, const float* __restrict__ weight, const T* x, const T* dout, const T* old_dx,
                         T* dx, double* partials) {
  constexpr int kPack = kPackSize<T>;
  const int64_t begin = blockIdx.x * kDotPiece;
  const int64_t end = begin + kDotPiece < count ? begin + kDotPiece : count;
  const float factor = dx != nullptr ? *weight : 0.0f;
  double dot = 0;
  for (int64_t first = begin + threadIdx.x * kPack; first < end; first += kThreads * kPack) {
    const auto gradient = load<kPack>(dout, first, end);
    const auto value = load<kPack>(x, first, end);
    const auto old = load<kPack>(old_dx, first, end);
    float out[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      dot += static_cast<double>(gradient[i]) * static_cast<double>(value[i]);
      out[i] = old[i] + factor * gradient[i];
    }
    store(dx, first, end, out);
  }
  if (partials == nullptr) return;
  dot = block_sum(dot);
  if (threadIdx.x == 0) partials[blockIdx.x] = dot;
}

__global__ void __launch_bounds__(kThreads)
    sum_of_partials_kernel(int64_t parts, const double* __restrict__ partials, bool accumulate, float* sum) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kThreads) total += partials[i];
  total = block_sum(total);
  if (threadIdx.x == 0) *sum = static_cast<float>(accumulate ? static_cast<double>(*sum) + total : total);
}

}  // namespace

void linear_combination(int64_t count, float alpha, ConstReals x, float beta, ConstReals y, Reals out) {
  with_stored(x.type, [&]<typename X>(X) {
    with_stored(y.type, [&]<typename Y>(Y) {
      with_stored(out.type, [&]<typename Out>(Out) {
        for_each_element(count, Combination{alpha, beta}, stored<X>(x), stored<Y>(y), stored<Out>(out));
      });
    });
  });
}

void scale(int64_t count, float alpha, ConstReals x, Reals out) {
  with_stored(x.type, [&]<typename X>(X) {
    with_stored(out.type,
                [&]<typename Out>(Out) { for_each_element(count, Scaling{alpha}, stored<X>(x), stored<Out>(out)); });
  });
}

void fill_zero(int64_t count, Reals x) {
  fill_bytes(x.data, 0, static_cast<size_t>(count * real_bytes(x.type)));
}

void weighted_sum_forward(int64_t count, int64_t terms, ConstReals base, const float* weights, const ConstReals* xs,
                          Reals out) {
  if (count == 0) return;
  for (int64_t k = 0; k < terms; ++k) common_type({base, xs[k], out});
  with_stored(out.type, [&]<typename T>(T) {
    std::vector<const T*> addresses;
    for (int64_t k = 0; k < terms; ++k) addresses.push_back(stored<T>(xs[k]));
    Scratch scratch(Scratch::bytes_of<const T*>(terms));
    launch(weighted_sum_kernel<T>, {block_count(count, kThreads * kPackSize<T>), kThreads}, context().compute_stream(),
           count, terms, stored<T>(base), weights, scratch.upload(addresses.data(), terms), stored<T>(out));
  });
}

void weighted_term_backward(int64_t count, const float* weight, ConstReals x, ConstReals dout, RealsGradient dx,
                            GradientOut dweight) {
  const int64_t parts = block_count(count, kDotPiece);
  Scratch scratch(Scratch::bytes_of<double>(parts));
  double* const partials = dweight ? scratch.take<double>(parts) : nullptr;
  if (parts > 0 && (dx || dweight)) {
    const ConstReals factors = dweight ? x : ConstReals();
    with_stored(common_type({factors, dout, dx.data}), [&]<typename T>(T) {
      T* const to = stored<T>(dx.data);
      launch(weighted_term_kernel<T>, {block_count(count, kDotPiece), kThreads}, context().compute_stream(), count,
             weight, stored<T>(factors), stored<T>(dout), dx.accumulate ? to : nullptr, to, partials);
    });
  }
  if (dweight)
    launch(sum_of_partials_kernel, {1, kThreads}, context().compute_stream(), parts, partials, dweight.accumulate,
           dweight.data);
}

}  // namespace heddle::cuda
