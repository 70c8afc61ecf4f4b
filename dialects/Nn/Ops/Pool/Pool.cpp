//===- Pool.cpp - Combinations of the elements of windows -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"
#include "dialects/Nn/Ops/Windows.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

template <typename Op> static WindowAttributes attributesOf(Op op) {
  return {op.getWindow(), op.getStrides(), op.getDilations(), op.getPadsLow(), op.getPadsHigh(), op.getBeyondHigh()};
}

WindowDimension PoolOp::getWindowDimension(unsigned dimension) { return attributesOf(*this)[dimension]; }

LogicalResult PoolOp::verify() {
  if (failed(verifyWindows(*this, getInput(), attributesOf(*this), "positions beyond the pads")))
    return failure();
  if (getWithIndices() && getKind() != PoolKind::Max)
    return emitOpError() << "has indices of the kind '" << stringifyPoolKind(getKind()) << "', only 'max' has them";
  for (unsigned d = 0; d < getSpatialRank(); ++d) {
    WindowDimension window = getWindowDimension(d);
    for (int64_t pad : {window.padLow, window.padHigh})
      if (pad >= window.extent())
        return emitOpError() << "has a pad of " << pad << ", a window of " << window.extent()
                             << " would lie outside of its input";
    int64_t size = typeOf(getInput()).getDimSize(d + 1);
    if (!ShapedType::isDynamic(size) && failed(verifyResultSize(*this, d, window, size, window.windowsOf(size))))
      return failure();
  }
  return success();
}

LogicalResult PoolOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, ValueRange operands,
                                       DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                       SmallVectorImpl<Type> &results) {
  PoolOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  WindowAttributes windows = attributesOf(op);
  size_t spatial = op.getWindow().size();
  if (!input || input.getRank() != int64_t(spatial) + 2 || !windows.areComplete())
    return emitOptionalError(location,
                             "'nn.pool' op needs an input of [batch, spatial…, channels] and an entry of each "
                             "attribute for each spatial dimension");
  SmallVector<int64_t> shape(input.getShape());
  for (size_t d = 0; d < spatial; ++d) {
    WindowDimension window = windows[d];
    window.stride = std::max<int64_t>(window.stride, 1); // the verifier refuses others
    if (!ShapedType::isDynamic(shape[d + 1]))
      shape[d + 1] = std::max<int64_t>(window.windowsOf(shape[d + 1]), 0);
  }
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  if (op.getWithIndices())
    results.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

SmallVector<Sizes> PoolOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  for (unsigned d = 0; d < getSpatialRank(); ++d)
    result[d + 1] = getWindowDimension(d).windowsOf(result[d + 1]);
  return SmallVector<Sizes>(getNumResults(), result);
}

INTARSIA_NO_EQUAL_SIZES(PoolOp)

SizePairs PoolOp::getLeastSizes(SizesRange sizes) {
  SizePairs pairs;
  for (unsigned d = 0; d < getSpatialRank(); ++d) {
    int64_t least = std::max<int64_t>(getWindowDimension(d).leastForWindow(), 1);
    pairs.push_back({getAffineConstantExpr(least, getContext()), sizes[0][d + 1]});
  }
  return pairs;
}

Work PoolOp::getWork(SizesRange, SizesRange resultSizes) {
  int64_t positions = 1;
  for (int64_t size : getWindow())
    positions *= size;
  return workOfElements(*this, resultSizes[0], positions, 0);
}
