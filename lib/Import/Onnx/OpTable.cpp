//===- OpTable.cpp - The ops of ONNX that are imported ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

const OpRow *findOp(llvm::StringRef domain, llvm::StringRef name) {
  static const llvm::StringMap<const OpRow *> table = [] {
    llvm::StringMap<const OpRow *> rows;
    for (llvm::ArrayRef<OpRow> group : {elementwiseOps(),
                                        castOps(),
                                        activationOps(),
                                        shapeOps(),
                                        constantOps(),
                                        linearOps(),
                                        convOps(),
                                        poolOps(),
                                        normOps(),
                                        reductionOps(),
                                        indexingOps(),
                                        imageOps(),
                                        lossOps(),
                                        controlFlowOps(),
                                        attentionOps(),
                                        quantizeOps(),
                                        quantizedOps(),
                                        loopOps(),
                                        sequenceOps(),
                                        recurrenceOps(),
                                        deformedOps(),
                                        randomOps(),
                                        determinantOps(),
                                        recurrentOps(),
                                        regionOps(),
                                        selectionOps(),
                                        signalOps(),
                                        quantizedConvOps(),
                                        microsoftActivationOps(),
                                        microsoftAttentionOps(),
                                        microsoftBlockOps(),
                                        microsoftExpertOps(),
                                        microsoftLinearOps(),
                                        microsoftNormOps(),
                                        microsoftQuantizedOps()})
      for (const OpRow &row : group)
        rows[(row.domain + "/" + row.name).str()] = &row;
    return rows;
  }();
  return table.lookup((domain + "/" + name).str());
}

} // namespace intarsia::onnx
