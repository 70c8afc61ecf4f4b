//===- Listing.h - What intarsia-run prints ---------------------------------------------------------------------===//
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

/// Returns a readable list of a module's functions with inputs and outputs, target variants, devices, kernels and
/// weights.
std::string listing(const itx_module *module);

/// Returns a table of the devices of this machine.
std::string deviceTable();

/// Returns a line on the kernels that were verified; empty if the module does not verify them.
std::string verification(const itx_module *module);

/// Returns one output in a line: "name  f32 [2, 3]  0.5 1.25 …".
std::string summary(const char *name, const itx_tensor *tensor);

} // namespace intarsia::run

#endif
