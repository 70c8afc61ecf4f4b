//===- ByteConvKernel.cpp - Convolutions of 8-bit weights and inputs --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights of 8 bits have a scale for each output channel. The channels of a position of the input are a row as that of
// a linear (ByteRowLayout), with scales of its own or with known ones, which are all 1.
//
// The first tiles of the launch quantize rows, or copy rows that another kernel has quantized, into an image in scratch
// that all threads see, with rows of zeros around it: a window then has no cases for borders. The finishing tiles
// multiply neighbouring positions of a row of the result by a panel. With known scales the sum over a window is one of
// integers; else each position of the window is scaled apart.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/ByteResultEmitter.h"
#include "lib/Target/CPU/ByteTileEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"
#include "lib/Target/CPU/WindowEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/RowScales.h"
#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the launch.
enum { kBlockRows = ITX_PLAN_PRIVATE, kRowBlocks, kPanelsPerTile };
constexpr int64_t kRows = BlockPanels::rows, kWordDepth = 4;
/// About what a tile multiplies: 15 to 20 us of one core that does 64 products of bytes a cycle, so that the threads
/// finish together.
constexpr int64_t kTileProducts = int64_t(1) << 22;

class ByteConvKernel final : public KernelEmitter {
public:
  ByteConvKernel(rt::KernelOp kernel, nn::ConvOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root), channels(root.getInputChannels()) {}

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  using Dimension = WindowEmitter::Dimension;
  /// The positions of a window, which loops go over.
  using TapFn = function_ref<SmallVector<Value>(Value offset, Value tap, ValueRange running)>;

  Value outputSize(Dimension dimension) { return function.size(windows.resultSize(dimension)); }
  /// Returns how many positions of the image in scratch there are in a dimension.
  Value paddedSize(Dimension dimension);
  Value images() { return function.size(function.sizes.of(root.getResult())[0]); }
  Value rowAt(Value position) {
    return memory.at(function.sharedPointer, mul(position, constant(layout.bytes())), b.getI8Type());
  }
  LogicalResult prepareRow(Value index);
  void multiplyPositions(Value panel, Value position, Value rest, int64_t most);
  void emitRegisterTile(Value panel, Value row, int64_t count);
  void emitScaledTile(Value elements, Value row, int64_t first, int64_t count);
  void emitUnitTile(Value elements, Value row, ArrayRef<Value> starts, int64_t first, int64_t count);
  SmallVector<Value> addTap(const ByteTile &tile, Value tap, Value group, int64_t first, ValueRange sums);
  SmallVector<Value> overTaps(ValueRange initial, TapFn body);
  LogicalResult store(Value panel, ArrayRef<Value> position, Value column, Value count);
  Value panelPointer(Value panel) {
    return memory.at(weight->pointer, mul(panel, constant(panels.panelBytes())), b.getI8Type());
  }
  int64_t panelCount() { return llvm::divideCeil(root.getOutputChannels(), kRows); }
  int64_t rowStride() const { return windows.window(Dimension::Column).stride * layout.bytes(); }
  /// Returns true if the channels of a position are whole steps of a panel.
  bool hasWholeSteps() const { return channels % BlockPanels::stepDepth == 0; }

  nn::ConvOp root;
  int64_t channels;
  WindowEmitter windows{function, tensors, root};
  LinearEmitter results{function, tensors, root};
  PanelEmitter weights{function};
  ByteRowEmitter inputs{function, tensors, root.getInput()};
  ByteTileEmitter tiles{function};
  ByteResultEmitter byteResult{function, tensors};
  RecordEmitter quantizer{function, tensors};
  BlockPanels panels;   ///< of the weight
  ByteRowLayout layout; ///< of a position
  std::optional<Storage> weight;
  Value sums;
};
} // namespace

Emitter makeByteConvKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<ByteConvKernel>(kernel, cast<nn::ConvOp>(root), config);
}

