#include "runtime/options.h"

#include <cstdlib>
#include <cstring>

#include "runtime/failure.h"

namespace cuda_emulation {

namespace {

/// The variable's number, which must lie in [least, most].
uint64_t number(const char* name, uint64_t otherwise, uint64_t least, uint64_t most) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const uint64_t value = strtoull(text, &end, 10);
  if (*end != '\0' || value < least || value > most)
    fail("%s is '%s': expected a number from %llu to %llu", name, text, static_cast<unsigned long long>(least),
         static_cast<unsigned long long>(most));
  return value;
}

StreamOrder stream_order() {
  const char* text = getenv("CUDA_EMULATION_STREAMS");
  if (text == nullptr || strcmp(text, "random") == 0) return StreamOrder::kRandom;
  if (strcmp(text, "eager") == 0) return StreamOrder::kEager;
  if (strcmp(text, "lazy") == 0) return StreamOrder::kLazy;
  fail("CUDA_EMULATION_STREAMS is '%s': expected eager, lazy or random", text);
}

bool has_driver() {
  const char* text = getenv("CUDA_EMULATION_DRIVER");
  if (text == nullptr || *text == '\0') return true;
  if (strcmp(text, "none") == 0) return false;
  fail("CUDA_EMULATION_DRIVER is '%s': expected none, or nothing", text);
}

Options read() {
  Options read;
  read.seed = number("CUDA_EMULATION_SEED", 1, 0, UINT64_MAX);
  read.shuffle = number("CUDA_EMULATION_SHUFFLE", 1, 0, 1) == 1;
  read.stream_order = stream_order();
  read.protect = number("CUDA_EMULATION_PROTECT", 1, 0, 1) == 1;
  read.devices = static_cast<int>(number("CUDA_EMULATION_DEVICES", 8, 0, 64));
  read.device_bytes = number("CUDA_EMULATION_DEVICE_MB", 1024, 1, 65536) << 20;
  read.nccl_seconds = static_cast<int>(number("CUDA_EMULATION_NCCL_SECONDS", 60, 1, 86400));
  read.driver = has_driver();
  return read;
}

}  // namespace

const Options& options() {
  static const Options the_options = read();
  return the_options;
}

}  // namespace cuda_emulation
