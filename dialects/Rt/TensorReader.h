//===- TensorReader.h - Elements of tensors as layouts store them -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_TENSORREADER_H
#define INTARSIA_DIALECTS_RT_TENSORREADER_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"

namespace intarsia {
class Integer;
class ScalarBuilder;
} // namespace intarsia

namespace intarsia::rt {

/// Reads back, in IR, what a TensorStorage of the same layout has stored.
class TensorReader {
public:
  virtual ~TensorReader() = default;
  /// Builds the element at `indices`, one of type index for each dimension of the tensor. It has the element type of
  /// the tensor.
  virtual mlir::Value buildElement(ScalarBuilder &b, llvm::ArrayRef<Integer> indices) const = 0;
};

} // namespace intarsia::rt

#endif
