//===- QuantizeNarrowStored.cpp - Matrices of an archive whose values fit fewer bits -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Quantize/Quantize.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZENARROWSTORED
#include "lib/Quantize/Passes.h.inc"

namespace {
struct QuantizeNarrowStored : impl::QuantizeNarrowStoredBase<QuantizeNarrowStored> {
  using QuantizeNarrowStoredBase::QuantizeNarrowStoredBase;

  void runOnOperation() override {
    std::vector<std::string> given(formats.begin(), formats.end());
    llvm::Expected<llvm::StringMap<nn::BlockFormatAttr>> parsed = parseTensorFormats(given, &getContext());
    if (!parsed) {
      getOperation().emitError() << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    WalkResult result = getOperation().walk([&](nn::DequantizeOp op) -> WalkResult {
      auto stored = dyn_cast<nn::ArchiveFormatAttr>(op.getFormat());
      auto weight = op.getQuantized().getDefiningOp<nn::WeightOp>();
      if (!stored || !weight)
        return WalkResult::advance();
      auto found = parsed->find(weight.getKey().rsplit("_packed").first);
      return found == parsed->end() ? WalkResult::advance() : WalkResult(narrow(op, stored, found->second));
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult narrow(nn::DequantizeOp op, nn::ArchiveFormatAttr stored, nn::BlockFormatAttr asked) {
    nn::BlockFormatAttr kept = stored.getKept();
    if (!asked || !kept || !kept.hasIntegerValues() || !asked.hasIntegerValues() ||
        kept.getBlock() != asked.getBlock() || kept.getScale() != asked.getScale()) {
      InFlightDiagnostic error = op.emitError() << "is stored quantized";
      if (kept)
        error << ", as " << kept;
      return error << "; the file of formats says " << (asked ? asked.getName() : "none")
                   << ", which is for another model or for other weights";
    }
    auto narrower = nn::ArchiveFormatAttr::getChecked(
        [&] { return op.emitError("cannot be kept in the format that the file of formats says: "); }, &getContext(),
        stored.getOrder(), stored.getElement(), stored.getGroup(), stored.getRows(), stored.getZero(),
        stored.getInverse(), stored.getScaleDivisor(), stored.getScaleOffset(), asked);
    if (!narrower)
      return failure();
    op.setFormatAttr(narrower);
    return success();
  }
};
} // namespace
} // namespace intarsia::quantize
