//===- QuantizedLinearKernel.cpp - Linear layers of quantized weights and activations ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights lie quantized in panels (dialects/Rt/BlockPanels.h). Activations are quantized to 8 bits by blocks
// of 32 or 256 as they are read: the kernel's first tiles write them, with what precedes them in the kernel (a norm),
// as records into scratch that all threads see (RecordEmitter.cpp); the tiles of the matmul start when those are done.
//
// A matmul of few rows unpacks weights in registers; it waits for memory. One of many rows unpacks a panel into scratch
// first and multiplies register tiles. Both add the same values in the same order (QuantizedTileEmitter.cpp).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"
#include "lib/Target/CPU/QuantizedTileEmitter.h"
#include "lib/Target/CPU/RecordEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/module_abi.h"
#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the launch.
enum { kRowBlock = ITX_PLAN_PRIVATE, kPanelsPerTile, kPanelGroups };
constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;
/// Rows that a tile quantizes: some microseconds of work.
constexpr int64_t kQuantizedRows = 4;
/// Bytes of weights that a tile of few rows reads at most if they are more than a panel: some 2 us of one core's memory
/// bandwidth, by which threads end apart. Threads take many tiles at a time as long as many are left.
constexpr int64_t kDecodeTileBytes = 32 << 10;
/// Panels of a tile of many rows: as often are the activations of some steps read while they are in the second-level
/// cache. 1 costs 6 % where there are more steps than are unpacked at a time.
constexpr int64_t kPanelsOfTile = 4;
/// The most steps that are unpacked at a time, and panels of a tile, that IR may state: scratch grows with both.
constexpr int64_t kMostUnpackedSteps = 1 << 12, kMostPanels = 1 << 10;

class QuantizedLinearKernel final : public KernelEmitter {
public:
  QuantizedLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root), activations(kernel::quantizedInput(root.getInput())) {}

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  void countRows();
  LogicalResult quantizeRows(Value quantizing);
  void multiplyFew();
  void multiplyMany();
  void multiplyUnpacked(Value index, Value step, Value steps, Value isFirst, Value next);
  LogicalResult storeRows(Value index);
  Value nextSteps(Value index, Value step, Value end, Value stepsOfUnit);
  Value recordsOf(Value row);
  Value panelOf(Value index);
  Value sumsOf(Value index, Value row);
  Value choose(Value yes, Value no) { return select(few, yes, no); }

  nn::LinearOp root;
  LinearEmitter linear{function, tensors, root};
  PanelEmitter weights{function};
  RecordEmitter quantizer{function, tensors};
  QuantizedTileEmitter quantizedTiles{function};
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
  Value rows, few, sums, unpacked, scales, bytesOfRow;
  // The tile that is being emitted; its panels are counted from 0, those of all slices in turn.
  Value firstRow, endRow, firstPanel, endPanel, tilePanels, sumsOfPanel;
};
} // namespace

Emitter makeQuantizedLinearKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<QuantizedLinearKernel>(kernel, cast<nn::LinearOp>(root), config);
}

void QuantizedLinearKernel::chooseShape(KernelShape &shape) {
  int64_t features = cast<RankedTensorType>(root.getWeight().getType()).getDimSize(0), &tileRows = config.quantizedRows;
  shape.state("kernel", "quantized linear");
  chooseByteTile(shape, config, tileRows);
  scaleSteps = quantizer.stepsOfScale(activations);
  panelCount = llvm::divideCeil(features, kRows) / linear.together();
  chunk = std::min(config.unpackedSteps, panels.steps());
  int64_t together = std::max(panels.unitDepth / kStep, scaleSteps);
  shape.choose("unpacked_steps", chunk, {together, kMostUnpackedSteps, together});
  maximalRows = std::max<int64_t>(config.quantizedBlockBytes / (chunk * recordBytes(panels)) / tileRows, 2) * tileRows;
  shape.choose("block_rows", maximalRows, {tileRows, kMostBlockRows, tileRows});
  panelsOfTile = std::max<int64_t>(kPanelsOfTile / linear.together(), 1);
  shape.choose("block_panels", panelsOfTile, {1, kMostPanels});
  shape.state("few_rows", kDecodePasses * config.decodeRows);
  decodePanels = std::clamp<int64_t>(kDecodeTileBytes / (linear.together() * panels.panelBytes()), 1,
                                     std::max<int64_t>(panelCount, 1));
  shape.choose("few_rows_panels", decodePanels, {1, kMostPanels});
  shape.state("input", "quantized by the first tiles");
  shape.state("weight", "quantized panels, unpacked by tile");
  // Register tiles write whole ones.
  sumRows = maximalRows + tileRows;
  decodeSumRows = kDecodePasses * config.decodeRows;
}