LogicalResult ByteConvKernel::analyze() {
  std::optional<BlockPanels> stored = weights.panelsOf(root.getWeight());
  if (!stored || !areBytePanels(*stored))
    return function.refuse(root,
                           "its input is quantized, its weight is not stored in integers of 8 bits with one scale "
                           "for each output channel");
  auto format = cast<nn::BlockFormatAttr>(inputs.format());
  if (!isByteFormat(format) || format.getAxis() != cast<RankedTensorType>(root.getInput().getType()).getRank() - 1)
    return function.refuse(root, "its input is quantized in another way than to integers of 8 bits with scales for "
                                 "channels of a position");
  if (root.getTransposed() || root.getGroups() != 1)
    return function.refuse(root, "its input is quantized, and it is transposed or has groups");
  if (channels % kWordDepth != 0)
    return function.refuse(root, "its input is quantized, and has " + Twine(channels) +
                                     " channels, which are no multiple of " + Twine(kWordDepth));
  panels = *stored;
  auto ofWeight =
      cast<rt::PanelsAttr>(kernel.getArgAttr(cast<BlockArgument>(root.getWeight()).getArgNumber(), "rt.layout"));
  layout = ByteRowLayout::of(*BlockPanels::of(ofWeight.getFormat(), channels), format.getBlock(), config.byteDot);
  if (!inputs.quantize() && !inputs.canCopy(layout))
    return function.refuse(root, "its quantized input is no tensor in memory with whole steps of " +
                                     Twine(BlockPanels::stepDepth) + " channels");
  int64_t together = inputs.hasUnitScale() ? panels.depth : format.getBlock() == 0 ? channels : 0;
  if (together > nn::mostFeaturesOfRowScale)
    return function.refuse(root, "sums of products of " + Twine(together) + " elements do not fit in 32 bits");
  if (failed(results.findSections(/*quantizesResult=*/true)) || failed(byteResult.find(root, /*block=*/0)))
    return failure();
  if (results.together() != 1 || (byteResult && results.sections.size() != 1))
    return function.refuse(root, "an op reads several parts of its result, and a tile has columns of one");
  return success();
}

void ByteConvKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "conv of bytes");
  // Widened factors give two sums for each.
  if (layout.widens())
    config.quantizedVectors = 1;
  chooseByteTile(shape, config, config.tokenRows);
  shape.state("input", inputs.quantize() ? "quantized by the first tiles" : "copied by the first tiles");
  shape.state("weight", "panels of bytes");
  shape.state("sums", inputs.hasUnitScale() ? "over windows" : "over channels");
}

Value ByteConvKernel::paddedSize(Dimension dimension) {
  const nn::WindowDimension &window = windows.window(dimension);
  Value last = sub(outputSize(dimension), constant(1));
  return max(add(mul(last, constant(window.stride)), constant(window.extent())), constant(0));
}

void ByteConvKernel::launch() {
  Value rows = outputSize(WindowEmitter::Row), columns = outputSize(WindowEmitter::Column);
  Value planes = mul(images(), outputSize(WindowEmitter::Plane));
  Value paddedRows = mul(mul(images(), paddedSize(WindowEmitter::Plane)), paddedSize(WindowEmitter::Row));
  // Register tiles read whole ones: beyond the last position lies room for them.
  Value room = constant(config.tokenRows * windows.window(WindowEmitter::Column).stride);
  Value positions = add(mul(paddedRows, paddedSize(WindowEmitter::Column)), room);
  // A tile has as many rows of the result as kTileProducts allows for one panel. Where the whole image is less than
  // that, it has several panels.
  Value rowProducts = max(mul(columns, constant(kRows * panels.steps() * BlockPanels::stepDepth)), constant(1));
  // A weight that stays in the second-level cache passes by as a whole, so that a tile writes whole rows of channels.
  bool isSmall = panelCount() * panels.panelBytes() <= config.blockBytes / 2;
  Value most = max(div(constant(kTileProducts), mul(rowProducts, constant(isSmall ? panelCount() : 1))), constant(1));
  if (isSmall)
    most = max(min(most, div(mul(rows, planes), mul(function.threads, constant(4)))), constant(1));
  Value blocks = max(ceilDiv(rows, most), constant(1));
  Value blockRows = max(ceilDiv(rows, blocks), constant(1));
  int64_t count = std::max<int64_t>(panelCount(), 1);
  Value perTile = constant(count);
  if (!isSmall) {
    Value ofProducts = max(div(constant(kTileProducts), mul(rowProducts, blockRows)), constant(1));
    Value evenly =
        max(ceilDiv(mul(constant(count), mul(planes, blocks)), mul(function.threads, constant(2))), constant(1));
    perTile = min(min(ofProducts, evenly), perTile);
  }
  function.setSlot(ITX_PLAN_SHARED_BYTES, mul(positions, constant(layout.bytes())));
  function.setSlot(ITX_PLAN_TILES, paddedRows);
  function.setSlot(ITX_PLAN_FINISH_TILES, mul(mul(planes, blocks), ceilDiv(constant(panelCount()), perTile)));
  function.setSlot(kBlockRows, blockRows);
  function.setSlot(kRowBlocks, blocks);
  function.setSlot(kPanelsPerTile, perTile);
}

