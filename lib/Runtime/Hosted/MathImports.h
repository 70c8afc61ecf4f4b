//===- MathImports.h - C's mathematics library for kernels that run on the host --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_MATHIMPORTS_H
#define INTARSIA_RUNTIME_HOSTED_MATHIMPORTS_H

#include <string>

namespace intarsia::runtime {

/// Returns the function of C's mathematics library of this name, on double or float; null if kernels may not import it.
void *findMathFunction(const std::string &name);

} // namespace intarsia::runtime

#endif
