//===- ConvKernel.cpp - Convolutions ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

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
constexpr int64_t kTilesPerThread = 4;
/// Columns of a block of an image whose width is not known.
constexpr int64_t kColumnsOfUnknown = 64;

/// A tile is a block of positions of an image by some panels of the weight. What the windows of the block read is
/// copied to scratch with zeros around it, or read where it lies if there are no pads. A row of a window and its
/// channels lie side by side there, so that the sum over a window is one over few segments.
class ConvKernel final : public KernelEmitter {
public:
  ConvKernel(rt::KernelOp kernel, nn::ConvOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root), spatial(root.getSpatialRank()), groups(root.getGroups()),
        inputChannels(root.getInputChannels()), outputChannels(root.getOutputChannels()),
        depth(root.getWeight().getType().getDimSize(1)) {
    for (unsigned d = 0; d < spatial; ++d)
      windows.push_back(root.getWindowDimension(d));
    while (windows.size() < 3)
      windows.insert(windows.begin(), nn::WindowDimension{.window = 1});
  }

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  /// The dimensions of images are taken for three: planes, rows, columns.
  enum { Plane, Row, Column };
  struct Block {
    Value image, plane;                             ///< of the result
    Value firstRow, endRow, firstColumn, endColumn; ///< of the result
    Value firstPanel, endPanel;
  };
  /// Where windows read: elements from a position to the next, and where the block's first window begins.
  struct Source {
    Value pointer, plane, row, column;
    Type type;
  };

  /// True if lanes are channels of the result, each vector of several whole groups whose channels of the input fit in a
  /// vector too.
  bool hasGroupsInLanes() const {
    return groups > 1 && config.lanes % groupOutputs() == 0 && groupInputs() <= groupOutputs();
  }
  int64_t groupInputs() const { return inputChannels / groups; }
  int64_t groupOutputs() const { return outputChannels / groups; }
  int64_t panelCount() const { return llvm::divideCeil(outputChannels, kPanelWidth); }
  /// Channels of the input that a panel's columns read, where groups are in lanes.
  int64_t panelInputs() const { return kPanelWidth / groupOutputs() * groupInputs(); }
  /// Channels of a position in scratch. Where groups are in lanes those of a panel are copied at a time.
  int64_t packedChannels() const { return hasGroupsInLanes() ? panelInputs() : inputChannels; }
  static int64_t reach(int64_t positions, const nn::WindowDimension &window) {
    return (positions - 1) * window.stride + window.extent();
  }
  int64_t packedElements() const {
    return windows[Plane].window * reach(mostRows, windows[Row]) * reach(mostColumns, windows[Column]) *
           packedChannels();
  }
  AffineExpr resultSize(unsigned dimension) {
    ArrayRef<AffineExpr> sizes = function.sizes.of(root.getResult());
    return dimension + spatial < 3 ? b.getAffineConstantExpr(1) : sizes[dimension + spatial - 2];
  }
  Value inputSize(unsigned dimension) {
    return dimension + spatial < 3 ? constant(1)
                                   : function.size(function.sizes.of(root.getInput())[dimension + spatial - 2]);
  }
  int64_t knownSize(unsigned dimension, int64_t otherwise) {
    auto size = dyn_cast<AffineConstantExpr>(resultSize(dimension));
    return size ? std::max<int64_t>(size.getValue(), 1) : otherwise;
  }
  /// Indices of the leading dimensions of a tensor of images.
  SmallVector<Value> indicesOf(Value image, Value plane, Value row, Value column) {
    SmallVector<Value> at{image, plane, row, column};
    at.erase(at.begin() + 1, at.begin() + 1 + (3 - spatial));
    return at;
  }