LogicalResult ByteConvKernel::run() {
  weight = tensors.view(root.getWeight());
  sums = function.scratch(config.tokenRows * kRows * 4);
  Value preparing = function.slot(ITX_PLAN_TILES), blockRows = function.slot(kBlockRows),
        blocks = function.slot(kRowBlocks), panelsPerTile = function.slot(kPanelsPerTile);
  LogicalResult prepared = ifThen(less(function.tileBegin, preparing), [&] {
    return forLoop(function.tileBegin, min(function.tileEnd, preparing), constant(1),
                   [&](Value index) { return prepareRow(index); });
  });
  if (failed(prepared))
    return failure();
  Value rows = outputSize(WindowEmitter::Row), columns = outputSize(WindowEmitter::Column),
        planes = outputSize(WindowEmitter::Plane);
  Value begin = max(sub(function.tileBegin, preparing), constant(0));
  return forLoop(begin, sub(function.tileEnd, preparing), constant(1), [&](Value tile) {
    // Tiles of one group of panels follow one another.
    Value block = rem(tile, blocks), rest = div(tile, blocks);
    Value plane = rem(rest, planes), image = rem(div(rest, planes), images());
    Value firstPanel = mul(div(div(rest, planes), images()), panelsPerTile);
    Value endPanel = min(add(firstPanel, panelsPerTile), constant(panelCount()));
    Value firstRow = mul(block, blockRows), endRow = min(add(firstRow, blockRows), rows);
    Value ofPlane = add(mul(image, paddedSize(WindowEmitter::Plane)),
                        mul(plane, constant(windows.window(WindowEmitter::Plane).stride)));
    return forLoop(firstPanel, endPanel, constant(1), [&](Value panel) {
      return forLoop(firstRow, endRow, constant(1), [&](Value row) {
        Value ofRow = add(mul(ofPlane, paddedSize(WindowEmitter::Row)),
                          mul(row, constant(windows.window(WindowEmitter::Row).stride)));
        Value first = mul(ofRow, paddedSize(WindowEmitter::Column));
        return forLoop(constant(0), columns, constant(config.tokenRows), [&](Value column) {
          Value left = sub(columns, column);
          Value position = add(first, mul(column, constant(windows.window(WindowEmitter::Column).stride)));
          multiplyPositions(panel, position, left, config.tokenRows);
          return store(panel, {image, plane, row}, column, min(left, constant(config.tokenRows)));
        });
      });
    });
  });
}

//===-- The input -------------------------------------------------------------------------------------------------===//

/// Emits the rows of a row of the image in scratch.
LogicalResult ByteConvKernel::prepareRow(Value index) {
  Value rows = paddedSize(WindowEmitter::Row), planes = paddedSize(WindowEmitter::Plane),
        columns = paddedSize(WindowEmitter::Column);
  auto inInput = [&](Dimension dimension, Value padded) {
    return sub(padded, constant(windows.window(dimension).padLow));
  };
  Value row = inInput(WindowEmitter::Row, rem(index, rows));
  Value plane = inInput(WindowEmitter::Plane, rem(div(index, rows), planes));
  Value image = div(div(index, rows), planes);
  Value position = mul(index, columns);
  auto clear = [&](Value begin, Value end) {
    forLoop(begin, end, constant(1), [&](Value column) { inputs.clearRow(layout, rowAt(add(position, column))); });
  };
  auto isInside = [&](Value at, Dimension dimension) -> Value {
    return make<arith::AndIOp>(less(constant(-1), at), less(at, windows.inputSize(dimension)));
  };
  Value isRow = make<arith::AndIOp>(isInside(row, WindowEmitter::Row), isInside(plane, WindowEmitter::Plane));
  return ifThen(
      isRow,
      [&]() -> LogicalResult {
        Value begin = min(constant(windows.window(WindowEmitter::Column).padLow), columns);
        Value end = min(add(begin, windows.inputSize(WindowEmitter::Column)), columns);
        clear(constant(0), begin);
        ArrayRef<AffineExpr> leading = function.sizes.of(root.getInput()).drop_back();
        LogicalResult written = forLoop(begin, end, constant(1), [&](Value column) {
          ImageBlock block;
          block.image = image;
          RowScope scope =
              tensors.makeRow(windows.indicesOf(block, plane, row, inInput(WindowEmitter::Column, column)), leading);
          return inputs.writeRow(layout, scope, rowAt(add(position, column)));
        });
        clear(end, columns);
        return written;
      },
      [&]() -> LogicalResult {
        clear(constant(0), columns);
        return success();
      });
}

