//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

//===-- Route --------------------------------------------------------------------------------------------------===//

LogicalResult RouteOp::verify() {
  if (failed(verifyRank(*this, "logits", getLogits(), 2)))
    return failure();
  int64_t experts = lastSize(getLogits()), topK = getTopK();
  if (ShapedType::isDynamic(experts))
    return emitOpError() << "logits is " << getLogits().getType() << ": only the number of tokens may be dynamic";
  if (topK < 1 || topK > experts)
    return emitOpError() << "top_k is " << topK << ", logits are of " << experts << " experts";
  return success();
}

LogicalResult RouteOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, ValueRange operands,
                                        DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                        SmallVectorImpl<Type> &results) {
  RouteOp::Adaptor op(operands, attributes, properties, regions);
  auto logits = dyn_cast<RankedTensorType>(op.getLogits().getType());
  if (!logits || logits.getRank() != 2 || op.getTopK() < 1)
    return emitOptionalError(location, "'nn.route' op needs logits of rank 2 and a top_k of at least 1");
  SmallVector<int64_t> shape = {logits.getDimSize(0), static_cast<int64_t>(op.getTopK())};
  results.push_back(RankedTensorType::get(shape, IntegerType::get(context, 32)));
  results.push_back(RankedTensorType::get(shape, Float32Type::get(context)));
  return success();
}

SmallVector<Sizes> RouteOp::inferResultSizes(SizesRange sizes) {
  Sizes result = {sizes[0][0], getAffineConstantExpr(getTopK(), getContext())};
  return {result, result};
}

SizePairs RouteOp::getEqualSizes(SizesRange) { return {}; }

/// Each of the chosen is found among all.
Work RouteOp::getWork(SizesRange operandSizes, SizesRange) {
  AffineExpr logits = elementCount(getContext(), operandSizes[0]);
  return {logits * (2 * getTopK()), logits};
}

//===-- Experts ------------------------------------------------------------------------------------------------===//

LogicalResult ExpertsOp::verify() {
  if (failed(verifyRank(*this, "input", getInput(), 2)) || failed(verifyRank(*this, "indices", getIndices(), 2)) ||
      failed(verifyRank(*this, "weights", getWeights(), 2)) || failed(verifyRank(*this, "gate_up", getGateUp(), 4)) ||
      failed(verifyRank(*this, "down", getDown(), 3)))
    return failure();
  RankedTensorType input = typeOf(getInput()), indices = typeOf(getIndices()), weights = typeOf(getWeights());
  RankedTensorType gateUp = typeOf(getGateUp()), down = typeOf(getDown());
  if (!gateUp.hasStaticShape() || !down.hasStaticShape())
    return emitOpError() << (gateUp.hasStaticShape() ? "down is " : "gate_up is ")
                         << (gateUp.hasStaticShape() ? down : gateUp) << ", sizes of weights must be static";
  if (gateUp.getDimSize(1) != 2)
    return emitOpError() << "gate_up has " << gateUp.getDimSize(1) << " matrices an expert, must have 2";
  if (failed(verifyCount(*this, "indices", indices.getDimSize(0), "tokens", "input", input.getDimSize(0))) ||
      failed(verifyCount(*this, "weights", weights.getDimSize(0), "tokens", "input", input.getDimSize(0))) ||
      failed(
          verifyCount(*this, "weights", weights.getDimSize(1), "experts a token", "indices", indices.getDimSize(1))) ||
      failed(verifyCount(*this, "gate_up", gateUp.getDimSize(3), "input features", "input", input.getDimSize(1))) ||
      failed(verifyCount(*this, "down", down.getDimSize(0), "experts", "gate_up", gateUp.getDimSize(0))) ||
      failed(verifyCount(*this, "down", down.getDimSize(1), "output features", "input", input.getDimSize(1))) ||
      failed(verifyCount(*this, "down", down.getDimSize(2), "input features", "gate_up", gateUp.getDimSize(2))))
    return failure();
  if (Value bias = getGateUpBias()) {
    if (failed(verifyRank(*this, "gate_up_bias", bias, 3)))
      return failure();
    if (typeOf(bias).getShape() != gateUp.getShape().drop_back())
      return emitOpError() << "gate_up_bias is " << bias.getType() << ", gate_up is " << gateUp;
  }
  if (Value bias = getDownBias()) {
    if (failed(verifyRank(*this, "down_bias", bias, 2)))
      return failure();
    if (typeOf(bias).getShape() != down.getShape().drop_back())
      return emitOpError() << "down_bias is " << bias.getType() << ", down is " << down;
  }
  if (!(getLimit().isFinite() && getLimit().convertToFloat() > 0))
    return emitOpError() << "limit is " << getLimit().convertToFloat() << ", must be positive";
  if (BlockFormatAttr format = getIntermediateFormatAttr();
      format && (format.getAxis() != 1 || format.hasTensorScale()))
    return emitOpError() << "intermediate_format is " << format
                         << ", must be along axis 1 and have no scale for the whole tensor";
  return verifyPrecision(*this, getPrecision());
}

