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
//   row   for each group of features that share a scale: where their sums begin (i32), minus the sum of their quantized
//         values times the weight's offset, and their scale (f32); then the quantized values (i8 or i16), zeros beyond
//         the last feature
//
// A result that another linear reads may be quantized where it is computed (fuse-quantize-results): then a tile has all
// features of the result that share a scale, for as many rows as fit in the second-level cache as floats, and quantizes
// them last.
//
// sdot of AArch64 has signed factors: weights are made signed as they are loaded, and no offset is left. usdot takes
// them as they are.
//
// On x86-64 without vpdpbusd both factors are widened to 16 bits, the weight as it is loaded, and multiplied by
// pmaddwd: its sums are exact, and on Zen 3 it does 81 products a nanosecond. pmaddubsw, which needs the sign of the
// weight moved to the input, does 75, and f32 51.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"
#include "lib/Target/CPU/QuantizedWeightEmitter.h"
#include "lib/Target/CPU/RecordEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

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
/// Bytes of a group of features before the quantized values.
constexpr int64_t kGroupHead = 8;
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
      : KernelEmitter(kernel, config), root(root), activations(root.getInput().getDefiningOp<nn::DequantizeOp>()) {}

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  LogicalResult findQuantizedResult();
  LogicalResult prepareRows(Value quantizing);
  LogicalResult quantizeRow(Value flat);
  LogicalResult copyRow(Value flat);
  LogicalResult quantizeGroup(const QuantizedRow &row, Value buffer, Value group);
  void quantizeBuffer(Value buffer, Value steps, RecordScale scale, Value head, Value values);
  void storeHead(Value head, Value total, Value scale);
  /// Returns true if the scales of the input are 1.
  bool hasUnitScale() {
    auto quantize = activations.getQuantized().getDefiningOp<nn::QuantizeOp>();
    return quantize && quantize.getUnitScale();
  }
  /// Returns integers of values; a scale without an inverse is 1.
  Value integersOf(Value values, RecordScale scale) {
    return scale.inverse ? quantizer.roundToIntegers(values, splat(scale.inverse, config.lanes))
                         : quantizer.roundToIntegers(quantizer.saturated(values),
                                                     floatConstant(1.0, b.getF32Type(), config.lanes));
  }
  void multiplyRows(Value index, Value m, Value rest, int64_t most);
  void emitRegisterTile(Value panel, Value row, Value sums, int64_t count);
  void addGroup(Value panel, Value row, Value sums, Value group, int64_t first, int64_t count, bool isFirst);
  SmallVector<Value> addSteps(Value panel, Value row, Value group, int64_t first, int64_t count);
  void addStepInOrder(Value elements, Value values, int64_t first, MutableArrayRef<Value> totals);
  void addBytes(Value elements, Value values, int64_t first, int64_t word, MutableArrayRef<Value> totals);
  void addWords(Value elements, Value values, int64_t first, int64_t word, MutableArrayRef<Value> totals);
  LogicalResult storeRows(Value index, Value m, Value count);
  void quantizeResult(Value group);
  Value rowAt(Value row) { return memory.at(function.sharedPointer, mul(row, constant(rowBytes)), b.getI8Type()); }
  Value panelOf(Value index, Value slice);
  /// Returns where a quantized result's floats lie: a row of a tile, and a column of its features.
  Value resultAt(Value row, Value column) {
    return memory.at(results, add(mul(row, constant(kResultBlock)), column), b.getF32Type());
  }
  Value sumsOfSlice(Value slice) {
    return memory.at(sums, mul(slice, constant(config.tokenRows * kRows)), b.getF32Type());
  }
  /// Returns the 32-bit word at a byte of the row `r` rows behind the one that a pointer is in, in all lanes.
  Value splatOf(Value pointer, int64_t r, int64_t byte, Type type);
  int64_t groups() const { return llvm::divideCeil(panels.steps(), groupSteps); }
  /// Returns true if factors are widened to 16 bits.
  bool widens() const { return config.byteDot == ByteDot::Maddubs; }
  int64_t valueBytes() const { return widens() ? 2 : 1; }
  Type valueType() { return widens() ? b.getI16Type() : b.getI8Type(); }
  /// Returns how many columns a register tile has, in vectors.
  int64_t columnVectors() const { return config.quantizedVectors; }
  Value headOf(Value row, Value group) { return memory.at(row, mul(group, constant(kGroupHead)), b.getI8Type()); }
  Value valuesOf(Value row, Value step) {
    return memory.at(row, add(constant(groups() * kGroupHead), mul(step, constant(kStep * valueBytes()))),
                     b.getI8Type());
  }

  nn::LinearOp root;
  LinearEmitter linear{function, tensors, root};
  PanelEmitter weights{function};
  RowEmitter rowEmitter{function, tensors};
  RecordEmitter quantizer{function, tensors};
  TileEmitter registerTiles{function};
  QuantizedWeightEmitter quantizedWeights{function};
  nn::DequantizeOp activations;
  nn::QuantizeOp quantizedResult; ///< null if the results are floats
  BlockPanels panels;
  int64_t groupSteps; ///< steps of 32 features that share a scale of the input
  int64_t rowBytes, panelCount, maximalRows;
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
  bool isMultiplied = stored && stored->elementBits == 8 && !stored->isE4M3 && !stored->block && !stored->hasMinima;
  if (!isMultiplied)
    return function.refuse(root,
                           "its input has one scale for each row, its weight is not stored in integers of 8 bits with "
                           "one scale for each output feature");
  panels = *stored;
  int64_t block = cast<nn::BlockFormatAttr>(activations.getFormat()).getBlock();
  if (block == 0 && panels.depth > nn::mostFeaturesOfRowScale)
    return function.refuse(root, "sums of products of " + Twine(panels.depth) + " features do not fit in 32 bits");
  if (failed(linear.findSections(/*quantizesResult=*/true)) || failed(findQuantizedResult()))
    return failure();
  groupSteps = block ? block / kStep : std::max<int64_t>(panels.steps(), 1);
  rowBytes = groups() * kGroupHead + panels.steps() * kStep * valueBytes();
  panelCount = llvm::divideCeil(weightType.getDimSize(0), kRows) / linear.together();
  return success();
}

void TokenLinearKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "token linear");
  // Widened factors give two sums for each.
  if (widens())
    config.quantizedVectors = 1;
  chooseByteTile(shape, config, config.tokenRows);
  maximalRows = std::max<int64_t>(config.quantizedBlockBytes / rowBytes / config.tokenRows, 2) * config.tokenRows;
  if (quantizedResult)
    maximalRows = kResultRows / config.tokenRows * config.tokenRows;
  shape.choose("block_rows", maximalRows,
               {config.tokenRows, quantizedResult ? kResultRows : kMostBlockRows, config.tokenRows});
  shape.state("input", activations.getQuantized().getDefiningOp() ? "quantized by the first tiles"
                                                                  : "copied by the first tiles");
  shape.state("weight", "panels of bytes");
}

/// Finds the nn.quantize whose values and scales are results of the kernel.
LogicalResult TokenLinearKernel::findQuantizedResult() {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (auto quantize = function.yielded(i).getDefiningOp<nn::QuantizeOp>()) {
      if (quantizedResult && quantizedResult != quantize)
        return function.refuse(root, "two of its results are quantized");
      quantizedResult = quantize;
    }
  if (!quantizedResult)
    return success();
  nn::BlockFormatAttr format = quantizedResult.getFormat();
  int64_t block = quantizedResult.getUnitScale() ? 0 : kResultBlock;
  bool isKnown = format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
                 format.getBlock() == block && !quantizedResult.getZeroPoints() && !quantizedResult.getChannels() &&
                 !quantizedResult.firstNarrowBlock();
  if (!isKnown || linear.sections.size() != 1 || linear.sections.front().columns % kResultBlock != 0)
    return function.refuse(root,
                           "its result is quantized in another way than to integers of 8 bits with a scale for each " +
                               Twine(kResultBlock) + " features or with known scales, or has no whole blocks of them");
  return success();
}