//===-- Products --------------------------------------------------------------------------------------------------===//

/// Returns the next smaller register tile: 8, 7, 6, 4, 2 and 1 rows. Images of 14 and 7 positions are common.
static int64_t smallerTile(int64_t rows) { return rows > 6 ? rows - 1 : rows > 4 ? 4 : rows / 2; }

/// Multiplies the windows of neighbouring positions, of which `rest` are left, by a panel: `most`, or fewer where these
/// suffice.
void ByteConvKernel::multiplyPositions(Value panel, Value position, Value rest, int64_t most) {
  auto whole = [&] { emitRegisterTile(panel, rowAt(position), most); };
  if (most == 1)
    return whole();
  int64_t fewer = smallerTile(most);
  ifThen(less(constant(fewer), rest), whole, [&] { multiplyPositions(panel, position, rest, fewer); });
}

/// Emits loops over the positions of a window: body(bytes from the first one's row, its number, running).
SmallVector<Value> ByteConvKernel::overTaps(ValueRange initial, TapFn body) {
  const nn::WindowDimension &planes = windows.window(WindowEmitter::Plane), &rows = windows.window(WindowEmitter::Row),
                            &columns = windows.window(WindowEmitter::Column);
  Value ofColumn = constant(columns.dilation * layout.bytes());
  Value ofRow = mul(paddedSize(WindowEmitter::Column), constant(rows.dilation * layout.bytes()));
  Value ofPlane = mul(mul(paddedSize(WindowEmitter::Column), paddedSize(WindowEmitter::Row)),
                      constant(planes.dilation * layout.bytes()));
  auto loop = [&](int64_t count, ValueRange running, auto inner) -> SmallVector<Value> {
    if (count == 1)
      return inner(constant(0), running);
    return forLoop(constant(0), constant(count), constant(1), running, inner);
  };
  return loop(planes.window, initial, [&](Value plane, ValueRange inPlane) {
    return loop(rows.window, inPlane, [&](Value row, ValueRange inRow) {
      return loop(columns.window, inRow, [&](Value column, ValueRange running) {
        Value offset = add(add(mul(plane, ofPlane), mul(row, ofRow)), mul(column, ofColumn));
        Value tap = add(mul(add(mul(plane, constant(rows.window)), row), constant(columns.window)), column);
        return body(offset, tap, running);
      });
    });
  });
}

/// Multiplies the windows of `count` positions by a panel: sums [positions][32] f32.
void ByteConvKernel::emitRegisterTile(Value panel, Value row, int64_t count) {
  Value elements = memory.at(panelPointer(panel), constant(panels.headBytes + panels.unitScaleBytes), b.getI8Type());
  SmallVector<Value> starts;
  if (inputs.hasUnitScale()) {
    starts = overTaps(SmallVector<Value>(count, word(0)), [&](Value offset, Value, ValueRange running) {
      Value head = memory.at(row, offset, b.getI8Type());
      SmallVector<Value> next(running);
      for (auto [r, start] : llvm::enumerate(next))
        start = make<arith::AddIOp>(start, tiles.fieldOf(head, int64_t(r) * rowStride(), b.getI32Type()));
      return next;
    });
  }
  for (int64_t first = 0; first < kRows; first += tiles.columnVectors() * config.lanes)
    inputs.hasUnitScale() ? emitUnitTile(elements, row, starts, first, count)
                          : emitScaledTile(elements, row, first, count);
}

/// Adds the products of a group of channels of a position of the window to sums.
SmallVector<Value> ByteConvKernel::addTap(const ByteTile &tile, Value tap, Value group, int64_t first,
                                          ValueRange sums) {
  if (hasWholeSteps()) {
    Value begin = mul(group, constant(layout.groupSteps));
    Value end = min(add(begin, constant(layout.groupSteps)), constant(layout.panels.steps()));
    ByteTile ofTap = tile;
    ofTap.elements =
        memory.at(tile.elements, mul(tap, constant(layout.panels.steps() * panels.stepBytes())), b.getI8Type());
    return tiles.addSteps(ofTap, begin, end, first, sums);
  }
  int64_t groupWords = layout.groupSteps * BlockPanels::words;
  ByteTile ofTap = tile;
  ofTap.firstWord = mul(tap, constant(channels / kWordDepth));
  Value begin = mul(group, constant(groupWords));
  Value end = min(add(begin, constant(groupWords)), constant(channels / kWordDepth));
  return tiles.addWordsBetween(ofTap, begin, end, first, sums);
}

