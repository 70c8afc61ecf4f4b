//===- CodeLinearKernel.cpp - Linear layers of quantized weights and activations --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights lie as codes in panels (dialects/Rt/BlockPanels.h). Activations are rounded to 8 bits by blocks
// of 32 or 256 as they are read: the kernel's first tiles write them, with what precedes them in the kernel (a norm),
// as records into scratch that all threads see (RecordEmitter.cpp); the tiles of the product start when those are done.
//
// A product of few rows unpacks codes in registers; it waits for memory. One of many rows unpacks a panel into scratch
// first and multiplies register tiles. Both add the same numbers in the same order (CodeTileEmitter.cpp).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/module_abi.h"
#include "lib/Target/CPU/CodeNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the plan.
enum { kRowBlock = ITX_PLAN_PRIVATE, kPanelsPerTile, kPanelGroups };
constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;
/// Rows that a tile rounds: some microseconds of work.
constexpr int64_t kRoundedRows = 4;
/// Bytes of weights that a tile of few rows reads: 4 to 8 us of one core's memory bandwidth.
constexpr int64_t kDecodeTileBytes = 128 << 10;
/// Panels of a tile of many rows: as often are the activations of some steps read while they are in the second-level
/// cache. 1 costs 6 % where there are more steps than are unpacked at a time.
constexpr int64_t kPanelsOfTile = 4;

class CodeLinearKernel final : public LinearEmitter {
public:
  CodeLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const TileConfig &config)
      : LinearEmitter(kernel, root, config), activations(quantizedInput(root.getInput())) {}

private:
  LogicalResult analyze() override;
  LogicalResult run() override;
  void plan() override;

  void chooseSizes();
  void countRows();
  LogicalResult roundRows(Value rounding);
  void multiplyFew();
  void multiplyMany();
  void multiplyUnpacked(Value number, Value step, Value steps, Value isFirst, Value next);
  LogicalResult storeRows(Value number);
  Value nextSteps(Value number, Value step, Value end, Value stepsOfUnit);
  Value recordsOf(Value row);
  Value panelOf(Value number);
  Value sumsOf(Value number, Value row);
  Value choose(Value yes, Value no) { return arith::SelectOp::create(b, loc, few, yes, no); }

  nn::QuantizeOp activations;
  BlockPanels panels;
  int64_t scaleSteps;             ///< steps that share a scale of activations
  int64_t panelCount;             ///< panels of the weight, one of each slice counted as one
  int64_t chunk;                  ///< steps that are unpacked at a time
  int64_t maximalRows;            ///< rows of a tile of many rows
  int64_t decodePanels;           ///< panels of a tile of few rows
  int64_t panelsOfTile;           ///< panels of a tile of many rows
  int64_t sumRows, decodeSumRows; ///< rows of sums of a panel, in tiles of many and of few rows
  std::optional<Storage> weight;
  Value rows, few, sums, codes, scales, bytesOfRow;
  // The tile that is being emitted; its panels are numbered from 0, those of all slices in turn.
  Value firstRow, endRow, firstPanel, endPanel, tilePanels, sumsOfPanel;
};
} // namespace

Emitter makeCodeLinearKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<CodeLinearKernel>(kernel, cast<nn::LinearOp>(root), config);
}

/// Computes the numbers that both functions cut a launch by.
void CodeLinearKernel::chooseSizes() {
  int64_t features = cast<RankedTensorType>(root.getWeight().getType()).getDimSize(0), tileRows = config.codeRows;
  scaleSteps = stepsOfScale(activations);
  panelCount = llvm::divideCeil(features, kRows) / together();
  chunk = std::min(config.codeSteps, panels.steps());
  maximalRows = std::max<int64_t>(config.codeBlockBytes / (chunk * recordBytes(panels)) / tileRows, 2) * tileRows;
  decodePanels =
      std::clamp<int64_t>(kDecodeTileBytes / (together() * panels.panelBytes()), 1, std::max<int64_t>(panelCount, 1));
  panelsOfTile = std::max<int64_t>(kPanelsOfTile / together(), 1);
  // Register tiles write whole ones.
  sumRows = maximalRows + tileRows;
  decodeSumRows = kDecodePasses * config.decodeRows;
}