void TokenLinearKernel::launch() {
  int64_t tileRows = config.tokenRows;
  rows = function.product(linear.leading());
  // Row blocks as equal as whole register tiles allow.
  Value blocks = max(ceilDiv(rows, constant(maximalRows)), constant(1));
  if (quantizedResult) {
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
  if (quantizedResult)
    perTile = constant(kResultBlock / kRows);
  Value groups = ceilDiv(constant(panelCount), perTile);
  // Register tiles read whole ones: beyond the last row lies room for them.
  function.setSlot(ITX_PLAN_SHARED_BYTES, mul(add(rows, constant(tileRows)), constant(rowBytes)));
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
  if (quantizedResult)
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
    if (quantizedResult)
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
      return activations.getQuantized().getDefiningOp() ? quantizeRow(flat) : copyRow(flat);
    });
  });
}

LogicalResult TokenLinearKernel::quantizeRow(Value flat) {
  Value buffer = function.scratch(groupSteps * kStep * 4);
  auto quantize = activations.getQuantized().getDefiningOp<nn::QuantizeOp>();
  Value input = quantize.getInput();
  RowScope row = tensors.makeRow(flat, linear.leading());
  RowGuard inRow(tensors, row);
  if (failed(rowEmitter.prepareRow(row, {input})))
    return failure();
  QuantizedRow quantized{input, row.prefix, &panels, rowAt(flat), groupSteps, {}, {}, quantize.getFactors()};
  return forLoop(constant(0), constant(groups()), constant(1),
                 [&](Value group) { return quantizeGroup(quantized, buffer, group); });
}

/// Copies a row of quantized values and their scales.
LogicalResult TokenLinearKernel::copyRow(Value flat) {
  std::optional<Storage> values = tensors.view(activations.getQuantized()),
                         scales = tensors.view(activations.getScales());
  if (!values || !values->dense || !scales || !scales->dense || panels.depth % kStep != 0)
    return function.refuse(root, "its quantized input is no tensor in memory with whole steps of " + Twine(kStep) +
                                     " features");
  int64_t lanes = config.lanes;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  Value from = memory.at(values->pointer, mul(flat, constant(panels.depth)), i8), row = rowAt(flat);
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  Value factor = quantizer.factorOfRecord(panels);
  forLoop(constant(0), constant(groups()), constant(1), [&](Value group) {
    Value begin = mul(group, constant(groupSteps)),
          end = min(add(begin, constant(groupSteps)), constant(panels.steps()));
    SmallVector<Value> total = forLoop(begin, end, constant(1), zeros, [&](Value step, ValueRange running) {
      Value sum = running[0];
      for (int64_t v = 0; v < kStep; v += lanes) {
        Value bytes = memory.load(from, add(mul(step, constant(kStep)), constant(v)), i8, lanes);
        Value integers = make<arith::ExtSIOp>(vectorOf(i32, lanes), bytes);
        sum = make<arith::AddIOp>(sum, integers);
        Type type = valueType();
        memory.store(make<arith::TruncIOp>(vectorOf(type, lanes), integers), valuesOf(row, step), constant(v), type,
                     lanes);
      }
      return SmallVector<Value>{sum};
    });
    Value scale = memory.load(scales->pointer, add(mul(flat, constant(groups())), group), f32, 1);
    storeHead(headOf(row, group), total[0], make<arith::MulFOp>(scale, factor));
  });
  return success();
}

