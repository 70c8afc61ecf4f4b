//===- ByteResultEmitter.h - Results that are quantized where they are computed ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_BYTERESULTEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_BYTERESULTEMITTER_H

#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// The result of a kernel that is given in integers of 8 bits, for a kernel that multiplies them
/// (fuse-quantize-results): an nn.quantize whose values and scales are results.
class ByteResultEmitter : public LoopEmitter {
public:
  ByteResultEmitter(FunctionEmitter &function, TensorEmitter &tensors)
      : LoopEmitter(function), function(function), memory(function), tensors(tensors) {}

  /// Finds the op. Fails with a message if there are two, or one of another format: scales are known, or there is one
  /// for each `block` features, of which a row has a multiple; `block` 0: scales are known.
  mlir::LogicalResult find(mlir::Operation *root, int64_t block);
  explicit operator bool() const { return bool(quantize); }
  /// Returns true if scales are 1, so that each element is quantized alone.
  bool hasUnitScale() { return quantize && quantize.getUnitScale(); }
  nn::QuantizeOp getQuantize() const { return quantize; }
  /// Returns elements of what is quantized, times their factors.
  Element evaluate(llvm::ArrayRef<Index> at, int64_t width);
  /// Quantizes and stores elements whose scale is 1, of the row-major row `flat` of the result.
  mlir::LogicalResult storeUnit(mlir::Value flat, llvm::ArrayRef<Index> at, int64_t width);
  /// Stores the scale of a row, if it is 1.
  void storeUnitScale(mlir::Value flat);
  /// Returns the output that a result of the op is; null if the kernel does not give it.
  const Storage *outputOf(mlir::Value result);

private:
  FunctionEmitter &function;
  MemoryEmitter memory;
  TensorEmitter &tensors;
  nn::QuantizeOp quantize; ///< null if all results are floats
};

} // namespace intarsia::cpu

#endif
