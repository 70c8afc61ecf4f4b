//===- ConvKernel.cpp - Convolutions ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"
#include "lib/Target/CPU/WindowEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the launch.
enum { kBlockRows = ITX_PLAN_PRIVATE, kRowBlocks, kBlockColumns, kColumnBlocks, kPanelsPerTile, kPanelGroups };
/// Tiles of a thread: one that is held up leaves its work to the others.
constexpr int64_t kTilesPerThread = 8;
/// Columns of a block of an image whose width is not known.
constexpr int64_t kColumnsOfUnknown = 64;

/// A tile is a block of positions of an image by some panels of the weight. What the windows of the block read is
/// copied to scratch with zeros around it, or read where it lies if there are no pads. A row of a window and its
/// channels lie side by side there, so that the sum over a window is one over few segments. A transposed convolution is
/// several plain ones, each of every stride-th position of the result and of the window.
class ConvKernel final : public KernelEmitter {
public:
  ConvKernel(rt::KernelOp kernel, nn::ConvOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root), groups(root.getGroups()), inputChannels(root.getInputChannels()),
        outputChannels(root.getOutputChannels()), depth(root.getWeight().getType().getDimSize(1)),
        isTransposed(root.getTransposed()) {}

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  /// What neighbouring positions of the result multiply: a window of the input by rows of a panel.
  struct Products {
    Value at, step; ///< elements of the source to the first window, and from each to the next
    Value weights;  ///< the first row of the panel
    SmallVector<TileSegments, 3> segments;
    int64_t depth; ///< of a segment
  };

  /// True if lanes are channels of the result, each vector of several whole groups whose channels of the input fit in a
  /// vector too.
  bool hasGroupsInLanes() const {
    return groups > 1 && config.lanes % groupOutputs() == 0 && groupInputs() <= groupOutputs() && !isTransposed;
  }
  int64_t groupInputs() const { return inputChannels / groups; }
  int64_t groupOutputs() const { return outputChannels / groups; }
  int64_t panelCount() const { return llvm::divideCeil(outputChannels, kPanelWidth); }
  /// Channels of the input that a panel's columns read, where groups are in lanes.
  int64_t panelInputs() const { return kPanelWidth / groupOutputs() * groupInputs(); }
  /// Channels of a position in scratch. Where groups are in lanes those of a panel are copied at a time.
  int64_t packedChannels() const { return hasGroupsInLanes() ? panelInputs() : inputChannels; }

  ImageBlock blockOf(Value tile, Value &firstPanel, Value &endPanel);
  LogicalResult multiplyPanel(const ImageBlock &block, const WindowSource &source, Value panel);
  LogicalResult multiplyRow(const ImageBlock &block, const WindowSource &source, Value panel, Value row, Value first,
                            Value tap);
  LogicalResult multiplyBlock(const ImageBlock &block, const WindowSource &source, Value panel, Value tap);
  LogicalResult storeLanes(const ImageBlock &block, const WindowSource &source, Value at, Value panel, Value row,
                           Value column, Value count);
  LogicalResult multiplyTile(const ImageBlock &block, const TileOperands &operands, Value panel, Value row,
                             Value column, Value count);
  Products productsOf(const WindowSource &source, const WindowTaps &planes, const WindowTaps &rows,
                      const WindowTaps &columns);
  void multiplyGroups(const WindowSource &source, const Products &products, Value panel, Value count);
  TileOperands operandsOf(const WindowSource &source, const Products &products, Value group, Value panel, Value to,
                          Value column);
  /// Takes the sums of the lanes of a panel, from a channel of it on, at a position.
  using LanesFn = function_ref<LogicalResult(int64_t position, Value lane, Value sums)>;
  LogicalResult multiplyLanes(const WindowSource &source, Value at, Value panel, Value count, LanesFn finish);
  LogicalResult addWindows(const WindowSource &source, Value at, Value panel, int64_t count, LanesFn finish);
  SmallVector<Value> addRowOfWindows(const WindowSource &source, Value inRow, Value weights, ValueRange running);
  Value spreadOverGroups(Value inputs, int64_t channel);
  RowScope positionOf(const ImageBlock &block, Value row, Value column, Value index);
  LogicalResult store(const ImageBlock &block, Value panel, Value row, Value column, Value count, Value from);
  Value panelPointer(Value panel);

