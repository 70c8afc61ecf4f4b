//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ScalarBuilder.h"

#include "dialects/Interfaces/Interfaces.h"

using namespace mlir;
using namespace intarsia;

AffineExpr intarsia::elementCount(MLIRContext *context, llvm::ArrayRef<AffineExpr> sizes) {
  AffineExpr count = getAffineConstantExpr(1, context);
  for (AffineExpr size : sizes)
    count = count * size;
  return count;
}

TypedAttr intarsia::neutralElement(vector::CombiningKind kind, Type type) {
  using Kind = vector::CombiningKind;
  if (auto floats = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floats.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics);
    if (kind == Kind::MUL)
      value = APFloat::getOne(semantics);
    else if (kind == Kind::MAXIMUMF || kind == Kind::MINIMUMF)
      value = APFloat::getInf(semantics, /*Negative=*/kind == Kind::MAXIMUMF);
    else if (kind == Kind::MAXNUMF || kind == Kind::MINNUMF)
      value = APFloat::getNaN(semantics);
    return FloatAttr::get(type, value);
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  APInt value = APInt::getZero(bits);
  if (kind == Kind::MUL)
    value = APInt(bits, 1);
  else if (kind == Kind::MAXSI)
    value = APInt::getSignedMinValue(bits);
  else if (kind == Kind::MINSI)
    value = APInt::getSignedMaxValue(bits);
  else if (kind == Kind::MINUI || kind == Kind::AND)
    value = APInt::getAllOnes(bits);
  return IntegerAttr::get(type, value);
}

//===-- Contractions ------------------------------------------------------------------------------------------===//

ContractionLoop ContractionMaps::kindOf(unsigned loop) const {
  bool isInLeft = left.isFunctionOfDim(loop), isInRight = right.isFunctionOfDim(loop);
  if (isInLeft && isInRight)
    return result && result.isFunctionOfDim(loop) ? ContractionLoop::Batch : ContractionLoop::Depth;
  return isInLeft ? ContractionLoop::Row : ContractionLoop::Column;
}

llvm::SmallVector<unsigned> ContractionMaps::loops(ContractionLoop kind) const {
  llvm::SmallVector<unsigned> found;
  for (unsigned loop = 0; loop < left.getNumDims(); ++loop)
    if (kindOf(loop) == kind)
      found.push_back(loop);
  return found;
}

std::optional<int64_t> intarsia::dimensionOf(AffineMap map, unsigned loop) {
  if (std::optional<unsigned> position = map.getResultPosition(getAffineDimExpr(loop, map.getContext())))
    return *position;
  return std::nullopt;
}

std::optional<unsigned> intarsia::loopOf(AffineMap map, int64_t dimension) {
  auto loop = llvm::dyn_cast<AffineDimExpr>(map.getResult(dimension));
  return loop ? std::optional(loop.getPosition()) : std::nullopt;
}

std::optional<int64_t> intarsia::sharedDimension(AffineMap from, int64_t dimension, AffineMap to) {
  std::optional<unsigned> loop = loopOf(from, dimension);
  return loop ? dimensionOf(to, *loop) : std::nullopt;
}

Value ContractionOpInterface::getBias() {
  MutableOperandRange bias = getBiasOperand();
  return bias.empty() ? Value() : bias.begin()->get();
}

bool ContractionOpInterface::hasStoredRight() {
  auto stored = llvm::dyn_cast<StoredOperandOpInterface>(getOperation());
  return stored && stored.getStoredOperand(getRightOperand().getOperandNumber()) == StoredOperand::Matrix;
}

ContractionOpInterface ContractionOpInterface::cloneWith(OpBuilder &builder, Location location, Type result, Value left,
                                                         Value right, Value bias) {
  auto clone = llvm::cast<ContractionOpInterface>(builder.clone(*getOperation()));
  clone->setLoc(location);
  clone->getResult(0).setType(result);
  clone.getLeftOperand().set(left);
  clone.getRightOperand().set(right);
  clone.getBiasOperand().assign(bias ? ValueRange(bias) : ValueRange());
  return clone;
}

ContractionOpInterface intarsia::asProductWithWeight(Operation *op) {
  auto product = llvm::dyn_cast_if_present<ContractionOpInterface>(op);
  if (!product || product.getLeftRead() != LeftRead::Rows || !product.hasStoredRight() || !product.givesSums())
    return nullptr;
  // Features of rows are last, and the matrix is [features of the result, features of the left side].
  ContractionMaps maps = product.getMaps();
  auto sharedWithLast = [&](AffineMap map) { return sharedDimension(map, map.getNumResults() - 1, maps.right); };
  bool isMatrix = maps.right.getNumResults() == 2 && sharedWithLast(maps.result) == 0 && sharedWithLast(maps.left) == 1;
  return isMatrix ? product : nullptr;
}

#include "dialects/Interfaces/BlockFormatInterface.cpp.inc"
#include "dialects/Interfaces/ContractionOpInterface.cpp.inc"
#include "dialects/Interfaces/CostOpInterface.cpp.inc"
#include "dialects/Interfaces/KernelOpInterfaces.cpp.inc"
#include "dialects/Interfaces/KernelRoot.cpp.inc"
#include "dialects/Interfaces/ReferenceOpInterface.cpp.inc"
#include "dialects/Interfaces/SizeOpInterface.cpp.inc"
