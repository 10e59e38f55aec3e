// The job: MPI's life time, the world communicator, and the one way to end all ranks.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace heddle {

/// What launchers tell a process through its environment (Open MPI, PMI, Slurm), before any library is asked.
struct LauncherEnvironment {
  bool present = false;  ///< a launcher started this process
  int size = 1;          ///< processes it says it started
  std::string variable;  ///< where that number stood, e.g. "OMPI_COMM_WORLD_SIZE"
};
LauncherEnvironment launcher_environment();

/// Created once, at the start of the program, by the one thread that makes all calls of communicators. Without a
/// launcher, or with one process, there is one rank and MPI is not started at all (MPI_Init would fork a daemon).
/// Otherwise MPI starts with thread support and the sizes are compared: a launcher that belongs to another MPI gives
/// several "rank 0 of 1", which is refused with UsageError.
///
/// The owner keeps the job outside of the try block and calls abort in its handler: other ranks may be waiting for this
/// one in a collective, so an error on one rank must end them all.
class Job {
 public:
  Job();
  /// MPI_Finalize, which waits for all ranks; while an exception unwinds, MPI_Abort with status 1 instead.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// All ranks; over the device's memory while one is open (device/device.h).
  Communicator& world() { return device_world_ != nullptr ? *device_world_ : *world_; }
  void use_device_world(std::unique_ptr<Communicator> world) { device_world_ = std::move(world); }
  int local_rank() const { return local_rank_; }  ///< rank among those on this host
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }

  /// Prints the message (with rank and host) and ends every rank of the job with the status; never returns. Callable
  /// from any rank at any time, without the others taking part. mpirun exits with the status too. Where rank 0 aborts
  /// as well, within a second, only it prints.
  [[noreturn]] void abort(const std::string& message, int status);

 private:
  bool mpi_ = false;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> device_world_;
  int local_rank_ = 0, local_size_ = 1;
  std::string host_;
};

}  // namespace heddle
