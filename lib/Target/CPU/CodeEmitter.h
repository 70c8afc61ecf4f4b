//===- CodeEmitter.h - Codes of quantized weights: multiplied, unpacked, as numbers -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CODEEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_CODEEMITTER_H

#include "dialects/Rt/BlockPanels.h"
#include "lib/Target/CPU/TileEmitter.h"

namespace intarsia::cpu {

/// Weights that are stored as codes in panels.
class CodeEmitter : public TileEmitter {
public:
  using TileEmitter::TileEmitter;

protected:
  /// The panels that hold a value's codes, if it is a weight that is stored so.
  std::optional<BlockPanels> panelsOf(mlir::Value weight);
  mlir::Value addByteProducts(mlir::Value sums, mlir::Value codes, mlir::Value activations, bool codesAre8Bits);
  mlir::Value unpackCodes(const BlockPanels &panels, mlir::Value raw, bool high);
  void forCodeWords(const BlockPanels &panels, mlir::Value pointer,
                    llvm::function_ref<void(int64_t word, mlir::Value codes)> use);
  mlir::Value loadScales(const BlockPanels &panels, mlir::Value pointer, mlir::Value first, int64_t lanes);
  std::pair<mlir::Value, mlir::Value> scalesOfBlock(const BlockPanels &panels, mlir::Value unit, mlir::Value block,
                                                    mlir::Value first, int64_t lanes);
  mlir::Value firstBlockOfStep(const BlockPanels &panels, mlir::Value stepOfUnit);
  bool isStoredAsCodes(mlir::Value tensor) override { return panelsOf(tensor).has_value(); }
  mlir::Value evaluateCode(mlir::Value tensor, mlir::Value row, mlir::Value k) override;
  /// Writes the numbers of a panel as a dense f32 panel.
  void decodePanel(const BlockPanels &panels, mlir::Value panel, mlir::Value target);
};

} // namespace intarsia::cpu

#endif
