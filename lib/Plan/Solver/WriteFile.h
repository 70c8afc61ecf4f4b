//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Results as files.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_WRITEFILE_H
#define INTARSIA_PLAN_WRITEFILE_H

#include "llvm/Support/Error.h"

namespace intarsia::plan {

/// Writes a file atomically; "-" is standard output. Errors name the path.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef text);

} // namespace intarsia::plan

#endif
