// What a run says at its start, with several ranks.
#include "train/startup_report.h"

#include "tests/distributed/shared_folder.h"
#include "tests/train/tiny_run.h"
#include "train/memory_plan.h"

namespace heddle {
namespace {

TEST(StartupReport, NamesExpertsInTotalAndPerRank) {
  const SharedFolder folder;
  if (test_world().rank() == 0) write_tiny_store(folder.path("store.h5"));
  test_world().barrier();
  TrainConfig config = tiny_run(folder.path("store.h5"), folder.path("run"));
  config.model.vocabulary_size = 257;
  config.model.moe.experts = 8;
  const TokenStore store = TokenStore::open(config.store);
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    config.expert_parallel = expert_parallel;
    ProcessGroups groups(test_world(), expert_parallel);
    LoopedModel model(config.model, groups, cpu::kernels());
    const MemoryUse plan = plan_memory(config, config.model, test_world().rank(), test_world().size());
    const std::string report =
        startup_report(test_job(), config, store, model, {.name = "cpu", .description = "cpu"}, 1e9, plan);
    for (const std::string& part :
         {fmt::format("routed experts (8, {} per rank)", 8 / expert_parallel),
          fmt::format("{} data ranks, expert parallel {}", test_world().size(), expert_parallel),
          fmt::format("parameters: {} in total", model.parameters().global_count())})
      EXPECT_NE(report.find(part), std::string::npos) << "lacks '" << part << "':\n" << report;
  }
}

}  // namespace
}  // namespace heddle