  nn::ConvOp root;
  int64_t groups, inputChannels, outputChannels, depth;
  bool isTransposed;
  WindowEmitter windows{function, tensors, root};
  LinearEmitter results{function, tensors, root};
  TileEmitter registerTiles{function};
  int64_t mostRows = 1, mostColumns = 1;
  bool packsInput = true, hasPanels = false, storesFromRegisters = false, splitsWindows = false;

  std::optional<Storage> weight;
  Value packedPanel, sums, groupSums;
};
} // namespace

Emitter makeConvKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  auto conv = cast<nn::ConvOp>(root);
  if (conv.getInput().getDefiningOp<nn::DequantizeOp>())
    return makeByteConvKernel(kernel, root, config);
  return std::make_unique<ConvKernel>(kernel, conv, config);
}

LogicalResult ConvKernel::analyze() {
  if (isTransposed &&
      llvm::any_of(root.getDilations().value_or(ArrayRef<int64_t>()), [](int64_t dilation) { return dilation != 1; }))
    return function.refuse(root, "it is transposed, and its windows are dilated");
  auto argument = dyn_cast<BlockArgument>(root.getWeight());
  auto panels =
      argument ? kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout") : rt::PanelsAttr();
  if (panels && panels.getFormat())
    return function.refuse(root, "its weight is quantized");
  hasPanels = bool(panels);
  if (failed(results.findSections()))
    return failure();
  if (results.together() != 1)
    return function.refuse(root, "an op reads several parts of its result, and a tile has columns of one");
  return success();
}

void ConvKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "conv");
  chooseRegisterTile(shape, config);
  std::optional<bool> density = tensors.densityOf(root.getInput());
  bool readsBeyond = hasGroupsInLanes() && (outputChannels % kPanelWidth != 0 || groupInputs() != groupOutputs());
  packsInput =
      !density || windows.hasPads() || isTransposed || readsBeyond || !getElementTypeOrSelf(root.getInput()).isF32();
  // As many rows as fit in the private cache beside the panels that pass by; where one does not, as many columns.
  int64_t bytes = hasGroupsInLanes() ? config.blockBytes / 4 : config.blockBytes / 2;
  auto isTooLarge = [&] { return windows.elements(mostRows, mostColumns, packedChannels()) * 4 > bytes; };
  mostColumns = std::max<int64_t>(windows.knownSize(WindowEmitter::Column).value_or(kColumnsOfUnknown), 1);
  while (isTooLarge() && mostColumns > config.rows)
    mostColumns = llvm::alignTo(llvm::divideCeil(mostColumns, 2), config.rows);
  int64_t rows = windows.knownSize(WindowEmitter::Row).value_or(kMostBlockRows);
  for (; mostRows < rows; ++mostRows)
    if (isTooLarge()) {
      mostRows = std::max<int64_t>(mostRows - 1, 1);
      break;
    }
  shape.choose("block_rows", mostRows, {1, kMostBlockRows, 1});
  shape.choose("block_columns", mostColumns, {1, kMostBlockRows, 1});
  shape.state("input", packsInput ? "packed by block" : "in place");
  shape.state("weight", hasPanels ? "panels" : "packed by tile");
  shape.state("sums", hasGroupsInLanes() ? "groups in lanes" : "rows by panels");
  // Lanes that are no channels are not stored, and sums of several groups are put together in scratch.
  storesFromRegisters =
      results.storesFromRegisters() && (hasGroupsInLanes() ? outputChannels % config.lanes == 0 : groups == 1);
  shape.state("results", storesFromRegisters ? "from registers" : "from scratch");
  // A panel that fills much of the private cache passes by in parts, one for each row of a window, so that there is
  // room for what comes next.
  splitsWindows = storesFromRegisters && groups == 1 && hasPanels && !isTransposed &&
                  windows.window(WindowEmitter::Row).window > 1 && windows.window(WindowEmitter::Plane).window == 1 &&
                  depth * kPanelWidth * 4 > config.blockBytes / 3;
  shape.state("depth", splitsWindows ? "by rows of windows" : "whole");
}

