//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Passes.h"

namespace intarsia::plan {
#define GEN_PASS_DEF_PLANDECOMPOSERETRIEVE
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

namespace {
struct PlanDecomposeRetrieve : plan::impl::PlanDecomposeRetrieveBase<PlanDecomposeRetrieve> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    for (RetrieveOp retrieve : plan::collect<RetrieveOp>(getOperation())) {
      OpBuilder builder(retrieve);
      auto index = tables.lookupNearestSymbolFrom<IndexOp>(retrieve, retrieve.getIndexAttr());
      Value query = retrieve.getQuery();
      fleet::PlacementAttr place = retrieve.getPlaceAttr();
      StringAttr together = retrieve.getTogetherAttr(), apart = retrieve.getApartAttr();
      if (FlatSymbolRefAttr embedder = index.getEmbedderAttr()) {
        query = EmbedOp::create(builder, retrieve.getLoc(), agent::VectorType::get(&getContext()), embedder, query,
                                retrieve.getLabelAttr(), plan::poolOf(place), together, apart, WorkAttr());
        // A placement then applies to the embedder: the search runs outside the fleet.
        if (index.getLatency())
          place = {}, together = apart = {};
      }
      auto search = SearchOp::create(builder, retrieve.getLoc(), retrieve.getTexts().getType(), retrieve.getIndexAttr(),
                                     query, retrieve.getSizeAttr(), retrieve.getTopKAttr(), retrieve.getLabelAttr(),
                                     place, together, apart, WorkAttr());
      search->setDiscardableAttrs(retrieve->getDiscardableAttrDictionary());
      retrieve.getTexts().replaceAllUsesWith(search.getTexts());
      retrieve.erase();
    }
  }
};
} // namespace
