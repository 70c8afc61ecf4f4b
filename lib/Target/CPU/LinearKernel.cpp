//===- LinearKernel.cpp - Linear layers -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/LinearEmitter.h"
#include "lib/Target/CPU/QuantizedWeightEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

#include "intarsia/module_abi.h"
#include "lib/Kernel/RowScales.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the launch.
enum { kRowBlock = ITX_PLAN_PRIVATE, kPanelsPerTile, kPanelGroups };
/// About what a tile does: 10 us of one core, twenty times what claiming a tile costs.
constexpr int64_t kTileFlops = int64_t(1) << 21;
/// Tiles a thread of which one more or less costs little: an eighth.
constexpr int64_t kTilesThatEven = 8;
/// A finishing tile normalises this many rows: some microseconds of work.
constexpr int64_t kFinishRows = 16;
/// The least that is worth prefetching at a step: a cache line every eight steps.
constexpr int64_t kPrefetchStep = 8;

/// A tile is a block of rows by some panels of the weight. Rows of the left operand stay in the private cache while the
/// panels pass by; the other ops of the kernel are computed on a register tile's sums.
class LinearKernel final : public KernelEmitter {
public:
  LinearKernel(rt::KernelOp kernel, nn::LinearOp root, const TileConfig &config);

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  LogicalResult splitOutputs();
  LogicalResult locateOperands();
  LogicalResult emitNormTiles(Value tiles);
  LogicalResult multiplyPanel(Value panel);
  LogicalResult packInputRows();
  void packPanels(Value panel);
  Value panelOf(Value panel, Value slice);
  Value packedPanelOf(Value slice);
  TileOperands operandsOf(Value panel, Value slice, Value m, Value lines);
  LogicalResult multiplyRows(Value panel, Value m, Value count, Value lines);
  LogicalResult storeRows(Value panel, Value m, Value count);

  nn::LinearOp root;
  LinearEmitter linear{function, tensors, root};
  PanelEmitter weights{function};
  RowEmitter rowEmitter{function, tensors};
  TileEmitter registerTiles{function};
  QuantizedWeightEmitter quantizedWeights{function};
  RankedTensorType weightType;
  int64_t features, depth;
  std::optional<BlockPanels> quantized; ///< how the weight is stored, if quantized
  /// The op that needs whole rows of the result, or null, with the outputs that wait for it and those that do not.
  Operation *norm = nullptr;
  SmallVector<unsigned> early, late;
  /// The memory of the row that the norm reads: its own output, or that of the norm's result.
  std::optional<Storage> rowStorage;

  // Operands: rows at a fixed distance in memory or packed a block at a time, panels prepacked or packed one by one.
  std::optional<Storage> input, weight;
  bool packsInput = false, hasPanels = false, storesFromRegisters = false;
  int64_t maximalRows = 0; ///< of the left operand that stay in the private cache while the panels pass by
  Value packedInput, inputStride, packedPanels, sums;
  // The tile that is being emitted.
  Value rows, firstRow, endRow;

  /// Returns the layout of a weight in panels; null if it has another one.
  rt::PanelsAttr panels() {
    auto argument = dyn_cast<BlockArgument>(root.getWeight());
    return argument ? kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout") : rt::PanelsAttr();
  }
  /// Elements of a packed panel.
  int64_t packedElements() const {
    return kPanelWidth * (quantized ? quantized->steps() * BlockPanels::stepDepth : depth);
  }
  /// Panels of the weight, counted as tiles do: one of each slice together.
  int64_t panelCount() const { return llvm::divideCeil(features, kPanelWidth) / linear.together(); }
  /// Returns the depth as a divisor: rows without input features have none.
  int64_t rowDepth() const { return std::max<int64_t>(depth, 1); }
  int64_t sumsOfSlice() const { return config.rows * kPanelWidth; }
};
} // namespace

LinearKernel::LinearKernel(rt::KernelOp kernel, nn::LinearOp root, const TileConfig &config)
    : KernelEmitter(kernel, config), root(root), weightType(cast<RankedTensorType>(root.getWeight().getType())),
      features(weightType.getDimSize(0)), depth(weightType.getDimSize(1)) {}

