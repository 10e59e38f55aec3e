# Text files as constants of a program, and the chart library of reports.
#
# The Debian package libjs-vega holds Vega's modules, each by itself. heddle_assets() joins the ones that charts of a report
# use behind src/report/library_start.js, which finds one for another, and src/report/library_end.js, which makes the global `vega`.
find_path(HEDDLE_VEGA vega-view.min.js PATHS /usr/share/javascript/vega NO_DEFAULT_PATH)
find_file(HEDDLE_VEGA_LICENCE copyright PATHS /usr/share/doc/libjs-vega NO_DEFAULT_PATH)
if(NOT HEDDLE_VEGA OR NOT HEDDLE_VEGA_LICENCE)
  message(FATAL_ERROR "The chart library Vega was not found; install libjs-vega")
endif()
set(heddle_vega_modules util time statistics format loader dataflow canvas scale scenegraph transforms view-transforms encode
  event-selector expression selection functions runtime parser view)

# heddle_assets(OUTPUT): writes a C++ source with the constants of src/report/assets.h.
function(heddle_assets output)
  set(folder ${CMAKE_SOURCE_DIR}/src/report)
  set(inputs page.html page.css page.js lines.json heat_map.json bars.json library_start.js library_end.js)
  list(TRANSFORM inputs PREPEND ${folder}/)
  foreach(module ${heddle_vega_modules})
    list(APPEND inputs ${HEDDLE_VEGA}/vega-${module}.min.js)
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${folder} -D VEGA=${HEDDLE_VEGA} -D LICENCE=${HEDDLE_VEGA_LICENCE}
      -D "MODULES=${heddle_vega_modules}" -D OUTPUT=${output} -P ${CMAKE_SOURCE_DIR}/cmake/EmbedAssets.cmake
    DEPENDS ${inputs} ${HEDDLE_VEGA_LICENCE} ${CMAKE_SOURCE_DIR}/cmake/EmbedAssets.cmake
    COMMENT "Embedding the page of reports" VERBATIM)
endfunction()
