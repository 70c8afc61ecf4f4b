//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_WAFERTARGET_H
#define INTARSIA_LIB_TARGET_WAFER_WAFERTARGET_H

#include "intarsia/Target/Target.h"

namespace intarsia::wafer {
/// Returns the target `wafer`. Its variants are wafers of the catalogue, with `+grid=N` on N by N cores of them.
const target::Target &waferTarget();
} // namespace intarsia::wafer

#endif
