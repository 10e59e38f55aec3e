// MPI's profiling interface: these definitions are found before the library's, which keep their names with a P.
// Blocking calls become their non-blocking form and a loop that lets the streams work.
// tests/cuda_emulation/host_calls_test.cpp holds the list against the calls that Heddle makes.
#include "runtime/host_calls.h"

#include <mpi.h>
#include <sched.h>

#include <vector>

#include "runtime/entry.h"
#include "runtime/stream.h"

namespace cuda_emulation {

void link_host_calls() {}

namespace {

int wait_with_progress(int started, MPI_Request* requests, int count, MPI_Status* statuses) {
  if (started != MPI_SUCCESS) return started;
  for (;;) {
    int done = 0;
    const int status = PMPI_Testall(count, requests, &done, statuses);
    if (status != MPI_SUCCESS || done) return status;
    const Entry entry;
    if (!make_progress()) let_others_enter();
  }
}

int wait_with_progress(int started, MPI_Request request) {
  return wait_with_progress(started, &request, 1, MPI_STATUSES_IGNORE);
}

/// All ranks have come this far, so a blocking call does not wait any more.
int meet(MPI_Comm communicator) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = PMPI_Ibarrier(communicator, &request);
  return wait_with_progress(started, request);
}

}  // namespace

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

int MPI_Barrier(MPI_Comm communicator) {
  return meet(communicator);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = PMPI_Ibcast(data, count, type, root, communicator, &request);
  return wait_with_progress(started, request);
}

int MPI_Allreduce(const void* sent, void* received, int count, MPI_Datatype type, MPI_Op operation,
                  MPI_Comm communicator) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = PMPI_Iallreduce(sent, received, count, type, operation, communicator, &request);
  return wait_with_progress(started, request);
}

int MPI_Allgather(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
                  MPI_Datatype received_type, MPI_Comm communicator) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int started =
      PMPI_Iallgather(sent, sent_count, sent_type, received, received_count, received_type, communicator, &request);
  return wait_with_progress(started, request);
}

int MPI_Alltoall(const void* sent, int sent_count, MPI_Datatype sent_type, void* received, int received_count,
                 MPI_Datatype received_type, MPI_Comm communicator) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int started =
      PMPI_Ialltoall(sent, sent_count, sent_type, received, received_count, received_type, communicator, &request);
  return wait_with_progress(started, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  return wait_with_progress(MPI_SUCCESS, requests, count, statuses);
}

int MPI_Comm_split(MPI_Comm communicator, int colour, int key, MPI_Comm* created) {
  const int met = meet(communicator);
  return met == MPI_SUCCESS ? PMPI_Comm_split(communicator, colour, key, created) : met;
}

int MPI_Comm_split_type(MPI_Comm communicator, int type, int key, MPI_Info info, MPI_Comm* created) {
  const int met = meet(communicator);
  return met == MPI_SUCCESS ? PMPI_Comm_split_type(communicator, type, key, info, created) : met;
}

int MPI_Comm_free(MPI_Comm* communicator) {
  const int met = meet(*communicator);
  return met == MPI_SUCCESS ? PMPI_Comm_free(communicator) : met;
}

int MPI_Finalize() {
  const int met = meet(MPI_COMM_WORLD);
  return met == MPI_SUCCESS ? PMPI_Finalize() : met;
}

}  // extern "C"
