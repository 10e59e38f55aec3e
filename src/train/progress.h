// The terminal line of a running training, and the numbers in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct Progress {
  int64_t step = 0, steps = 0;  ///< done, planned
  double seconds_per_step = 0;  ///< over the interval
  double loss = 0;              ///< nats per token, last loop
  double bits_per_byte = 0;     ///< of the step's own targets
  double gradient_norm = 0;     ///< last segment, before clipping
  double learning_rate = 0;
  double tokens_per_second = 0;  ///< target tokens of all ranks
  double utilisation = 0;        ///< achieved over measured matrix-product speed; 0: unknown
  double largest_share = 0;      ///< largest share of one expert in a loop and layer; negative: no experts
  double overlap = 0;            ///< mean overlap of consecutive loops; negative: one loop
};

/// "step 20/400   5.0%  eta 3m10s  loss 5.1234  bpb 2.345  norm 1.23  lr 1.0e-03  1234 tok/s  util 41%  top expert 18%
/// overlap 0.92"
std::string progress_line(const Progress& p);

double bits_per_byte(double nats, double bytes);  ///< nats / ln 2 / bytes; 0 for no bytes
/// Achieved floating-point rate over `peak`; 0 for an unknown peak.
double utilisation(double flops_per_token, double tokens_per_second, double peak_flops_per_second);
/// Largest share of one expert among the slots of any (loop, layer); load [loops, layers, experts].
double largest_expert_share(const std::vector<int64_t>& load, int64_t experts);
double mean_of(const std::vector<double>& values);  ///< of the finite ones; -1 if there is none

}  // namespace heddle
