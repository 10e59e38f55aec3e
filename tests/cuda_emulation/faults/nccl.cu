// Ranks that call different things, or whose streams do not wait for an exchange. Rank 1 is a child process.
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "cuda/device.cuh"
#include "cuda/library_error.h"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

/// Runs `body` on two ranks, and ends the program if the other one failed.
template <typename Body>
void on_two_ranks(const Body& body) {
  destroy_context();
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  create_context({.device = rank, .cublas_workspace_bytes = 1 << 20});
  ncclComm_t communicator = nullptr;
  check(ncclCommInitRank(&communicator, 2, id, rank), "ncclCommInitRank");
  body(communicator, rank);
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
  if (child == 0) {
    destroy_context();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) exit(1);
}

void different_counts(bool faulty) {
  on_two_ranks([faulty](ncclComm_t communicator, int rank) {
    float* const values = device_values(std::vector<float>(64));
    check(ncclAllReduce(values, values, faulty && rank == 1 ? 63 : 64, ncclFloat32, ncclSum, communicator,
                        compute_stream()),
          "ncclAllReduce");
    context().synchronize_compute();
  });
}

void different_calls(bool faulty) {
  on_two_ranks([faulty](ncclComm_t communicator, int rank) {
    float* const values = device_values(std::vector<float>(64));
    if (faulty && rank == 1)
      check(ncclBroadcast(values, values, 64, ncclFloat32, 0, communicator, compute_stream()), "ncclBroadcast");
    else
      check(ncclAllReduce(values, values, 64, ncclFloat32, ncclSum, communicator, compute_stream()), "ncclAllReduce");
    context().synchronize_compute();
  });
}

void different_messages(bool faulty) {
  on_two_ranks([faulty](ncclComm_t communicator, int rank) {
    float* const values = device_values(std::vector<float>(64));
    if (rank == 0)
      check(ncclSend(values, 64, ncclFloat32, 1, communicator, compute_stream()), "ncclSend");
    else
      check(ncclRecv(values, faulty ? 32 : 64, ncclFloat32, 0, communicator, compute_stream()), "ncclRecv");
    context().synchronize_compute();
  });
}

void missing_message(bool faulty) {
  on_two_ranks([faulty](ncclComm_t communicator, int rank) {
    float* const values = device_values(std::vector<float>(64));
    if (rank == 0)
      check(ncclRecv(values, 64, ncclFloat32, 1, communicator, compute_stream()), "ncclRecv");
    else if (!faulty)
      check(ncclSend(values, 64, ncclFloat32, 0, communicator, compute_stream()), "ncclSend");
    context().synchronize_compute();
  });
}

void short_result(bool faulty) {
  on_two_ranks([faulty](ncclComm_t communicator, int) {
    const float* const values = device_values(std::vector<float>(64));
    float* const gathered = device_values(std::vector<float>(faulty ? 127 : 128));
    check(ncclAllGather(values, gathered, 64, ncclFloat32, communicator, compute_stream()), "ncclAllGather");
    context().synchronize_compute();
  });
}

void missing_event_after_exchange(bool faulty) {
  on_two_ranks([faulty](ncclComm_t communicator, int) {
    float* const values = device_values(std::vector<float>(64));
    context().communication_waits_for_compute();
    check(ncclAllReduce(values, values, 64, ncclFloat32, ncclSum, communicator, communication_stream()),
          "ncclAllReduce");
    if (!faulty) context().compute_waits_for_communication();
    fill_bytes(values, 0, 64 * sizeof(float));
    context().synchronize_compute();
    context().synchronize_communication();
  });
}

}  // namespace

std::vector<Fault> nccl_faults() {
  const char* differ = "NCCL calls of the ranks differ: collective 0 is";
  const char* messages = "NCCL messages differ: rank 1 calls Recv of 32 float32 from rank 0";
  const char* missing = "waited too long in NCCL for its peers";
  const char* overrun = "NCCL AllGather of 64 float32: result: 512 bytes from byte 0 on overrun";
  const char* race = "ThreadSanitizer: data race";
  return {
      {"different_counts", "ranks exchange different numbers of elements", differ, differ, differ, different_counts},
      {"different_calls", "ranks call different collectives", differ, differ, differ, different_calls},
      {"different_messages", "a message is longer than what the other rank receives", messages, messages, messages,
       different_messages},
      {"missing_message", "a rank receives what nobody sends", missing, missing, missing, missing_message},
      {"short_result", "a result of an exchange is longer than its allocation", overrun, overrun, overrun,
       short_result},
      {"missing_event_after_exchange", "a stream uses what another one still exchanges", nullptr, nullptr, race,
       missing_event_after_exchange},
  };
}

}  // namespace heddle::cuda
