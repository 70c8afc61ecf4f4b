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
  # A precompiled header contains timestamps; without these settings each build misses the cache.
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
  if(INTARSIA_PYTHON) # an extension module uses the sanitizer runtime of the process that loads it
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
                    OUTPUT_VARIABLE sanitizer OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(folder "${sanitizer}" DIRECTORY)
    add_link_options(-shared-libasan -Wl,-rpath,${folder})
  endif()
endif()

# intarsia/Version.h is written again when a commit is made or another one is checked out, which git notes in its log.
set(versionArguments
  -DVERSION=${PROJECT_VERSION} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}
  -DHEADER=${CMAKE_CURRENT_BINARY_DIR}/include/intarsia/Version.h -P "${CMAKE_CURRENT_LIST_DIR}/Version.cmake")
execute_process(COMMAND ${CMAKE_COMMAND} ${versionArguments} COMMAND_ERROR_IS_FATAL ANY)
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C "${CMAKE_CURRENT_SOURCE_DIR}" rev-parse --path-format=absolute --git-path logs/HEAD
                  OUTPUT_VARIABLE headLog OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(headLog AND EXISTS "${headLog}")
  add_custom_command(OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/include/intarsia/Version.h"
                     COMMAND ${CMAKE_COMMAND} ${versionArguments}
                     DEPENDS "${headLog}" "${CMAKE_CURRENT_LIST_DIR}/Version.cmake" "${CMAKE_CURRENT_LIST_DIR}/Version.h.in"
                     COMMENT "Asking git for the commit" VERBATIM)
  add_custom_target(intarsia-version ALL DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/include/intarsia/Version.h")
endif()

# intarsia_floor(name sources…): a library that the runtime and the compiler share. It knows nothing of LLVM, and is
# optimised whatever the build type of the compiler is, but for Debug.
function(intarsia_floor name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O2> -fexceptions -ffunction-sections -fdata-sections)
  if(INTARSIA_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
