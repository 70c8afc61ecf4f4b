//===- MicrosoftBlocks.h - Matrices with a scale for each block of features ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_MICROSOFTBLOCKS_H
#define INTARSIA_IMPORT_ONNX_OPS_MICROSOFTBLOCKS_H

#include "lib/Import/Onnx/OpTable.h"
#include "llvm/Support/MathExtras.h"

namespace intarsia::onnx {

/// A matrix [outputs, inputs] of integers without a sign: (value - zero point) * scale, with a scale and a zero point
/// for each block of inputs. Values of an output follow one another in bytes, the first in the lowest bits.
struct BlockMatrix {
  int64_t outputs, inputs, bits, block; ///< block: 0 for one scale in a row
  GraphValue *values = nullptr, *scales = nullptr;
  GraphValue *zeros = nullptr;        ///< packed as values are, or floats; null: half of the range
  GraphValue *groupIndices = nullptr; ///< the block of each input; null: in their order

  int64_t groups() const { return block ? int64_t(llvm::divideCeil(inputs, block)) : 1; }
};

/// Refuses sizes that no matrix has.
bool checkBlocks(NodeContext &node, BlockMatrix &matrix);

/// Returns the matrix in f32, [outputs, inputs of whole blocks]; null if the node is refused.
mlir::Value blockMatrix(NodeContext &node, const BlockMatrix &matrix);

} // namespace intarsia::onnx

#endif