/// Quantizes the features of a row that share a scale, by way of a buffer.
LogicalResult TokenLinearKernel::quantizeGroup(const QuantizedRow &row, Value buffer, Value group) {
  Value begin = mul(group, constant(groupSteps)), k = mul(begin, constant(kStep));
  Value count = max(min(sub(constant(panels.depth), k), constant(groupSteps * kStep)), constant(0));
  FailureOr<Value> largest = quantizer.fillBuffer(row, buffer, k, count);
  if (failed(largest))
    return failure();
  Value steps = min(constant(groupSteps), sub(constant(panels.steps()), begin));
  RecordScale scale =
      hasUnitScale() ? RecordScale{{}, quantizer.factorOfRecord(panels)} : quantizer.scaleOfRecord(panels, *largest);
  quantizeBuffer(buffer, steps, scale, headOf(row.records, group), valuesOf(row.records, begin));
  return success();
}

/// Writes the values of a buffer, and what their sums are made with.
void TokenLinearKernel::quantizeBuffer(Value buffer, Value steps, RecordScale scale, Value head, Value values) {
  int64_t lanes = config.lanes;
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
  SmallVector<Value> total =
      forLoop(constant(0), mul(steps, constant(kStep)), constant(kStep), zeros, [&](Value k, ValueRange running) {
        Value sum = running[0];
        for (int64_t v = 0; v < kStep / lanes; ++v) {
          Value at = add(k, constant(v * lanes));
          Value quantized = integersOf(memory.load(buffer, at, f32, lanes), scale);
          sum = make<arith::AddIOp>(sum, quantized);
          Type type = valueType();
          memory.store(make<arith::TruncIOp>(vectorOf(type, lanes), quantized), values, at, type, lanes);
        }
        return SmallVector<Value>{sum};
      });
  storeHead(head, total[0], scale.scale);
}

