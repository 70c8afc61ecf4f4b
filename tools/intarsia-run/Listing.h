//===- Listing.h - What --list prints -----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_LISTING_H
#define INTARSIA_TOOLS_RUN_LISTING_H

#include "intarsia/runtime.h"

#include <string>

namespace intarsia::run {

/// Returns a readable list of a module's functions with inputs and outputs, target variants, kernels and weights.
std::string listing(const itx_module *module);

/// Returns one output in a line: "name  f32 [2, 3]  0.5 1.25 …".
std::string summary(const char *name, const itx_tensor *tensor);

} // namespace intarsia::run

#endif
