#include "nccl/communicator.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nccl/group.h"
#include "nccl/status.h"
#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/options.h"
#include "runtime/stream.h"

namespace cuda_emulation {

namespace {

std::string payload_path(const std::string& folder, int rank) {
  return folder + "/" + std::to_string(rank);
}

/// TMPDIR, or memory if there is plenty, or /tmp.
const char* folder_for_meetings() {
  if (const char* temporary = getenv("TMPDIR")) return temporary;
  constexpr uint64_t kPlenty = uint64_t{1} << 30;
  struct statvfs memory = {};
  const bool has_memory = statvfs("/dev/shm", &memory) == 0 && memory.f_bavail * memory.f_frsize >= kPlenty;
  return has_memory ? "/dev/shm" : "/tmp";
}

ControlBlock* map_control_block(const std::string& folder) {
  mkdir(folder.c_str(), 0700);  // the first rank's succeeds
  const std::string path = folder + "/control";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(ControlBlock)) != 0) fail("NCCL: %s: %s", path.c_str(), strerror(errno));
  void* memory = mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) fail("NCCL: %s: %s", path.c_str(), strerror(errno));
  close(file);
  return static_cast<ControlBlock*>(memory);
}

bool all_reached(ncclComm& communicator, RankState state) {
  for (int rank = 0; rank < communicator.size; ++rank)
    if (communicator.record(rank).state.load(std::memory_order_acquire) < state) return false;
  return true;
}

/// The host waits for the other ranks, whose streams may wait for work of this one's.
void wait_for_ranks(ncclComm& communicator, RankState state) {
  const auto deadline = ncclComm::Clock::now() + patience();
  while (!all_reached(communicator, state)) {
    if (make_progress()) continue;
    if (ncclComm::Clock::now() > deadline)
      fail("ncclCommInitRank: rank %d of %d waited too long for the others\n%s", communicator.rank, communicator.size,
           state_of_ranks(communicator).c_str());
    let_others_enter();
  }
}

ncclResult_t check_members(ncclComm& communicator) {
  for (int rank = 0; rank < communicator.size; ++rank) {
    const RankRecord& record = communicator.record(rank);
    if (record.communicator_size != communicator.size)
      return nccl_error(ncclInvalidArgument, "rank %d says the communicator has %d ranks, rank %d says %d", rank,
                        record.communicator_size, communicator.rank, communicator.size);
    if (rank != communicator.rank && record.machine_device == communicator.mine().machine_device)
      return nccl_error(ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d",
                        communicator.rank, rank, record.machine_device);
  }
  return ncclSuccess;
}

/// All have opened everything, so the names can go. What the others have removed already is no error.
void remove_names(const ncclComm& communicator, const std::string& folder) {
  unlink(payload_path(folder, communicator.rank).c_str());
  unlink((folder + "/control").c_str());
  rmdir(folder.c_str());
}

ncclResult_t join(ncclComm& communicator, const std::string& folder) {
  communicator.control = map_control_block(folder);
  communicator.payloads = std::make_unique<PayloadFile[]>(static_cast<size_t>(communicator.size));
  PayloadFile& own = communicator.payloads[static_cast<size_t>(communicator.rank)];
  if (!own.create(payload_path(folder, communicator.rank)))
    return nccl_error(ncclInvalidUsage, "rank %d of the communicator exists twice", communicator.rank);
  RankRecord& mine = communicator.mine();
  mine.communicator_size = communicator.size;
  mine.machine_device = visible_devices()[static_cast<size_t>(communicator.device)];
  mine.state.store(RankState::kJoined, std::memory_order_release);
  wait_for_ranks(communicator, RankState::kJoined);
  for (int rank = 0; rank < communicator.size; ++rank)
    if (rank != communicator.rank) communicator.payloads[static_cast<size_t>(rank)].open(payload_path(folder, rank));
  mine.state.store(RankState::kReady, std::memory_order_release);
  wait_for_ranks(communicator, RankState::kReady);
  remove_names(communicator, folder);
  return check_members(communicator);
}

void leave(ncclComm* communicator, RankState how) {
  communicator->mine().state.store(how, std::memory_order_release);
  munmap(communicator->control, sizeof(ControlBlock));
  delete communicator;
}

}  // namespace

void drop_what_was_read(ncclComm& communicator) {
  const auto read_by_all = [&](uint64_t collective) {
    for (int rank = 0; rank < communicator.size; ++rank)
      if (communicator.record(rank).collectives_taken.load(std::memory_order_acquire) <= collective) return false;
    return true;
  };
  while (!communicator.lent.empty() && read_by_all(communicator.lent.front().collective)) {
    const ncclComm::Lent& oldest = communicator.lent.front();
    communicator.payloads[static_cast<size_t>(communicator.rank)].drop(oldest.offset, oldest.bytes);
    communicator.lent.pop_front();
  }
}