  Block blockOf(Value tile);
  LogicalResult pack(const Block &block, Value firstChannel);
  LogicalResult packRow(const Block &block, Value to, Value plane, Value row, Value firstChannel);
  Source sourceOf(const Block &block);
  LogicalResult multiplyPanel(const Block &block, const Source &source, Value panel);
  void multiplyGroups(const Source &source, Value at, Value panel, Value count);
  void multiplyGroup(const Source &source, Value at, Value panel, Value count, Value to, Value column, int64_t columns);
  void multiplyLanes(const Source &source, Value at, Value panel, Value count);
  void addWindows(const Source &source, Value at, Value panel, int64_t count);
  SmallVector<Value> addRowOfWindows(const Source &source, Value inRow, Value weights, ValueRange running);
  Value spreadOverGroups(Value inputs, int64_t channel);
  LogicalResult store(const Block &block, Value panel, Value row, Value column, Value count);
  Value panelPointer(Value panel);

  nn::ConvOp root;
  unsigned spatial;
  int64_t groups, inputChannels, outputChannels, depth;
  SmallVector<nn::WindowDimension, 3> windows; ///< of planes, rows, columns
  LinearEmitter results{function, tensors, root};
  TileEmitter registerTiles{function};
  int64_t mostRows = 1, mostColumns = 1;
  bool packsInput = true, hasPanels = false;

  std::optional<Storage> input, weight;
  Value packed, packedPanel, sums, groupSums;
};
} // namespace

Emitter makeConvKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<ConvKernel>(kernel, cast<nn::ConvOp>(root), config);
}

LogicalResult ConvKernel::analyze() {
  if (root.getTransposed())
    return function.refuse(root, "it is transposed");
  auto argument = dyn_cast<BlockArgument>(root.getWeight());
  auto panels =
      argument ? kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout") : rt::PanelsAttr();
  if (panels && panels.getFormat())
    return function.refuse(root, "its weight is quantized");
  hasPanels = bool(panels);
  return results.findSections();
}

void ConvKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "conv");
  chooseRegisterTile(shape, config);
  std::optional<bool> density = tensors.densityOf(root.getInput());
  bool hasPads = llvm::any_of(windows, [](const nn::WindowDimension &w) { return w.padLow != 0 || w.padHigh != 0; });
  packsInput = !density || hasPads || !getElementTypeOrSelf(root.getInput()).isF32() ||
               (hasGroupsInLanes() && (outputChannels % kPanelWidth != 0 || groupInputs() != groupOutputs()));
  // As many rows as fit in the private cache beside the panels that pass by; of those that lie in columns as many
  // columns.
  int64_t bytes = hasGroupsInLanes() ? config.blockBytes / 4 : config.blockBytes / 2;
  auto packedBytes = [&] { return packedElements() * 4; };
  mostColumns = knownSize(Column, kColumnsOfUnknown);
  mostRows = 1;
  while (packedBytes() > bytes && mostColumns > config.rows)
    mostColumns = llvm::alignTo(llvm::divideCeil(mostColumns, 2), config.rows);
  int64_t rows = knownSize(Row, kMostBlockRows);
  while (mostRows < rows) {
    ++mostRows;
    if (packedBytes() > bytes) {
      --mostRows;
      break;
    }
  }
  shape.choose("block_rows", mostRows, {1, kMostBlockRows, 1});
  shape.choose("block_columns", mostColumns, {1, kMostBlockRows, 1});
  shape.state("input", packsInput ? "packed by block" : "in place");
  shape.state("weight", hasPanels ? "panels" : "packed by tile");
  shape.state("sums", hasGroupsInLanes() ? "groups in lanes" : "rows by panels");
}

