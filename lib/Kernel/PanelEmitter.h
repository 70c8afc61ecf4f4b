//===- PanelEmitter.h - Elements of weights that are stored quantized -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The fourth layer: values and scales in panels (dialects/Rt/BlockPanels.h).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_PANELEMITTER_H
#define INTARSIA_LIB_KERNEL_PANELEMITTER_H

#include "dialects/Rt/BlockPanels.h"
#include "lib/Kernel/KernelBody.h"

namespace intarsia::kernel {

/// Elements of weights that are stored quantized.
class PanelEmitter : public LoopEmitter {
public:
  explicit PanelEmitter(KernelBody &body) : LoopEmitter(body), body(body), memory(body) {}

  /// Returns the panels that hold a value, if it is a weight that is stored quantized.
  std::optional<BlockPanels> panelsOf(mlir::Value weight);
  /// Returns the dequantized values at [row, k], [row, k + 1], … of such a weight: 1, or a multiple of 4 that divides
  /// 16, from a multiple of it on.
  mlir::Value dequantize(mlir::Value weight, mlir::Value row, mlir::Value k, int64_t width);

  /// Returns elements that are floats, the low bits of i32, as f32 that are elementFactor() times too small.
  mlir::Value decodeFloatElements(const BlockPanels &panels, mlir::Value elements, int64_t width);

  /// Returns `lanes` neighbouring stored scales as f32; those of E4M3 are 256 times too small.
  mlir::Value loadScales(const BlockPanels &panels, mlir::Value pointer, mlir::Value first, int64_t lanes);
  /// Returns the scales of `lanes` neighbouring rows of a block, from row `first` on, in the unit at `unit`, and, where
  /// the format has them, the minima that are added. `block` counts from the unit's first.
  std::pair<mlir::Value, mlir::Value> scalesOfBlock(const BlockPanels &panels, mlir::Value unit, mlir::Value block,
                                                    mlir::Value first, int64_t lanes) {
    return decodeScales(panels, loadScalesOfBlock(panels, unit, block, first, lanes), lanes);
  }
  /// The same in two parts, for kernels that load them long before they need them: what is stored, and what it means.
  llvm::SmallVector<mlir::Value> loadScalesOfBlock(const BlockPanels &panels, mlir::Value unit, mlir::Value block,
                                                   mlir::Value first, int64_t lanes);
  std::pair<mlir::Value, mlir::Value> decodeScales(const BlockPanels &panels, llvm::ArrayRef<mlir::Value> stored,
                                                   int64_t lanes);

private:
  mlir::Value loadStoredScales(const BlockPanels &panels, mlir::Value pointer, mlir::Value first, int64_t lanes);
  mlir::Value decodeScale(const BlockPanels &panels, mlir::Value stored, int64_t lanes);

  KernelBody &body;
  MemoryEmitter memory;
};

/// Returns the factor of stored scales when they are read: E4M3 patterns are read as those of f16.
inline double scaleFactor(const BlockPanels &panels) { return panels.scale == nn::BlockScale::E4M3 ? 256.0 : 1.0; }

/// Returns the factor of elements when they are read: patterns of floats are read as those of f16, whose bias is 14
/// more than that of E2M1, and 8 more than that of E4M3.
inline double elementFactor(const BlockPanels &panels) {
  return panels.isE2M1 ? double(1 << 14) : panels.isE4M3 ? double(1 << 8) : 1.0;
}

/// Returns the nn.quantize to 8 bits, by blocks of a step or of a super-block, that a matmul's input comes from; null
/// if there is none.
nn::QuantizeOp quantizedInput(mlir::Value input);
/// Returns the nn.quantize that a value comes from, to E4M3 by rows or to E2M1 by blocks, of which rows have a scale of
/// their own where there is one beside those of blocks; null if there is none.
nn::QuantizeOp quantizedToFloats(mlir::Value value);

} // namespace intarsia::kernel

#endif
