//===- Worlds.h - Ranks of a world and their exchanges --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_WORLDS_H
#define INTARSIA_PYTHON_WORLDS_H

#include <nanobind/nanobind.h>

namespace intarsia::python {

/// Adds the class to the extension module.
void bindWorlds(nanobind::module_ &m);

} // namespace intarsia::python

#endif
