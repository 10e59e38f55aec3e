#include "probe/probe.h"

#include "probe/depth.h"

namespace heddle {

ProbeResult probe(LoopedModel& model, const TokenStore& store, Part part, const ProbeOptions& options) {
  const ModelConfig& config = model.config();
  Communicator& world = model.groups().world();
  const ProbeDocuments documents(store, part, config, options.documents, world.rank(), world.size());
  ProbeResult result;
  result.store = store.path();
  result.part = part_name(part);
  result.loops = model.active_loops();
  result.layers = config.layers;
  result.prelude_layers = config.prelude_layers;
  result.coda_layers = config.coda_layers;
  result.experts = config.core_moe() ? config.moe.experts : 0;
  result.top_k = config.core_moe() ? config.moe.top_k : 0;
  result.documents = documents.count();
  result.tokens = documents.total_tokens();
  result.sequence = documents.sequence();
  const auto begin = [&](const char* what) {
    if (options.on_part) options.on_part(what);
  };
  begin("effects");
  ChoiceRecord choices(config, documents);
  probe_effects(model, documents, options.effects, choices, result);
  begin("effective depth");
  result.depth = probe_depth(model, documents);
  if (config.any_moe()) begin("specialisation");
  probe_information(model, documents, choices, result);
  if (options.gradients != GradientDetail::kNone) begin("gradients");
  probe_gradients(model, documents, options.back_propagation, options.gradients, result);
  return result;
}

}  // namespace heddle
