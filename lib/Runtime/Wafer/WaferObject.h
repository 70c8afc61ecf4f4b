//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Kernels as programs of a wafer: what the compiler writes into an artifact and the device reads, as JSON.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_WAFEROBJECT_H
#define INTARSIA_LIB_RUNTIME_WAFER_WAFEROBJECT_H

#include "intarsia/module_abi.h"
#include "lib/Formats/SizeExpression.h"
#include "lib/Runtime/Wafer/Program.h"
#include "lib/Support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace intarsia::wafer {

/// Where a matrix of a program lies in an operand of a kernel: in execution i of the program, element (r, c) is
/// element `offset + i * step + r * rowStride + c * columnStride` of the operand. None of them is negative.
struct MatrixView {
  int64_t operand = 0; ///< inputs of the kernel, then its outputs
  itx_dtype type = ITX_F32;
  int64_t offset = 0, step = 0, rowStride = 0, columnStride = 0;

  /// Returns the elements that the operand has at least; none if they need more than 62 bits.
  std::optional<int64_t> elements(int64_t executions, int64_t rows, int64_t columns) const;
};

/// A kernel whose launch executes a program several times, for instance once for each row of its input.
struct WaferKernel {
  uint32_t index = 0;        ///< in the artifact
  int64_t operands = 0;      ///< inputs and outputs of a launch
  SizeExpression executions; ///< of the program in a launch
  Program program;
  std::vector<MatrixView> inputs, outputs; ///< by argument of the program
};

/// Returns the text of an object.
std::string writeObject(const std::vector<WaferKernel> &kernels);

/// Reads an object; `name` starts each message. ITX_CORRUPT says what is wrong: what the programs name exists, and
/// `check` accepts each of them.
Status readObject(std::string_view text, const std::string &name, std::vector<WaferKernel> &kernels);

} // namespace intarsia::wafer

#endif