void ConvKernel::launch() {
  auto blocksOf = [&](WindowEmitter::Dimension dimension, Value blocks, int64_t multiple, Value &size) {
    Value all = function.size(windows.resultSize(dimension));
    size = max(mul(ceilDiv(ceilDiv(all, blocks), constant(multiple)), constant(multiple)), constant(1));
    return ceilDiv(all, size);
  };
  auto leastBlocks = [&](WindowEmitter::Dimension dimension, int64_t most) {
    return max(ceilDiv(function.size(windows.resultSize(dimension)), constant(most)), constant(1));
  };
  Value rows, columns, wanted = mul(function.threads, constant(kTilesPerThread));
  std::optional<int64_t> known = windows.knownSize(WindowEmitter::Column);
  // Blocks that are not as wide as the image are whole register tiles, and no wider than scratch.
  int64_t multiple = (known && *known <= mostColumns) || mostColumns % config.rows != 0 ? 1 : config.rows;
  Value columnBlocks =
      blocksOf(WindowEmitter::Column, leastBlocks(WindowEmitter::Column, mostColumns), multiple, columns);
  Value images = mul(function.size(function.sizes.of(root.getResult())[0]),
                     function.size(windows.resultSize(WindowEmitter::Plane)));
  // Rows are divided as far as panels are not.
  Value others = max(mul(mul(images, columnBlocks), constant(panelCount())), constant(1));
  Value rowBlocks =
      blocksOf(WindowEmitter::Row, max(leastBlocks(WindowEmitter::Row, mostRows), ceilDiv(wanted, others)), 1, rows);
  Value positions = mul(images, mul(rowBlocks, columnBlocks));
  Value panelsPerTile =
      ceilDiv(constant(panelCount()), min(ceilDiv(wanted, max(positions, constant(1))), constant(panelCount())));
  Value panelGroups = ceilDiv(constant(panelCount()), panelsPerTile);
  function.setSlot(ITX_PLAN_TILES, mul(positions, panelGroups));
  function.setSlot(kBlockRows, rows);
  function.setSlot(kRowBlocks, rowBlocks);
  function.setSlot(kBlockColumns, columns);
  function.setSlot(kColumnBlocks, columnBlocks);
  function.setSlot(kPanelsPerTile, panelsPerTile);
  function.setSlot(kPanelGroups, panelGroups);
}

LogicalResult ConvKernel::run() {
  weight = tensors.view(root.getWeight());
  if (!weight)
    return function.refuse(root, "its weight is neither packed in panels of 32 nor a tensor in memory");
  sums =
      function.scratch((splitsWindows ? std::max(mostRows * mostColumns, config.rows) : config.rows) * kPanelWidth * 4);
  groupSums = groups == 1 || hasGroupsInLanes() || groupOutputs() % config.lanes == 0
                  ? Value()
                  : function.scratch(config.rows * kPanelWidth * 4);
  windows.begin(packsInput, mostRows, mostColumns, packedChannels());
  packedPanel = hasPanels ? Value() : function.scratch(depth * kPanelWidth * 4);
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) -> LogicalResult {
    Value firstPanel, endPanel;
    ImageBlock block = blockOf(tile, firstPanel, endPanel);
    if (packsInput && !hasGroupsInLanes() && failed(windows.copy(block, constant(0))))
      return failure();
    WindowSource source = windows.sourceOf(block);
    return forLoop(firstPanel, endPanel, constant(1), [&](Value panel) -> LogicalResult {
      if (packsInput && hasGroupsInLanes() && failed(windows.copy(block, mul(panel, constant(panelInputs())))))
        return failure();
      return multiplyPanel(block, source, panel);
    });
  });
}

