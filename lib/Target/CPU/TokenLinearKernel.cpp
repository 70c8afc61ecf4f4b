//===- TokenLinearKernel.cpp - Linear layers of 8-bit weights and inputs with few scales a row ------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights of 8 bits have a scale for each output feature, and a row of the input (a token) has one for each 256
// features or one in all. So integers are added up over many features before they are scaled: little but byte products
// is in the inner loop, and panels of weights (dialects/Rt/BlockPanels.h) are read as they lie in the archive.
//
// The first tiles of the launch quantize rows, or copy rows that another kernel has quantized, into scratch that all
// threads see, with what precedes the linear in the kernel (a norm). The finishing tiles multiply, and compute what
// follows (bias, activation) on a register tile's sums.
//
// A result that another linear reads may be quantized where it is computed (fuse-quantize-results). Where its scales
// are not known a tile has all features of the result that share one, for as many rows as fit in the second-level cache
// as floats, and quantizes them last.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/ByteResultEmitter.h"
#include "lib/Target/CPU/ByteTileEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/RowScales.h"
#include "intarsia/module_abi.h"
#include "lib/Kernel/RowScales.h"
#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the launch.
enum { kRowBlock = ITX_PLAN_PRIVATE, kPanelsPerTile, kPanelGroups };
constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;
/// Rows that a tile quantizes: some microseconds of work.
constexpr int64_t kQuantizedRows = 4;
/// About what a tile multiplies: 15 to 20 us of one core that does 64 products of bytes a cycle, so that the threads
/// finish together.
constexpr int64_t kTileProducts = int64_t(1) << 22;
/// Features of a result that share a scale, where it is quantized, and the most rows of its tiles: 64 KB of floats.
constexpr int64_t kResultBlock = BlockPanels::superBlock, kResultRows = 64;

class TokenLinearKernel final : public KernelEmitter {
public:
  TokenLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root) {}

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  LogicalResult prepareRows(Value quantizing);
  void multiplyRows(Value index, Value m, Value rest, int64_t most);
  void emitRegisterTile(Value panel, Value row, Value sums, int64_t count);
  void addGroup(Value panel, Value row, Value sums, Value group, int64_t first, int64_t count, bool isFirst);
  LogicalResult storeRows(Value index, Value m, Value count);
  void quantizeResult(Value group);
  /// Returns true if a result is quantized by blocks of its features, whose scales are looked for.
  bool hasResultBlocks() { return byteResult && !byteResult.hasUnitScale(); }
  Value rowAt(Value row) {
    return memory.at(function.sharedPointer, mul(row, constant(layout.bytes())), b.getI8Type());
  }
  Value panelOf(Value index, Value slice);
  /// Returns where a quantized result's floats lie: a row of a tile, and a column of its features.
  Value resultAt(Value row, Value column) {
    return memory.at(results, add(mul(row, constant(kResultBlock)), column), b.getF32Type());
  }
  Value sumsOfSlice(Value slice) {
    return memory.at(sums, mul(slice, constant(config.tokenRows * kRows)), b.getF32Type());
  }

  nn::LinearOp root;
  LinearEmitter linear{function, tensors, root};
  PanelEmitter weights{function};
  ByteRowEmitter inputs{function, tensors, root.getInput()};
  ByteTileEmitter tiles{function};
  RecordEmitter quantizer{function, tensors};
  ByteResultEmitter byteResult{function, tensors};
  ByteRowLayout layout;
  BlockPanels &panels = layout.panels;
  int64_t panelCount, maximalRows;
  std::optional<Storage> weight;
  Value rows, sums, results;
  // The tile that is being emitted.
  Value firstRow, endRow;
  Value next, bytesAhead; ///< brought into the second-level cache meanwhile, bytes for each step
};
} // namespace

Emitter makeTokenLinearKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<TokenLinearKernel>(kernel, cast<nn::LinearOp>(root), config);
}

LogicalResult TokenLinearKernel::analyze() {
  auto weightType = cast<RankedTensorType>(root.getWeight().getType());
  if (!weightType.hasStaticShape())
    return function.refuse(root, "its weight has dynamic sizes");
  std::optional<BlockPanels> stored = weights.panelsOf(root.getWeight());
  if (!stored || !areBytePanels(*stored))
    return function.refuse(root,
                           "its input has one scale for each row, its weight is not stored in integers of 8 bits with "
                           "one scale for each output feature");
  int64_t block = inputs.format().getBlock();
  layout = ByteRowLayout::of(*stored, block, config.byteDot);
  if (!inputs.quantize() && !inputs.canCopy(layout))
    return function.refuse(root, "its quantized input is no tensor in memory with whole steps of " + Twine(kStep) +
                                     " features");
  if (block == 0 && panels.depth > nn::mostFeaturesOfRowScale)
    return function.refuse(root, "sums of products of " + Twine(panels.depth) + " features do not fit in 32 bits");
  if (failed(linear.findSections(/*quantizesResult=*/true)) || failed(byteResult.find(root, kResultBlock)))
    return failure();
  if (byteResult && linear.sections.size() != 1)
    return function.refuse(root, "a result of several parts is quantized");
  panelCount = llvm::divideCeil(weightType.getDimSize(0), kRows) / linear.together();
  return success();
}

void TokenLinearKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "token linear");
  // Widened factors give two sums for each.
  if (layout.widens())
    config.quantizedVectors = 1;
  chooseByteTile(shape, config, config.tokenRows);
  maximalRows = std::max<int64_t>(config.quantizedBlockBytes / layout.bytes() / config.tokenRows, 2) * config.tokenRows;
  if (hasResultBlocks())
    maximalRows = kResultRows / config.tokenRows * config.tokenRows;
  shape.choose("block_rows", maximalRows,
               {config.tokenRows, hasResultBlocks() ? kResultRows : kMostBlockRows, config.tokenRows});
  shape.state("input", inputs.quantize() ? "quantized by the first tiles" : "copied by the first tiles");
  shape.state("weight", "panels of bytes");
}

void TokenLinearKernel::launch() {
  int64_t tileRows = config.tokenRows;
  rows = function.product(linear.leading());
  // Row blocks as equal as whole register tiles allow.
  Value blocks = max(ceilDiv(rows, constant(maximalRows)), constant(1));
  if (hasResultBlocks()) {
    // A tile's columns are given: two tiles for each thread need more blocks where few columns are.
    Value wanted = ceilDiv(mul(function.threads, constant(2)), constant(panelCount * kRows / kResultBlock));
    blocks = max(blocks, min(wanted, ceilDiv(rows, constant(tileRows))));
  }
  Value rowBlock = mul(ceilDiv(ceilDiv(rows, blocks), constant(tileRows)), constant(tileRows));
  rowBlock = max(rowBlock, constant(tileRows));
  blocks = ceilDiv(rows, rowBlock);
  Value evenly = max(ceilDiv(constant(panelCount), function.threads), constant(1));
  Value panelProducts = mul(rowBlock, constant(kRows * panels.steps() * kStep * linear.together()));
  Value perTile = min(max(div(constant(kTileProducts), panelProducts), constant(1)), evenly);
  if (hasResultBlocks()) {
    perTile = constant(kResultBlock / kRows);
  } else if (int64_t bytes = panelCount * linear.together() * panels.panelBytes(); bytes <= config.blockBytes / 2) {
    // Columns of one panel are small parts of many rows of the result. Where the result is larger than the second-level
    // cache, and the weight is not, a tile has whole rows: 64 x 256 at 3136 rows takes half of the time.
    Value columns = constant(panelCount * linear.together() * kRows);
    Value isLarge = less(constant(config.blockBytes / 4), mul(rows, columns));
    Value ofTile = ceilDiv(constant(kTileProducts), max(mul(columns, constant(panels.steps() * kStep)), constant(1)));
    Value wholeRows = min(ofTile, ceilDiv(rows, mul(function.threads, constant(4))));
    wholeRows = max(mul(ceilDiv(wholeRows, constant(tileRows)), constant(tileRows)), constant(tileRows));
    rowBlock = select(isLarge, min(wholeRows, rowBlock), rowBlock);
    blocks = ceilDiv(rows, rowBlock);
    perTile = select(isLarge, constant(std::max<int64_t>(panelCount, 1)), perTile);
  }
  Value groups = ceilDiv(constant(panelCount), perTile);
  // Register tiles read whole ones: beyond the last row lies room for them.
  function.setSlot(ITX_PLAN_SHARED_BYTES, mul(add(rows, constant(tileRows)), constant(layout.bytes())));
  function.setSlot(ITX_PLAN_TILES, ceilDiv(rows, constant(kQuantizedRows)));
  function.setSlot(ITX_PLAN_FINISH_TILES, mul(blocks, groups));
  function.setSlot(kRowBlock, rowBlock);
  function.setSlot(kPanelsPerTile, perTile);
  function.setSlot(kPanelGroups, groups);
}

