# Build options, and the interface target that carries the compiler flags of every room.
option(HEDDLE_TESTS "Build the tests" ON)
option(HEDDLE_BENCH "Build the benchmarks" ON)
option(HEDDLE_NATIVE "Tune for the processor of this machine (-march=native)" ON)
set(HEDDLE_SANITIZE "" CACHE STRING "Sanitizer of the whole build: empty, address (with undefined) or thread")
set_property(CACHE HEDDLE_SANITIZE PROPERTY STRINGS "" address thread)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3")

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEDDLE_CCACHE})
endif()

# The flags are g++'s. nvcc has its own (HeddleCuda.cmake).
function(heddle_cxx_options)
  target_compile_options(heddle_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${ARGN}>")
endfunction()

add_library(heddle_options INTERFACE)
target_include_directories(heddle_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
set(heddle_warnings -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  # g++ 12 invents overlaps and overflows inside fmt and std::string at -O3.
  -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-free-nonheap-object)
heddle_cxx_options(${heddle_warnings}
  # Let sqrt and selections become vector code; neither changes a value.
  -fno-math-errno -fno-trapping-math)
if(HEDDLE_NATIVE)
  heddle_cxx_options(-march=native)
  # g++ 12.2 with AVX-512 turns {7, 7, 0, 0} into a broadcast of 7 when it moves constants in wide pieces.
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag("-mmove-max=128 -mstore-max=128" HEDDLE_HAS_MOVE_MAX)
  if(HEDDLE_HAS_MOVE_MAX)
    heddle_cxx_options(-mmove-max=128 -mstore-max=128)
  endif()
endif()
if(HEDDLE_SANITIZE STREQUAL "address")
  heddle_cxx_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 -O1)
  target_link_options(heddle_options INTERFACE -fsanitize=address,undefined)
elseif(HEDDLE_SANITIZE STREQUAL "thread")
  heddle_cxx_options(-fsanitize=thread -fno-omit-frame-pointer -g1 -O1)
  target_link_options(heddle_options INTERFACE -fsanitize=thread)
elseif(NOT HEDDLE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "HEDDLE_SANITIZE is '${HEDDLE_SANITIZE}': expected empty, address or thread")
endif()