ImageBlock ConvKernel::blockOf(Value tile, Value &firstPanel, Value &endPanel) {
  auto take = [&](Value count) {
    Value index = rem(tile, count);
    tile = div(tile, count);
    return index;
  };
  auto blockIn = [&](WindowEmitter::Dimension dimension, int64_t blocks, int64_t sizes, Value &first, Value &end) {
    first = mul(take(function.slot(blocks)), function.slot(sizes));
    end = min(add(first, function.slot(sizes)), function.size(windows.resultSize(dimension)));
  };
  ImageBlock block;
  firstPanel = mul(take(function.slot(kPanelGroups)), function.slot(kPanelsPerTile));
  endPanel = min(add(firstPanel, function.slot(kPanelsPerTile)), constant(panelCount()));
  blockIn(WindowEmitter::Column, kColumnBlocks, kBlockColumns, block.firstColumn, block.endColumn);
  blockIn(WindowEmitter::Row, kRowBlocks, kBlockRows, block.firstRow, block.endRow);
  block.plane = take(function.size(windows.resultSize(WindowEmitter::Plane)));
  block.image = tile;
  return block;
}

//===-- Products --------------------------------------------------------------------------------------------------===//

Value ConvKernel::panelPointer(Value panel) {
  if (!hasPanels)
    return packedPanel;
  return memory.at(weight->pointer, mul(panel, constant(depth * kPanelWidth)), weight->elementType);
}

LogicalResult ConvKernel::multiplyPanel(const ImageBlock &block, const WindowSource &source, Value panel) {
  Value firstChannel = mul(panel, constant(kPanelWidth));
  if (!hasPanels)
    registerTiles.packTransposed(packedPanel,
                                 memory.at(weight->pointer, mul(firstChannel, weight->strides[0]), weight->elementType),
                                 weight->strides[0], weight->elementType, constant(depth),
                                 min(sub(constant(outputChannels), firstChannel), constant(kPanelWidth)), Value());
  if (!splitsWindows)
    return multiplyBlock(block, source, panel, Value());
  Value positions = mul(sub(block.endRow, block.firstRow), function.slot(kBlockColumns));
  vectorLoop(mul(positions, constant(kPanelWidth)), [&](Value i, int64_t width) {
    memory.store(floatConstant(0.0, b.getF32Type(), width), sums, i, b.getF32Type(), width);
  });
  return forLoop(constant(0), constant(windows.window(WindowEmitter::Row).window), constant(1),
                 [&](Value tap) { return multiplyBlock(block, source, panel, tap); });
}

/// Multiplies the windows of a block, or with `tap` one row of each, by a panel.
LogicalResult ConvKernel::multiplyBlock(const ImageBlock &block, const WindowSource &source, Value panel, Value tap) {
  // Columns of one phase meet the same positions of a window.
  Value phases = constant(windows.phases(WindowEmitter::Column));
  return forLoop(block.firstRow, block.endRow, constant(1), [&](Value row) {
    Value firstOfOthers = min(add(block.firstColumn, phases), block.endColumn);
    return forLoop(block.firstColumn, firstOfOthers, constant(1),
                   [&](Value first) { return multiplyRow(block, source, panel, row, first, tap); });
  });
}

/// Computes the columns of a row of the result that are of the phase of the first one.
LogicalResult ConvKernel::multiplyRow(const ImageBlock &block, const WindowSource &source, Value panel, Value row,
                                      Value first, Value tap) {
  int64_t phases = windows.phases(WindowEmitter::Column);
  WindowTaps planes = windows.tapsOf(WindowEmitter::Plane, block.plane, block.plane);
  WindowTaps rows = windows.tapsOf(WindowEmitter::Row, row, block.firstRow);
  if (tap) {
    rows.count = constant(1);
    rows.first = tap;
    rows.source = add(rows.source, mul(tap, constant(rows.sourceStep)));
  }
  return forLoop(first, block.endColumn, constant(phases * config.rows), [&](Value column) {
    Value count = min(ceilDiv(sub(block.endColumn, column), constant(phases)), constant(config.rows));
    Products products =
        productsOf(source, planes, rows, windows.tapsOf(WindowEmitter::Column, column, block.firstColumn));
    if (hasGroupsInLanes()) {
      Value at = packsInput ? products.at : add(products.at, mul(panel, constant(kPanelWidth)));
      return storeLanes(block, source, at, panel, row, column, count);
    }
    if (!storesFromRegisters) {
      multiplyGroups(source, products, panel, count);
      return store(block, panel, row, column, count, sums);
    }
    TileOperands operands = operandsOf(source, products, constant(0), panel, sums, constant(0));
    if (!tap)
      return multiplyTile(block, operands, panel, row, column, count);
    Value position = add(mul(sub(row, block.firstRow), function.slot(kBlockColumns)), sub(column, block.firstColumn));
    operands.out = memory.at(sums, mul(position, constant(kPanelWidth)), b.getF32Type());
    operands.accumulate = true;
    Value isLast = equal(tap, constant(windows.window(WindowEmitter::Row).window - 1));
    return ifThen(
        isLast, [&] { return multiplyTile(block, operands, panel, row, column, count); },
        [&]() -> LogicalResult {
          registerTiles.emitTileRows(operands, count, kPanelWidth);
          return success();
        });
  });
}

