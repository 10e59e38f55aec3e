// Several observers of one forward pass, called in order.
#pragma once

#include <vector>

#include "model/observer.h"

namespace heddle {

class ObserverList : public ForwardObserver {
 public:
  void assign(std::vector<ForwardObserver*> observers) { observers_ = std::move(observers); }

  void on_embedding(const Tensor& embedding) override {
    for (ForwardObserver* o : observers_) o->on_embedding(embedding);
  }
  void on_prelude(const Tensor& state) override {
    for (ForwardObserver* o : observers_) o->on_prelude(state);
  }
  void on_loop_input(int64_t loop, const Tensor& input) override {
    for (ForwardObserver* o : observers_) o->on_loop_input(loop, input);
  }
  void on_attention(const VisitPlace& place, const Tensor& branch) override {
    for (ForwardObserver* o : observers_) o->on_attention(place, branch);
  }
  void on_experts_input(const VisitPlace& place, const Tensor& input) override {
    for (ForwardObserver* o : observers_) o->on_experts_input(place, input);
  }
  void on_feed_forward(const VisitPlace& place, const Tensor& branch) override {
    for (ForwardObserver* o : observers_) o->on_feed_forward(place, branch);
  }
  void on_block(const BlockView& view) override {
    for (ForwardObserver* o : observers_) o->on_block(view);
  }
  void on_loop_end(int64_t loop, const Tensor& state, const Tensor& inverse_rms) override {
    for (ForwardObserver* o : observers_) o->on_loop_end(loop, state, inverse_rms);
  }
  void on_coda_input(const Tensor& input) override {
    for (ForwardObserver* o : observers_) o->on_coda_input(input);
  }
  void on_final_state(const Tensor& state) override {
    for (ForwardObserver* o : observers_) o->on_final_state(state);
  }

 private:
  std::vector<ForwardObserver*> observers_;
};

}  // namespace heddle
