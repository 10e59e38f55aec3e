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

/// Faults inside of a kernel are on stacks that may be used up.
void provide_signal_stack() {
  static char stack[64 << 10];
  stack_t current = {};
  if (sigaltstack(nullptr, &current) != 0 || !(current.ss_flags & SS_DISABLE)) return;  // AddressSanitizer has one
  stack_t ours = {};
  ours.ss_sp = stack;
  ours.ss_size = sizeof(stack);
  sigaltstack(&ours, nullptr);
}

void on_fault(int, siginfo_t* info, void*) {
  const Thread* const thread = running_thread();
  if (thread != nullptr && thread->fiber->is_below_stack(info->si_addr))
    fail("a kernel thread used up its stack: its local variables are too large, or it calls itself for ever");
  if (!watched->contains(info->si_addr)) {
    sigaction(SIGSEGV, &action_before,
              nullptr);  // the instruction runs again, and whoever was there before explains it
    return;
  }
  if (thread != nullptr) fail("a kernel touched %p, which was never allocated", info->si_addr);
  const Allocation* allocation = find_allocation(info->si_addr);
  if (allocation == nullptr) fail("the host touched %p, which is in device memory and not allocated", info->si_addr);
  fail("the host touched device memory: byte %td of an allocation of %zu bytes",
       static_cast<unsigned char*>(info->si_addr) - allocation->memory, allocation->bytes);
}

}  // namespace

void explain_faults(const DeviceArena& arena) {
  watched = &arena;
  provide_signal_stack();
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &action_before);
}

}  // namespace cuda_emulation
