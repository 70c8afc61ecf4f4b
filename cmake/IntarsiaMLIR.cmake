# With g++ and hidden visibility the compiler's type ids differ from those in libMLIR, and no module verifies.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "The compiler is built with clang, not with ${CMAKE_CXX_COMPILER}: set CMAKE_CXX_COMPILER to "
                      "clang++-22, or build the runtime alone with -DINTARSIA_COMPILER=OFF")
endif()
# LLVM and MLIR 22.1, shared libraries only: mixing them with the static ones registers every option twice.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
set(MLIR_LINK_MLIR_DYLIB ON)
set(LLVM_LINK_LLVM_DYLIB ON)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
find_package(LLD 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)

set(INTARSIA_MLIR_INCLUDES "${LLVM_INCLUDE_DIRS}" "${MLIR_INCLUDE_DIRS}")
# TableGen reads the directory property: "dialects/…" and "mlir/…" are both found through it.
include_directories("${CMAKE_SOURCE_DIR}")
include_directories(SYSTEM ${INTARSIA_MLIR_INCLUDES})

# The compiler shares two precompiled headers, as headers take most of the time: MLIR's, and for all that is above the
# dialects these with them (a third to a half less processor time for a file).
foreach(name Precompiled PrecompiledDialects)
  add_library(Intarsia${name} OBJECT "${CMAKE_CURRENT_LIST_DIR}/Precompiled.cpp")
  target_precompile_headers(Intarsia${name} PRIVATE "${CMAKE_CURRENT_LIST_DIR}/${name}.h")
endforeach()

function(intarsia_compiler_options target)
  target_include_directories(${target} SYSTEM PRIVATE ${INTARSIA_MLIR_INCLUDES})
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti -Wno-deprecated-declarations)
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
endfunction()
intarsia_compiler_options(IntarsiaPrecompiled)
intarsia_compiler_options(IntarsiaPrecompiledDialects)
add_dependencies(IntarsiaPrecompiledDialects IntarsiaDialectHeaders)

# intarsia_library(NAME SOURCES a.cpp … [LINK other …] [DEPENDS tablegen-target …])
function(intarsia_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  intarsia_compiler_options(${name})
  if("IntarsiaDialects" IN_LIST ARG_LINK)
    target_precompile_headers(${name} REUSE_FROM IntarsiaPrecompiledDialects)
  else()
    target_precompile_headers(${name} REUSE_FROM IntarsiaPrecompiled)
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  add_dependencies(${name} IntarsiaDialectHeaders)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# intarsia_tool(NAME SOURCES a.cpp … LINK library …)
function(intarsia_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  intarsia_compiler_options(${name})
  # The precompiled header was made with -fPIC; -fPIE, which CMake would choose for a program, does not match it.
  # Installed, it still finds the shared MLIR and LLVM where they were linked from.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF INSTALL_RPATH_USE_LINK_PATH ON)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM IntarsiaPrecompiled)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
endfunction()

# intarsia_passes(PREFIX): Passes.td in this folder → ${CMAKE_CURRENT_BINARY_DIR}/Passes.h.inc and its documentation.
function(intarsia_passes prefix)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${prefix})
  add_public_tablegen_target(Intarsia${prefix}PassesIncGen)
  mlir_tablegen_document(${prefix}Passes -gen-pass-doc)
endfunction()

# A generated Markdown page below ${CMAKE_BINARY_DIR}/docs, built by the target "intarsia-docs".
function(mlir_tablegen_document name)
  set(page "${CMAKE_BINARY_DIR}/docs/${name}.md")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/docs")
  file(GLOB_RECURSE definitions CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.td") # what the file includes
  add_custom_command(OUTPUT "${page}"
    COMMAND ${MLIR_TABLEGEN_EXE} ${ARGN} -I "${CMAKE_SOURCE_DIR}" -I "${MLIR_INCLUDE_DIRS}"
            "${CMAKE_CURRENT_SOURCE_DIR}/${LLVM_TARGET_DEFINITIONS}" -o "${page}"
    DEPENDS ${definitions})
  add_custom_target(intarsia-docs-${name} DEPENDS "${page}")
  if(NOT TARGET intarsia-docs)
    add_custom_target(intarsia-docs)
  endif()
  add_dependencies(intarsia-docs intarsia-docs-${name})
endfunction()
