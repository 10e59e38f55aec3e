// The launch of a kernel: its arguments are checked and copied into a body that each thread of the grid runs.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>

namespace cuda_emulation {

/// What every thread of a grid runs.
class KernelBody {
 public:
  virtual ~KernelBody() = default;
  virtual void run() const = 0;
};

struct LaunchRequest {
  const void* kernel;  ///< its host address, which cudaFuncSetAttribute names it by
  dim3 grid, block;
  size_t dynamic_shared_bytes;
  cudaStream_t stream;
  const char* file;  ///< where the launch was written
  int line;
};

/// A pointer among the arguments. Pointers inside of structs are not seen.
struct PointerArgument {
  const void* pointer;
  int number;  ///< from 1
};

/// Fails unless every pointer is null or to memory that the stream's device can reach, up to one past its end.
cudaError_t enqueue_kernel(const LaunchRequest& request, std::span<const PointerArgument> pointers,
                           std::unique_ptr<KernelBody> body);

template <typename... Parameters>
class KernelCall : public KernelBody {
 public:
  KernelCall(void (*kernel)(Parameters...), Parameters... arguments) : kernel_(kernel), arguments_(arguments...) {}
  void run() const override { std::apply(kernel_, arguments_); }

 private:
  void (*kernel_)(Parameters...);
  std::tuple<Parameters...> arguments_;
};

template <typename... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                   cudaStream_t stream, const char* file, int line, std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "arguments of a kernel are copied byte by byte");
  const LaunchRequest request = {
      reinterpret_cast<const void*>(kernel), grid, block, dynamic_shared_bytes, stream, file, line};
  std::array<PointerArgument, sizeof...(Parameters) + 1> pointers;
  size_t count = 0;
  int number = 0;
  [[maybe_unused]] const auto collect = [&](const auto& argument) {
    ++number;
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(argument)>>) pointers[count++] = {argument, number};
  };
  (collect(arguments), ...);
  return enqueue_kernel(request, std::span(pointers.data(), count),
                        std::make_unique<KernelCall<Parameters...>>(kernel, arguments...));
}

}  // namespace cuda_emulation