void ConvKernel::launch() {
  auto blocksOf = [&](unsigned dimension, int64_t most, int64_t multiple, Value &size) {
    Value all = function.size(resultSize(dimension));
    Value blocks = max(ceilDiv(all, constant(most)), constant(1));
    size = max(mul(ceilDiv(ceilDiv(all, blocks), constant(multiple)), constant(multiple)), constant(1));
    return ceilDiv(all, size);
  };
  Value rows, columns;
  Value rowBlocks = blocksOf(Row, mostRows, 1, rows);
  bool isOneBlock = isa<AffineConstantExpr>(resultSize(Column)) && mostColumns >= knownSize(Column, 0);
  Value columnBlocks = blocksOf(Column, mostColumns, isOneBlock ? 1 : config.rows, columns);
  Value images = mul(function.size(function.sizes.of(root.getResult())[0]), function.size(resultSize(Plane)));
  Value positions = mul(images, mul(rowBlocks, columnBlocks));
  Value wanted = ceilDiv(mul(function.threads, constant(kTilesPerThread)), max(positions, constant(1)));
  Value panelsPerTile = ceilDiv(constant(panelCount()), min(wanted, constant(panelCount())));
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
  input = tensors.view(root.getInput());
  weight = tensors.view(root.getWeight());
  if (!weight)
    return function.refuse(root, "its weight is neither packed in panels of 32 nor a tensor in memory");
  sums = function.scratch(config.rows * kPanelWidth * 4);
  groupSums = groups == 1 || hasGroupsInLanes() || groupOutputs() % config.lanes == 0
                  ? Value()
                  : function.scratch(config.rows * kPanelWidth * 4);
  // Lanes beyond the last channel read what lies behind it.
  packed = packsInput ? function.scratch((packedElements() + kPanelWidth) * 4) : Value();
  packedPanel = hasPanels ? Value() : function.scratch(depth * kPanelWidth * 4);
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) -> LogicalResult {
    Block block = blockOf(tile);
    if (packsInput && !hasGroupsInLanes() && failed(pack(block, constant(0))))
      return failure();
    Source source = sourceOf(block);
    return forLoop(block.firstPanel, block.endPanel, constant(1), [&](Value panel) -> LogicalResult {
      if (packsInput && hasGroupsInLanes() && failed(pack(block, mul(panel, constant(panelInputs())))))
        return failure();
      return multiplyPanel(block, source, panel);
    });
  });
}

ConvKernel::Block ConvKernel::blockOf(Value tile) {
  auto take = [&](Value count) {
    Value index = rem(tile, count);
    tile = div(tile, count);
    return index;
  };
  Block block;
  Value group = take(function.slot(kPanelGroups));
  block.firstPanel = mul(group, function.slot(kPanelsPerTile));
  block.endPanel = min(add(block.firstPanel, function.slot(kPanelsPerTile)), constant(panelCount()));
  block.firstColumn = mul(take(function.slot(kColumnBlocks)), function.slot(kBlockColumns));
  block.endColumn = min(add(block.firstColumn, function.slot(kBlockColumns)), function.size(resultSize(Column)));
  block.firstRow = mul(take(function.slot(kRowBlocks)), function.slot(kBlockRows));
  block.endRow = min(add(block.firstRow, function.slot(kBlockRows)), function.size(resultSize(Row)));
  block.plane = take(function.size(resultSize(Plane)));
  block.image = tile;
  return block;
}

//===-- What windows read -----------------------------------------------------------------------------------------===//

/// Copies the rows that the windows of a block read, zeros where they are outside of the image.
LogicalResult ConvKernel::pack(const Block &block, Value firstChannel) {
  const nn::WindowDimension &planes = windows[Plane], &rows = windows[Row];
  Value rowElements = constant(reach(mostColumns, windows[Column]) * packedChannels());
  Value planeElements = mul(rowElements, constant(reach(mostRows, rows)));
  Value firstPlane = sub(mul(block.plane, constant(planes.stride)), constant(planes.padLow));
  Value firstRow = sub(mul(block.firstRow, constant(rows.stride)), constant(rows.padLow));
  Value count =
      add(mul(sub(sub(block.endRow, block.firstRow), constant(1)), constant(rows.stride)), constant(rows.extent()));
  return forLoop(constant(0), constant(planes.window), constant(1), [&](Value plane) {
    return forLoop(constant(0), count, constant(1), [&](Value row) {
      Value to = memory.at(packed, add(mul(plane, planeElements), mul(row, rowElements)), b.getF32Type());
      return packRow(block, to, add(firstPlane, mul(plane, constant(planes.dilation))), add(firstRow, row),
                     firstChannel);
    });
  });
}

