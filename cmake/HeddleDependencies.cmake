# Every outside library, each behind one target. All come from Debian 12 packages (README, "Dependencies").
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)

# MPI's deprecated C++ bindings drag in headers that warn.
find_package(MPI REQUIRED COMPONENTS C)
add_library(heddle_mpi INTERFACE)
add_library(heddle::mpi ALIAS heddle_mpi)
target_link_libraries(heddle_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(heddle_mpi INTERFACE OMPI_SKIP_MPICXX=1)

# The parallel build of HDF5 needs MPI's headers, which its own target does not carry.
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "The HDF5 that was found is the serial build; install libhdf5-openmpi-dev")
endif()
add_library(heddle_hdf5 INTERFACE)
add_library(heddle::hdf5 ALIAS heddle_hdf5)
target_include_directories(heddle_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(heddle_hdf5 INTERFACE ${HDF5_C_LIBRARIES} heddle::mpi)

find_package(dnnl CONFIG REQUIRED)
add_library(heddle_onednn INTERFACE)
add_library(heddle::onednn ALIAS heddle_onednn)
target_link_libraries(heddle_onednn INTERFACE DNNL::dnnl)

pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
add_library(heddle_xxhash INTERFACE)
add_library(heddle::xxhash ALIAS heddle_xxhash)
target_link_libraries(heddle_xxhash INTERFACE PkgConfig::xxhash)

pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
add_library(heddle_sentencepiece INTERFACE)
add_library(heddle::sentencepiece ALIAS heddle_sentencepiece)
target_link_libraries(heddle_sentencepiece INTERFACE PkgConfig::sentencepiece sentencepiece_train)

add_library(heddle_compression INTERFACE)
add_library(heddle::compression ALIAS heddle_compression)
target_link_libraries(heddle_compression INTERFACE ZLIB::ZLIB LibLZMA::LibLZMA)
