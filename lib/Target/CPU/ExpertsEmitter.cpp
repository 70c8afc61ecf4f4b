//===- ExpertsEmitter.cpp - Rows multiplied by the matrices of experts ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/ExpertsEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

LogicalResult ExpertsEmitter::findMatrices(Matrices &matrices) {
  matrices.stored = tensors.view(matrices.value);
  matrices.type = b.getF32Type();
  rt::PanelsAttr layout;
  if (auto argument = dyn_cast<BlockArgument>(matrices.value))
    layout = function.kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout");
  matrices.packed = bool(layout);
  if (!matrices.stored || (matrices.packed && layout.getWidth() != kPanelWidth))
    return function.refuse(root, "its weights are neither packed in panels of 32 nor tensors in memory");
  if (matrices.packed && !matrices.quantized)
    matrices.type = matrices.stored->elementType;
  return success();
}

/// Returns how many rows of an expert are multiplied at a time.
int64_t ExpertsEmitter::blockRows(const Matrices &matrices) const {
  int64_t tileRows = matrices.isInputQuantized ? config.quantizedRows : config.rows,
          most = matrices.isInputQuantized ? 48 : 16;
  int64_t rows = config.blockBytes / matrices.bytesOfRow();
  return std::clamp<int64_t>(rows, 2 * tileRows, most * tileRows) / tileRows * tileRows;
}

void ExpertsEmitter::makeRoomForPanels(ArrayRef<const Matrices *> weights) {
  int64_t packedBytes = 0, unpackedSteps = 0, unpackedScales = 0;
  for (const Matrices *weight : weights) {
    const Matrices &matrices = *weight;
    int64_t depth = matrices.quantized ? matrices.quantized->steps() * BlockPanels::stepDepth : matrices.depth;
    if (!matrices.isInputQuantized && (matrices.quantized || !matrices.packed))
      packedBytes = std::max(packedBytes, kPanelWidth * depth * 4);
    if (!matrices.isInputQuantized)
      continue;
    int64_t steps = std::min(config.unpackedSteps, matrices.quantized->steps());
    unpackedSteps = std::max(unpackedSteps, steps);
    unpackedScales =
        std::max(unpackedScales, steps * blocksOfStep(*matrices.quantized) * scaleRows(*matrices.quantized));
  }
  packedPanel = packedBytes ? function.scratch(packedBytes) : Value();
  unpacked = unpackedSteps ? function.scratch(unpackedSteps * BlockPanels::stepDepth * kPanelWidth) : Value();
  scales = unpackedSteps ? function.scratch(unpackedScales * 4) : Value();
}

/// Returns the right operand of a matmul: where it lies, or where it is put.
Value ExpertsEmitter::panelOf(const Matrices &matrices, Value matrix, Value panel) {
  if (matrices.quantized) {
    Value index = add(mul(matrix, constant(matrices.panels())), panel);
    Value offset = mul(index, constant(matrices.quantized->panelBytes()));
    Value stored = memory.at(matrices.stored->pointer, offset, b.getI8Type());
    if (matrices.isInputQuantized)
      return stored;
    quantizedWeights.dequantizePanel(*matrices.quantized, stored, packedPanel);
    return packedPanel;
  }
  if (matrices.packed) {
    Value index = add(mul(matrix, constant(matrices.panels())), panel);
    return memory.at(matrices.stored->pointer, mul(index, constant(kPanelWidth * matrices.depth)), matrices.type);
  }
  Value row = mul(panel, constant(kPanelWidth)), depth = constant(matrices.depth);
  Value first = mul(add(mul(matrix, constant(matrices.rows)), row), depth);
  registerTiles.packTransposed(packedPanel, memory.at(matrices.stored->pointer, first, matrices.stored->elementType),
                               depth, matrices.stored->elementType, depth,
                               min(sub(constant(matrices.rows), row), constant(kPanelWidth)), Value());
  return packedPanel;
}

