//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Shared by the verifiers of this dialect. A dynamic size agrees with any other.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_VERIFY_H
#define INTARSIA_DIALECTS_NN_VERIFY_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace intarsia::nn {

inline bool agree(int64_t a, int64_t b) {
  return mlir::ShapedType::isDynamic(a) || mlir::ShapedType::isDynamic(b) || a == b;
}

/// One of two sizes that agree: the inline one if there is one.
inline int64_t known(int64_t a, int64_t b) { return mlir::ShapedType::isDynamic(a) ? b : a; }

inline mlir::RankedTensorType typeOf(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }

inline mlir::LogicalResult verifyRank(mlir::Operation *op, llvm::StringRef name, mlir::Value value, int64_t rank) {
  if (typeOf(value).getRank() == rank)
    return mlir::success();
  return op->emitOpError() << name << " has rank " << typeOf(value).getRank() << ", must have rank " << rank;
}

/// Verifies that operands of a product of matrices may be rounded to a type; `others` are types that the op may have
/// too.
inline mlir::LogicalResult verifyPrecision(mlir::Operation *op, std::optional<mlir::Type> precision,
                                           llvm::StringRef others = "") {
  if (!precision || llvm::isa<mlir::Float16Type, mlir::BFloat16Type, mlir::FloatTF32Type>(*precision))
    return mlir::success();
  return op->emitOpError() << "has the precision " << *precision << ": f16, bf16" << others << " and tf32 are possible";
}

inline mlir::LogicalResult verifyLeastRank(mlir::Operation *op, llvm::StringRef name, mlir::Value value, int64_t rank) {
  if (typeOf(value).getRank() >= rank)
    return mlir::success();
  return op->emitOpError() << name << " has rank " << typeOf(value).getRank() << ", must have at least rank " << rank;
}

inline mlir::LogicalResult verifySameElement(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                                             llvm::StringRef otherName, mlir::Value other) {
  if (typeOf(value).getElementType() == typeOf(other).getElementType())
    return mlir::success();
  return op->emitOpError() << name << " holds " << typeOf(value).getElementType() << ", " << otherName << " holds "
                           << typeOf(other).getElementType();
}

/// `what` is what both sizes count: "weight has 384 input features, input has 768".
inline mlir::LogicalResult verifyCount(mlir::Operation *op, llvm::StringRef name, int64_t size, const llvm::Twine &what,
                                       llvm::StringRef otherName, int64_t otherSize) {
  if (agree(size, otherSize))
    return mlir::success();
  return op->emitOpError() << name << " has " << size << " " << what << ", " << otherName << " has " << otherSize;
}

inline int64_t lastSize(mlir::Value value) { return typeOf(value).getShape().back(); }

/// Parameters may be stored in a narrower type than that of what is computed.
inline mlir::LogicalResult verifyStoredElement(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                                               llvm::StringRef otherName, mlir::Value other) {
  unsigned width = typeOf(value).getElementTypeBitWidth(), otherWidth = typeOf(other).getElementTypeBitWidth();
  return width < otherWidth ? mlir::success() : verifySameElement(op, name, value, otherName, other);
}

/// Checks that a bias, if there is one, has an element of the input's type or a narrower one for each row of a weight,
/// of which there are `count`.
inline mlir::LogicalResult verifyBias(mlir::Operation *op, mlir::Value bias, mlir::Value input, const llvm::Twine &what,
                                      int64_t count) {
  if (!bias)
    return mlir::success();
  if (failed(verifyRank(op, "bias", bias, 1)) || failed(verifyStoredElement(op, "bias", bias, "input", input)))
    return mlir::failure();
  return verifyCount(op, "bias", lastSize(bias), what, "weight", count);
}

} // namespace intarsia::nn

#endif
