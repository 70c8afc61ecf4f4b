# The .mlir tests: `ninja check-lit`, or the ctest of the same name.
set(INTARSIA_PYTHON_EXECUTABLE "" CACHE FILEPATH "Python that has lit, pytest and NumPy; empty: the first one that has lit")
set(INTARSIA_TEST_PYTHON "${INTARSIA_PYTHON_EXECUTABLE}")
if(NOT INTARSIA_TEST_PYTHON)
  find_program(INTARSIA_FOUND_PYTHON python3 HINTS "$ENV{VIRTUAL_ENV}/bin" "${CMAKE_SOURCE_DIR}/.venv/bin" NO_CACHE)
  set(INTARSIA_TEST_PYTHON "${INTARSIA_FOUND_PYTHON}")
endif()
# The tests of an op lie beside its definition, in dialects.
foreach(folder test dialects)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/lit.site.cfg.py.in" "${CMAKE_BINARY_DIR}/${folder}/lit.site.cfg.py" @ONLY)
endforeach()

set(lit_command "${INTARSIA_TEST_PYTHON}" -c "__import__('lit.main').main.main()" -sv
    "${CMAKE_BINARY_DIR}/test" "${CMAKE_BINARY_DIR}/dialects")
add_custom_target(check-lit COMMAND ${lit_command} USES_TERMINAL VERBATIM COMMENT "FileCheck tests")
add_dependencies(check-lit intarsia-opt intarsia-test-opt intarsia-compile intarsia-run intarsia-lsp-server)
add_test(NAME lit COMMAND ${lit_command})
