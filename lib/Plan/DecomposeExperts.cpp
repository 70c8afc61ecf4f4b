//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ModelShape.h"
#include "lib/Plan/Passes.h"

namespace intarsia::plan {
#define GEN_PASS_DEF_PLANDECOMPOSEEXPERTS
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

/// Returns true if the catalogue's shape has experts. An unknown shape is refused later, when its cost is computed.
static bool hasExperts(ModelOp model) {
  if (!model.getShape())
    return false;
  llvm::Expected<const ModelShape *> shape = findShape(*model.getShape());
  if (shape)
    return (*shape)->experts > 0;
  llvm::consumeError(shape.takeError());
  return false;
}

/// Returns the placement of the experts of a decode placed by hand: the same pool, and inside the decode's replicas
/// where these are given.
static fleet::PlacementAttr placeOfExperts(fleet::PlacementAttr decode) {
  if (!decode || decode.isPoolOnly())
    return decode;
  return fleet::PlacementAttr::get(decode.getContext(), decode.getPool(), 1, 1, 1, 1, 1, std::nullopt, 1, StringAttr(),
                                   /*aggregated=*/true);
}

namespace {
struct PlanDecomposeExperts : plan::impl::PlanDecomposeExpertsBase<PlanDecomposeExperts> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    for (DecodeOp decode : plan::collect<DecodeOp>(getOperation())) {
      if (decode.getExperts() || !hasExperts(tables.lookupNearestSymbolFrom<ModelOp>(decode, decode.getModelAttr())))
        continue;
      OpBuilder builder(decode);
      auto experts = ExpertsOp::create(builder, decode.getLoc(), ExpertsType::get(&getContext()), decode.getModelAttr(),
                                       decode.getLabelAttr(), placeOfExperts(decode.getPlaceAttr()),
                                       decode.getTogetherAttr(), decode.getApartAttr(), decode.getWorkAttr());
      experts->setDiscardableAttrs(decode->getDiscardableAttrDictionary());
      decode.getExpertsMutable().assign(experts.getExperts());
    }
  }
};
} // namespace
