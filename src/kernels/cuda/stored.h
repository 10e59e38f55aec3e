// From reals of a type known at run time to kernels that are templates over the stored type.
#pragma once

#include <cuda_bf16.h>

#include <initializer_list>

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

/// The type in which all of these are stored; null ones do not count. Throws std::logic_error where they differ.
RealType common_type(std::initializer_list<ConstReals> vectors);

template <typename T>
T* stored(const Reals& x) {
  return static_cast<T*>(x.data);
}
template <typename T>
const T* stored(const ConstReals& x) {
  return static_cast<const T*>(x.data);
}

}  // namespace heddle::cuda