/// Returns true if integers of 8 bits are added up over 256 features, or all of a row, before they are scaled.
static bool addsUpBytes(rt::KernelOp kernel, nn::LinearOp linear, nn::BlockFormatAttr input) {
  auto weight = dyn_cast<BlockArgument>(linear.getWeight());
  if (!input || (input.getBlock() != BlockPanels::superBlock && input.getBlock() != 0) || !weight)
    return false;
  auto layout = kernel.getArgAttrOfType<rt::PanelsAttr>(weight.getArgNumber(), "rt.layout");
  auto format = layout ? dyn_cast_if_present<nn::BlockFormatAttr>(layout.getFormat()) : nullptr;
  return format && format.getElement() == nn::BlockElement::I8 && format.getBlock() == 0;
}

/// Returns the format of an input that another kernel has quantized to integers of 8 bits; null if none has.
static nn::BlockFormatAttr quantizedBefore(nn::LinearOp linear) {
  auto dequantize = linear.getInput().getDefiningOp<nn::DequantizeOp>();
  bool isPlain = dequantize && isa<BlockArgument>(dequantize.getQuantized()) &&
                 isa_and_nonnull<BlockArgument>(dequantize.getScales()) && dequantize->getNumOperands() == 2;
  auto format = isPlain ? dyn_cast<nn::BlockFormatAttr>(dequantize.getFormat()) : nullptr;
  bool isKnown = format && format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
                 format.getAxis() == cast<RankedTensorType>(dequantize.getType()).getRank() - 1;
  return isKnown ? format : nullptr;
}

Emitter makeLinearKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  auto linear = cast<nn::LinearOp>(root);
  nn::QuantizeOp quantized = kernel::quantizedInput(linear.getInput());
  bool isPlain = quantized && !quantized.getChannels();
  if (kernel::quantizedByRows(linear.getInput()) ||
      addsUpBytes(kernel, linear, isPlain ? quantized.getFormat() : quantizedBefore(linear)))
    return makeTokenLinearKernel(kernel, root, config);
  if (quantized)
    return makeQuantizedLinearKernel(kernel, root, config);
  return std::make_unique<LinearKernel>(kernel, linear, config);
}

void LinearKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "linear");
  chooseRegisterTile(shape, config);
  // More than 16 register tiles cost 4 % at 512 and 1024 cubed and at MiniLM 8x128, for all that the weights then pass
  // fewer times.
  maximalRows = std::clamp<int64_t>(config.blockBytes / (rowDepth() * 4), 2 * config.rows, 16 * config.rows);
  maximalRows = maximalRows / config.rows * config.rows;
  shape.choose("block_rows", maximalRows, {config.rows, kMostBlockRows, config.rows});
  bool bf16Dot = config.bf16Dot && hasPanels && weightType.getElementType().isBF16();
  Type inputType = getElementTypeOrSelf(root.getInput());
  std::optional<bool> density = tensors.densityOf(root.getInput());
  packsInput = !density || !(inputType.isF32() || (bf16Dot && inputType.isBF16())) ||
               (function.sizes.of(root.getInput()).size() > 2 && !*density);
  shape.state("input", packsInput ? "packed by block" : "in place");
  shape.state("weight", hasPanels ? "panels" : quantized ? "quantized panels, dequantized by tile" : "packed by tile");
  storesFromRegisters = !norm && linear.storesFromRegisters();
  shape.state("results", storesFromRegisters ? "from registers" : "from scratch");
  shape.state("products", bf16Dot && !packsInput && inputType.isBF16() ? "vdpbf16ps" : "f32");
}

