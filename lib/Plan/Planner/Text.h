//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Output of users' names, labels and paths, which may have any bytes, to JSON and to a terminal.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_DRIVER_TEXT_H
#define INTARSIA_LIB_PLAN_DRIVER_TEXT_H

#include "llvm/Support/JSON.h"

namespace intarsia::plan {

/// Returns a text as JSON; invalid UTF-8 becomes U+FFFD, as json::Value takes only valid UTF-8.
llvm::json::Value asJson(llvm::StringRef text);
llvm::json::Array asJson(const std::vector<std::string> &texts);

/// Returns the bytes of the UTF-8 character at the beginning of a non-empty text; 0 if there is none.
size_t characterBytes(llvm::StringRef text);

/// Returns a text for a terminal: control characters and invalid UTF-8 are written as MLIR does, "\09" and "\FF". Line
/// ends can be kept.
std::string printable(llvm::StringRef text, bool keepsLines = false);

/// Returns "0.71 ms", "421 ms", "10.0 s", "12.4 min"; "–" for infinity.
std::string duration(double milliseconds);
/// Returns a number, whole or with three or more significant digits, grouped: "20", "0.0427", "9.57", "12,345".
std::string number(double value);

} // namespace intarsia::plan

#endif
