//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_WAFER_ARRAYS_H
#define INTARSIA_TOOLS_WAFER_ARRAYS_H

#include "lib/Runtime/Wafer/Functional.h"
#include "llvm/Support/Error.h"

namespace intarsia {

/// Reads the inputs of a program from .npy files, f16 or f32 of two dimensions, in the order of its arguments.
llvm::Expected<std::vector<wafer::Matrix>> readInputs(const wafer::Program &program, llvm::ArrayRef<std::string> files);

/// Writes a matrix as f32.
llvm::Error writeOutput(const wafer::Matrix &matrix, const std::string &file);

} // namespace intarsia

#endif