/// Emits the number of rows, and if they are few.
void QuantizedLinearKernel::countRows() {
  rows = function.product(linear.leading());
  few = make<arith::CmpIOp>(arith::CmpIPredicate::sle, rows, constant(kDecodePasses * config.decodeRows));
}

void QuantizedLinearKernel::launch() {
  countRows();
  int64_t tileRows = config.quantizedRows;
  Value blocks = max(ceilDiv(rows, constant(maximalRows)), constant(1));
  Value rowBlock = mul(ceilDiv(ceilDiv(rows, blocks), constant(tileRows)), constant(tileRows));
  rowBlock = max(choose(constant(decodeSumRows), rowBlock), constant(tileRows));
  blocks = ceilDiv(rows, rowBlock);
  Value evenly = max(ceilDiv(constant(panelCount), function.threads), constant(1));
  Value perTile = min(choose(constant(decodePanels), constant(panelsOfTile)), evenly);
  Value groups = ceilDiv(constant(panelCount), perTile);
  // Tiles of rows read as many as they are made for: beyond the last row lies room for them.
  Value room = add(rows, constant(std::max(tileRows, config.decodeRows)));
  function.setSlot(ITX_PLAN_SHARED_BYTES, mul(room, constant(rowBytes(panels))));
  function.setSlot(ITX_PLAN_TILES, ceilDiv(rows, constant(kQuantizedRows)));
  function.setSlot(ITX_PLAN_FINISH_TILES, mul(blocks, groups));
  function.setSlot(kRowBlock, rowBlock);
  function.setSlot(kPanelsPerTile, perTile);
  function.setSlot(kPanelGroups, groups);
}

LogicalResult QuantizedLinearKernel::analyze() {
  auto weightType = cast<RankedTensorType>(root.getWeight().getType());
  if (!weightType.hasStaticShape())
    return function.refuse(root, "its weight has dynamic sizes");
  std::optional<BlockPanels> stored = weights.panelsOf(root.getWeight());
  if (!stored)
    return function.refuse(root, "its input is quantized to 8 bits, its weight is not stored quantized");
  panels = *stored;
  if (panels.isE4M3)
    return function.refuse(root, "its input is quantized to integers of 8 bits, its weight to floats of as many");
  int64_t block = activations.getFormat().getBlock();
  if (block > kStep && block % panels.unitDepth != 0)
    return function.refuse(root, "its input has a scale for each " + Twine(block) +
                                     " features, its weight is stored in pieces of " + Twine(panels.unitDepth));
  return linear.findSections();
}

LogicalResult QuantizedLinearKernel::run() {
  countRows();
  weight = tensors.view(root.getWeight());
  Value quantizing = function.slot(ITX_PLAN_TILES);
  Value rowBlock = function.slot(kRowBlock), panelsPerTile = function.slot(kPanelsPerTile),
        groups = function.slot(kPanelGroups);
  bytesOfRow = constant(rowBytes(panels));
  // Sums of a tile [panel][row][32].
  int64_t sumsOfTile = std::max(panelsOfTile * sumRows, decodePanels * decodeSumRows) * linear.together() * kRows;
  sums = function.scratch(sumsOfTile * 4);
  unpacked = function.scratch(chunk * kStep * kRows);
  scales = function.scratch(chunk * blocksOfStep(panels) * scaleRows(panels) * 4);

  if (failed(quantizeRows(quantizing)))
    return failure();
  Value begin = max(sub(function.tileBegin, quantizing), constant(0));
  return forLoop(begin, sub(function.tileEnd, quantizing), constant(1), [&](Value tile) {
    Value block = div(tile, groups), group = rem(tile, groups);
    firstRow = mul(block, rowBlock);
    endRow = min(add(firstRow, rowBlock), rows);
    firstPanel = mul(group, panelsPerTile);
    endPanel = min(add(firstPanel, panelsPerTile), constant(panelCount));
    tilePanels = mul(sub(endPanel, firstPanel), constant(linear.together()));
    sumsOfPanel = mul(choose(constant(decodeSumRows), constant(sumRows)), constant(kRows));
    ifThen(few, [&] { multiplyFew(); }, [&] { multiplyMany(); });
    return forLoop(firstPanel, endPanel, constant(1), [&](Value index) { return storeRows(index); });
  });
}

/// Emits the first tiles, which write records of the activations.
LogicalResult QuantizedLinearKernel::quantizeRows(Value quantizing) {
  return ifThen(less(function.tileBegin, quantizing), [&] {
    Value end = min(mul(function.tileEnd, constant(kQuantizedRows)), rows);
    return forLoop(mul(function.tileBegin, constant(kQuantizedRows)), end, constant(1), [&](Value flat) {
      return quantizer.quantizeRow(activations, panels, tensors.makeRow(flat, linear.leading()), recordsOf(flat));
    });
  });
}

