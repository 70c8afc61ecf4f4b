//===- Engines.h - Many requests with one model ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_ENGINES_H
#define INTARSIA_PYTHON_ENGINES_H

#include <nanobind/nanobind.h>

namespace intarsia::python {

/// Adds the classes to the extension module.
void bindEngines(nanobind::module_ &m);

} // namespace intarsia::python

#endif
