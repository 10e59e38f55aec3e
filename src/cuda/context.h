// What this process uses of the GPU: one device, a stream for kernels and one for communication, and a cuBLAS handle.
// Created once after the ranks are known and destroyed before the program ends, both by the thread that makes all CUDA
// calls. Nothing uses CUDA's default stream.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::cuda {

/// How cuBLAS may multiply. kPedantic forbids algorithms that differ from plain arithmetic of the given types, for
/// comparisons with the processor.
enum class MathMode { kDefault, kPedantic };

struct ContextOptions {
  int device = 0;  ///< among the visible ones
  MathMode math = MathMode::kDefault;
  size_t cublas_workspace_bytes = size_t{32} << 20;  ///< what NVIDIA recommends for Hopper
};

struct DeviceProperties {
  std::string name;
  std::string uuid;          ///< hexadecimal; no two GPUs have the same
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0;            ///< of the whole device
  int64_t shared_bytes_per_block = 0;  ///< what a kernel may ask for (more than 48 KiB only after allow_dynamic_shared)
};

/// How many GPUs this process sees, and why there is none: no driver, or none visible. Throws for other failures.
struct VisibleDevices {
  int count = 0;
  std::string why_none;  ///< empty if count > 0
};
VisibleDevices visible_devices();

class Context {
 public:
  explicit Context(const ContextOptions& options);
  /// Waits for both streams. Throws nothing; what fails while the device is given back is not reported.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  const DeviceProperties& properties() const { return properties_; }
  cudaStream_t compute_stream() const { return compute_stream_; }
  cudaStream_t communication_stream() const { return communication_stream_; }
  /// Works on the compute stream, in a workspace of its own.
  cublasHandle_t cublas() const { return cublas_; }

  /// What is enqueued on the communication stream from now on starts after what the compute stream holds now.
  void communication_waits_for_compute();
  /// What is enqueued on the compute stream from now on starts after what the communication stream holds now.
  void compute_waits_for_communication();
  /// The end of what the communication stream holds now. Give it back with release().
  cudaEvent_t mark_communication();
  /// What is enqueued on the compute stream from now on starts after the mark.
  void compute_waits_for(cudaEvent_t mark);
  /// The host waits for the mark.
  void wait_for_mark(cudaEvent_t mark) const;
  void release(cudaEvent_t mark) { spare_marks_.push_back(mark); }

  /// Called every now and then while the host waits, with the seconds waited so far, of which a suspended process
  /// counts none; may throw to end the wait. nullptr: none.
  void set_watch(std::function<void(double)> watch) { watch_ = std::move(watch); }

  /// The host waits for all work of one stream. Throws Error where a kernel or copy of it failed.
  void synchronize_compute();
  void synchronize_communication();

 private:
  void open(const ContextOptions& options);
  template <typename Query>
  void wait(const char* call, const Query& query) const;
  void wait_for(cudaStream_t stream) const;
  void close();

  int device_;
  DeviceProperties properties_;
  cudaStream_t compute_stream_ = nullptr, communication_stream_ = nullptr;
  cudaEvent_t compute_reached_ = nullptr, communication_reached_ = nullptr;
  std::vector<cudaEvent_t> spare_marks_;
  cublasHandle_t cublas_ = nullptr;
  void* cublas_workspace_ = nullptr;
  std::function<void(double)> watch_;
};

/// The context of the process. create_context throws Error where there is one already, or no such device; context()
/// where there is none (std::logic_error).
Context& create_context(const ContextOptions& options);
void destroy_context();
bool has_context();
Context& context();

}  // namespace heddle::cuda
