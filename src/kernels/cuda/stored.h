// From reals of a type known at run time to kernels that are templates over the stored type.
#pragma once

#include <cuda_bf16.h>

#include "kernels/types.h"

namespace heddle::cuda {

/// Calls function(T()) with the T in which reals of `type` are stored.
template <typename Function>
void with_stored(RealType type, const Function& function) {
  if (type == RealType::kFloat32)
    function(float());
  else
    function(__nv_bfloat16());
}

template <typename T>
T* stored(const Reals& x) {
  return static_cast<T*>(x.data);
}
template <typename T>
const T* stored(const ConstReals& x) {
  return static_cast<const T*>(x.data);
}

}  // namespace heddle::cuda