/// Writes what the sums of a group of features are made with: `total` are vectors of the sum of its quantized values.
void TokenLinearKernel::storeHead(Value head, Value total, Value scale) {
  Value start = make<vector::ReductionOp>(vector::CombiningKind::ADD, total);
  int64_t offset = widens() ? panels.integerOffset : encodingOf(panels, config.byteDot).offset;
  start = make<arith::MulIOp>(start, word(-offset));
  make<LLVM::StoreOp>(start, head, 4);
  make<LLVM::StoreOp>(scale, memory.at(head, constant(4), b.getI8Type()), 4);
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

Value TokenLinearKernel::splatOf(Value pointer, int64_t r, int64_t byte, Type type) {
  Value at = memory.at(pointer, constant(r * rowBytes + byte), b.getI8Type());
  return splat(make<LLVM::LoadOp>(type, at, 4), config.lanes);
}

/// Multiplies `count` rows by a panel: sums [rows][32] f32, with the scales of the rows.
void TokenLinearKernel::emitRegisterTile(Value panel, Value row, Value sums, int64_t count) {
  for (int64_t first = 0; first < kRows; first += columnVectors() * config.lanes) {
    addGroup(panel, row, sums, constant(0), first, count, /*isFirst=*/true);
    if (groups() > 1)
      forLoop(constant(1), constant(groups()), constant(1),
              [&](Value group) { addGroup(panel, row, sums, group, first, count, /*isFirst=*/false); });
  }
}

/// Adds the products of a group of features, by columns from `first` on, to the sums of `count` rows.
void TokenLinearKernel::addGroup(Value panel, Value row, Value sums, Value group, int64_t first, int64_t count,
                                 bool isFirst) {
  int64_t lanes = config.lanes, vectors = columnVectors();
  Type f32 = b.getF32Type();
  SmallVector<Value> totals = addSteps(panel, row, group, first, count);
  Value head = headOf(row, group);
  for (int64_t r = 0; r < count; ++r) {
    Value scale = splatOf(head, r, 4, f32);
    for (int64_t v = 0; v < vectors; ++v) {
      Value at = constant(r * kRows + first + v * lanes);
      Value sum = make<arith::SIToFPOp>(vectorOf(f32, lanes), totals[r * vectors + v]);
      sum = isFirst ? make<arith::MulFOp>(sum, scale).getResult()
                    : make<vector::FMAOp>(sum, scale, memory.load(sums, at, f32, lanes)).getResult();
      memory.store(sum, sums, at, f32, lanes);
    }
  }
}

/// Returns the integer sums of `count` rows over a group of features, by the columns of a panel from `first` on.
SmallVector<Value> TokenLinearKernel::addSteps(Value panel, Value row, Value group, int64_t first, int64_t count) {
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  SmallVector<Value> starts;
  for (int64_t r = 0; r < count; ++r)
    starts.append(columnVectors(), splatOf(headOf(row, group), r, 0, i32));
  Value zeros = make<arith::ConstantOp>(b.getZeroAttr(vectorOf(i32, config.lanes)));
  SmallVector<Value> initial = widens() ? SmallVector<Value>(2 * count, zeros) : starts;
  Value elements = memory.at(panel, constant(panels.headBytes + panels.unitScaleBytes), i8);
  Value begin = mul(group, constant(groupSteps)), end = min(add(begin, constant(groupSteps)), constant(panels.steps()));
  SmallVector<Value> sums = forLoop(begin, end, constant(1), initial, [&](Value step, ValueRange running) {
    SmallVector<Value> totals(running);
    Value ofStep = memory.at(elements, mul(step, constant(panels.stepBytes())), i8), values = valuesOf(row, step);
    if (registerTiles.readsInOrder(count) && !widens()) {
      addStepInOrder(ofStep, values, first, totals);
      return totals;
    }
    if (first == 0)
      make<LLVM::Prefetch>(memory.at(next, mul(step, bytesAhead), i8), /*rw=*/0, /*hint=*/2,
                           /*cache=*/1);
    for (int64_t word = 0; word < BlockPanels::words; ++word)
      widens() ? addWords(ofStep, values, first, word, totals) : addBytes(ofStep, values, first, word, totals);
    return totals;
  });
  if (!widens())
    return sums;
  // Both sums of a column are neighbours. Shuffles within 128 bits are cheap: columns are put in order after the
  // addition.
  int64_t lanes = config.lanes;
  SmallVector<int64_t> even, odd, order(lanes);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    int64_t from = lane / 4 * 4 + lane % 2 * 2 + (lane % 4 >= 2 ? lanes : 0);
    even.push_back(from);
    odd.push_back(from + 1);
    order[from / 2] = lane;
  }
  for (auto [r, total] : llvm::enumerate(starts)) {
    auto shuffled = [&](Value x, Value y, ArrayRef<int64_t> mask) -> Value {
      return make<vector::ShuffleOp>(x, y, mask);
    };
    Value first = shuffled(sums[2 * r], sums[2 * r + 1], even), second = shuffled(sums[2 * r], sums[2 * r + 1], odd);
    Value sum = make<arith::AddIOp>(first, second);
    total = make<arith::AddIOp>(total, shuffled(sum, sum, order));
  }
  return starts;
}

/// Returns the byte of a step where a word of a column lies.
static int64_t byteOf(const BlockPanels &panels, int64_t column, int64_t word) {
  return column / BlockPanels::lineRows * (panels.stepBytes() / 2) + column % BlockPanels::lineRows * 4 + 64 * word;
}

/// Adds the products of a step, line by line in the order of addresses.
void TokenLinearKernel::addStepInOrder(Value elements, Value values, int64_t first, MutableArrayRef<Value> totals) {
  int64_t vectors = columnVectors();
  for (int64_t v = 0; v < vectors; ++v)
    for (int64_t word = 0; word < BlockPanels::words; ++word) {
      Value from = memory.at(elements, constant(byteOf(panels, first + v * config.lanes, word)), b.getI8Type());
      if (word == 0)
        registerTiles.prefetchNextPage(from);
      Value right = memory.load(from, constant(0), b.getI8Type(), 4 * config.lanes);
      right.getDefiningOp<LLVM::LoadOp>().setVolatile_(true); // LLVM would load columns by turns
      for (int64_t i = v; i < int64_t(totals.size()); i += vectors) {
        Value row = memory.at(values, constant(i / vectors * rowBytes), b.getI8Type());
        totals[i] = quantizedWeights.addByteProducts(totals[i], right, quantizedWeights.splatWordOf(row, word),
                                                     /*elementsAre8Bits=*/true);
      }
    }
}

