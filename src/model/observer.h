// A look at the inside of a forward pass: statistics, reference checks and probes implement this; the model calls it.
// Tensors are the model's own: read them during the call, clone what is to be kept.
#pragma once

#include "autograd/operations.h"
#include "moe/moe_layer.h"

namespace heddle {

/// One visit of one layer, loop and layer from 0.
struct BlockView {
  int64_t loop = 0, layer = 0;
  double branch_scale = 0;                  ///< gamma
  const Tensor& attention_branch;           ///< [N,D] attention output before gamma
  const LoopingAccumulators& accumulators;  ///< after this block's update
  const Tensor& moe_branch;                 ///< [N,D] before its norm and gamma
  const Tensor& layer_state;                ///< [N,D] after the block norm
  const Tensor& inverse_rms;                ///< [N] 1 / RMS of the stream that the block norm received
  const Routing& routing;
};

class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  virtual void on_embedding(const Tensor& /*embedding*/) {}
  virtual void on_block(const BlockView& /*view*/) {}
  /// state [N,D] after the loop-end norm; inverse_rms [N] = 1 / sqrt(mean(x^2) + eps) of the state before it.
  virtual void on_loop_end(int64_t /*loop*/, const Tensor& /*state*/, const Tensor& /*inverse_rms*/) {}
};

}  // namespace heddle
