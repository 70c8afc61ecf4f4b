//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Passes.h"

namespace intarsia::plan {
#define GEN_PASS_DEF_PLANDECOMPOSELLM
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

namespace {
struct PlanDecomposeLlm : plan::impl::PlanDecomposeLlmBase<PlanDecomposeLlm> {
  void runOnOperation() override {
    for (LlmOp llm : plan::collect<LlmOp>(getOperation())) {
      for (Value input : llm.getInputs())
        if (!isa<TextType, FeaturesType>(input.getType())) {
          llm.emitError() << "'agent.llm' reads " << input.getType() << "; run plan-decompose-multimodal before";
          return signalPassFailure();
        }
      OpBuilder builder(llm);
      Type text = TextType::get(&getContext()), cache = CacheType::get(&getContext());
      auto prefill = PrefillOp::create(builder, llm.getLoc(), cache, text, llm.getModelAttr(), llm.getInputs(),
                                       llm.getInstructionTokensAttr(), llm.getSharedInstructionsAttr(), AmountAttr(),
                                       AmountAttr(), llm.getLabelAttr(), llm.getPlaceAttr(), llm.getTogetherAttr(),
                                       llm.getApartAttr(), WorkAttr());
      auto transfer = KvTransferOp::create(builder, llm.getLoc(), cache, prefill.getCache(), SymbolRefAttr(),
                                           SymbolRefAttr(), FloatAttr(), FloatAttr());
      auto decode = DecodeOp::create(builder, llm.getLoc(), text, llm.getModelAttr(), transfer.getResult(),
                                     prefill.getFirst(), llm.getSizeAttr(), AmountAttr(), llm.getLabelAttr(),
                                     llm.getPlaceAttr(), llm.getTogetherAttr(), llm.getApartAttr(), WorkAttr());
      for (Operation *piece : {prefill.getOperation(), decode.getOperation()})
        piece->setDiscardableAttrs(llm->getDiscardableAttrDictionary());
      llm.getText().replaceAllUsesWith(decode.getText());
      llm.erase();
    }
  }
};
} // namespace