LogicalResult TokenLinearKernel::run() {
  rows = function.product(linear.leading());
  weight = tensors.view(root.getWeight());
  sums = function.scratch(config.tokenRows * kRows * linear.together() * 4);
  Value quantizing = function.slot(ITX_PLAN_TILES), rowBlock = function.slot(kRowBlock),
        panelsPerTile = function.slot(kPanelsPerTile), groups = function.slot(kPanelGroups);
  if (hasResultBlocks())
    results = function.scratch(kResultRows * kResultBlock * 4);
  if (failed(prepareRows(quantizing)))
    return failure();
  Value begin = max(sub(function.tileBegin, quantizing), constant(0));
  return forLoop(begin, sub(function.tileEnd, quantizing), constant(1), [&](Value tile) {
    Value block = div(tile, groups), group = rem(tile, groups);
    firstRow = mul(block, rowBlock);
    endRow = min(add(firstRow, rowBlock), rows);
    Value firstPanel = mul(group, panelsPerTile);
    Value endPanel = min(add(firstPanel, panelsPerTile), constant(panelCount));
    LogicalResult multiplied = forLoop(firstPanel, endPanel, constant(1), [&](Value index) {
      return forLoop(firstRow, endRow, constant(config.tokenRows), [&](Value m) {
        Value rest = sub(endRow, m);
        multiplyRows(index, m, rest, config.tokenRows);
        return storeRows(index, m, min(rest, constant(config.tokenRows)));
      });
    });
    if (hasResultBlocks())
      quantizeResult(group);
    return multiplied;
  });
}

//===-- The input ---------------------------------------------------------------------------------------------===//

/// Emits the first tiles, which prepare rows of the input.
LogicalResult TokenLinearKernel::prepareRows(Value quantizing) {
  return ifThen(less(function.tileBegin, quantizing), [&] {
    Value end = min(mul(function.tileEnd, constant(kQuantizedRows)), rows);
    return forLoop(mul(function.tileBegin, constant(kQuantizedRows)), end, constant(1), [&](Value flat) {
      return inputs.writeRow(layout, tensors.makeRow(flat, linear.leading()), rowAt(flat));
    });
  });
}

//===-- The product -------------------------------------------------------------------------------------------===//

Value TokenLinearKernel::panelOf(Value index, Value slice) {
  Value panel = add(mul(index, constant(linear.panelOrder.next)), mul(slice, constant(linear.panelOrder.ofSlice)));
  return memory.at(weight->pointer, mul(panel, constant(panels.panelBytes())), b.getI8Type());
}

/// Multiplies the rows from `m` on, of which `rest` are left, by a panel of each slice: `most` rows, or half as many
/// where these suffice.
void TokenLinearKernel::multiplyRows(Value index, Value m, Value rest, int64_t most) {
  auto whole = [&] {
    forLoop(constant(0), constant(linear.together()), constant(1), [&](Value slice) {
      Value panel = panelOf(index, slice);
      // Meanwhile the slice's next panel comes into the second-level cache, a part with each register tile: weights of
      // a whole model pass through once a call and come from far away.
      Value tiles = ceilDiv(sub(endRow, firstRow), constant(config.tokenRows));
      bytesAhead = max(ceilDiv(constant(panels.stepBytes()), tiles), constant(kLeastAhead));
      Value part = mul(mul(div(sub(m, firstRow), constant(config.tokenRows)), bytesAhead), constant(panels.steps()));
      next = memory.at(panel, add(constant(linear.panelOrder.next * panels.panelBytes()), part), b.getI8Type());
      emitRegisterTile(panel, rowAt(m), sumsOfSlice(slice), most);
    });
  };
  if (most == 1)
    return whole();
  ifThen(less(constant(most / 2), rest), whole, [&] { multiplyRows(index, m, rest, most / 2); });
}

/// Multiplies `count` rows by a panel: sums [rows][32] f32, with the scales of the rows.
void TokenLinearKernel::emitRegisterTile(Value panel, Value row, Value sums, int64_t count) {
  for (int64_t first = 0; first < kRows; first += tiles.columnVectors() * config.lanes) {
    addGroup(panel, row, sums, constant(0), first, count, /*isFirst=*/true);
    if (layout.groups() > 1)
      forLoop(constant(1), constant(layout.groups()), constant(1),
              [&](Value group) { addGroup(panel, row, sums, group, first, count, /*isFirst=*/false); });
  }
}

