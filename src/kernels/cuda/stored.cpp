#include "kernels/cuda/stored.h"

#include "support/error.h"

namespace heddle::cuda {

RealType common_type(std::initializer_list<ConstReals> vectors) {
  ConstReals one;
  for (const ConstReals& x : vectors) {
    if (!x) continue;
    require(!one || one.type == x.type, "an operation of the GPU was given float32 beside bfloat16");
    one = x;
  }
  return one.type;
}

}  // namespace heddle::cuda
