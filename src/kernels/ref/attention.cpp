// Reference attention: one query position at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {

/// Row of a head in a [batch*sequence, heads*head_dim] tensor.
int64_t row_of(const AttentionShape& s, int64_t heads, int64_t b, int64_t position, int64_t head) {
  return ((b * s.sequence + position) * heads + head) * s.head_dim;
}

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

int64_t first_visible(const AttentionShape& s, const int32_t* document_start, int64_t b, int64_t position) {
  return document_start == nullptr ? 0 : document_start[b * s.sequence + position];
}

/// Calls visit(b, head, position) for every query.
template <typename Visit>
void for_each_query(const AttentionShape& s, Visit visit) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.query_heads; ++h)
      for (int64_t i = 0; i < s.sequence; ++i) visit(b, h, i);
}

}  // namespace

int64_t attention_workspace(const AttentionShape& shape) {
  return shape.sequence;
}

void attention_forward(const AttentionShape& s, const float* q, const float* k, const float* v,
                       const int32_t* document_start, float* out, float* lse, float* workspace) {
  const int64_t share = s.query_heads / s.kv_heads;
  for_each_query(s, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t first = first_visible(s, document_start, b, i), query = row_of(s, s.query_heads, b, i, h);
    double largest = -INFINITY;
    for (int64_t j = first; j <= i; ++j) {
      workspace[j] = static_cast<float>(static_cast<double>(s.scale) *
                                        dot(q + query, k + row_of(s, s.kv_heads, b, j, h / share), s.head_dim));
      largest = std::max(largest, static_cast<double>(workspace[j]));
    }
    double total = 0;
    for (int64_t j = first; j <= i; ++j) total += std::exp(static_cast<double>(workspace[j]) - largest);
    const double log_total = largest + std::log(total);
    lse[(b * s.query_heads + h) * s.sequence + i] = static_cast<float>(log_total);
    for (int64_t d = 0; d < s.head_dim; ++d) {
      double sum = 0;
      for (int64_t j = first; j <= i; ++j)
        sum += std::exp(static_cast<double>(workspace[j]) - log_total) *
               static_cast<double>(v[row_of(s, s.kv_heads, b, j, h / share) + d]);
      out[query + d] = static_cast<float>(sum);
    }
  });
}

void attention_backward(const AttentionShape& s, const float* q, const float* k, const float* v,
                        const int32_t* document_start, const float* out, const float* lse, const float* dout, float* dq,
                        float* dk, float* dv, float* /*workspace*/) {
  const int64_t share = s.query_heads / s.kv_heads, rows = s.batch * s.sequence;
  std::fill_n(dq, rows * s.query_heads * s.head_dim, 0.0F);
  std::fill_n(dk, rows * s.kv_heads * s.head_dim, 0.0F);
  std::fill_n(dv, rows * s.kv_heads * s.head_dim, 0.0F);
  for_each_query(s, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t first = first_visible(s, document_start, b, i), query = row_of(s, s.query_heads, b, i, h);
    const double log_total = static_cast<double>(lse[(b * s.query_heads + h) * s.sequence + i]);
    const double delta = dot(dout + query, out + query, s.head_dim), scale = static_cast<double>(s.scale);
    for (int64_t j = first; j <= i; ++j) {
      const int64_t key = row_of(s, s.kv_heads, b, j, h / share);
      const double p = std::exp(scale * dot(q + query, k + key, s.head_dim) - log_total);
      const double ds = p * (dot(dout + query, v + key, s.head_dim) - delta) * scale;
      for (int64_t d = 0; d < s.head_dim; ++d) {
        dq[query + d] += static_cast<float>(ds * static_cast<double>(k[key + d]));
        dk[key + d] += static_cast<float>(ds * static_cast<double>(q[query + d]));
        dv[key + d] += static_cast<float>(p * static_cast<double>(dout[query + d]));
      }
    }
  });
}

}  // namespace heddle::ref