void LinearKernel::launch() {
  rows = function.product(linear.leading());
  // Row blocks as equal as whole register tiles allow.
  auto rowsOfBlock = [&](Value blocks) {
    Value ofBlock = ceilDiv(ceilDiv(rows, max(blocks, constant(1))), constant(config.rows));
    return max(mul(ofBlock, constant(config.rows)), constant(config.rows));
  };
  Value rowBlock = rowsOfBlock(ceilDiv(rows, constant(maximalRows)));
  Value blocks = ceilDiv(rows, rowBlock);
  // Tiles are as small as pays: a thread that is held up then leaves its work to the others. A left operand that is
  // packed for each tile pays for two tiles a thread only.
  bool packs = !cast<RankedTensorType>(root.getInput().getType()).getElementType().isF32();
  Value evenly =
      max(ceilDiv(constant(panelCount()), packs ? mul(function.threads, constant(2)) : function.threads), constant(1));
  Value panelFlops = mul(rowBlock, constant(2 * kPanelWidth * rowDepth() * linear.together()));
  Value panelsPerTile = packs ? evenly : min(max(div(constant(kTileFlops), panelFlops), constant(1)), evenly);
  Value groups = ceilDiv(constant(panelCount()), panelsPerTile);
  // Of few tiles each thread gets as many, if that takes no blocks of less than two register tiles: of five tiles one
  // of two threads would compute three. Panels that are packed by tile would be packed more often.
  if (hasPanels) {
    Value tiles = mul(blocks, groups), evenBlocks = mul(ceilDiv(blocks, function.threads), function.threads);
    Value isUneven = make<arith::AndIOp>(less(constant(0), rem(tiles, function.threads)),
                                         less(tiles, mul(function.threads, constant(kTilesThatEven))));
    Value isLarge = less(mul(evenBlocks, constant(2 * config.rows)), add(rows, constant(1)));
    rowBlock = rowsOfBlock(select(make<arith::AndIOp>(isUneven, isLarge), evenBlocks, blocks));
    blocks = ceilDiv(rows, rowBlock);
  }
  function.setSlot(ITX_PLAN_TILES, mul(blocks, groups));
  function.setSlot(kRowBlock, rowBlock);
  function.setSlot(kPanelsPerTile, panelsPerTile);
  function.setSlot(kPanelGroups, groups);
  if (norm)
    function.setSlot(ITX_PLAN_FINISH_TILES, ceilDiv(rows, constant(kFinishRows)));
}

LogicalResult LinearKernel::analyze() {
  if (ShapedType::isDynamic(features) || ShapedType::isDynamic(depth))
    return function.refuse(root, "its weight has dynamic sizes");
  quantized = weights.panelsOf(root.getWeight());
  hasPanels = panels() && !quantized;
  if (failed(splitOutputs()) || failed(linear.findSections()))
    return failure();
  if (norm && linear.sections.front().slices.front() != root.getResult())
    return function.refuse(root, "a result of its kernel is of another shape");
  if (norm)
    linear.sections.front().outputs = early;
  return success();
}

LogicalResult LinearKernel::run() {
  rows = function.product(linear.leading());
  sums = function.scratch(sumsOfSlice() * linear.together() * 4);
  Value rowBlock = function.slot(kRowBlock), panelsPerTile = function.slot(kPanelsPerTile),
        groups = function.slot(kPanelGroups);
  if (failed(locateOperands()))
    return failure();
  // Norms are computed in tiles of their own, once all rows are multiplied.
  Value tiles = function.slot(ITX_PLAN_TILES);
  if (norm) {
    Value isFinishing = make<arith::CmpIOp>(arith::CmpIPredicate::sge, function.tileBegin, tiles);
    if (failed(ifThen(isFinishing, [&] { return emitNormTiles(tiles); })))
      return failure();
  }
  Value end = norm ? min(function.tileEnd, tiles) : function.tileEnd;
  return forLoop(function.tileBegin, end, constant(1), [&](Value tile) -> LogicalResult {
    Value block = div(tile, groups), group = rem(tile, groups);
    firstRow = mul(block, rowBlock);
    endRow = min(add(firstRow, rowBlock), rows);
    Value firstPanel = mul(group, panelsPerTile);
    Value endPanel = min(add(firstPanel, panelsPerTile), constant(panelCount()));
    if (packsInput && failed(packInputRows()))
      return failure();
    return forLoop(firstPanel, endPanel, constant(1), [&](Value panel) { return multiplyPanel(panel); });
  });
}

/// Finds a norm at the end: outputs that need the whole row are computed when the row's last tile is done.
LogicalResult LinearKernel::splitOutputs() {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
    bool waits = false;
    SmallVector<Value> worklist{function.yielded(i)};
    DenseSet<Operation *> seen;
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      // Ops that compute the root's input are none that follow it.
      if (!op || op == root.getOperation() || !seen.insert(op).second)
        continue;
      if (isa<RowwiseOpInterface>(op)) {
        if (norm && norm != op)
          return function.refuse(op, "a linear layer takes one norm after it");
        norm = op;
        waits = true;
      }
      llvm::append_range(worklist, op->getOperands());
    }
    (waits ? late : early).push_back(i);
  }
  return success();
}

