// Unigram entropy of the training tokens of a store, in nats: the loss of a model that knows nothing but how frequent
// each token is. bench/p_sweep takes it as the initial plateau. usage: bench_unigram STORE
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "data/token_store.h"
#include "support/error.h"

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: bench_unigram STORE\n");
    return 2;
  }
  try {
    const heddle::TokenStore store = heddle::TokenStore::open(arguments[1]);
    std::vector<double> seen(static_cast<size_t>(store.vocabulary_size()));
    const int64_t tokens = store.tokens(heddle::Part::kTrain);
    for (int64_t i = 0; i < tokens; ++i) seen.at(store.token(heddle::Part::kTrain, i)) += 1;
    double entropy = 0;
    for (const double n : seen)
      if (n > 0) entropy -= n / static_cast<double>(tokens) * std::log(n / static_cast<double>(tokens));
    fmt::print("{:.6f}\n", entropy);
  } catch (const heddle::Error& problem) {
    fmt::print(stderr, "error: {}\n  hint: {}\n", problem.what(), problem.hint());
    return 1;
  }
  return 0;
}
