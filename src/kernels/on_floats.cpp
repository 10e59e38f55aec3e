#include "kernels/on_floats.h"

#include "support/error.h"

namespace heddle {

void refuse_bfloat16(const char* device) {
  fail("{} stores float32 only, and was given bfloat16", device);
}

}  // namespace heddle
