# heddle_room(NAME DIR dir LINK targets...): one static library per room, from all .cpp files below its folder.
# A room without sources yet is header-only. What lies in a folder cuda/ is left out where HEDDLE_CUDA is OFF; elsewhere
# its .cpp and .cu files belong to the room, which then stands on the cuda room too and is compiled with HEDDLE_WITH_CUDA.
# Other rooms are compiled the same with and without CUDA, so that a compiler cache serves both builds.
function(heddle_room name)
  cmake_parse_arguments(ROOM "" "DIR" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${ROOM_DIR}/*.cpp ${ROOM_DIR}/*.cu)
  set(cuda_parts ${sources})
  list(FILTER cuda_parts INCLUDE REGEX "/cuda/")
  if(cuda_parts AND HEDDLE_CUDA STREQUAL "OFF")
    list(REMOVE_ITEM sources ${cuda_parts})
  elseif(cuda_parts)
    set(cuda_sources ${cuda_parts})
    list(FILTER cuda_sources INCLUDE REGEX "\\.cu$")
    heddle_cuda_sources(${cuda_sources})
  endif()
  if(sources)
    add_library(heddle_${name} STATIC ${sources})
    target_link_libraries(heddle_${name} PUBLIC ${ROOM_LINK} PRIVATE heddle_options)
    if(cuda_parts AND NOT HEDDLE_CUDA STREQUAL "OFF" AND NOT name STREQUAL "cuda")
      heddle_with_cuda(heddle_${name})
    endif()
    target_include_directories(heddle_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  else()
    add_library(heddle_${name} INTERFACE)
    target_link_libraries(heddle_${name} INTERFACE ${ROOM_LINK})
  endif()
endfunction()

# heddle_with_cuda(target): lets it use the cuda room, and says so to its sources.
function(heddle_with_cuda target)
  target_link_libraries(${target} PRIVATE heddle_cuda)
  target_compile_definitions(${target} PRIVATE HEDDLE_WITH_CUDA=1)
endfunction()
