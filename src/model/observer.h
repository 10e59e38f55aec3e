// A look at the inside of a forward pass: statistics, reference checks and probes implement this; the model calls it.
// Tensors are the model's own and later operations may take over their memory: read them during the call, clone what is
// to be kept.
#pragma once

#include "autograd/operations.h"
#include "moe/moe_layer.h"

namespace heddle {

enum class StackPart { kPrelude, kCore, kCoda };

/// One visit of one layer: loop from 0 (core only), layer from 0 within its part.
struct VisitPlace {
  StackPart part = StackPart::kCore;
  int64_t loop = 0, layer = 0;
  int64_t stored_moe = -1;  ///< number of the layer among the stored mixture-of-experts layers; -1: dense
};

/// After a visit.
struct BlockView {
  VisitPlace place;
  double branch_scale = 0;                            ///< of the attention branch in the looping residual
  const LoopingAccumulators* accumulators = nullptr;  ///< after this visit's update; null without looping residual
  const Tensor& layer_state;                          ///< [N,D] after the block norm
  const Tensor& inverse_rms;                          ///< [N] 1 / RMS before the block norm; undefined without one
  const Routing& routing;                             ///< empty for a dense layer
};

class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  virtual void on_embedding(const Tensor& /*embedding*/) {}                 ///< [N,D] after the embedding norm
  virtual void on_prelude(const Tensor& /*state*/) {}                       ///< [N,D] e
  virtual void on_loop_input(int64_t /*loop*/, const Tensor& /*input*/) {}  ///< [N,D] u
  /// Outputs of the branches before any scale or post norm, [N,D]; the experts' after their output norm.
  virtual void on_attention(const VisitPlace& /*place*/, const Tensor& /*branch*/) {}
  virtual void on_experts_input(const VisitPlace& /*place*/, const Tensor& /*input*/) {}  ///< [N,D] what routers see
  virtual void on_feed_forward(const VisitPlace& /*place*/, const Tensor& /*branch*/) {}
  virtual void on_block(const BlockView& /*view*/) {}
  /// state [N,D] after the loop-end norm; inverse_rms [N] = 1 / sqrt(mean(x^2) + eps) before it, undefined without one.
  virtual void on_loop_end(int64_t /*loop*/, const Tensor& /*state*/, const Tensor& /*inverse_rms*/) {}
  virtual void on_coda_input(const Tensor& /*input*/) {}   ///< [N,D]
  virtual void on_final_state(const Tensor& /*state*/) {}  ///< [N,D] after the final norm
};

}  // namespace heddle
