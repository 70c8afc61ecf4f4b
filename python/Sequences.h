//===- Sequences.h - Sequences and their caches ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_SEQUENCES_H
#define INTARSIA_PYTHON_SEQUENCES_H

#include <nanobind/nanobind.h>

namespace intarsia::python {

/// Adds the classes to the extension module, and what plans a cache.
void bindSequences(nanobind::module_ &m);

} // namespace intarsia::python

#endif