/// Emits the number of rows, and if they are few.
void CodeLinearKernel::countRows() {
  rows = product(leading());
  few = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, rows, constant(kDecodePasses * config.decodeRows));
}

void CodeLinearKernel::plan() {
  countRows();
  int64_t tileRows = config.codeRows;
  Value blocks = max(ceilDiv(rows, constant(maximalRows)), constant(1));
  Value rowBlock = mul(ceilDiv(ceilDiv(rows, blocks), constant(tileRows)), constant(tileRows));
  rowBlock = max(choose(constant(decodeSumRows), rowBlock), constant(tileRows));
  blocks = ceilDiv(rows, rowBlock);
  Value evenly = max(ceilDiv(constant(panelCount), threads), constant(1));
  Value perTile = min(choose(constant(decodePanels), constant(panelsOfTile)), evenly);
  Value groups = ceilDiv(constant(panelCount), perTile);
  // Tiles of rows read as many as they are made for: beyond the last row lies room for them.
  Value room = add(rows, constant(std::max(tileRows, config.decodeRows)));
  setPlan(ITX_PLAN_SHARED_BYTES, mul(room, constant(rowBytes(panels))));
  setPlan(ITX_PLAN_TILES, ceilDiv(rows, constant(kRoundedRows)));
  setPlan(ITX_PLAN_FINISH_TILES, mul(blocks, groups));
  setPlan(kRowBlock, rowBlock);
  setPlan(kPanelsPerTile, perTile);
  setPlan(kPanelGroups, groups);
}

LogicalResult CodeLinearKernel::analyze() {
  auto weightType = cast<RankedTensorType>(root.getWeight().getType());
  if (!weightType.hasStaticShape())
    return unsupported(root, "its weight has dynamic sizes");
  std::optional<BlockPanels> stored = panelsOf(root.getWeight());
  if (!stored)
    return unsupported(root, "its input is rounded to 8 bits, its weight is not stored as codes");
  panels = *stored;
  if (failed(findSections()))
    return failure();
  chooseSizes();
  return success();
}

LogicalResult CodeLinearKernel::run() {
  countRows();
  weight = view(root.getWeight());
  Value rounding = planValue(ITX_PLAN_TILES);
  Value rowBlock = planValue(kRowBlock), panelsPerTile = planValue(kPanelsPerTile), groups = planValue(kPanelGroups);
  bytesOfRow = constant(rowBytes(panels));
  // Sums of a tile [panel][row][32].
  int64_t sumsOfTile = std::max(panelsOfTile * sumRows, decodePanels * decodeSumRows) * together() * kRows;
  sums = scratch(sumsOfTile * 4);
  codes = scratch(chunk * kStep * kRows);
  scales = scratch(chunk * blocksOfStep(panels) * scaleRows(panels) * 4);

  if (failed(roundRows(rounding)))
    return failure();
  Value begin = max(sub(tileBegin, rounding), constant(0));
  return forLoop(begin, sub(tileEnd, rounding), constant(1), [&](Value tile) {
    Value block = div(tile, groups), group = rem(tile, groups);
    firstRow = mul(block, rowBlock);
    endRow = min(add(firstRow, rowBlock), rows);
    firstPanel = mul(group, panelsPerTile);
    endPanel = min(add(firstPanel, panelsPerTile), constant(panelCount));
    tilePanels = mul(sub(endPanel, firstPanel), constant(together()));
    sumsOfPanel = mul(choose(constant(decodeSumRows), constant(sumRows)), constant(kRows));
    ifThen(few, [&] { multiplyFew(); }, [&] { multiplyMany(); });
    return forLoop(firstPanel, endPanel, constant(1), [&](Value number) { return storeRows(number); });
  });
}

/// Emits the first tiles, which write records of the activations.
LogicalResult CodeLinearKernel::roundRows(Value rounding) {
  return ifThen(less(tileBegin, rounding), [&] {
    Value end = min(mul(tileEnd, constant(kRoundedRows)), rows);
    return forLoop(mul(tileBegin, constant(kRoundedRows)), end, constant(1), [&](Value flat) {
      return quantizeRow(activations, panels, makeRow(flat, leading()), recordsOf(flat));
    });
  });
}

Value CodeLinearKernel::recordsOf(Value row) {
  return offsetPointer(sharedPointer, mul(row, bytesOfRow), b.getI8Type());
}