/// Decides which operands are read where they lie, and makes room for those that are packed.
LogicalResult LinearKernel::locateOperands() {
  input = tensors.view(root.getInput());
  unsigned inputRank = function.sizes.of(root.getInput()).size();
  packedInput = packsInput ? function.scratch(maximalRows * depth * 4) : Value();
  inputStride = packsInput || inputRank == 1 ? constant(depth) : input->strides[inputRank - 2];

  weight = tensors.view(root.getWeight());
  if (!weight || (hasPanels && panels().getWidth() != kPanelWidth))
    return function.refuse(root, "its weight is neither packed in panels of 32 nor a tensor in memory");
  packedPanels = hasPanels ? Value() : function.scratch(packedElements() * linear.together() * 4);

  if (norm) {
    unsigned output = late.front();
    for (unsigned i : early)
      if (function.yielded(i) == norm->getOperand(0))
        output = i;
    rowStorage = function.outputs[output];
  }
  return success();
}

LogicalResult LinearKernel::emitNormTiles(Value tiles) {
  Value normInput = norm->getOperand(0);
  function.storage[normInput] = *rowStorage;
  Value begin = mul(sub(function.tileBegin, tiles), constant(kFinishRows));
  Value end = min(mul(sub(function.tileEnd, tiles), constant(kFinishRows)), rows);
  LogicalResult emitted = forLoop(begin, end, constant(1), [&](Value flat) {
    return rowEmitter.emitRow(tensors.makeRow(flat, linear.leading()), late);
  });
  function.storage.erase(normInput);
  return emitted;
}

LogicalResult LinearKernel::packInputRows() {
  return forLoop(firstRow, endRow, constant(1), [&](Value flat) {
    RowScope row = tensors.makeRow(flat, linear.leading());
    RowGuard inRow(tensors, row);
    if (kernel::quantizedToFloats(root.getInput()) && failed(rowEmitter.prepareRow(row, {root.getInput()})))
      return failure();
    Value to = mul(sub(flat, firstRow), constant(depth));
    return vectorLoop(constant(depth), [&](Value k, int64_t width) -> LogicalResult {
      Element x = tensors.evaluate(root.getInput(), kernel::indicesOf(row.prefix, k), width);
      if (succeeded(x))
        memory.store(*x, packedInput, add(to, k), b.getF32Type(), width);
      return x;
    });
  });
}

/// Returns the index in the weight of a slice's panel.
Value LinearKernel::panelOf(Value panel, Value slice) {
  return add(mul(panel, constant(linear.panelOrder.next)), mul(slice, constant(linear.panelOrder.ofSlice)));
}

Value LinearKernel::packedPanelOf(Value slice) {
  return memory.at(packedPanels, mul(slice, constant(packedElements())), b.getF32Type());
}

/// Writes the panels of all slices as f32.
void LinearKernel::packPanels(Value panel) {
  forLoop(constant(0), constant(linear.together()), constant(1), [&](Value slice) {
    Value column = mul(panelOf(panel, slice), constant(kPanelWidth)), to = packedPanelOf(slice);
    if (quantized) {
      Value from = mul(panelOf(panel, slice), constant(quantized->panelBytes()));
      quantizedWeights.dequantizePanel(*quantized, memory.at(weight->pointer, from, b.getI8Type()), to);
      return;
    }
    registerTiles.packTransposed(to, memory.at(weight->pointer, mul(column, weight->strides[0]), weight->elementType),
                                 weight->strides[0], weight->elementType, constant(depth),
                                 min(sub(constant(features), column), constant(kPanelWidth)), Value());
  });
}

