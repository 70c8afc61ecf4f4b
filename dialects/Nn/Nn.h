//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_H
#define INTARSIA_DIALECTS_NN_H

#include "dialects/Interfaces/Interfaces.h"
#include "lib/Formats/GgmlTypes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace intarsia::nn {
/// True if two lists of types have equal element types and shapes that could be the same.
bool areCompatible(mlir::TypeRange a, mlir::TypeRange b);
/// The number of `nn.default`: i1 is 0 or 1, other types without a sign have one.
int64_t numberOf(mlir::IntegerAttr number);

/// A tensor of a cache, as the cache's format defines it.
struct CacheTensor {
  /// The suffix of its name, behind that of the cache: "parameters". Empty for the tensor of elements.
  llvm::StringRef name;
  mlir::Type element;
  /// True if it has a unit for each page; false: one for each sequence.
  bool isPaged;
  /// Sizes behind the number of pages or sequences.
  llvm::SmallVector<int64_t, 3> unit;
  /// Which of all dimensions counts the tokens of a page; -1: none.
  int64_t slotDimension;

  /// Returns the type with so many pages or sequences.
  mlir::RankedTensorType type(int64_t units) const {
    llvm::SmallVector<int64_t, 4> shape = {units};
    llvm::append_range(shape, unit);
    return mlir::RankedTensorType::get(shape, element);
  }
};

/// Size, stride, dilation and pads of a sliding window in one spatial dimension.
struct WindowDimension {
  int64_t window;       ///< positions
  int64_t stride = 1;   ///< from one window to the next
  int64_t dilation = 1; ///< from one position of a window to the next
  int64_t padLow = 0;   ///< positions before the image that windows reach
  int64_t padHigh = 0;  ///< positions behind it
  int64_t beyond = 0;   ///< positions behind these, of the image that windows read or of the one that they make

  /// Positions from the first of a window to the last.
  int64_t extent() const { return (window - 1) * dilation + 1; }
  /// Returns how many windows an image of this size has.
  template <typename Size> Size windowsOf(Size size) const {
    return divided(size + (padLow + padHigh + beyond - extent())) + 1;
  }
  /// Returns the size of the image that so many windows make.
  template <typename Size> Size madeBy(Size windows) const {
    return (windows - 1) * stride + (extent() + beyond - padLow - padHigh);
  }

  /// Returns the least size of an image that has a window.
  int64_t leastForWindow() const { return extent() - padLow - padHigh - beyond; }
  /// Returns the least number of windows that make an image.
  int64_t leastToMake() const {
    int64_t ofOne = extent() + beyond - padLow - padHigh;
    return ofOne >= 1 ? 1 : 1 + (1 - ofOne + stride - 1) / stride;
  }

private:
  int64_t divided(int64_t size) const { return size < 0 ? -1 : size / stride; }
  mlir::AffineExpr divided(mlir::AffineExpr size) const { return size.floorDiv(stride); }
  template <typename Size> Size divided(Size size) const { return size / stride; }
};
} // namespace intarsia::nn

#include "dialects/Nn/NnDialect.h.inc"
#include "dialects/Nn/NnEnums.h.inc"

namespace intarsia::nn {
/// An activation of a recurrent layer with its parameters.
struct RecurrentFunction {
  RecurrentActivation kind;
  float alpha = 0, beta = 0;
};
} // namespace intarsia::nn

#define GET_ATTRDEF_CLASSES
#include "dialects/Nn/NnAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Nn/NnOps.h.inc"

#endif