LogicalResult ConvKernel::packRow(const Block &block, Value to, Value plane, Value row, Value firstChannel) {
  Type f32 = b.getF32Type();
  const nn::WindowDimension &columns = windows[Column];
  int64_t channels = packedChannels();
  Value first = sub(mul(block.firstColumn, constant(columns.stride)), constant(columns.padLow));
  Value count = add(mul(sub(sub(block.endColumn, block.firstColumn), constant(1)), constant(columns.stride)),
                    constant(columns.extent()));
  auto zeros = [&](Value begin, Value end) {
    Value from = mul(begin, constant(channels));
    vectorLoop(mul(sub(end, begin), constant(channels)), [&](Value i, int64_t width) {
      memory.store(floatConstant(0.0, f32, width), to, add(from, i), f32, width);
    });
  };
  auto isInside = [&](Value index, unsigned dimension) -> Value {
    Value isBefore = less(index, constant(0)), isWithin = less(index, inputSize(dimension));
    return make<arith::AndIOp>(isWithin, make<arith::XOrIOp>(isBefore, make<arith::ConstantOp>(b.getBoolAttr(true))));
  };
  auto copy = [&]() -> LogicalResult {
    Value begin = min(max(sub(constant(0), first), constant(0)), count);
    Value end = max(min(sub(inputSize(Column), first), count), begin);
    zeros(constant(0), begin);
    // Lanes of the last panel that are no channels are not copied.
    Value copied =
        hasGroupsInLanes() ? min(sub(constant(inputChannels), firstChannel), constant(channels)) : constant(channels);
    auto copyElements = [&](Value column, Value size) {
      Value from = mul(column, constant(channels));
      return vectorLoop(size, [&](Value i, int64_t width) -> LogicalResult {
        Indices at = kernel::indicesOf(indicesOf(block.image, plane, row, add(first, column)), add(firstChannel, i));
        Element x = tensors.evaluate(root.getInput(), at, width);
        if (succeeded(x))
          memory.store(*x, to, add(from, i), f32, width);
        return x;
      });
    };
    // Neighbouring positions that lie side by side are one row.
    LogicalResult isCopied = success();
    if (input && input->dense && channels == inputChannels)
      isCopied = copyElements(begin, mul(sub(end, begin), constant(channels)));
    else
      isCopied = forLoop(begin, end, constant(1), [&](Value column) { return copyElements(column, copied); });
    zeros(end, count);
    return isCopied;
  };
  Value isRow = make<arith::AndIOp>(isInside(plane, Plane), isInside(row, Row));
  return ifThen(isRow, copy, [&]() -> LogicalResult {
    zeros(constant(0), count);
    return success();
  });
}

/// Where the block's first window begins, and the strides of what it reads.
ConvKernel::Source ConvKernel::sourceOf(const Block &block) {
  Source source;
  if (packsInput) {
    source.pointer = packed;
    source.type = b.getF32Type();
    source.column = constant(packedChannels());
    source.row = constant(reach(mostColumns, windows[Column]) * packedChannels());
    source.plane = mul(source.row, constant(reach(mostRows, windows[Row])));
    return source;
  }
  ArrayRef<Value> strides = input->strides;
  auto strideOf = [&](unsigned dimension) {
    return dimension + spatial < 3 ? constant(0) : strides[dimension + spatial - 2];
  };
  source.type = input->elementType;
  source.plane = mul(strideOf(Plane), constant(windows[Plane].dilation));
  source.row = strideOf(Row);
  source.column = strideOf(Column);
  Value offset = mul(block.image, strides[0]);
  offset = add(offset, mul(mul(block.plane, constant(windows[Plane].stride)), strideOf(Plane)));
  offset = add(offset, mul(mul(block.firstRow, constant(windows[Row].stride)), source.row));
  offset = add(offset, mul(mul(block.firstColumn, constant(windows[Column].stride)), source.column));
  source.pointer = memory.at(input->pointer, offset, source.type);
  return source;
}

