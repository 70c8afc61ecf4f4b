//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_MODELPROGRAMS_H
#define INTARSIA_LIB_TARGET_WAFER_MODELPROGRAMS_H

#include "intarsia/Cost/WaferTimes.h"

#include <memory>

namespace intarsia::wafer {

/// Returns times by programs that are made for the shapes of models, as the compiler makes them for kernels. What was
/// computed is kept.
std::unique_ptr<WaferTimes> programTimes();

} // namespace intarsia::wafer

#endif
