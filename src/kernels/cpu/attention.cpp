// Attention by tiles of query rows: one block of scores [tile, visible keys] at a time, products by oneDNN with the
// tensors' own strides, so nothing is transposed or copied. A tile sees the keys from the smallest document start of
// its rows up to its last row; entries that a row may not see are exactly zero.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

constexpr int64_t kTile = 64;

int64_t workspace_per_thread(const AttentionShape& s) {
  return 2 * kTile * s.sequence;
}

/// One tile of queries of one head, and where its rows lie.
struct Tile {
  int64_t first, rows;       ///< queries
  int64_t keys_first, keys;  ///< visible keys
  const int32_t* start;      ///< document starts of the batch row, or nullptr

  int64_t row_first(int64_t i) const { return (start == nullptr ? 0 : start[first + i]) - keys_first; }
  int64_t row_last(int64_t i) const { return first + i - keys_first; }  ///< inclusive
};

Tile make_tile(const AttentionShape& s, int64_t first, const int32_t* start) {
  const int64_t rows = std::min(kTile, s.sequence - first);
  const int64_t keys_first = start == nullptr ? 0 : start[first];  // starts never fall along a row
  return {first, rows, keys_first, first + rows - keys_first, start};
}

/// Turns scores into exp(score - shift) where visible and 0 elsewhere; returns their sum.
float exponentials(float* row, int64_t keys, int64_t first, int64_t last, float shift) {
  std::fill(row, row + first, 0.0F);
  std::fill(row + last + 1, row + keys, 0.0F);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = first; j <= last; ++j) {
    row[j] = vector_exp(row[j] - shift);
    sum += row[j];
  }
  return sum;
}

}  // namespace

int64_t attention_workspace(const AttentionShape& s) {
  return workspace_per_thread(s) * parallel_workers();
}

void attention_forward(const AttentionShape& s, const float* q, const float* k, const float* v,
                       const int32_t* document_start, float* out, float* lse, float* workspace) {
  const int64_t q_stride = s.query_heads * s.head_dim, kv_stride = s.kv_heads * s.head_dim;
  const int64_t share = s.query_heads / std::max<int64_t>(s.kv_heads, 1);
  parallel_chunks(s.batch * s.query_heads, true, [=](Chunk chunk) {
    for (int64_t at = chunk.first; at < chunk.last; ++at) {
      const int64_t b = at / s.query_heads, h = at % s.query_heads;
      float* const scores = workspace + workspace_per_thread(s) * chunk.worker;
      const int32_t* const start = document_start == nullptr ? nullptr : document_start + b * s.sequence;
      const float* const q_head = q + b * s.sequence * q_stride + h * s.head_dim;
      const float* const k_head = k + b * s.sequence * kv_stride + h / share * s.head_dim;
      const float* const v_head = v + b * s.sequence * kv_stride + h / share * s.head_dim;
      float* const out_head = out + b * s.sequence * q_stride + h * s.head_dim;
      float* const lse_head = lse + (b * s.query_heads + h) * s.sequence;
      for (int64_t first = 0; first < s.sequence; first += kTile) {
        const Tile t = make_tile(s, first, start);
        matmul(Transpose::kNo, Transpose::kYes, t.rows, t.keys, s.head_dim, s.scale, q_head + first * q_stride,
               q_stride, k_head + t.keys_first * kv_stride, kv_stride, 0, scores, t.keys);
        float inverse[kTile];
        for (int64_t i = 0; i < t.rows; ++i) {
          float* const row = scores + i * t.keys;
          const int64_t from = t.row_first(i), to = t.row_last(i);
          const float largest = vector_max(to - from + 1, row + from);
          const float total = exponentials(row, t.keys, from, to, largest);
          inverse[i] = 1.0F / total;
          lse_head[first + i] = largest + std::log(total);
        }
        matmul(Transpose::kNo, Transpose::kNo, t.rows, s.head_dim, t.keys, 1, scores, t.keys,
               v_head + t.keys_first * kv_stride, kv_stride, 0, out_head + first * q_stride, q_stride);
        for (int64_t i = 0; i < t.rows; ++i) {
          float* const row = out_head + (first + i) * q_stride;
#pragma omp simd
          for (int64_t d = 0; d < s.head_dim; ++d) row[d] *= inverse[i];
        }
      }
    }
  });
}

