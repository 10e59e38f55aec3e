#include "runtime/entry.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace cuda_emulation {

namespace {

std::atomic<pthread_t> owner{};  // 0: nobody is inside
int depth = 0;                   // of the owner
thread_local cudaError_t last_error = cudaSuccess;

void enter() {
  const pthread_t me = pthread_self();
  if (owner.load(std::memory_order_relaxed) != me) {
    pthread_t nobody = 0;
    while (!owner.compare_exchange_weak(nobody, me, std::memory_order_acquire)) {
      nobody = 0;
      sched_yield();
    }
  }
  ++depth;
}

void leave() {
  if (--depth == 0) owner.store(0, std::memory_order_release);
}

}  // namespace

Entry::Entry() {
  enter();
}
Entry::~Entry() {
  leave();
}

void let_others_enter() {
  const int mine = depth;
  depth = 0;
  owner.store(0, std::memory_order_release);
  sched_yield();
  enter();
  depth = mine;
}

cudaError_t report(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

}  // namespace cuda_emulation

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t status = cuda_emulation::last_error;
  cuda_emulation::last_error = cudaSuccess;
  return status;
}

cudaError_t cudaPeekAtLastError() {
  return cuda_emulation::last_error;
}

}  // extern "C"
