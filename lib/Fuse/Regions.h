//===- Regions.h - Bodies of control flow as functions ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_REGIONS_H
#define INTARSIA_LIB_FUSE_REGIONS_H

#include "llvm/ADT/StringRef.h"

namespace intarsia::fuse {

/// On a function that holds the body of control flow during the phase: the name of the function that the body is of.
inline constexpr llvm::StringLiteral outlinedAttr = "nn.outlined_from";

} // namespace intarsia::fuse

#endif