/// Multiplies neighbouring positions by a panel, and stores the results from registers where there are as many as a
/// whole tile has, or the last one of a row of the image.
LogicalResult ConvKernel::multiplyTile(const ImageBlock &block, const TileOperands &operands, Value panel, Value row,
                                       Value column, Value count) {
  SmallVector<int64_t> counts{config.rows};
  std::optional<int64_t> width = windows.knownSize(WindowEmitter::Column);
  if (width && !isTransposed && *width % config.rows != 0)
    counts.push_back(*width % config.rows);
  return results.inSectionOf(panel, [&](const LinearSection &section, Value channel) {
    return results.withColumnsOf(panel, [&](int64_t columns) {
      return registerTiles.emitTileRows(
          operands, count, llvm::alignTo(columns, config.lanes), counts,
          [&](int64_t position, int64_t first, Value ofColumns) {
            return results.storeSums(section, positionOf(block, row, column, constant(position)),
                                     add(channel, constant(first)), ofColumns, std::min(columns - first, config.lanes));
          },
          [&] { return store(block, panel, row, column, count, operands.out); });
    });
  });
}

ConvKernel::Products ConvKernel::productsOf(const WindowSource &source, const WindowTaps &planes,
                                            const WindowTaps &rows, const WindowTaps &columns) {
  Products products;
  products.at =
      add(add(mul(planes.source, source.plane), mul(rows.source, source.row)), mul(columns.source, source.column));
  products.step = mul(source.column, constant(isTransposed ? 1 : windows.window(WindowEmitter::Column).stride));
  int64_t channels = groupInputs(), width = windows.window(WindowEmitter::Column).window;
  int64_t rowOfWindow = channels * width, planeOfWindow = rowOfWindow * windows.window(WindowEmitter::Row).window;
  products.weights = add(add(mul(planes.first, constant(planeOfWindow)), mul(rows.first, constant(rowOfWindow))),
                         mul(columns.first, constant(channels)));
  auto addSegments = [&](const WindowTaps &taps, Value stride, int64_t depthOfStep) {
    if (getConstantIntValue(taps.count) != std::optional<int64_t>(1))
      products.segments.push_back(
          {taps.count, mul(constant(taps.sourceStep), stride), constant(taps.step * depthOfStep * kPanelWidth)});
  };
  addSegments(planes, source.plane, planeOfWindow);
  addSegments(rows, source.row, rowOfWindow);
  // Positions of a row of a window lie side by side with all of their channels.
  products.depth = channels;
  if (columns.sourceStep == 1 && groups == 1 && getConstantIntValue(source.column) == std::optional(channels))
    products.depth *= width;
  else
    addSegments(columns, source.column, channels);
  return products;
}

