#include "model/counting.h"

namespace heddle {

ParameterCount count_parameters(const ModelConfig& m) {
  ParameterCount count;
  const int64_t d = m.hidden_size, query = m.query_heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  const int64_t expert = 3 * d * m.moe.intermediate;
  count.embedding = count.head = m.vocabulary_size * d;
  count.attention = m.layers * d * (3 * query + 2 * kv);
  count.routers = m.layers * m.loops * m.moe.experts * d;
  count.routed_experts = m.layers * m.moe.experts * expert;
  count.shared_experts = m.layers * m.moe.shared_experts * expert;
  count.norms = m.layers * d;
  count.active = count.embedding + count.head + count.attention + m.layers * m.moe.experts * d +
                 m.layers * m.moe.top_k * expert + count.shared_experts + count.norms;
  return count;
}

double forward_flops_per_token(const ModelConfig& m, int64_t sequence, int64_t loops, int64_t heads) {
  const double d = static_cast<double>(m.hidden_size), query = static_cast<double>(m.query_heads * m.head_dim);
  const double kv = static_cast<double>(m.kv_heads * m.head_dim);
  const double projections = d * (3 * query + 2 * kv);
  const double scores = 2 * query * static_cast<double>(sequence + 1) / 2;  // q.k and p.v over (S + 1) / 2 keys
  const double router = static_cast<double>(m.moe.experts) * d;
  const double experts =
      static_cast<double>(m.moe.top_k + m.moe.shared_experts) * 3 * d * static_cast<double>(m.moe.intermediate);
  const double visit = projections + scores + router + experts;
  const double head = static_cast<double>(m.vocabulary_size) * d;
  return 2 * (static_cast<double>(m.layers * loops) * visit + static_cast<double>(heads) * head);
}

double training_flops_per_token(const ModelConfig& m, int64_t sequence, int64_t segments) {
  return 3 * forward_flops_per_token(m, sequence, m.loops, segments);
}

}  // namespace heddle