/// Multiplies rows [a, a + count) by a panel, into rows of `out`.
void ExpertsEmitter::multiplyByPanel(const Matrices &matrices, Value a, Value right, Value count, Value out) {
  if (matrices.isInputQuantized) {
    emitQuantizedPanel(matrices, a, right, count, out);
    return;
  }
  Type f32 = b.getF32Type();
  Value lines =
      ceilDiv(constant(kPanelWidth * matrices.type.getIntOrFloatBitWidth() / 8), ceilDiv(count, constant(config.rows)));
  forLoop(constant(0), count, constant(config.rows), [&](Value m) {
    TileOperands operands;
    operands.a = memory.at(a, mul(m, constant(matrices.depth)), f32);
    operands.aRow = constant(matrices.depth);
    operands.aColumn = constant(1);
    operands.aType = f32;
    operands.b = right;
    operands.bRow = constant(kPanelWidth);
    operands.bType = matrices.type;
    operands.depth = constant(matrices.depth);
    operands.out = memory.at(out, mul(m, constant(kPanelWidth)), f32);
    operands.outRow = constant(kPanelWidth);
    if (matrices.packed && !matrices.quantized) {
      // The panel that follows comes into the second-level cache meanwhile.
      Value next = memory.at(right, constant(matrices.depth * kPanelWidth), matrices.type);
      Value part = mul(mul(div(m, constant(config.rows)), lines), constant(matrices.depth));
      operands.prefetch = memory.at(next, part, b.getI8Type());
      operands.prefetchStep = lines;
    }
    registerTiles.emitTileRows(operands, min(sub(count, m), constant(config.rows)), kPanelWidth);
  });
}

/// Multiplies the records of `count` rows by a quantized panel: `out` [rows][32] f32. Rows of sums and of records that
/// a register tile has beyond the last are read and written too.
void ExpertsEmitter::emitQuantizedPanel(const Matrices &matrices, Value records, Value panel, Value count, Value out) {
  Value isFew = make<arith::CmpIOp>(arith::CmpIPredicate::sle, count, constant(kDecodePasses * config.decodeRows));
  ifThen(
      isFew, [&] { quantizedTiles.emitDecodeRows(*matrices.quantized, matrices.group, count, panel, records, out); },
      [&] { multiplyUnpacked(matrices, records, panel, count, out); });
}

/// Multiplies many rows: some steps of the panel are unpacked, all rows pass over them, and so on.
void ExpertsEmitter::multiplyUnpacked(const Matrices &matrices, Value records, Value panel, Value count, Value out) {
  const BlockPanels &panels = *matrices.quantized;
  int64_t tileRows = config.quantizedRows;
  Type i8 = b.getI8Type();
  Value tiles = ceilDiv(count, constant(tileRows)), allSteps = constant(panels.steps());
  int64_t bytesOfStep = panels.unitBytes * BlockPanels::stepDepth / panels.unitDepth;
  Value bytesAhead = max(ceilDiv(constant(bytesOfStep), tiles), constant(kLeastAhead));
  forLoop(constant(0), allSteps, constant(config.unpackedSteps), [&](Value step) {
    Value end = min(add(step, constant(config.unpackedSteps)), allSteps), steps = sub(end, step);
    Value isFirst = equal(step, constant(0));
    quantizedTiles.unpackPanel(panels, panel, step, end, unpacked, scales);
    // The bytes after these steps, of this panel or the next, are prefetched into the second-level cache meanwhile.
    Value next = memory.at(panel, add(constant(panels.headBytes), mul(end, constant(bytesOfStep))), i8);
    forLoop(constant(0), count, constant(tileRows), [&](Value m) {
      Value part = mul(mul(div(m, constant(tileRows)), steps), bytesAhead);
      Value recordsOfRow = memory.at(records, mul(m, constant(rowBytes(panels))), i8);
      Value recordsOfStep = memory.at(recordsOfRow, mul(step, constant(recordBytes(panels))), i8);
      Value sumsOfRow = memory.at(out, mul(m, constant(kPanelWidth)), b.getF32Type());
      quantizedTiles.emitQuantizedTile({panels, matrices.group, unpacked, scales, recordsOfStep, steps, sumsOfRow,
                                        isFirst, memory.at(next, part, i8), bytesAhead});
    });
  });
}

/// Loads the sums of a row by a panel, from column c on.
Value ExpertsEmitter::sumAt(const Matrices &matrices, Value from, Value c, Value panel, int64_t width) {
  Type f32 = b.getF32Type();
  Value sum = memory.load(sums, add(from, c), f32, width);
  if (!matrices.isInputQuantized || !matrices.quantized->headBytes)
    return sum;
  // The scale of the whole row of the weight.
  Type type = matrices.quantized->block ? f32 : nn::scaleType(matrices.quantized->scale, b.getContext());
  return make<arith::MulFOp>(sum, memory.load(panel, c, type, width));
}

} // namespace intarsia::cpu
