//===- QuantizedWeightEmitter.h - Elements of quantized weights: unpacked, multiplied, dequantized --------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_QUANTIZEDWEIGHTEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_QUANTIZEDWEIGHTEMITTER_H

#include "dialects/Rt/BlockPanels.h"
#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// Weights that are stored quantized, in panels.
class QuantizedWeightEmitter : public LoopEmitter {
public:
  explicit QuantizedWeightEmitter(FunctionEmitter &function)
      : LoopEmitter(function), config(function.config), memory(function), weights(function) {}

  mlir::Value addByteProducts(mlir::Value sums, mlir::Value elements, mlir::Value activations, bool elementsAre8Bits);
  /// Returns a word of four bytes of a row in all lanes. `row` is at the first of 32 bytes.
  mlir::Value splatWordOf(mlir::Value row, int64_t word);
  mlir::Value addWordProducts(mlir::Value sums, mlir::Value left, mlir::Value right);
  mlir::Value unpackElements(const BlockPanels &panels, mlir::Value raw, bool high);
  void forWordsOfStep(const BlockPanels &panels, mlir::Value pointer,
                      llvm::function_ref<void(int64_t word, mlir::Value elements)> use, bool inOrder = false);
  mlir::Value firstBlockOfStep(const BlockPanels &panels, mlir::Value stepOfUnit);
  /// Writes the dequantized values of a panel as a dense f32 panel.
  void dequantizePanel(const BlockPanels &panels, mlir::Value panel, mlir::Value target);

private:
  const TileConfig &config;
  MemoryEmitter memory;
  PanelEmitter weights;
};

} // namespace intarsia::cpu

#endif