LogicalResult ExpertsOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
                                          OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {
  results.push_back(operands.front().getType());
  return success();
}

SmallVector<Sizes> ExpertsOp::inferResultSizes(SizesRange sizes) { return {sizes[0]}; }

SizePairs ExpertsOp::getEqualSizes(SizesRange sizes) {
  return {
      {sizes[0][0], sizes[1][0]}, {sizes[0][0], sizes[2][0]}, {sizes[1][1], sizes[2][1]}, {sizes[0][1], sizes[3][3]}};
}

/// Returns the number of experts that a router chooses from, which may be more than the op has; 0 if it is not known.
static int64_t routedExperts(ExpertsOp op) {
  Operation *source = op.getIndices().getDefiningOp();
  while (isa_and_nonnull<linalg::GenericOp>(source) && cast<linalg::GenericOp>(source).getNumDpsInputs() == 1)
    source = source->getOperand(0).getDefiningOp();
  auto route = dyn_cast_if_present<RouteOp>(source);
  return route ? typeOf(route.getLogits()).getDimSize(1) : 0;
}

/// Tokens choose all experts equally often: if other ranks have some of them, these do that share of the work.
Work ExpertsOp::getWork(SizesRange operandSizes, SizesRange) {
  AffineExpr rows = operandSizes[1][0] * operandSizes[1][1];
  int64_t own = typeOf(getGateUp()).getDimSize(0);
  if (int64_t all = routedExperts(*this); all > own)
    rows = (rows * own).ceilDiv(all);
  AffineExpr hidden = operandSizes[3][3], intermediate = operandSizes[3][2];
  return {rows * hidden * intermediate * 6, rows * intermediate};
}

//===-- What experts multiply ----------------------------------------------------------------------------------===//

OpOperand &ExpertsOp::getLeftOperand() { return getInputMutable(); }

SmallVector<OpOperand *> ExpertsOp::getRightOperands() { return {&getGateUpMutable(), &getDownMutable()}; }

MutableOperandRange ExpertsOp::getBiasOperand() { return getGateUpBiasMutable(); }

/// Loops are token, expert, gate or up, intermediate feature, feature of the input.
ContractionMaps ExpertsOp::getMaps() {
  auto map = [&](ArrayRef<unsigned> loops) { return AffineMap::getMultiDimMapWithTargets(5, loops, getContext()); };
  return {map({0, 4}), map({1, 2, 3, 4}), /*result=*/{}};
}

LeftRead ExpertsOp::getLeftRead() { return LeftRead::Gathered; }

StoredOperand ExpertsOp::getStoredOperand(unsigned operand) {
  if (operand < getGateUpMutable().getOperandNumber())
    return StoredOperand::None;
  return operand <= getDownMutable().getOperandNumber() ? StoredOperand::Matrix : StoredOperand::Vector;
}

RowInput ExpertsOp::getRowInput() { return rowInputOf(getInput()); }
