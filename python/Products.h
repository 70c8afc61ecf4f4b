//===- Products.h - Products of rows, summed over tokens ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_PRODUCTS_H
#define INTARSIA_PYTHON_PRODUCTS_H

#include <nanobind/nanobind.h>

namespace intarsia::python {

/// Adds functions that calibration sums second moments with to the extension module.
void bindProducts(nanobind::module_ &m);

} // namespace intarsia::python

#endif
