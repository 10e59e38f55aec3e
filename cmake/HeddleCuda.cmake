# The CUDA backend in three builds, behind the target heddle::cuda_api (CUDA runtime, cuBLAS and NCCL):
#   OFF       no CUDA anywhere; the toolkit is not looked for
#   ON        nvcc compiles the .cu files; the program needs a GPU to use them
#   EMULATED  g++ compiles the same .cu files, and tests/cuda_emulation runs them on the processor (docs/cuda_kernels.md).
#             NVIDIA's headers are used as they are, so the toolkit must be there, but no GPU, driver or nvcc.
set(HEDDLE_CUDA OFF CACHE STRING "CUDA backend: OFF, ON or EMULATED")
set_property(CACHE HEDDLE_CUDA PROPERTY STRINGS OFF ON EMULATED)
if(NOT HEDDLE_CUDA MATCHES "^(OFF|ON|EMULATED)$")
  message(FATAL_ERROR "HEDDLE_CUDA is '${HEDDLE_CUDA}': expected OFF, ON or EMULATED")
endif()

if(NOT HEDDLE_CUDA STREQUAL "OFF")
  set(heddle_cuda_places $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)

  # heddle_need_cuda(variable what): ends the configuration where something of the toolkit was not found.
  function(heddle_need_cuda variable what)
    if(NOT ${variable})
      message(FATAL_ERROR "HEDDLE_CUDA=${HEDDLE_CUDA} needs ${what}, which was not found. Install the CUDA toolkit 13 "
        "with cuBLAS and NCCL, point CUDA_HOME at it (or ${variable} at the one thing), or configure with "
        "-DHEDDLE_CUDA=OFF.")
    endif()
  endfunction()

  find_path(HEDDLE_CUDA_INCLUDE cuda_runtime.h HINTS ${heddle_cuda_places} PATH_SUFFIXES include)
  heddle_need_cuda(HEDDLE_CUDA_INCLUDE "the header cuda_runtime.h")
  find_path(HEDDLE_CUBLAS_INCLUDE cublas_v2.h HINTS ${HEDDLE_CUDA_INCLUDE})
  heddle_need_cuda(HEDDLE_CUBLAS_INCLUDE "the header cublas_v2.h")
  find_path(HEDDLE_NCCL_INCLUDE nccl.h HINTS ${HEDDLE_CUDA_INCLUDE})
  heddle_need_cuda(HEDDLE_NCCL_INCLUDE "the header nccl.h")

  add_library(heddle_cuda_headers INTERFACE)
  target_include_directories(heddle_cuda_headers SYSTEM INTERFACE
    ${HEDDLE_CUDA_INCLUDE} ${HEDDLE_CUBLAS_INCLUDE} ${HEDDLE_NCCL_INCLUDE})
  add_library(heddle_cuda_api INTERFACE)
  add_library(heddle::cuda_api ALIAS heddle_cuda_api)
  target_link_libraries(heddle_cuda_api INTERFACE heddle_cuda_headers)
endif()

if(HEDDLE_CUDA STREQUAL "ON")
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ${heddle_cuda_places} PATH_SUFFIXES bin)
  heddle_need_cuda(CMAKE_CUDA_COMPILER "the compiler nvcc")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING "GPU generations: Ampere and Hopper")
  endif()
  if(HEDDLE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${HEDDLE_CCACHE})
  endif()
  # The shared runtime, or it would be linked twice: the language's own choice is the static one.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  find_package(CUDAToolkit REQUIRED)
  find_library(HEDDLE_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${HEDDLE_NCCL_INCLUDE}/../lib)
  heddle_need_cuda(HEDDLE_NCCL_LIBRARY "the library NCCL")
  target_link_libraries(heddle_cuda_api INTERFACE CUDA::cudart CUDA::cublas ${HEDDLE_NCCL_LIBRARY})

  # Registers that spill to memory are an error: such a kernel needs another shape. fmt 9 does not trust nvcc with constexpr
  # and then does not compile as C++20.
  target_compile_options(heddle_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;-DFMT_USE_CONSTEXPR=1;-Werror=all-warnings;\
-Xptxas=--warn-on-spills,-Werror;-Xcompiler=-Wall,-Wextra,-Werror,-Wno-unused-parameter>")
elseif(HEDDLE_CUDA STREQUAL "EMULATED")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    message(FATAL_ERROR "HEDDLE_CUDA=EMULATED runs on x86-64 only, and this is ${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  add_subdirectory(${CMAKE_SOURCE_DIR}/tests/cuda_emulation)
  target_link_libraries(heddle_cuda_api INTERFACE heddle_cuda_emulation)
endif()

# heddle_cuda_sources(files...): .cu files are CUDA for nvcc, and C++ with a few extensions for g++. At -O3 g++ 12 makes
# aligned 16-byte loads of addresses that the code has just found not to be aligned.
function(heddle_cuda_sources)
  if(HEDDLE_CUDA STREQUAL "EMULATED")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-Wno-unknown-pragmas;-O1")
  endif()
endfunction()
