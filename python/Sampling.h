//===- Sampling.h - The choice of a token ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_SAMPLING_H
#define INTARSIA_PYTHON_SAMPLING_H

#include <nanobind/nanobind.h>

namespace intarsia::python {

/// Adds the sampler of engines to the extension module, for callers that run steps themselves.
void bindSampling(nanobind::module_ &m);

} // namespace intarsia::python

#endif
