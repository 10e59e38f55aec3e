// heddle report as a user starts it.
#include <gtest/gtest.h>

#include "launch/scene.h"
#include "support/atomic_file.h"

namespace heddle::testing {
namespace {

TEST(ReportCommand, WritesOnePageOnSeveralRuns) {
  const Scene scene;
  const Outcome outcome = scene.run("cp -r run scratch/twin && $H report run scratch/twin/ -o scratch/r.html");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("wrote 'scratch/r.html': 2 run(s)"), std::string::npos) << outcome.output;
  const std::string html = read_text_file(scene.path("scratch/r.html"));
  EXPECT_NE(html.find(R"("runs":["run","twin"])"), std::string::npos);
  EXPECT_NE(html.find("heddle probe writes RUN/probe.json"), std::string::npos);
  const Outcome same =
      scene.run("mkdir scratch/a && cp -r run scratch/a/run && $H report run scratch/a/run -o scratch/r.html");
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_NE(read_text_file(scene.path("scratch/r.html")).find(R"("runs":["run","scratch/a/run"])"), std::string::npos)
      << "folders of one name keep their paths";
}

TEST(ReportCommand, LeavesTheOldFileWhereItFails) {
  const Scene scene;
  const std::pair<const char*, const char*> failures[] = {
      {"$H report nowhere -o scratch/r.html", "'nowhere' holds no run"},
      {"$H report run scratch -o scratch/r.html", "'scratch' holds no run"},
      {"mkdir scratch/b; echo no > scratch/b/log.h5; $H report run scratch/b -o scratch/r.html", "scratch/b/log.h5"},
      {"cp -r run scratch/c; echo no > scratch/c/probe.json; $H report scratch/c -o scratch/r.html",
       "scratch/c/probe.json"},
      {"$H report run -o nowhere/r.html", "nowhere/r.html"},
      {"ulimit -f 8; $H report run -o scratch/r.html", ""}};
  for (const auto& [command, words] : failures) {
    const Outcome outcome = scene.run(std::string("echo old > scratch/r.html; ") + command);
    EXPECT_NE(outcome.status, 0) << command << outcome.output;
    EXPECT_NE(outcome.output.find(words), std::string::npos) << command << ": " << outcome.output;
    EXPECT_EQ(read_text_file(scene.path("scratch/r.html")), "old\n") << command;
  }
}

TEST(ReportCommand, RefusesWrongUse) {
  const Scene scene;
  for (const char* arguments :
       {"", "run", "-o scratch/r.html", "run -o", "run -o a -o b", "run --quick -o scratch/r.html"}) {
    const Outcome outcome = scene.run(std::string("$H report ") + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << ": " << outcome.output;
    EXPECT_NE(outcome.output.find("heddle report RUN... -o FILE.html"), std::string::npos) << outcome.output;
  }
}

}  // namespace
}  // namespace heddle::testing