/// Emits sums over whole windows of integers, by columns from `first` on.
void ByteConvKernel::emitUnitTile(Value elements, Value row, ArrayRef<Value> starts, int64_t first, int64_t count) {
  int64_t lanes = config.lanes, vectors = tiles.columnVectors();
  Type f32 = b.getF32Type();
  SmallVector<Value> added = overTaps(tiles.begin(layout, starts), [&](Value offset, Value tap, ValueRange running) {
    ByteTile tile{layout, elements, {}, memory.at(row, offset, b.getI8Type()), rowStride(), count, {}, {}};
    return addTap(tile, tap, constant(0), first, running);
  });
  Value factor = splat(quantizer.factorOfRecord(panels), lanes);
  for (auto [i, total] : llvm::enumerate(tiles.finish(layout, starts, added))) {
    Value sum = make<arith::MulFOp>(make<arith::SIToFPOp>(vectorOf(f32, lanes), total), factor);
    memory.store(sum, sums, constant(int64_t(i) / vectors * kRows + first + int64_t(i) % vectors * lanes), f32, lanes);
  }
}

/// Emits sums whose integers are scaled for each group of channels of each position, by columns from `first` on.
void ByteConvKernel::emitScaledTile(Value elements, Value row, int64_t first, int64_t count) {
  int64_t lanes = config.lanes, vectors = tiles.columnVectors();
  Type f32 = b.getF32Type();
  auto place = [&](int64_t i) { return constant(i / vectors * kRows + first + i % vectors * lanes); };
  for (int64_t i = 0; i < count * vectors; ++i)
    memory.store(floatConstant(0.0, f32, lanes), sums, place(i), f32, lanes);
  overTaps({}, [&](Value offset, Value tap, ValueRange) {
    Value rowOfTap = memory.at(row, offset, b.getI8Type());
    ByteTile tile{layout, elements, {}, rowOfTap, rowStride(), count, {}, {}};
    forLoop(constant(0), constant(layout.groups()), constant(1), [&](Value group) {
      Value head = inputs.headOf(rowOfTap, group);
      SmallVector<Value> starts;
      for (int64_t r = 0; r < count; ++r)
        starts.push_back(tiles.fieldOf(head, r * rowStride(), b.getI32Type()));
      SmallVector<Value> added = addTap(tile, tap, group, first, tiles.begin(layout, starts));
      for (auto [i, total] : llvm::enumerate(tiles.finish(layout, starts, added))) {
        Value scale = splat(tiles.fieldOf(head, int64_t(i) / vectors * rowStride() + 4, f32), lanes);
        Value sum = make<arith::SIToFPOp>(vectorOf(f32, lanes), total);
        Value before = memory.load(sums, place(i), f32, lanes);
        memory.store(make<vector::FMAOp>(sum, scale, before), sums, place(i), f32, lanes);
      }
    });
    return SmallVector<Value>();
  });
}

/// Stores the sums of `count` positions, and what other ops of the kernel make of them.
LogicalResult ByteConvKernel::store(Value panel, ArrayRef<Value> position, Value column, Value count) {
  Type scaleType = nn::scaleType(panels.scale, b.getContext());
  ImageBlock block;
  block.image = position[0];
  return results.inSectionOf(panel, [&](const LinearSection &section, Value channel) {
    return forLoop(constant(0), count, constant(1), [&](Value r) {
      RowScope row =
          tensors.makeRow(windows.indicesOf(block, position[1], position[2], add(column, r)), results.leading());
      auto sum = [&](int64_t, Value c, int64_t width) -> Value {
        Value x = memory.load(sums, add(mul(r, constant(kRows)), c), b.getF32Type(), width);
        return make<arith::MulFOp>(x, memory.load(panelPointer(panel), c, scaleType, width));
      };
      auto keep = [&](ArrayRef<Index> at, int64_t width) -> LogicalResult {
        return byteResult ? byteResult.storeUnit(row.flat, at, width) : success();
      };
      if (byteResult)
        ifThen(equal(channel, constant(0)), [&] { byteResult.storeUnitScale(row.flat); });
      return results.storeLinearRow(section, row, channel, sum, keep);
    });
  });
}

} // namespace intarsia::cpu