void attention_backward(const AttentionShape& s, const float* q, const float* k, const float* v,
                        const int32_t* document_start, const float* out, const float* lse, const float* dout, float* dq,
                        float* dk, float* dv, float* workspace) {
  const int64_t q_stride = s.query_heads * s.head_dim, kv_stride = s.kv_heads * s.head_dim;
  const int64_t share = s.query_heads / std::max<int64_t>(s.kv_heads, 1);
  parallel_chunks(s.batch * s.kv_heads, true, [=](Chunk chunk) {
    for (int64_t at = chunk.first; at < chunk.last; ++at) {
      const int64_t b = at / s.kv_heads, g = at % s.kv_heads;
      float* const p = workspace + workspace_per_thread(s) * chunk.worker;
      float* const ds = p + kTile * s.sequence;
      const int32_t* const start = document_start == nullptr ? nullptr : document_start + b * s.sequence;
      const int64_t kv_first = b * s.sequence * kv_stride + g * s.head_dim;
      for (int64_t i = 0; i < s.sequence; ++i) {
        std::fill_n(dk + kv_first + i * kv_stride, s.head_dim, 0.0F);
        std::fill_n(dv + kv_first + i * kv_stride, s.head_dim, 0.0F);
      }
      // The query heads of one key-value head add to the same dk and dv, one after the other.
      for (int64_t h = g * share; h < (g + 1) * share; ++h) {
        const int64_t q_first = b * s.sequence * q_stride + h * s.head_dim;
        const float* const lse_head = lse + (b * s.query_heads + h) * s.sequence;
        for (int64_t first = 0; first < s.sequence; first += kTile) {
          const Tile t = make_tile(s, first, start);
          const int64_t q_tile = q_first + first * q_stride, kv_tile = kv_first + t.keys_first * kv_stride;
          matmul(Transpose::kNo, Transpose::kYes, t.rows, t.keys, s.head_dim, s.scale, q + q_tile, q_stride,
                 k + kv_tile, kv_stride, 0, p, t.keys);
          matmul(Transpose::kNo, Transpose::kYes, t.rows, t.keys, s.head_dim, 1, dout + q_tile, q_stride, v + kv_tile,
                 kv_stride, 0, ds, t.keys);
          for (int64_t i = 0; i < t.rows; ++i) {
            const float* const out_row = out + q_tile + i * q_stride;
            const float* const dout_row = dout + q_tile + i * q_stride;
            float delta = 0;
#pragma omp simd reduction(+ : delta)
            for (int64_t d = 0; d < s.head_dim; ++d) delta += out_row[d] * dout_row[d];
            float* const p_row = p + i * t.keys;
            float* const ds_row = ds + i * t.keys;
            exponentials(p_row, t.keys, t.row_first(i), t.row_last(i), lse_head[first + i]);
#pragma omp simd
            for (int64_t j = 0; j < t.keys; ++j) ds_row[j] = p_row[j] * (ds_row[j] - delta) * s.scale;
          }
          matmul(Transpose::kYes, Transpose::kNo, t.keys, s.head_dim, t.rows, 1, p, t.keys, dout + q_tile, q_stride, 1,
                 dv + kv_tile, kv_stride);
          matmul(Transpose::kNo, Transpose::kNo, t.rows, s.head_dim, t.keys, 1, ds, t.keys, k + kv_tile, kv_stride, 0,
                 dq + q_tile, q_stride);
          matmul(Transpose::kYes, Transpose::kNo, t.keys, s.head_dim, t.rows, 1, ds, t.keys, q + q_tile, q_stride, 1,
                 dk + kv_tile, kv_stride);
        }
      }
    }
  });
}

}  // namespace heddle::cpu
