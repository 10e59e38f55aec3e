// One way for a job to end per argument; abort_test.sh looks at exit status, output and time.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/call_watchdog.h"
#include "comm/collective_guard.h"
#include "comm/job.h"
#include "support/error.h"
#include "support/log.h"

namespace {

using heddle::Job;

/// Rank 1 sees an error while the others wait for it.
void abort_one(Job& job) {
  if (job.world().rank() == 1) job.abort("the disk of this rank is full", 7);
  job.world().barrier();
  job.world().barrier();
}

/// All ranks see the same error.
void abort_all(Job& job) {
  job.world().barrier();
  job.abort("no such configuration", 2);
}

/// An exception leaves the job on rank 1 while the others wait.
void throw_one(Job& job) {
  const auto part = job.world().split(0);
  if (job.world().rank() == 1) throw std::runtime_error("thrown on one rank");
  part->barrier();
}

/// Rank 1 never comes.
void hang_one(Job& job) {
  heddle::set_collective_timeout(1);
  heddle::collective_place() = {.step = 7, .segment = 0, .loop = 2, .layer = 1, .phase = "forward"};
  if (job.world().rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
  job.world().barrier();
}

int run(const std::string& how) {
  Job job;
  heddle::log_line("started");
  if (how == "abort-one") abort_one(job);
  if (how == "abort-all") abort_all(job);
  if (how == "throw-one") throw_one(job);
  if (how == "hang-one") hang_one(job);
  heddle::log_line(fmt::format("ended with {} ranks", job.world().size()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "end");
  } catch (const heddle::UsageError& error) {
    heddle::log_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    heddle::log_error(error.what());
    return 1;
  }
}
