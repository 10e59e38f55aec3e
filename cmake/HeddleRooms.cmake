# heddle_room(NAME DIR dir LINK targets...): one static library per room, from all .cpp files below its folder.
# A room without sources yet is header-only.
function(heddle_room name)
  cmake_parse_arguments(ROOM "" "DIR" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ROOM_DIR}/*.cpp)
  if(sources)
    add_library(heddle_${name} STATIC ${sources})
    target_link_libraries(heddle_${name} PUBLIC ${ROOM_LINK} PRIVATE heddle_options)
    target_include_directories(heddle_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  else()
    add_library(heddle_${name} INTERFACE)
    target_link_libraries(heddle_${name} INTERFACE ${ROOM_LINK})
  endif()
endfunction()