//===-- Products --------------------------------------------------------------------------------------------------===//

Value ConvKernel::panelPointer(Value panel) {
  if (!hasPanels)
    return packedPanel;
  return memory.at(weight->pointer, mul(panel, constant(depth * kPanelWidth)), weight->elementType);
}

LogicalResult ConvKernel::multiplyPanel(const Block &block, const Source &source, Value panel) {
  Value firstChannel = mul(panel, constant(kPanelWidth));
  if (!hasPanels)
    registerTiles.packTransposed(packedPanel,
                                 memory.at(weight->pointer, mul(firstChannel, weight->strides[0]), weight->elementType),
                                 weight->strides[0], weight->elementType, constant(depth),
                                 min(sub(constant(outputChannels), firstChannel), constant(kPanelWidth)), Value());
  return forLoop(block.firstRow, block.endRow, constant(1), [&](Value row) {
    Value rowStart = mul(mul(sub(row, block.firstRow), constant(windows[Row].stride)), source.row);
    return forLoop(block.firstColumn, block.endColumn, constant(config.rows), [&](Value column) {
      Value count = min(sub(block.endColumn, column), constant(config.rows));
      Value at =
          add(rowStart, mul(mul(sub(column, block.firstColumn), constant(windows[Column].stride)), source.column));
      if (hasGroupsInLanes())
        multiplyLanes(source, packsInput ? at : add(at, firstChannel), panel, count);
      else
        multiplyGroups(source, at, panel, count);
      return store(block, panel, row, column, count);
    });
  });
}

