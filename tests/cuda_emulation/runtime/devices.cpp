#include "runtime/devices.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/allocations.h"
#include "runtime/device_limits.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/options.h"

namespace cuda_emulation {

namespace {

thread_local int device_of_thread = 0;

/// As the driver reads CUDA_VISIBLE_DEVICES: a list of numbers that ends at the first that is none, or no device.
std::vector<int> read_visible_devices() {
  std::vector<int> visible;
  const char* list = getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int device = 0; device < options().devices; ++device) visible.push_back(device);
    return visible;
  }
  while (*list != '\0') {
    char* end = nullptr;
    const long device = strtol(list, &end, 10);
    if (end == list || device < 0 || device >= options().devices) break;
    visible.push_back(static_cast<int>(device));
    list = *end == ',' ? end + 1 : end;
  }
  return visible;
}

bool is_visible(int device) {
  return device >= 0 && device < static_cast<int>(visible_devices().size());
}

int attribute_value(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrWarpSize:
      return kWarpSize;
    case cudaDevAttrMaxThreadsPerBlock:
      return kMostThreadsPerBlock;
    case cudaDevAttrMaxGridDimX:
      return kMostBlocksX;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return kMostBlocksYZ;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return kSharedBytes;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return kMostSharedBytes;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrComputeCapabilityMajor:
      return kMajor;
    case cudaDevAttrComputeCapabilityMinor:
      return kMinor;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      return kClockKilohertz;
    case cudaDevAttrGlobalMemoryBusWidth:
      return kMemoryBusBits;
    case cudaDevAttrL2CacheSize:
      return kCacheBytes;
    case cudaDevAttrUnifiedAddressing:
      return 1;
    default:
      fail("cudaDeviceGetAttribute: the emulation does not know attribute %d", static_cast<int>(attribute));
  }
}

}  // namespace

cudaError_t driver_status() {
  if (!options().driver) return cudaErrorInsufficientDriver;
  return visible_devices().empty() ? cudaErrorNoDevice : cudaSuccess;
}

const std::vector<int>& visible_devices() {
  static const auto* visible = new std::vector<int>(read_visible_devices());
  return *visible;
}

int current_device() {
  return device_of_thread;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

// Without a driver the number stays as it was, as with the real runtime.
cudaError_t cudaGetDeviceCount(int* count) {
  const Entry entry;
  if (driver_status() == cudaSuccess || driver_status() == cudaErrorNoDevice)
    *count = static_cast<int>(visible_devices().size());
  return report(driver_status());
}

cudaError_t cudaSetDevice(int device) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (!is_visible(device)) return report(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (!is_visible(device)) return report(cudaErrorInvalidDevice);
  *value = attribute_value(attribute);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (!is_visible(device)) return report(cudaErrorInvalidDevice);
  *properties = {};
  snprintf(properties->name, sizeof(properties->name), "emulated GPU %d",
           visible_devices()[static_cast<size_t>(device)]);
  memcpy(properties->uuid.bytes, "emulatedGPU ", 12);
  properties->uuid.bytes[15] = static_cast<char>(visible_devices()[static_cast<size_t>(device)]);
  properties->totalGlobalMem = options().device_bytes;
  properties->sharedMemPerBlock = kSharedBytes;
  properties->sharedMemPerBlockOptin = kMostSharedBytes;
  properties->warpSize = kWarpSize;
  properties->maxThreadsPerBlock = kMostThreadsPerBlock;
  properties->multiProcessorCount = kMultiprocessors;
  properties->major = kMajor;
  properties->minor = kMinor;
  properties->unifiedAddressing = 1;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  *total_bytes = options().device_bytes;
  *free_bytes = options().device_bytes - device_bytes_in_use(device_of_thread);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Entry entry;
  *version = options().driver ? CUDART_VERSION : 0;  // without a driver the real call succeeds too
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (!is_visible(device)) return report(cudaErrorInvalidDevice);
  snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", visible_devices()[static_cast<size_t>(device)] + 1);
  return cudaSuccess;
}

}  // extern "C"
