#include "runtime/failure.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

void fail(const char* format, ...) {
  fprintf(stderr, "\nCUDA EMULATION: ");
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  print_running_thread();
  const char* seed = getenv("CUDA_EMULATION_SEED");
  fprintf(stderr, "  repeat with: CUDA_EMULATION_SEED=%s\n", seed != nullptr ? seed : "1");
  print_stack_trace();
  fflush(nullptr);
  _exit(kFailureStatus);
}

}  // namespace cuda_emulation
