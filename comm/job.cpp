#include "comm/job.h"

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "comm/mpi_communicator.h"
#include "support/error.h"
#include "support/log.h"

namespace heddle {

namespace {

/// Value of an environment variable as a positive number, 0 if it is not one.
int environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end != text && *end == '\0' && value > 0 && value < (1L << 30) ? static_cast<int>(value) : 0;
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

LauncherEnvironment launcher_environment() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const int size = environment_number(variable); size > 0) return {true, size, variable};
  // Slurm sets SLURM_NTASKS for the batch script too; only a process of a step has a SLURM_STEP_NUM_TASKS and a rank.
  if (const int size = environment_number("SLURM_STEP_NUM_TASKS"); size > 0 && std::getenv("SLURM_PROCID") != nullptr)
    return {true, size, "SLURM_STEP_NUM_TASKS"};
  return {};
}

Job::Job() : host_(host_name()) {
  const LauncherEnvironment launcher = launcher_environment();
  if (!launcher.present) {
    world_ = make_single_communicator();
    return;
  }
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) fail("MPI could not be started");
  mpi_ = true;
  auto world = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, false);
  set_log_rank(world->rank(), world->size());
  if (world->size() != launcher.size)
    throw UsageError(fmt::format("{} says {} processes, but MPI sees {}", launcher.variable, launcher.size, world->size()),
                     "the launcher belongs to another MPI than this program: use the mpirun of Open MPI");
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world->rank(), MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &local_rank_);
  MPI_Comm_size(local, &local_size_);
  MPI_Comm_free(&local);
  world_ = std::move(world);
}

Job::~Job() {
  if (!mpi_) return;
  world_.reset();
  MPI_Finalize();
}

void Job::abort(const std::string& message, int status) {
  log_error(message);
  std::fflush(nullptr);
  if (mpi_) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace heddle
