//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Runs a program with values, or without them to check it.
//
// Ops are done one after another, each for all cores of its class. This order is one that the machine may take, and if
// it comes to its end then so does every other: take the first op, in this order, that some core never ends. All ops
// before it have ended, on all cores; what it waits for is a message that an earlier op sends or, for a message that it
// sends, an earlier op that receives it (both are checked), so it ends. Paths wait for no other path: colors share
// links, but no router has two inputs of one color.
//
// As each core does its own ops in order and messages of a route stay in order, values do not depend on timing either,
// provided that no core uses a buffer between the start and the end of a transfer; such races are reported.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_FUNCTIONAL_H
#define INTARSIA_LIB_RUNTIME_WAFER_FUNCTIONAL_H

#include "lib/Runtime/Wafer/Program.h"

namespace intarsia::wafer {

/// A row-major matrix.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

/// Runs a program: `inputs` by argument number, outputs likewise. Returns what is wrong with the program (which core,
/// in which op and iteration), or "".
std::string run(const Program &program, const std::vector<Matrix> &inputs, std::vector<Matrix> &outputs);

/// Checks a program without values: colors, memory, and that every receive has an earlier send and the other way round.
std::string check(const Program &program);

} // namespace intarsia::wafer

#endif
