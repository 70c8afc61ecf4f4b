//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_WAFER_PICTURE_H
#define INTARSIA_TOOLS_WAFER_PICTURE_H

#include "lib/Runtime/Wafer/Timing.h"
#include "llvm/Support/raw_ostream.h"

namespace intarsia {

/// What a picture shows of one program.
struct Pictured {
  wafer::Program program;
  wafer::Timing timing;
  wafer::TimingOfCores cores;
};

/// Draws programs as SVG, one below the other: heat maps of the load of links, of waiting and of arithmetic, and the
/// memory of a core by buffers. Cores of large grids are drawn in squares of several, with their largest value.
void drawPicture(llvm::raw_ostream &out, llvm::ArrayRef<Pictured> programs);

} // namespace intarsia

#endif
