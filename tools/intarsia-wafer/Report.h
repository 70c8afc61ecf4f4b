//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_WAFER_REPORT_H
#define INTARSIA_TOOLS_WAFER_REPORT_H

#include "lib/Runtime/Wafer/Timing.h"
#include "llvm/Support/JSON.h"

namespace intarsia {

/// Returns what is known of a program: cores, memory of a core by buffer, colors, ops, and its times.
llvm::json::Object describe(const wafer::Program &program, const wafer::Timing &timing);

/// Prints the main figures of `describe` for people.
void print(llvm::raw_ostream &out, const wafer::Program &program, const wafer::Timing &timing);

/// Prints which bytes of a core each buffer has, and during which ops.
void printMemory(llvm::raw_ostream &out, const wafer::Program &program);

} // namespace intarsia

#endif
