// Shared memory of a block. It is uninitialised, and written and read by the block's threads between barriers.
//   SHARED_VAR(T, name)        one T
//   SHARED_ARRAY(T, name, N)   T name[N]; static arrays of a kernel may take 48 KiB together
//   DYNAMIC_SHARED(T, name)    T* name: the bytes that the launch asked for; one per kernel
#pragma once

#ifdef __CUDACC__

#define SHARED_VAR(T, name) __shared__ T name
#define SHARED_ARRAY(T, name, N) __shared__ __align__(16) T name[N]
#define DYNAMIC_SHARED(T, name)                                           \
  extern __shared__ __align__(128) unsigned char heddle_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(heddle_dynamic_shared)

#else

#define SHARED_VAR(T, name)              \
  static const char name##_identity = 0; \
  T& name =                              \
      *static_cast<T*>(cuda_emulation::static_shared(&name##_identity, sizeof(T), std::source_location::current()))
#define SHARED_ARRAY(T, name, N)         \
  static const char name##_identity = 0; \
  T(&name)                               \
  [N] = *static_cast<T(*)[N]>(           \
      cuda_emulation::static_shared(&name##_identity, sizeof(T[N]), std::source_location::current()))
#define DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(cuda_emulation::dynamic_shared(std::source_location::current()))

#endif