void TokenLinearKernel::addBytes(Value elements, Value values, int64_t first, int64_t word,
                                 MutableArrayRef<Value> totals) {
  int64_t lanes = config.lanes, vectors = columnVectors();
  SmallVector<Value> right;
  for (int64_t v = 0; v < vectors; ++v)
    right.push_back(memory.load(elements, constant(byteOf(panels, first + v * lanes, word)), b.getI8Type(), 4 * lanes));
  for (auto [i, total] : llvm::enumerate(totals)) {
    Value row = memory.at(values, constant(i / vectors * rowBytes), b.getI8Type());
    Value left = quantizedWeights.splatWordOf(row, word);
    total = quantizedWeights.addByteProducts(total, right[i % vectors], left, /*elementsAre8Bits=*/true);
  }
}

/// Adds the products of a word to two vectors of sums for each row: neighbouring lanes are of one column.
void TokenLinearKernel::addWords(Value elements, Value values, int64_t first, int64_t word,
                                 MutableArrayRef<Value> totals) {
  int64_t width = 2 * config.lanes;
  VectorType words = VectorType::get({width}, b.getI16Type());
  SmallVector<Value> right;
  for (int64_t half = 0; half < 2; ++half) {
    Value bytes = memory.load(elements, constant(byteOf(panels, first, word) + half * width), b.getI8Type(), width);
    right.push_back(make<arith::ExtUIOp>(words, bytes));
  }
  for (auto [i, total] : llvm::enumerate(totals)) {
    Value at = memory.at(values, constant(i / 2 * rowBytes + 8 * word), b.getI8Type());
    Value left = splat(make<LLVM::LoadOp>(b.getI64Type(), at, 8), width / 4);
    total = quantizedWeights.addWordProducts(total, right[i % 2], make<vector::BitCastOp>(words, left));
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
      auto keep = [&](ArrayRef<Index> at, int64_t width) -> LogicalResult {
        if (!quantizedResult)
          return success();
        Element element = tensors.evaluate(quantizedResult.getInput(), at, width);
        if (failed(element))
          return failure();
        Value place = resultAt(sub(add(m, r), firstRow), rem(at.back().base, constant(kResultBlock)));
        if (Value factors = quantizedResult.getFactors()) {
          Element factor = tensors.evaluate(factors, {at.back()}, width);
          if (failed(factor))
            return failure();
          element = make<arith::MulFOp>(*element, *factor).getResult();
        }
        memory.store(*element, place, constant(0), b.getF32Type(), width);
        return success();
      };
      return linear.storeLinearRow(section, tensors.makeRow(add(m, r), linear.leading()), column, sum, keep);
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
  bool isUnit = quantizedResult.getUnitScale();
  int64_t scales = isUnit ? 1 : features / kResultBlock;
  forLoop(firstRow, endRow, constant(1), [&](Value row) {
    Value from = resultAt(sub(row, firstRow), constant(0));
    RecordScale scale = isUnit ? RecordScale{{}, floatConstant(1.0, f32, 1)} : findScale(from);
    for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
      // Of a row that has one scale the first tile stores it.
      if (function.yielded(i) == quantizedResult.getScales())
        ifThen(less(group, constant(scales)), [&] {
          memory.store(scale.scale, function.outputs[i].pointer, add(mul(row, constant(scales)), group), f32, 1);
        });
      if (function.yielded(i) != quantizedResult.getQuantized())
        continue;
      Value to = memory.at(function.outputs[i].pointer,
                           add(mul(row, constant(features)), mul(group, constant(kResultBlock))), i8);
      forLoop(constant(0), constant(kResultBlock), constant(lanes), [&](Value k) {
        Value integers = integersOf(memory.load(from, k, f32, lanes), scale);
        memory.store(make<arith::TruncIOp>(vectorOf(i8, lanes), integers), to, k, i8, lanes);
      });
    }
  });
}

} // namespace intarsia::cpu
