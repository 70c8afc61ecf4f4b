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

/// How heads lie on the columns of a grid: as wafer.dist_attention says. Key head `group * parts + part` has the
/// columns of cores `group * columns` and the next ones; each has pairs of its features.
struct PackedHeads {
  int64_t heads = 1;           ///< of keys
  int64_t group = 1;           ///< query heads for each of them
  int64_t features = 0;        ///< of a head; even
  int64_t parts = 1, part = 0; ///< heads on the same columns of cores; which of them it is
  int64_t columns = 1;         ///< of cores for a head
  int64_t tile = 2;            ///< features of a core; even

  struct Place {
    int64_t head = 0, feature = 0;
  };
  /// Returns what a column of the matrix has; nothing if it pads.
  std::optional<Place> at(int64_t column) const;
};

enum class ViewKind {
  Strided,     ///< element (r, c) is element `offset + r * rowStride + c * columnStride` of the operand
  Gathered,    ///< the same, with the number that element r of the operand `indices` has in place of r
  Heads,       ///< rows of tokens, `group` each: [tokens, heads * group, features]
  Positions,   ///< of tokens, for each of these rows
  Frequencies, ///< one for each pair of features
  Cache,       ///< pages [pages, heads, tokens of a page, features], as wafer.dist_append spreads their tokens
  Codes,       ///< quantized values: element (r, c) is input feature r of output feature `offset + c`
  Scales       ///< of them, in the view's type: that of input feature `shared * r`
};

/// How the quantized values of a matrix [output features, input features] lie in an operand: in panels of 32 output
/// features, as dialects/Rt/BlockPanels.h says, of 4 or 8 bits with a scale for each block.
struct QuantizedPanels {
  int64_t bits = 4, integerOffset = 0;
  int64_t depth = 1;  ///< input features
  int64_t block = 32; ///< input features that share a scale
  int64_t unitDepth = 32, unitScaleBytes = 0, unitBytes = 0;
  int64_t shared = 1; ///< input features for each row of a matrix of scales

  int64_t panelBytes() const { return (depth + unitDepth - 1) / unitDepth * unitBytes; }
  /// Returns a quantized value.
  float code(const uint8_t *data, int64_t output, int64_t input) const;
  /// Returns where the scale of a value is, in bytes.
  int64_t scaleAt(int64_t output, int64_t input, int64_t scaleBytes) const;
};

/// Where a matrix of a program lies in an operand of a kernel. No offset or stride is negative. A matrix with `hasRows`
/// has rows of the launch: its row r is row i + r where the program computes rows from i on.
struct MatrixView {
  ViewKind kind = ViewKind::Strided;
  int64_t operand = 0; ///< inputs of the kernel, then its outputs
  itx_dtype type = ITX_F32;
  bool hasRows = false;
  int64_t offset = 0, rowStride = 0, columnStride = 0;
  int64_t indices = 0;
  PackedHeads heads;
  QuantizedPanels panels;

  bool isQuantized() const { return kind == ViewKind::Codes || kind == ViewKind::Scales; }
  /// Rows of the matrix for a row of a launch.
  int64_t rowsEach() const { return kind == ViewKind::Heads || kind == ViewKind::Positions ? heads.group : 1; }
  /// Returns the elements that the operand has at least in a launch of so many rows, or bytes if it is quantized; none
  /// if they need more than 62 bits. What is gathered, and caches, are checked where they are read.
  std::optional<int64_t> elements(int64_t launchRows, int64_t rows, int64_t columns) const;
};

/// How a kernel of caches finds the tokens of its launch, by operands and sizes of the launch.
struct CacheOperands {
  int64_t positions = 0, sequences = 0, table = 0; ///< operands of int64
  int64_t tableSize = 0;                           ///< the size that says how many pages a sequence has in the table
  int64_t page = 1;                                ///< tokens of a page
  bool appends = false;                            ///< puts tokens into a cache, one a program
};

/// A program that computes some rows of a launch.
struct RowsProgram {
  int64_t rows = 1;
  double cycles = 0; ///< predicted
  Program program;
  std::vector<MatrixView> inputs, outputs; ///< by argument of the program
};

/// The way of a weight from where the program for one row has it to where programs for several rows do.
struct Relayout {
  int64_t argument = 0; ///< of all programs of its kernel
  double cycles = 0;    ///< predicted
  Program program;      ///< with the matrix as its only input and its only output
};

/// Executions of a program, one after another.
struct RowsStep {
  const RowsProgram *program = nullptr;
  int64_t times = 0;
};

/// A kernel, whose launches execute its programs until all rows are computed.
struct WaferKernel {
  uint32_t index = 0;   ///< in the artifact
  int64_t operands = 0; ///< inputs and outputs of a launch
  SizeExpression rows;  ///< of a launch
  std::optional<CacheOperands> cache;
  std::vector<RowsProgram> programs; ///< the one with the most rows first, the last with one
  std::vector<Relayout> relayouts;   ///< before a launch executes programs for several rows

  /// Returns the executions that compute so many rows, with padding where that is faster.
  std::vector<RowsStep> stepsFor(int64_t count) const;
  /// Returns the cycles of a launch for so many rows.
  double cyclesFor(int64_t count) const;
  double relayoutCycles() const;
  /// Returns how an argument of a program comes to where the program has it; null if it is loaded there.
  const Relayout *relayoutOf(const RowsProgram &program, int64_t argument) const;
};

/// Returns the text of an object.
std::string writeObject(const std::vector<WaferKernel> &kernels);

/// Reads an object; `name` starts each message. ITX_CORRUPT says what is wrong: what the programs name exists, and
/// `check` accepts each of them.
Status readObject(std::string_view text, const std::string &name, std::vector<WaferKernel> &kernels);

} // namespace intarsia::wafer

#endif
