// A GPU as the device of a process: one rank, one GPU.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace heddle {

/// Why this process can use no GPU: no driver, none visible, ...; empty where it can.
std::string why_no_cuda_device();

/// The GPU whose number is this rank's number on its host. Collective. Throws Error on every rank where a rank has none
/// for itself, with what each host sees.
std::unique_ptr<OpenDevice> open_cuda_device(Job& job, DType activations);

}  // namespace heddle
