# Settings that every target shares: language level, warnings, sanitizers, linker, compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

include_directories("${CMAKE_CURRENT_SOURCE_DIR}/include" "${CMAKE_CURRENT_BINARY_DIR}/include")
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)

find_program(INTARSIA_CCACHE ccache)
if(INTARSIA_CCACHE)
  # A precompiled header carries times of its own; without these settings each build misses the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${INTARSIA_CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(INTARSIA_LLD NAMES ld.lld-22 ld.lld)
  if(INTARSIA_LLD)
    add_link_options(--ld-path=${INTARSIA_LLD})
  endif()
endif()
if(INTARSIA_SANITIZE)
  add_compile_options(-fsanitize=${INTARSIA_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${INTARSIA_SANITIZE})
endif()

# The commit is asked for at configuration; a tree without git says "unknown".
find_package(Git QUIET)
set(INTARSIA_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C "${CMAKE_CURRENT_SOURCE_DIR}" rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(INTARSIA_COMMIT "${commit}")
  endif()
endif()
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cmake/Version.h.in" "${CMAKE_CURRENT_BINARY_DIR}/include/intarsia/Version.h" @ONLY)