bool is_lost(ncclComm& communicator, int rank) {
  return communicator.record(rank).state.load(std::memory_order_acquire) > RankState::kReady ||
         communicator.payloads[static_cast<size_t>(rank)].owner_has_ended();
}

std::string state_of_ranks(ncclComm& communicator) {
  std::string text;
  for (int rank = 0; rank < communicator.size; ++rank) {
    const RankRecord& record = communicator.record(rank);
    const RankState state = record.state.load(std::memory_order_acquire);
    text += "  rank " + std::to_string(rank) + ": ";
    if (state == RankState::kAbsent)
      text += "has not joined\n";
    else if (state == RankState::kLeft)
      text += "has destroyed its communicator\n";
    else if (state == RankState::kAborted)
      text += "has aborted its communicator\n";
    else
      text += "after " + std::to_string(record.collectives_posted.load()) + " collectives, last " +
              (record.last_call[0] != '\0' ? record.last_call : "nothing") + "\n";
  }
  return text;
}

std::chrono::seconds patience() {
  return std::chrono::seconds(options().nccl_seconds);
}

ncclResult_t check_usable(const ncclComm* communicator) {
  if (communicator == nullptr) return nccl_error(ncclInvalidArgument, "the communicator is null");
  if (communicator->aborted) return nccl_error(ncclInvalidUsage, "the communicator was aborted");
  return communicator->async_error;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

/// The folder where the ranks will meet. Works without a GPU, as the real call does.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Entry entry;
  static unsigned count = 0;
  const int length = snprintf(id->internal, sizeof(id->internal), "%s/cuda_emulation_%d_%lld_%u", folder_for_meetings(),
                              static_cast<int>(getpid()),
                              static_cast<long long>(ncclComm::Clock::now().time_since_epoch().count()), count++);
  if (length >= static_cast<int>(sizeof(id->internal))) fail("NCCL: TMPDIR is too long for a unique id");
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  const Entry entry;
  *communicator = nullptr;
  if (driver_status() != cudaSuccess)
    return nccl_error(ncclUnhandledCudaError, "%s", cudaGetErrorString(driver_status()));
  if (size < 1 || rank < 0 || rank >= size)
    return nccl_error(ncclInvalidArgument, "rank %d of %d does not exist", rank, size);
  if (size > kMostRanks) fail("ncclCommInitRank: the emulation has up to %d ranks, not %d", kMostRanks, size);
  if (inside_group()) fail("ncclCommInitRank inside of a group: the emulation has one device per process");
  auto* const created = new ncclComm;
  created->rank = rank;
  created->size = size;
  created->device = current_device();
  if (const ncclResult_t result = join(*created, id.internal)) {
    leave(created, RankState::kLeft);
    return result;
  }
  *communicator = created;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(communicator, size, id, rank, nullptr);
}

/// Waits for the communicator's operations on this rank.
ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const Entry entry;
  if (const ncclResult_t result = check_usable(communicator)) return result;
  progress_until([communicator] { return communicator->operations_issued == communicator->operations_done; },
                 "ncclCommFinalize");
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const Entry entry;
  if (communicator == nullptr) return ncclSuccess;
  if (communicator->async_error == ncclSuccess) ncclCommFinalize(communicator);
  if (communicator->operations_issued != communicator->operations_done)
    fail("ncclCommDestroy of a communicator with an error and work under way: call ncclCommAbort");
  leave(communicator, RankState::kLeft);
  return ncclSuccess;
}

/// What is under way ends at once, with whatever it has done so far.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const Entry entry;
  if (communicator == nullptr) return ncclSuccess;
  communicator->aborted = true;
  progress_until([communicator] { return communicator->operations_issued == communicator->operations_done; },
                 "ncclCommAbort");
  leave(communicator, RankState::kAborted);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const Entry entry;
  if (communicator == nullptr) return nccl_error(ncclInvalidArgument, "the communicator is null");
  make_progress();
  *error = communicator->async_error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* size) {
  if (communicator == nullptr) return nccl_error(ncclInvalidArgument, "the communicator is null");
  *size = communicator->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  if (communicator == nullptr) return nccl_error(ncclInvalidArgument, "the communicator is null");
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  if (communicator == nullptr) return nccl_error(ncclInvalidArgument, "the communicator is null");
  *device = communicator->device;
  return ncclSuccess;
}

}  // extern "C"
