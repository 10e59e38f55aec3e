// Text from a model, one token at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/looped_model.h"

namespace heddle {

struct GenerationOptions {
  int64_t loops = 0;         ///< visits of the core; 0: the model's active loops
  int64_t tokens = 200;      ///< at most so many new ones
  double temperature = 0.8;  ///< 0: always the likeliest
  int64_t top_k = 40;        ///< among the likeliest so many; 0: all
  uint64_t seed = 1;
  int64_t context = 256;    ///< last tokens that are read again for every new one
  int64_t stop_token = -1;  ///< ends the text; -1: none
};

/// Draws an id from logits [vocabulary]: softmax(logits / temperature) over the top_k largest, ties to lower ids, with
/// `uniform` in [0, 1).
int64_t draw_token(const float* logits, int64_t vocabulary, double temperature, int64_t top_k, double uniform);

/// New tokens behind `prompt` (at least one token); each draw is a function of (seed, position). Collective; all ranks
/// return the same.
std::vector<int64_t> generate(LoopedModel& model, std::vector<int64_t> prompt, const GenerationOptions& options);

}  // namespace heddle