/// Multiplies the windows at `count` neighbouring positions by the panel's columns, each with the channels of its
/// group.
void ConvKernel::multiplyGroups(const WindowSource &source, const Products &products, Value panel, Value count) {
  if (groups == 1)
    return registerTiles.emitTileRows(operandsOf(source, products, constant(0), panel, sums, constant(0)), count,
                                      kPanelWidth);
  Value firstChannel = mul(panel, constant(kPanelWidth)), outputs = constant(groupOutputs());
  Value endChannel = min(add(firstChannel, constant(kPanelWidth)), constant(outputChannels));
  if (!groupSums) {
    // Each vector of columns is of one group.
    int64_t columns = std::gcd(groupOutputs(), kPanelWidth);
    forLoop(firstChannel, endChannel, constant(columns), [&](Value channel) {
      registerTiles.emitTileRows(
          operandsOf(source, products, div(channel, outputs), panel, sums, sub(channel, firstChannel)), count, columns);
    });
    return;
  }
  forLoop(div(firstChannel, outputs), ceilDiv(endChannel, outputs), constant(1), [&](Value group) {
    registerTiles.emitTileRows(operandsOf(source, products, group, panel, groupSums, constant(0)), count, kPanelWidth);
    Value begin = max(sub(mul(group, outputs), firstChannel), constant(0));
    Value end = min(sub(mul(add(group, constant(1)), outputs), firstChannel), constant(kPanelWidth));
    forLoop(constant(0), count, constant(1), [&](Value r) {
      Value from = add(mul(r, constant(kPanelWidth)), begin);
      vectorLoop(sub(end, begin), [&](Value c, int64_t width) {
        Type f32 = b.getF32Type();
        memory.store(memory.load(groupSums, add(from, c), f32, width), sums, add(from, c), f32, width);
      });
    });
  });
}

/// Returns the operands of a tile of windows by columns of a panel, from one on, that are all of one group.
TileOperands ConvKernel::operandsOf(const WindowSource &source, const Products &products, Value group, Value panel,
                                    Value to, Value column) {
  TileOperands operands;
  operands.a = memory.at(source.pointer, add(products.at, mul(group, constant(groupInputs()))), source.type);
  operands.aRow = products.step;
  operands.aColumn = constant(1);
  operands.aType = source.type;
  operands.bType = hasPanels ? weight->elementType : b.getF32Type();
  operands.b =
      memory.at(panelPointer(panel), add(mul(products.weights, constant(kPanelWidth)), column), operands.bType);
  operands.bRow = constant(kPanelWidth);
  operands.depth = constant(products.depth);
  operands.segments = products.segments;
  operands.out = memory.at(to, column, b.getF32Type());
  operands.outRow = constant(kPanelWidth);
  return operands;
}

/// Computes and stores the results at `count` neighbouring positions for a panel whose vectors have whole groups.
LogicalResult ConvKernel::storeLanes(const ImageBlock &block, const WindowSource &source, Value at, Value panel,
                                     Value row, Value column, Value count) {
  if (storesFromRegisters)
    return results.inSectionOf(panel, [&](const LinearSection &section, Value channel) {
      return multiplyLanes(source, at, panel, count, [&](int64_t position, Value lane, Value ofLanes) {
        return results.storeSums(section, positionOf(block, row, column, constant(position)), add(channel, lane),
                                 ofLanes, config.lanes);
      });
    });
  (void)multiplyLanes(source, at, panel, count, [&](int64_t position, Value lane, Value ofLanes) {
    memory.store(ofLanes, sums, add(constant(position * kPanelWidth), lane), b.getF32Type(), config.lanes);
    return success();
  });
  return store(block, panel, row, column, count, sums);
}

/// Multiplies the windows at `count` neighbouring positions by a panel, whose vectors have whole groups.
LogicalResult ConvKernel::multiplyLanes(const WindowSource &source, Value at, Value panel, Value count,
                                        LanesFn finish) {
  std::function<LogicalResult(int64_t)> choose = [&](int64_t positions) -> LogicalResult {
    if (positions == 1)
      return addWindows(source, at, panel, 1, finish);
    return ifThen(
        equal(count, constant(positions)), [&] { return addWindows(source, at, panel, positions, finish); },
        [&] { return choose(positions - 1); });
  };
  return choose(config.rows);
}

