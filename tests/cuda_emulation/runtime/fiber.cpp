#include "runtime/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "runtime/failure.h"
#include "runtime/sanitizers.h"

extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** shadow_stack, const void* bottom, size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* shadow_stack, const void** old_bottom,
                                                           size_t* old_bytes);
/// Pushes the registers that a call must keep, stores the stack pointer, takes the other one and pops.
void cuda_emulation_switch_stacks(void** saved_stack_pointer, void* next_stack_pointer);
}

asm(R"(
.text
.hidden cuda_emulation_switch_stacks
.globl cuda_emulation_switch_stacks
.type cuda_emulation_switch_stacks, @function
cuda_emulation_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size cuda_emulation_switch_stacks, .-cuda_emulation_switch_stacks
)");

namespace cuda_emulation {

namespace {

constexpr size_t kGuardBytes = 4096;
constexpr size_t kStackBytes = 128 << 10;  // pages that no kernel reaches cost nothing
constexpr int kSavedRegisters = 6;
constexpr size_t kColours = 32, kColourBytes = 192;

size_t switches = 0;
Fiber* left = nullptr;  ///< the fiber that the last switch left

}  // namespace

Fiber* Fiber::create(void (*entry)()) {
  const UnwatchedScope unwatched;
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0)
    fail("no memory for the stack of another kernel thread");
  auto* fiber = new Fiber;
  char* bottom = static_cast<char*>(memory) + kGuardBytes;
  fiber->stack_bottom_ = bottom;
  fiber->stack_bytes_ = kStackBytes;
  // What the switch pops: zero registers, the address of entry, and a null return address that leaves the stack as a
  // call would (8 bytes off a multiple of 16).
  // Stacks begin at different distances from a page's end, or the same few cache lines would serve them all.
  static size_t colour = 0;
  colour = (colour + 1) % kColours;
  void** top = reinterpret_cast<void**>(bottom + kStackBytes - colour * kColourBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  fiber->stack_pointer_ = top;
  fiber->identity_ = create_thread_identity();
  return fiber;
}

Fiber Fiber::of_caller() {
  Fiber fiber;
  fiber.identity_ = current_thread_identity();
  return fiber;
}

void Fiber::resume(Fiber& from, Fiber& to) {
  ++switches;
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(&from.shadow_stack_, to.stack_bottom_, to.stack_bytes_);
  become_thread(to.identity_);
  left = &from;
  cuda_emulation_switch_stacks(&from.stack_pointer_, to.stack_pointer_);
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(from.shadow_stack_, &left->stack_bottom_, &left->stack_bytes_);
}

bool Fiber::is_below_stack(const void* address) const {
  const auto* const bottom = static_cast<const char*>(stack_bottom_);
  return address >= bottom - kGuardBytes && address < bottom;
}

void Fiber::arrived() {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(nullptr, &left->stack_bottom_, &left->stack_bytes_);
}

size_t fiber_switches() {
  return switches;
}

}  // namespace cuda_emulation
