// Memory of tensors by purpose: what was reached beside what was planned.
#include "report/figures.h"
#include "report/log_tables.h"

namespace heddle::report {

Json memory_section(const std::vector<Run>& runs, Json& tables) {
  const Json figure =
      figure_by_run(runs, "memory", "Memory by purpose",
                    "Bytes of tensors, each the largest over ranks. The peak of all is not the sum of the peaks.",
                    [&](const Run& run, size_t i) {
                      if (run.log.memory.empty())
                        return missing("No memory is in the log yet: it comes with the first step.");
                      Bars bars;
                      bars.table = store(tables, i, "memory", memory(run.log));
                      bars.category = "purpose";
                      bars.value = "bytes";
                      bars.value_title = "bytes";
                      bars.series = "quantity";
                      bars.categories = static_cast<int64_t>(run.log.header.purposes.size()) + 1;
                      bars.series_count = 2;
                      bars.format = ".3~s";
                      return chart(bars);
                    });
  return {{"id", "memory"}, {"title", "Memory"}, {"figures", Json::array({figure})}};
}

}  // namespace heddle::report
