//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_INTERFACES_H
#define INTARSIA_DIALECTS_INTERFACES_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"

namespace intarsia {

struct GgmlType;
namespace reference {
class ReferenceBuilder;
}
namespace nn {
enum class BlockScale : uint32_t;
}

/// Sizes of one tensor: an expression for each dimension, over the symbols of the enclosing function.
using Sizes = llvm::SmallVector<mlir::AffineExpr>;

/// Sizes that must be equal, two by two.
using SizePairs = llvm::SmallVector<std::pair<mlir::AffineExpr, mlir::AffineExpr>>;

/// The work of an op. Expressions in the enclosing function's symbols; null means none.
struct Work {
  mlir::AffineExpr flops;           ///< multiply and add counted apart
  mlir::AffineExpr transcendentals; ///< evaluations of exp, erf, tanh, …
};

/// Number of elements of a tensor with these sizes.
mlir::AffineExpr elementCount(mlir::MLIRContext *context, llvm::ArrayRef<mlir::AffineExpr> sizes);

/// The way in which an op reads an operand as it is stored.
enum class StoredOperand {
  None,   ///< it is computed
  Matrix, ///< the rows of matrices that the op multiplies by
  Table,  ///< rows that are looked up
  Vector, ///< one number for each feature
};

/// The rows of an operand that an op reads row by row.
struct RowInput {
  mlir::Value rows; ///< as they are in memory
  /// Ops between the rows and the operand, from the operand on, which the op computes as it reads each row. They say
  /// how it quantizes rows; none if it reads them as they are.
  llvm::SmallVector<mlir::Operation *, 2> quantization;
};

/// What a norm subtracts from a row and divides it by.
struct NormStatistics {
  bool isCentred = true; ///< the mean is subtracted, and the deviation is taken from it
  int64_t groups = 1;    ///< equal parts of the row, each with a mean and a deviation of its own
  double epsilon = 0;    ///< added to the variance
};

/// The way in which a contraction reads its left side.
enum class LeftRead {
  Rows,     ///< rows that lie in memory, each as a whole
  Window,   ///< what lies around positions of an image: windows of neighbours overlap
  Gathered, ///< rows, each with matrices of the right side that only a call chooses
};

/// The kind of a loop of a contraction. It follows from the sides that the loop indexes.
enum class ContractionLoop {
  Batch,  ///< products beside each other: both sides and the result
  Row,    ///< rows of the result: the left side
  Column, ///< columns of the result: the right side
  Depth,  ///< what is summed: both sides, and not the result
};

/// The elements that a contraction multiplies, as maps from its loops to the dimensions of its tensors:
/// `result[…] = sum left[…] * right[…]`, the sum over the loops that are not in the result.
struct ContractionMaps {
  mlir::AffineMap left, right;
  /// Null if the op's result is not the sums, but what it computes of them.
  mlir::AffineMap result;

  ContractionLoop kindOf(unsigned loop) const;
  llvm::SmallVector<unsigned> loops(ContractionLoop kind) const;
};

/// Returns the dimension that is indexed by a loop and by no other; nullopt if there is none.
std::optional<int64_t> dimensionOf(mlir::AffineMap map, unsigned loop);

/// Returns the loop that indexes a dimension; nullopt if several loops do.
std::optional<unsigned> loopOf(mlir::AffineMap map, int64_t dimension);

/// Returns the dimension of a tensor that is counted with a dimension of another one; nullopt if there is none.
std::optional<int64_t> sharedDimension(mlir::AffineMap from, int64_t dimension, mlir::AffineMap to);

/// An operand whose integers are indices.
struct IndexOperand {
  unsigned operand;
  llvm::StringRef name;   ///< of the operand, for messages: "positions"
  mlir::AffineExpr limit; ///< each integer must be less
  bool isGuarded = false; ///< true if kernels give a defined result for other integers
};

/// The operands of an op that dequantizes; null where it has none.
struct QuantizedOperands {
  mlir::Value values, scales, zeroPoints, tensorScale, groupIndices, codebook;
};

/// The same operands, if all that it has are constants.
struct QuantizedConstants {
  mlir::DenseElementsAttr values, scales, zeroPoints, tensorScale;
};

/// The contents of the blocks of a row of quantized values. A value is the quantized one times the scale of its block.
struct QuantizedBlocks {
  int64_t elementBits;       ///< 2, 4, 5, 6 or 8
  int64_t integerOffset = 0; ///< added to integers when they are stored, so that they are unsigned
  bool isE2M1 = false;       ///< elements are E2M1
  bool isE4M3 = false;       ///< elements are E4M3; if they are neither, they are integers
  nn::BlockScale scale;      ///< type of the scales of blocks, or of the scales of these
  int64_t block;             ///< elements that share a scale; 0: all of a row
  int64_t scaleBits = 0;     ///< bits of a block's integer scale (6: and of its minimum); 0: it is a `scale`
  bool hasMinima = false;    ///< each block has a minimum, which is added to its values (subtracted if scaleBits is 6)
  bool hasTensorScale = false; ///< there is a scale for the whole tensor, in addition to those of blocks
};

} // namespace intarsia

#include "dialects/Interfaces/KernelRoot.h.inc"

#include "dialects/Interfaces/BlockFormatInterface.h.inc"

#include "dialects/Interfaces/ContractionOpInterface.h.inc"
#include "dialects/Interfaces/CostOpInterface.h.inc"
#include "dialects/Interfaces/KernelOpInterfaces.h.inc"
#include "dialects/Interfaces/ReferenceOpInterface.h.inc"
#include "dialects/Interfaces/SizeOpInterface.h.inc"

namespace intarsia {

/// Returns the op as a contraction if it multiplies rows by one matrix that is read as it is stored, and gives the
/// sums; null for other ops. Passes that cut, join or quantize features rewrite only such ops.
ContractionOpInterface asProductWithWeight(mlir::Operation *op);

} // namespace intarsia

#endif