/// Multiplies the rows of a tile by a panel of each slice, a register tile after the other.
LogicalResult LinearKernel::multiplyPanel(Value panel) {
  if (!hasPanels)
    packPanels(panel);
  // Meanwhile the next panel comes into the second-level cache, a part with each register tile: weights of a
  // whole model pass through once a call and come from far away.
  Value lines = max(ceilDiv(constant(kPanelWidth * weightType.getElementTypeBitWidth() / 8),
                            ceilDiv(sub(endRow, firstRow), constant(config.rows))),
                    constant(kPrefetchStep));
  return forLoop(firstRow, endRow, constant(config.rows),
                 [&](Value m) { return multiplyRows(panel, m, min(sub(endRow, m), constant(config.rows)), lines); });
}

/// Returns the operands of a register tile of rows from `m` on; `lines` bytes of the next panel are prefetched for each
/// k.
TileOperands LinearKernel::operandsOf(Value panel, Value slice, Value m, Value lines) {
  Type f32 = b.getF32Type();
  TileOperands operands;
  if (hasPanels) {
    Value elements = mul(panelOf(panel, slice), constant(depth * kPanelWidth));
    operands.b = memory.at(weight->pointer, elements, weight->elementType);
    Value nextPanel =
        memory.at(operands.b, constant(linear.panelOrder.next * depth * kPanelWidth), weight->elementType);
    Value part = mul(mul(div(sub(m, firstRow), constant(config.rows)), lines), constant(depth));
    operands.prefetch = memory.at(nextPanel, part, b.getI8Type());
    operands.prefetchStep = lines;
  } else {
    operands.b = packedPanelOf(slice);
  }
  operands.a = packsInput ? memory.at(packedInput, mul(sub(m, firstRow), constant(depth)), f32)
                          : memory.at(input->pointer, mul(m, inputStride), input->elementType);
  operands.aRow = inputStride;
  operands.aColumn = constant(1);
  operands.aType = packsInput ? f32 : input->elementType;
  operands.bRow = constant(kPanelWidth);
  operands.bType = hasPanels ? weight->elementType : f32;
  operands.depth = constant(depth);
  operands.out = memory.at(sums, mul(slice, constant(sumsOfSlice())), f32);
  operands.outRow = constant(kPanelWidth);
  return operands;
}

/// Multiplies `count` rows from `m` on, and computes the rest of the group's ops while the sums are in registers or in
/// the first-level cache.
LogicalResult LinearKernel::multiplyRows(Value panel, Value m, Value count, Value lines) {
  if (!storesFromRegisters) {
    forLoop(constant(0), constant(linear.together()), constant(1),
            [&](Value slice) { registerTiles.emitTileRows(operandsOf(panel, slice, m, lines), count, kPanelWidth); });
    return storeRows(panel, m, count);
  }
  TileOperands operands = operandsOf(panel, constant(0), m, lines);
  return linear.inSectionOf(panel, [&](const LinearSection &section, Value column) {
    return linear.withColumnsOf(panel, [&](int64_t columns) {
      return registerTiles.emitTileRows(
          operands, count, llvm::alignTo(columns, config.lanes), {config.rows},
          [&](int64_t row, int64_t first, Value ofColumns) {
            return linear.storeSums(section, tensors.makeRow(add(m, constant(row)), linear.leading()),
                                    add(column, constant(first)), ofColumns, std::min(columns - first, config.lanes));
          },
          [&] { return storeRows(panel, m, count); });
    });
  });
}

LogicalResult LinearKernel::storeRows(Value panel, Value m, Value count) {
  Value normInput = norm ? norm->getOperand(0) : Value();
  bool storesRow = norm && llvm::none_of(early, [&](unsigned i) { return function.yielded(i) == normInput; });
  return linear.inSectionOf(panel, [&](const LinearSection &section, Value column) {
    return forLoop(constant(0), count, constant(1), [&](Value r) {
      Value sumRow = mul(r, constant(kPanelWidth));
      return linear.storeLinearRow(
          section, tensors.makeRow(add(m, r), linear.leading()), column,
          [&](int64_t slice, Value c, int64_t width) {
            return memory.load(sums, add(add(sumRow, constant(slice * sumsOfSlice())), c), b.getF32Type(), width);
          },
          [&](ArrayRef<Index> at, int64_t width) -> LogicalResult {
            if (!storesRow)
              return success();
            Element x = tensors.evaluate(normInput, at, width);
            if (succeeded(x))
              tensors.store(*x, *rowStorage, at, width);
            return x;
          });
    });
  });
}

} // namespace intarsia::cpu
