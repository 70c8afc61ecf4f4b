//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

LogicalResult CandidatesOp::verify() {
  if (failed(verifyRank(*this, "logits", getLogits(), 2)) ||
      failed(verifyRank(*this, "temperatures", getTemperatures(), 2)))
    return failure();
  RankedTensorType logits = typeOf(getLogits()), temperatures = typeOf(getTemperatures());
  int64_t vocabulary = logits.getDimSize(1), count = getCount();
  if (ShapedType::isDynamic(vocabulary))
    return emitOpError() << "logits is " << logits << ": only the number of rows may be dynamic";
  if (ShapedType::isDynamic(temperatures.getDimSize(1)) || temperatures.getDimSize(1) < 1 ||
      temperatures.getDimSize(1) > mostTemperatures)
    return emitOpError() << "temperatures is " << temperatures << ": a row has 1 to " << mostTemperatures;
  if (count < 1 || count > vocabulary)
    return emitOpError() << "count is " << count << ", a row has " << vocabulary << " logits";
  if (count > largestCount)
    return emitOpError() << "count is " << count << ", at most " << largestCount << " are possible";
  return verifyCount(*this, "temperatures", temperatures.getDimSize(0), "rows", "logits", logits.getDimSize(0));
}

LogicalResult CandidatesOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                             ValueRange operands, DictionaryAttr attributes,
                                             OpaqueProperties properties, RegionRange regions,
                                             SmallVectorImpl<Type> &results) {
  CandidatesOp::Adaptor op(operands, attributes, properties, regions);
  auto logits = dyn_cast<RankedTensorType>(op.getLogits().getType());
  auto temperatures = dyn_cast<RankedTensorType>(op.getTemperatures().getType());
  if (!logits || logits.getRank() != 2 || !temperatures || temperatures.getRank() != 2 || op.getCount() < 1)
    return emitOptionalError(location,
                             "'nn.candidates' op needs logits and temperatures of rank 2 and a count of at least 1");
  int64_t rows = known(logits.getDimSize(0), temperatures.getDimSize(0));
  SmallVector<int64_t> chosen = {rows, static_cast<int64_t>(op.getCount())};
  Type f32 = Float32Type::get(context);
  results.push_back(RankedTensorType::get(chosen, f32));
  results.push_back(RankedTensorType::get(chosen, IntegerType::get(context, 32)));
  results.push_back(RankedTensorType::get({rows, temperatures.getDimSize(1)}, f32));
  return success();
}

SmallVector<Sizes> CandidatesOp::inferResultSizes(SizesRange sizes) {
  Sizes chosen = {sizes[0][0], getAffineConstantExpr(getCount(), getContext())};
  return {chosen, chosen, {sizes[0][0], sizes[1][1]}};
}

SizePairs CandidatesOp::getEqualSizes(SizesRange sizes) { return {{sizes[0][0], sizes[1][0]}}; }

/// A logit is compared with those that are larger so far, and has a power for each temperature.
Work CandidatesOp::getWork(SizesRange operandSizes, SizesRange) {
  AffineExpr logits = elementCount(getContext(), operandSizes[0]);
  return {logits * (2 * getCount()), logits * operandSizes[1][1]};
}