/// Multiplies the windows at `count` neighbouring positions by the panel's columns, each with the channels of its
/// group.
void ConvKernel::multiplyGroups(const Source &source, Value at, Value panel, Value count) {
  if (groups == 1)
    return multiplyGroup(source, at, panel, count, sums, constant(0), kPanelWidth);
  Value firstChannel = mul(panel, constant(kPanelWidth)), outputs = constant(groupOutputs());
  auto windowOf = [&](Value group) { return add(at, mul(group, constant(groupInputs()))); };
  Value endChannel = min(add(firstChannel, constant(kPanelWidth)), constant(outputChannels));
  if (!groupSums) {
    // Each vector of columns is of one group.
    int64_t columns = std::gcd(groupOutputs(), kPanelWidth);
    forLoop(firstChannel, endChannel, constant(columns), [&](Value channel) {
      multiplyGroup(source, windowOf(div(channel, outputs)), panel, count, sums, sub(channel, firstChannel), columns);
    });
    return;
  }
  forLoop(div(firstChannel, outputs), ceilDiv(endChannel, outputs), constant(1), [&](Value group) {
    multiplyGroup(source, windowOf(group), panel, count, groupSums, constant(0), kPanelWidth);
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

/// Multiplies windows by so many columns of a panel, from one on, that are all of one group.
void ConvKernel::multiplyGroup(const Source &source, Value at, Value panel, Value count, Value to, Value column,
                               int64_t columns) {
  TileOperands operands;
  operands.a = memory.at(source.pointer, at, source.type);
  operands.aRow = mul(source.column, constant(windows[Column].stride));
  operands.aColumn = constant(1);
  operands.aType = source.type;
  operands.bType = hasPanels ? weight->elementType : b.getF32Type();
  operands.b = memory.at(panelPointer(panel), column, operands.bType);
  operands.bRow = constant(kPanelWidth);
  operands.out = memory.at(to, column, b.getF32Type());
  operands.outRow = constant(kPanelWidth);
  // Positions of a row of a window lie side by side with all of their channels.
  int64_t channels = groupInputs(), segment = channels;
  bool isOneSegment = windows[Column].dilation == 1 && groups == 1 &&
                      getConstantIntValue(source.column) == std::optional<int64_t>(channels);
  if (isOneSegment)
    segment *= windows[Column].window;
  operands.depth = constant(segment);
  int64_t rowOfWindow = channels * windows[Column].window;
  auto addSegments = [&](int64_t segments, Value step, int64_t elements) {
    if (segments > 1)
      operands.segments.push_back({constant(segments), step, constant(elements * kPanelWidth)});
  };
  addSegments(windows[Plane].window, source.plane, rowOfWindow * windows[Row].window);
  addSegments(windows[Row].window, mul(source.row, constant(windows[Row].dilation)), rowOfWindow);
  if (!isOneSegment)
    addSegments(windows[Column].window, mul(source.column, constant(windows[Column].dilation)), channels);
  registerTiles.emitTileRows(operands, count, columns);
}

/// Multiplies the windows at `count` neighbouring positions by a panel, whose vectors have whole groups.
void ConvKernel::multiplyLanes(const Source &source, Value at, Value panel, Value count) {
  std::function<void(int64_t)> choose = [&](int64_t positions) {
    if (positions == 1)
      return addWindows(source, at, panel, 1);
    ifThen(
        equal(count, constant(positions)), [&] { addWindows(source, at, panel, positions); },
        [&] { choose(positions - 1); });
  };
  choose(config.rows);
}

void ConvKernel::addWindows(const Source &source, Value at, Value panel, int64_t count) {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type(), weightType = hasPanels ? weight->elementType : f32;
  Value rowOfWindow = constant(windows[Column].window * groupInputs() * kPanelWidth);
  forLoop(constant(0), constant(kPanelWidth), constant(lanes), [&](Value lane) {
    SmallVector<Value> running(count, floatConstant(0.0, f32, lanes));
    Value begin = add(at, mul(div(lane, constant(groupOutputs())), constant(groupInputs())));
    auto addRows = [&](Value plane, ValueRange ofPlane) {
      return forLoop(
          constant(0), constant(windows[Row].window), constant(1), ofPlane, [&](Value row, ValueRange ofRow) {
            Value inRow =
                add(add(begin, mul(plane, source.plane)), mul(mul(row, constant(windows[Row].dilation)), source.row));
            Value place = mul(add(mul(plane, constant(windows[Row].window)), row), rowOfWindow);
            return addRowOfWindows(source, inRow, memory.at(panelPointer(panel), add(place, lane), weightType), ofRow);
          });
    };
    running = forLoop(constant(0), constant(windows[Plane].window), constant(1), running, addRows);
    for (int64_t position = 0; position < count; ++position)
      memory.store(running[position], sums, add(constant(position * kPanelWidth), lane), f32, lanes);
  });
}

/// Adds the products of one row of each window. Neighbouring windows share positions, which are loaded once.
SmallVector<Value> ConvKernel::addRowOfWindows(const Source &source, Value inRow, Value weights, ValueRange running) {
  int64_t lanes = config.lanes;
  Type weightType = hasPanels ? weight->elementType : b.getF32Type();
  const nn::WindowDimension &columns = windows[Column];
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

/// Stores the sums of `count` neighbouring positions, and what other ops of the kernel make of them.
LogicalResult ConvKernel::store(const Block &block, Value panel, Value row, Value column, Value count) {
  return results.inSectionOf(panel, [&](const LinearSection &section, Value channel) {
    return forLoop(constant(0), count, constant(1), [&](Value r) {
      RowScope position;
      position.prefix = indicesOf(block.image, block.plane, row, add(column, r));
      position.sizes.assign(results.leading().begin(), results.leading().end());
      position.flat = constant(0);
      for (auto [index, size] : llvm::zip_equal(position.prefix, position.sizes))
        position.flat = add(mul(position.flat, function.size(size)), index);
      Value sumRow = mul(r, constant(kPanelWidth));
      return results.storeLinearRow(section, position, channel, [&](int64_t, Value c, int64_t width) {
        return memory.load(sums, add(sumRow, c), b.getF32Type(), width);
      });
    });
  });
}

} // namespace intarsia::cpu