Value QuantizedLinearKernel::recordsOf(Value row) {
  return memory.at(function.sharedPointer, mul(row, bytesOfRow), b.getI8Type());
}

Value QuantizedLinearKernel::panelOf(Value index) {
  Value ofSlice = div(index, constant(linear.together())), slice = rem(index, constant(linear.together()));
  Value panel = add(mul(add(firstPanel, ofSlice), constant(linear.panelOrder.next)),
                    mul(slice, constant(linear.panelOrder.ofSlice)));
  return memory.at(weight->pointer, mul(panel, constant(panels.panelBytes())), b.getI8Type());
}

Value QuantizedLinearKernel::sumsOf(Value index, Value row) {
  Value offset = add(mul(index, sumsOfPanel), mul(sub(row, firstRow), constant(kRows)));
  return memory.at(sums, offset, b.getF32Type());
}

void QuantizedLinearKernel::multiplyFew() {
  forLoop(constant(0), tilePanels, constant(1), [&](Value index) {
    quantizedTiles.emitDecodeRows(panels, scaleSteps, sub(endRow, firstRow), panelOf(index), recordsOf(firstRow),
                                  sumsOf(index, firstRow));
  });
}

void QuantizedLinearKernel::multiplyMany() {
  Value stepsOfUnit = constant(panels.unitDepth / kStep), allSteps = constant(panels.steps());
  forLoop(constant(0), allSteps, constant(chunk), [&](Value step) {
    Value end = min(add(step, constant(chunk)), allSteps), steps = sub(end, step);
    Value isFirst = equal(step, constant(0));
    forLoop(constant(0), tilePanels, constant(1), [&](Value index) {
      quantizedTiles.unpackPanel(panels, panelOf(index), step, end, unpacked, scales);
      multiplyUnpacked(index, step, steps, isFirst, nextSteps(index, step, end, stepsOfUnit));
    });
  });
}

/// Returns what is unpacked next, which comes from far away: these steps of the next panel, or the next ones of the
/// first.
Value QuantizedLinearKernel::nextSteps(Value index, Value step, Value end, Value stepsOfUnit) {
  Value isLast = equal(add(index, constant(1)), tilePanels);
  Value nextIndex = select(isLast, constant(0), add(index, constant(1)));
  Value nextStep = select(isLast, end, step);
  Value next = add(constant(panels.headBytes), mul(div(nextStep, stepsOfUnit), constant(panels.unitBytes)));
  return memory.at(panelOf(nextIndex), next, b.getI8Type());
}

/// Multiplies the rows of the tile by `steps` steps of a panel that are unpacked.
void QuantizedLinearKernel::multiplyUnpacked(Value index, Value step, Value steps, Value isFirst, Value next) {
  Type i8 = b.getI8Type();
  int64_t tileRows = config.quantizedRows;
  Value tiles = ceilDiv(sub(endRow, firstRow), constant(tileRows));
  Value bytes = max(ceilDiv(constant(panels.unitBytes * kStep / panels.unitDepth), tiles), constant(kLeastAhead));
  forLoop(firstRow, endRow, constant(tileRows), [&](Value m) {
    Value records = memory.at(recordsOf(m), mul(step, constant(recordBytes(panels))), i8);
    Value part = mul(mul(div(sub(m, firstRow), constant(tileRows)), steps), bytes);
    quantizedTiles.emitQuantizedTile({panels, scaleSteps, unpacked, scales, records, steps, sumsOf(index, m), isFirst,
                                      memory.at(next, part, i8), bytes});
  });
}

LogicalResult QuantizedLinearKernel::storeRows(Value index) {
  Type f32 = b.getF32Type();
  return linear.inSectionOf(index, [&](const LinearSection &section, Value column) {
    return forLoop(firstRow, endRow, constant(1), [&](Value m) {
      return linear.storeLinearRow(
          section, tensors.makeRow(m, linear.leading()), column, [&](int64_t slice, Value c, int64_t width) -> Value {
            Value ofTile = add(mul(sub(index, firstPanel), constant(linear.together())), constant(slice));
            Value x = memory.load(sumsOf(ofTile, m), c, f32, width);
            if (!panels.headBytes)
              return x;
            // The scale of the whole row of the weight.
            Type type = panels.block ? f32 : nn::scaleType(panels.scale, b.getContext());
            return make<arith::MulFOp>(x, memory.load(panelOf(ofTile), c, type, width));
          });
    });
  });
}

} // namespace intarsia::cpu
