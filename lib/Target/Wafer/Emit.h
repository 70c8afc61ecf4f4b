//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Programs as sources for machines: what people compile with the tools of a manufacturer. Neither compiler is here, so
// the tests read the sources with parsers and headers of their own, and run them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_EMIT_H
#define INTARSIA_LIB_TARGET_WAFER_EMIT_H

#include "lib/Runtime/Wafer/Program.h"
#include "llvm/Support/Error.h"

namespace intarsia::wafer {

struct EmittedFile {
  std::string name, text;
};

/// Returns CSL, the language of Cerebras' SDK: a layout with the routes of all colors, and a program for each class of
/// cores that do the same. The error names what cannot be said in it: paths that move, and more colors, queues or tasks
/// than a core has.
llvm::Expected<std::vector<EmittedFile>> emitCsl(const Program &program);

/// Returns kernels for TT-Metalium: a reader, a writer and one that computes for each core, where they differ, and
/// plan.json with the circular buffers, semaphores and operands that a host sets up. The error names what they do not
/// do: arithmetic that does not keep the zeros that pad tiles of 32 x 32, and more buffers or semaphores than a core
/// has.
llvm::Expected<std::vector<EmittedFile>> emitMetalium(const Program &program);

} // namespace intarsia::wafer

#endif
