//===- Target.h - Passes of the target phase ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TARGET_TARGET_H
#define INTARSIA_TARGET_TARGET_H

namespace intarsia {

/// Makes the passes that show how a target compiles kernels known by name.
void registerTargetPasses();

} // namespace intarsia

#endif
