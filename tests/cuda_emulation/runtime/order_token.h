// An address that ThreadSanitizer's order can be tied to (sanitizers.h).
#pragma once

namespace cuda_emulation {

struct OrderToken {
  alignas(8) char address;
};

}  // namespace cuda_emulation
