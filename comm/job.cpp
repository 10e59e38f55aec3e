#include "comm/job.h"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <thread>

#include "comm/mpi_communicator.h"
#include "support/error.h"
#include "support/log.h"
#include "support/numbers.h"

namespace heddle {

namespace {

/// Value of an environment variable as a number of processes; 0 if it is not set or not one.
int environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  const int64_t value = parse_integer(text).value_or(0);
  return value > 0 && value <= std::numeric_limits<int>::max() ? static_cast<int>(value) : 0;
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

LauncherEnvironment launcher_environment() {
  // In order: Open MPI's mpirun; MPICH, Intel MPI and srun with PMI; MVAPICH.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (const int size = environment_number(variable); size > 0) return {true, size, variable};
  // SLURM_NTASKS also stands in a batch script, which is one process. Only the processes of a step have both of these,
  // and a step of one task is as good as no launcher (an interactive shell, say).
  const int tasks = environment_number("SLURM_STEP_NUM_TASKS");
  if (tasks > 1 && std::getenv("SLURM_PROCID") != nullptr) return {true, tasks, "SLURM_STEP_NUM_TASKS"};
  return {};
}

Job::Job() : host_(host_name()) {
  const LauncherEnvironment launcher = launcher_environment();
  if (launcher.size == 1) {
    world_ = make_single_communicator();
    return;
  }
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    fail("MPI could not be started");
  auto world = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, false);
  set_log_rank(world->rank(), world->size());
  if (world->size() != launcher.size) {
    const std::string text = fmt::format("the launcher says {} processes ({}), MPI says {}", launcher.size,
                                         launcher.variable, world->size());
    if (world->size() == 1) MPI_Finalize();
    throw UsageError(text, "the launcher belongs to another MPI than this program: use the mpirun of Open MPI");
  }
  if (provided < MPI_THREAD_FUNNELED)
    throw Error("this MPI does not allow threads beside the one that calls it",
                "use an MPI that was built with thread support");
  mpi_ = true;
  MPI_Comm local_comm = MPI_COMM_NULL;
  world->check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world->rank(), MPI_INFO_NULL, &local_comm),
               "search for the ranks on this host");
  const MpiCommunicator local(local_comm, true);
  local_rank_ = local.rank();
  local_size_ = local.size();
  world_ = std::move(world);
}

Job::~Job() {
  if (!mpi_) return;
  // MPI_Finalize waits for all ranks, and the others may wait for this one in a collective.
  if (std::uncaught_exceptions() > 0) abort("an exception left the job", static_cast<int>(ExitStatus::kFailure));
  device_world_.reset();
  world_.reset();
  MPI_Finalize();
}

void Job::abort(const std::string& message, int status) {
  if (mpi_) {
    // An error that all ranks share is printed once: the others let rank 0 speak, whose abort then ends them.
    if (world_->rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    log_error(fmt::format("on {}: {}", host_, message));
  } else {
    log_error(message);
  }
  std::fflush(nullptr);
  if (mpi_) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace heddle
