//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Names, labels and paths of users may have any bytes: what becomes of them in JSON and on a terminal.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_DRIVER_TEXT_H
#define INTARSIA_LIB_PLAN_DRIVER_TEXT_H

#include "llvm/Support/JSON.h"

namespace intarsia::plan {

/// Bytes that are no UTF-8 become U+FFFD: json::Value takes nothing else.
llvm::json::Value asJson(llvm::StringRef text);
llvm::json::Array asJson(const std::vector<std::string> &texts);

/// Bytes of the UTF-8 character at the beginning of a text that is not empty; 0: there is none.
size_t characterBytes(llvm::StringRef text);

/// For a terminal: control characters and bytes that are no UTF-8 as MLIR writes them, "\09" and "\FF". Ends of lines
/// may be kept.
std::string printable(llvm::StringRef text, bool keepsLines = false);

} // namespace intarsia::plan

#endif