LogicalResult ConvKernel::addWindows(const WindowSource &source, Value at, Value panel, int64_t count, LanesFn finish) {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type(), weightType = hasPanels ? weight->elementType : f32;
  const nn::WindowDimension &planes = windows.window(WindowEmitter::Plane), &rows = windows.window(WindowEmitter::Row);
  Value rowOfWindow = constant(windows.window(WindowEmitter::Column).window * groupInputs() * kPanelWidth);
  Value channels = min(sub(constant(outputChannels), mul(panel, constant(kPanelWidth))), constant(kPanelWidth));
  return forLoop(constant(0), channels, constant(lanes), [&](Value lane) -> LogicalResult {
    SmallVector<Value> running(count, floatConstant(0.0, f32, lanes));
    Value begin = add(at, mul(div(lane, constant(groupOutputs())), constant(groupInputs())));
    auto addRows = [&](Value plane, ValueRange ofPlane) {
      return forLoop(constant(0), constant(rows.window), constant(1), ofPlane, [&](Value row, ValueRange ofRow) {
        Value inRow = add(add(begin, mul(mul(plane, constant(planes.dilation)), source.plane)),
                          mul(mul(row, constant(rows.dilation)), source.row));
        Value place = mul(add(mul(plane, constant(rows.window)), row), rowOfWindow);
        return addRowOfWindows(source, inRow, memory.at(panelPointer(panel), add(place, lane), weightType), ofRow);
      });
    };
    running = forLoop(constant(0), constant(planes.window), constant(1), running, addRows);
    for (int64_t position = 0; position < count; ++position)
      if (failed(finish(position, lane, running[position])))
        return failure();
    return success();
  });
}

/// Adds the products of one row of each window. Neighbouring windows share positions, which are loaded once.
SmallVector<Value> ConvKernel::addRowOfWindows(const WindowSource &source, Value inRow, Value weights,
                                               ValueRange running) {
  int64_t lanes = config.lanes;
  Type weightType = hasPanels ? weight->elementType : b.getF32Type();
  const nn::WindowDimension &columns = windows.window(WindowEmitter::Column);
  SmallVector<Value> next(running);
  DenseMap<int64_t, SmallVector<Value>> inputs; // of a column: its channels
  for (int64_t k = 0; k < columns.window; ++k) {
    SmallVector<Value> factors;
    for (int64_t channel = 0; channel < groupInputs(); ++channel)
      factors.push_back(memory.load(weights, constant((k * groupInputs() + channel) * kPanelWidth), weightType, lanes));
    for (auto [position, sum] : llvm::enumerate(next)) {
      int64_t column = int64_t(position) * columns.stride + k * columns.dilation;
      SmallVector<Value> &channels = inputs[column];
      if (channels.empty()) {
        Value all = memory.load(source.pointer, add(inRow, mul(constant(column), source.column)), source.type, lanes);
        for (int64_t channel = 0; channel < groupInputs(); ++channel)
          channels.push_back(spreadOverGroups(all, channel));
      }
      for (auto [x, factor] : llvm::zip_equal(channels, factors))
        sum = make<vector::FMAOp>(x, factor, sum);
    }
  }
  return next;
}

/// Returns a vector in which each column of the result has a channel of its group.
Value ConvKernel::spreadOverGroups(Value inputs, int64_t channel) {
  if (groupOutputs() == 1)
    return inputs;
  SmallVector<int64_t> places;
  for (int64_t lane = 0; lane < config.lanes; ++lane)
    places.push_back(lane / groupOutputs() * groupInputs() + channel);
  return make<vector::ShuffleOp>(inputs, inputs, places);
}

/// Returns where the position of one phase lies whose index is counted from a column.
RowScope ConvKernel::positionOf(const ImageBlock &block, Value row, Value column, Value index) {
  Value phases = constant(windows.phases(WindowEmitter::Column));
  return tensors.makeRow(windows.indicesOf(block, block.plane, row, add(column, mul(index, phases))),
                         results.leading());
}

/// Stores the sums of `count` positions of one phase, and what other ops of the kernel make of them.
LogicalResult ConvKernel::store(const ImageBlock &block, Value panel, Value row, Value column, Value count,
                                Value from) {
  return results.inSectionOf(panel, [&](const LinearSection &section, Value channel) {
    return forLoop(constant(0), count, constant(1), [&](Value r) {
      Value sumRow = mul(r, constant(kPanelWidth));
      return results.storeLinearRow(
          section, positionOf(block, row, column, r), channel,
          [&](int64_t, Value c, int64_t width) { return memory.load(from, add(sumRow, c), b.getF32Type(), width); });
    });
  });
}

} // namespace intarsia::cpu
