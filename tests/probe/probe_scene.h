// A model, a store and documents for tests of the probe.
#pragma once

#include "probe/documents.h"
#include "tests/autograd/gradient_check.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_model.h"
#include "tests/train/tiny_run.h"

namespace heddle {

/// Over bytes, with norms in front of the head; start values and a little noise on top, so that loops differ.
struct ProbeScene {
  explicit ProbeScene(ModelConfig config, double noise = 0.05) {
    write_tiny_store(folder.path("store.h5"));
    store = TokenStore::open(folder.path("store.h5"));
    config.vocabulary_size = store.vocabulary_size();
    config.validate();
    model = std::make_unique<LoopedModel>(config, groups, cpu::kernels());
    model->initialise(3);
    uint32_t stream = 60;
    for (Parameter& p : model->parameters().all()) {
      const Tensor shift = random_tensor(p.value.shape(), stream++, noise);
      for (int64_t i = 0; i < shift.count(); ++i) p.value.f32()[i] += shift.f32()[i];
    }
  }
  ProbeDocuments documents(int64_t count = 5, int64_t micro_batch = 2, int64_t sequence = 24) const {
    return {store, Part::kTrain, model->config(), {count, sequence, micro_batch, 0}, 0, 1};
  }
  Parameter& parameter(const std::string& name) { return model->parameters().find(name); }

  TemporaryFolder folder;
  std::unique_ptr<Communicator> world = make_single_communicator();
  ProcessGroups groups{*world, 1};
  TokenStore store;
  std::unique_ptr<LoopedModel> model;
};

/// Two dense layers of a plain residual stream, tied over three loops; nothing but blocks changes the stream.
inline ModelConfig plain_dense() {
  ModelConfig c = tiny_model();
  c.loops = 3;
  c.core_feed_forward = FeedForwardKind::kDense;
  c.dense_intermediate = 48;
  c.residual = ResidualScheme::kPlain;
  c.looping_residual = false;
  c.reinjection = Reinjection::kNone;
  c.norms.block = c.norms.loop_end = NormKind::kOff;
  c.norms.final = NormKind::kPlain;
  return c;
}

}  // namespace heddle
