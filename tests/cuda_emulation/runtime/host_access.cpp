#include "runtime/host_access.h"

#include <csignal>
#include <cstddef>

#include "runtime/allocations.h"
#include "runtime/failure.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

namespace {

const DeviceArena* watched = nullptr;
struct sigaction action_before;

void on_fault(int, siginfo_t* info, void*) {
  if (!watched->contains(info->si_addr)) {
    sigaction(SIGSEGV, &action_before,
              nullptr);  // the instruction runs again, and whoever was there before explains it
    return;
  }
  if (running_thread() != nullptr) fail("a kernel touched %p, which was never allocated", info->si_addr);
  const Allocation* allocation = find_allocation(info->si_addr);
  if (allocation == nullptr) fail("the host touched %p, which is in device memory and not allocated", info->si_addr);
  fail("the host touched device memory: byte %td of an allocation of %zu bytes",
       static_cast<unsigned char*>(info->si_addr) - allocation->memory, allocation->bytes);
}

}  // namespace

void explain_faults_in(const DeviceArena& arena) {
  watched = &arena;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &action_before);
}

}  // namespace cuda_emulation