Value CodeLinearKernel::panelOf(Value number) {
  Value ofSlice = div(number, constant(together())), slice = rem(number, constant(together()));
  Value panel = add(mul(add(firstPanel, ofSlice), constant(panelOrder.next)), mul(slice, constant(panelOrder.ofSlice)));
  return offsetPointer(weight->pointer, mul(panel, constant(panels.panelBytes())), b.getI8Type());
}

Value CodeLinearKernel::sumsOf(Value number, Value row) {
  Value place = add(mul(number, sumsOfPanel), mul(sub(row, firstRow), constant(kRows)));
  return offsetPointer(sums, place, b.getF32Type());
}

void CodeLinearKernel::multiplyFew() {
  forLoop(constant(0), tilePanels, constant(1), [&](Value number) {
    emitDecodeRows(panels, scaleSteps, sub(endRow, firstRow), panelOf(number), recordsOf(firstRow),
                   sumsOf(number, firstRow));
  });
}

void CodeLinearKernel::multiplyMany() {
  Value stepsOfUnit = constant(panels.unitDepth / kStep), allSteps = constant(panels.steps());
  forLoop(constant(0), allSteps, constant(chunk), [&](Value step) {
    Value end = min(add(step, constant(chunk)), allSteps), steps = sub(end, step);
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, step, constant(0));
    forLoop(constant(0), tilePanels, constant(1), [&](Value number) {
      unpackPanel(panels, panelOf(number), step, end, codes, scales);
      multiplyUnpacked(number, step, steps, isFirst, nextSteps(number, step, end, stepsOfUnit));
    });
  });
}

/// Returns what is unpacked next, which comes from far away: these steps of the next panel, or the next ones of the
/// first.
Value CodeLinearKernel::nextSteps(Value number, Value step, Value end, Value stepsOfUnit) {
  Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, add(number, constant(1)), tilePanels);
  Value nextNumber = arith::SelectOp::create(b, loc, isLast, constant(0), add(number, constant(1)));
  Value nextStep = arith::SelectOp::create(b, loc, isLast, end, step);
  Value next = add(constant(panels.headBytes), mul(div(nextStep, stepsOfUnit), constant(panels.unitBytes)));
  return offsetPointer(panelOf(nextNumber), next, b.getI8Type());
}

/// Multiplies the rows of the tile by `steps` steps of a panel that are unpacked.
void CodeLinearKernel::multiplyUnpacked(Value number, Value step, Value steps, Value isFirst, Value next) {
  Type i8 = b.getI8Type();
  int64_t tileRows = config.codeRows;
  Value tiles = ceilDiv(sub(endRow, firstRow), constant(tileRows));
  Value bytes = max(ceilDiv(constant(panels.unitBytes * kStep / panels.unitDepth), tiles), constant(kLeastAhead));
  forLoop(firstRow, endRow, constant(tileRows), [&](Value m) {
    Value records = offsetPointer(recordsOf(m), mul(step, constant(recordBytes(panels))), i8);
    Value part = mul(mul(div(sub(m, firstRow), constant(tileRows)), steps), bytes);
    emitCodeTile({panels, scaleSteps, codes, scales, records, steps, sumsOf(number, m), isFirst,
                  offsetPointer(next, part, i8), bytes});
  });
}

LogicalResult CodeLinearKernel::storeRows(Value number) {
  Type f32 = b.getF32Type();
  return inSectionOf(number, [&](const LinearSection &section, Value column) {
    return forLoop(firstRow, endRow, constant(1), [&](Value m) {
      return storeLinearRow(section, makeRow(m, leading()), column,
                            [&](int64_t slice, Value c, int64_t width) -> Value {
                              Value ofTile = add(mul(sub(number, firstPanel), constant(together())), constant(slice));
                              Value x = loadAt(sumsOf(ofTile, m), c, f32, width);
                              if (!panels.headBytes)
                                return x;
                              // The scale of the whole row of the weight.
                              Type type = panels.block ? f32 : nn::scaleType(panels.scale, b.getContext());
                              return arith::MulFOp::create(b, loc, x, loadAt(panelOf(ofTile), c, type, width));
                            });
    });
  });
}

} // namespace intarsia::cpu
