# cmake -DVERSION=… -DSOURCE=… -DHEADER=… -P Version.cmake: writes the header if it changes. A tree without git says
# "unknown".
find_package(Git QUIET)
set(PROJECT_VERSION "${VERSION}")
set(INTARSIA_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C "${SOURCE}" rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(INTARSIA_COMMIT "${commit}")
  endif()
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/Version.h.in" "${HEADER}" @ONLY)
