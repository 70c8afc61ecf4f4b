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

/// Where a matrix of a program lies in an operand of a kernel: element (r, c) is element `offset + r * rowStride + c *
/// columnStride` of the operand. None of them is negative. A matrix with `hasRows` has rows of the launch: its row r is
/// row i + r where the program computes rows from i on.
struct MatrixView {
  int64_t operand = 0; ///< inputs of the kernel, then its outputs
  itx_dtype type = ITX_F32;
  bool hasRows = false;
  int64_t offset = 0, rowStride = 0, columnStride = 0;

  /// Returns the elements that the operand has at least in a launch of so many rows; none if they need more than 62
  /// bits.
  std::optional<int64_t> elements(int64_t launchRows, int64_t rows, int64_t columns) const;
};

/// A program that computes some rows of a launch.
struct RowsProgram {
  int64_t rows = 1;
  double cycles = 0; ///< predicted
  Program program;
  std::vector<MatrixView> inputs, outputs; ///< by argument of the program
};

/// A kernel, whose launches execute its programs until all rows are computed.
struct WaferKernel {
  uint32_t index = 0;                ///< in the artifact
  int64_t operands = 0;              ///< inputs and outputs of a launch
  SizeExpression rows;               ///< of a launch
  std::vector<RowsProgram> programs; ///< the one with the most rows first, the last with one

  /// Returns the program that computes the next rows if so many are left: with padding if it is faster than those for
  /// fewer rows.
  const RowsProgram &programFor(int64_t left) const;
};

/// Returns the text of an object.
std::string writeObject(const std::vector<WaferKernel> &kernels);

/// Reads an object; `name` starts each message. ITX_CORRUPT says what is wrong: what the programs name exists, and
/// `check` accepts each of them.
Status readObject(std::string_view text, const std::string &name, std::vector<WaferKernel> &kernels);

} // namespace intarsia::wafer

#endif
