//===- Sequences.h - Sequences and their caches ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_SEQUENCES_H
#define INTARSIA_PYTHON_SEQUENCES_H

#include "intarsia/runtime.h"

#include <nanobind/nanobind.h>

namespace intarsia::python {

/// Handles on their way between an engine and these classes. A capsule frees its handle unless somebody takes it: an
/// interrupt may come in between.
nanobind::capsule toCapsule(itx_cache *cache);
nanobind::capsule toCapsule(itx_sequence *sequence);
itx_cache *cacheOf(const nanobind::capsule &capsule);
itx_sequence *sequenceOf(const nanobind::capsule &capsule);

/// Adds the classes to the extension module, and what plans a cache.
void bindSequences(nanobind::module_ &m);

} // namespace intarsia::python

#endif