/// Adds the products of a group of features, by columns from `first` on, to the sums of `count` rows.
void TokenLinearKernel::addGroup(Value panel, Value row, Value sums, Value group, int64_t first, int64_t count,
                                 bool isFirst) {
  int64_t lanes = config.lanes, vectors = tiles.columnVectors();
  Type f32 = b.getF32Type();
  Value elements = memory.at(panel, constant(panels.headBytes + panels.unitScaleBytes), b.getI8Type());
  ByteTile tile{layout, elements, {}, row, layout.bytes(), count, next, bytesAhead};
  Value head = inputs.headOf(row, group);
  SmallVector<Value> starts;
  for (int64_t r = 0; r < count; ++r)
    starts.push_back(tiles.fieldOf(head, r * layout.bytes(), b.getI32Type()));
  Value begin = mul(group, constant(layout.groupSteps)),
        end = min(add(begin, constant(layout.groupSteps)), constant(panels.steps()));
  SmallVector<Value> totals =
      tiles.finish(layout, starts, tiles.addSteps(tile, begin, end, first, tiles.begin(layout, starts)));
  for (int64_t r = 0; r < count; ++r) {
    Value scale = splat(tiles.fieldOf(head, r * layout.bytes() + 4, f32), lanes);
    for (int64_t v = 0; v < vectors; ++v) {
      Value at = constant(r * kRows + first + v * lanes);
      Value sum = make<arith::SIToFPOp>(vectorOf(f32, lanes), totals[r * vectors + v]);
      sum = isFirst ? make<arith::MulFOp>(sum, scale).getResult()
                    : make<vector::FMAOp>(sum, scale, memory.load(sums, at, f32, lanes)).getResult();
      memory.store(sum, sums, at, f32, lanes);
    }
  }
}

/// Stores the results of `count` rows from `m` on, while their sums are in the first-level cache.
LogicalResult TokenLinearKernel::storeRows(Value index, Value m, Value count) {
  Type scaleType = nn::scaleType(panels.scale, b.getContext());
  return linear.inSectionOf(index, [&](const LinearSection &section, Value column) {
    return forLoop(constant(0), count, constant(1), [&](Value r) {
      auto sum = [&](int64_t slice, Value c, int64_t width) -> Value {
        Value x = memory.load(sumsOfSlice(constant(slice)), add(mul(r, constant(kRows)), c), b.getF32Type(), width);
        // The scale of the whole row of the weight.
        return make<arith::MulFOp>(x, memory.load(panelOf(index, constant(slice)), c, scaleType, width));
      };
      Value flat = add(m, r);
      auto keep = [&](ArrayRef<Index> at, int64_t width) -> LogicalResult {
        if (!byteResult)
          return success();
        if (byteResult.hasUnitScale())
          return byteResult.storeUnit(flat, at, width);
        Element element = byteResult.evaluate(at, width);
        if (succeeded(element))
          memory.store(*element, resultAt(sub(flat, firstRow), rem(at.back().base, constant(kResultBlock))),
                       constant(0), b.getF32Type(), width);
        return element;
      };
      if (byteResult.hasUnitScale())
        ifThen(equal(column, constant(0)), [&] { byteResult.storeUnitScale(flat); });
      return linear.storeLinearRow(section, tensors.makeRow(flat, linear.leading()), column, sum, keep);
    });
  });
}

/// Quantizes a tile of the result: features of a block of the scales, for all rows of the tile.
void TokenLinearKernel::quantizeResult(Value group) {
  int64_t lanes = config.lanes;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  int64_t features = linear.sections.front().columns;
  auto findScale = [&](Value from) {
    SmallVector<Value> largest =
        forLoop(constant(0), constant(kResultBlock), constant(lanes), zeros, [&](Value k, ValueRange running) {
          Value each = quantizer.magnitudes(memory.load(from, k, f32, lanes));
          return SmallVector<Value>{make<arith::MaxSIOp>(running[0], each)};
        });
    return quantizer.scaleOfLargest(largest[0]);
  };
  int64_t scales = features / kResultBlock;
  forLoop(firstRow, endRow, constant(1), [&](Value row) {
    Value from = resultAt(sub(row, firstRow), constant(0));
    RecordScale scale = findScale(from);
    nn::QuantizeOp quantize = byteResult.getQuantize();
    if (const Storage *output = byteResult.outputOf(quantize.getScales()))
      memory.store(scale.scale, output->pointer, add(mul(row, constant(scales)), group), f32, 1);
    if (const Storage *output = byteResult.outputOf(quantize.getQuantized())) {
      Value to = memory.at(output->pointer, add(mul(row, constant(features)), mul(group, constant(kResultBlock))), i8);
      forLoop(constant(0), constant(kResultBlock), constant(lanes), [&](Value k) {
        Value integers = quantizer.roundToIntegers(memory.load(from, k, f32, lanes), splat(scale.inverse, lanes));
        memory.store(make<arith::TruncIOp>(vectorOf(i8, lanes), integers), to, k, i8, lanes);
      });
    }
  });
}

} // namespace intarsia::cpu
