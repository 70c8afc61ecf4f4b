//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Passes.h"

namespace intarsia::plan {
#define GEN_PASS_DEF_PLANDECOMPOSEMULTIMODAL
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

namespace {
StringRef encoderKind(Type type) {
  return isa<ImageType>(type) ? "image" : isa<AudioType>(type) ? "audio" : isa<VideoType>(type) ? "video" : "";
}

struct PlanDecomposeMultimodal : plan::impl::PlanDecomposeMultimodalBase<PlanDecomposeMultimodal> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    for (LlmOp llm : plan::collect<LlmOp>(getOperation())) {
      OpBuilder builder(llm);
      for (OpOperand &input : llm.getInputsMutable()) {
        StringRef kind = encoderKind(input.get().getType());
        if (kind.empty())
          continue;
        // The verifier has checked that the model has this encoder.
        auto model = tables.lookupNearestSymbolFrom<ModelOp>(llm, llm.getModelAttr());
        auto encode = EncodeOp::create(builder, llm.getLoc(), FeaturesType::get(&getContext()),
                                       cast<FlatSymbolRefAttr>(model.getEncodersAttr().get(kind)), input.get(),
                                       llm.getLabelAttr(), plan::poolOf(llm.getPlaceAttr()), llm.getTogetherAttr(),
                                       llm.getApartAttr(), WorkAttr());
        input.set(encode.getFeatures());
      }
    }
  }
};
} // namespace
