// A planted fault: a small program that does something wrong on the device, and its healthy twin. faults_test.cpp runs
// each in a process of its own, and expects that the fault ends it with the message of the build, and the twin well.
// The table of docs/cuda_kernels.md is made from these.
#pragma once

#include <vector>

#include "cuda/context.h"
#include "cuda/memory.h"

namespace heddle::cuda {

struct Fault {
  const char* name;
  const char* description;  ///< of what is wrong, for the table
  /// What is printed in a build without sanitizer, with AddressSanitizer and UndefinedBehaviorSanitizer, and with
  /// ThreadSanitizer. nullptr: that build does not see it.
  const char* plain;
  const char* address;
  const char* thread;
  /// With a context of device 0. Returns only if nothing was noticed.
  void (*run)(bool faulty);
};

/// Ends the program if any value is not as expected: for faults that show by wrong numbers.
void expect_values(const std::vector<float>& found, const std::vector<float>& expected);

/// Device memory with these values; never freed.
float* device_values(const std::vector<float>& values);
std::vector<float> host_values(const float* device, size_t count);

inline cudaStream_t compute_stream() {
  return context().compute_stream();
}
inline cudaStream_t communication_stream() {
  return context().communication_stream();
}

std::vector<Fault> barrier_faults();
std::vector<Fault> warp_faults();
std::vector<Fault> shared_memory_faults();
std::vector<Fault> device_memory_faults();
std::vector<Fault> race_faults();
std::vector<Fault> launch_faults();
std::vector<Fault> stream_faults();
std::vector<Fault> cublas_faults();
std::vector<Fault> nccl_faults();

}  // namespace heddle::cuda
