//===- Constants.h - Weights that a module holds ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_CONSTANTS_H
#define INTARSIA_DIALECTS_NN_CONSTANTS_H

#include "dialects/Nn/Nn.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/MapVector.h"

#define GET_OP_CLASSES
#include "dialects/Nn/ConstantsOps.h.inc"

namespace intarsia::nn {

/// Constants of fewer bytes stay constants. An entry in the header of a weights file takes some 150 bytes, and a tensor
/// begins at a multiple of 64: below 1 KiB that is more than a fifth of the tensor itself.
inline constexpr int64_t leastWeightBytes = 1024;

/// Returns the bytes of a tensor as archives store it, i1 in a byte each; nullopt for elements that archives do not
/// hold, and for more bytes than 64 bits count.
std::optional<int64_t> storedBytes(mlir::ShapedType type);

/// Collects tensors that become weights of the module. Tensors with the same type and bytes are one.
class ConstantsBuilder {
public:
  explicit ConstantsBuilder(mlir::ModuleOp module) : module(module) {}

  /// Adds elements and returns their key. The bytes are not copied but for i1. They must be as storedBytes() says.
  mlir::StringAttr add(mlir::DenseResourceElementsAttr elements);
  /// The same for elements that are no splat.
  mlir::StringAttr add(mlir::DenseElementsAttr elements);
  /// Writes the nn.constants op and returns its name. There is at least one tensor.
  mlir::FlatSymbolRefAttr finish();
  bool empty() const { return tensors.empty(); }

private:
  mlir::ModuleOp module;
  llvm::MapVector<mlir::StringAttr, mlir::DenseResourceElementsAttr> tensors;
  llvm::DenseMap<mlir::Attribute, mlir::StringAttr> keys; ///< of attributes that were added
  llvm::DenseMap<llvm::hash_code, llvm::SmallVector<mlir::StringAttr, 1>> byBeginning;
};

} // namespace intarsia::nn

#endif
