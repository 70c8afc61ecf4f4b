//===- Linker.h - lld, in this process ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_LINKER_H
#define INTARSIA_LIB_TARGET_LINKER_H

#include "intarsia/Target/Target.h"

namespace intarsia::target {

/// Links objects to a shared object that exports only the module descriptor, or (`relocatable`) to one object.
/// The bytes depend only on the objects and their order.
llvm::Expected<std::vector<char>> link(llvm::ArrayRef<CompiledObject> objects, llvm::StringRef elfEmulation,
                                       bool relocatable);

} // namespace intarsia::target

#endif
