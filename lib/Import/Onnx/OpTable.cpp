//===- OpTable.cpp - The ops of ONNX that are imported ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

#include <tuple>

namespace intarsia::onnx {

static const llvm::StringMap<const OpRow *> &table() {
  static const llvm::StringMap<const OpRow *> all = [] {
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
                                        gramOps(),
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
  return all;
}

const OpRow *findOp(llvm::StringRef domain, llvm::StringRef name) {
  return table().lookup((domain + "/" + name).str());
}

std::vector<const OpRow *> allOps() {
  std::vector<const OpRow *> rows;
  for (const auto &entry : table())
    if (!entry.second->isRefused)
      rows.push_back(entry.second);
  llvm::sort(rows, [](const OpRow *one, const OpRow *other) {
    return std::tuple(one->domain, one->name) < std::tuple(other->domain, other->name);
  });
  return rows;
}

} // namespace intarsia::onnx
