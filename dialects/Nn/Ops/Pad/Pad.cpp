//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

#include <limits>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

LogicalResult PadOp::verify() {
  RankedTensorType input = typeOf(getInput());
  for (auto [name, amounts] : {std::pair("low", getLow()), std::pair("high", getHigh())})
    if (int64_t(amounts.size()) != input.getRank())
      return emitOpError() << "has " << amounts.size() << " entries of '" << name << "', input has rank "
                           << input.getRank();
  bool isConstant = getKind() == PadKind::Constant;
  for (int64_t d = 0; d < input.getRank(); ++d) {
    int64_t size = input.getDimSize(d), low = getLow()[d], high = getHigh()[d];
    if (!isConstant && (low < 0 || high < 0))
      return emitOpError() << "has the amount " << std::min(low, high) << ", only 'constant' takes elements away";
    if (ShapedType::isDynamic(size))
      continue;
    if (size + low < 0 || size + high < 0 || size + low + high < 0)
      return emitOpError() << "takes " << -(std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0))
                           << " elements away in dimension " << d << ", which has " << size;
    if (!isConstant && size == 0 && low + high != 0)
      return emitOpError() << "has no elements in dimension " << d << " to pad with";
  }
  if (!getValue())
    return success();
  if (!isConstant)
    return emitOpError() << "has a value, which is not for '" << stringifyPadKind(getKind()) << "'";
  if (getValue()->getType() != input.getElementType())
    return emitOpError() << "has a value of " << getValue()->getType() << ", input holds " << input.getElementType();
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                      DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                      SmallVectorImpl<Type> &results) {
  PadOp::Adaptor op(operands, attributes, properties, regions);
  auto input = dyn_cast<RankedTensorType>(op.getInput().getType());
  if (!input || int64_t(op.getLow().size()) != input.getRank() || int64_t(op.getHigh().size()) != input.getRank())
    return emitOptionalError(location, "'nn.pad' op needs a ranked input and amounts for each of its dimensions");
  // A size and two amounts have a sum of 64 bits.
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (ArrayRef<int64_t> amounts : {op.getLow(), op.getHigh()})
    for (int64_t amount : amounts)
      if (amount < -most || amount > most)
        return emitOptionalError(location, "'nn.pad' op has the amount ", amount, ", possible are ", -most, " to ",
                                 most);
  SmallVector<int64_t> shape(input.getShape());
  for (auto [d, size] : llvm::enumerate(shape))
    if (!ShapedType::isDynamic(size))
      size = std::max<int64_t>(size + op.getLow()[d] + op.getHigh()[d], 0); // the verifier refuses less
  results.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

SmallVector<Sizes> PadOp::inferResultSizes(SizesRange sizes) {
  Sizes result = sizes[0];
  for (auto [d, size] : llvm::enumerate(result))
    size = size + (getLow()[d] + getHigh()[d]);
  return {result};
}

INTARSIA_NO_EQUAL_SIZES(PadOp)

/// There are as many elements as are taken away, and one to read.
SizePairs PadOp::getLeastSizes(SizesRange sizes) {
  SizePairs pairs;
  for (auto [low, high, size] : llvm::zip_equal(getLow(), getHigh(), sizes[0])) {
    int64_t taken = -(std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0));
    int64_t least = getKind() == PadKind::Constant ? taken : low + high != 0;
    if (least != 0)
      pairs.push_back({getAffineConstantExpr(least, getContext()), size});
  }
  return pairs;
}

Work PadOp::getWork(SizesRange, SizesRange) { return {}; }

/// Nothing is padded.
OpFoldResult PadOp::fold(FoldAdaptor) {
  auto isZero = [](int64_t amount) { return amount == 0; };
  bool isSame = llvm::all_of(getLow(), isZero) && llvm::all_of(getHigh(), isZero) && getInput().getType() == getType();
  return isSame ? getInput() : OpFoldResult();
}
