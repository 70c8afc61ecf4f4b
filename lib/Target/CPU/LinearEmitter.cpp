//===- LinearEmitter.cpp - How the columns of a linear's result are stored --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/LinearEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace intarsia::cpu {

/// The most operations behind a root that are emitted for each vector of a register tile: they stand in its code 16
/// times.
static constexpr int64_t kOperationsInRegisters = 8;

LogicalResult LinearEmitter::findSections(bool quantizesResult) {
  for (unsigned i = 0; !quantizesResult && i < function.kernel.getResultTypes().size(); ++i)
    if (isQuantized(i))
      return function.refuse(root, "a result of its kernel is quantized, which it has no tiles for");
  sections = sectionsOfResult();
  if (sections.empty())
    return function.refuse(root, "a result of its kernel is of another shape");
  return findPanelOrder();
}

/// Returns the sections of the result, or none where the kernel's results are no elementwise functions of them.
SmallVector<LinearSection> LinearEmitter::sectionsOfResult() {
  Value result = root->getResult(0);
  ArrayRef<AffineExpr> extents = function.sizes.of(result), leading = extents.drop_back();
  int64_t features = cast<RankedTensorType>(root.getRight().getType()).getDimSize(0);
  auto hasColumns = [&](Value value, int64_t columns) {
    ArrayRef<AffineExpr> shape = function.sizes.of(value);
    return !shape.empty() && shape.drop_back() == leading && shape.back() == b.getAffineConstantExpr(columns);
  };
  SmallVector<tensor::ExtractSliceOp> slices;
  for (Operation *user : result.getUsers())
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user))
      slices.push_back(slice);
  auto begin = [](tensor::ExtractSliceOp slice) { return slice.getStaticOffsets().back(); };
  auto columns = [](tensor::ExtractSliceOp slice) { return slice.getType().getShape().back(); };
  llvm::sort(slices, [&](auto a, auto b) { return begin(a) < begin(b); });
  int64_t end = 0;
  for (tensor::ExtractSliceOp slice : slices) {
    if (begin(slice) != end || end % kPanelWidth != 0 || !hasColumns(slice, columns(slice)))
      return {};
    end += columns(slice);
  }
  if (!slices.empty() && (end != features || !llvm::hasNItems(result.getUses(), slices.size())))
    return {};

  // The slices that each output reads.
  SmallVector<llvm::SmallBitVector> reads;
  for (unsigned i = 0; i < function.kernel.getResultTypes().size(); ++i) {
    SetVector<Operation *> ops;
    if (Operation *op = function.yielded(i).getDefiningOp())
      ops.insert(op);
    for (unsigned next = 0; next < ops.size(); ++next)
      if (!isa<tensor::ExtractSliceOp>(ops[next]))
        for (Value operand : ops[next]->getOperands())
          if (Operation *op = operand.getDefiningOp())
            ops.insert(op);
    reads.emplace_back(slices.size());
    for (auto [index, slice] : llvm::enumerate(slices))
      reads.back()[index] = ops.contains(slice);
  }
  SmallVector<LinearSection> sections;
  if (slices.empty()) {
    sections.push_back({0, features, {result}, {}});
  } else if (llvm::any_of(reads, [](const llvm::SmallBitVector &read) { return read.count() > 1; })) {
    sections.push_back({0, columns(slices.front()), {}, {}});
    for (tensor::ExtractSliceOp slice : slices)
      sections.front().slices.push_back(slice);
    if (!llvm::all_of(slices, [&](auto slice) { return columns(slice) == columns(slices.front()); }))
      return {};
  } else {
    for (tensor::ExtractSliceOp slice : slices)
      sections.push_back({begin(slice), columns(slice), {slice}, {}});
  }
  for (auto [i, read] : llvm::enumerate(reads)) {
    if (isQuantized(i))
      continue;
    LinearSection &section = sections[sections.size() == 1 ? 0 : std::max(read.find_first(), 0)];
    section.outputs.push_back(i);
    if (!hasColumns(function.yielded(i), section.columns))
      return {};
  }
  return sections;
}

LogicalResult LinearEmitter::findPanelOrder() {
  int64_t slices = 1;
  if (auto weight = dyn_cast<BlockArgument>(root.getRight()))
    if (auto layout = function.kernel.getArgAttrOfType<rt::PanelsAttr>(weight.getArgNumber(), "rt.layout"))
      slices = layout.getSlices();
  if (slices != 1 && slices != together())
    return function.refuse(root, "panels of " + Twine(slices) +
                                     " slices of its weight alternate, its result is read in " + Twine(together()));
  panelOrder = slices == 1 ? PanelOrder{sections.front().columns / kPanelWidth, 1} : PanelOrder{1, together()};
  return success();
}

LogicalResult LinearEmitter::inSectionOf(Value panel, SectionFn body) { return inSectionFrom(0, panel, body); }

LogicalResult LinearEmitter::inSectionFrom(unsigned first, Value panel, SectionFn body) {
  const LinearSection &section = sections[first];
  auto here = [&] {
    return body(section, mul(sub(panel, constant(section.begin / kPanelWidth)), constant(kPanelWidth)));
  };
  if (first + 1 == sections.size())
    return here();
  Value isHere = less(panel, constant((section.begin + section.columns) / kPanelWidth));
  return ifThen(isHere, here, [&] { return inSectionFrom(first + 1, panel, body); });
}

LogicalResult LinearEmitter::storeLinearRow(const LinearSection &section, const RowScope &row, Value column,
                                            function_ref<Value(int64_t, Value, int64_t)> sum,
                                            function_ref<LogicalResult(ArrayRef<Index>, int64_t)> also) {
  RowGuard inRow(tensors, row);
  for (auto [slice, value] : llvm::enumerate(section.slices)) {
    int64_t offset = section.begin + slice * section.columns;
    tensors.bound[value] = [&, slice, offset](ArrayRef<Index> at, int64_t width) -> Element {
      Value x = sum(slice, sub(at.back().base, column), width);
      if (!root.getBias())
        return x;
      Element bias = tensors.evaluate(root.getBias(), {Index{add(at.back().base, constant(offset)), true}}, width);
      if (failed(bias))
        return failure();
      return make<arith::AddFOp>(x, *bias).getResult();
    };
  }
  auto storeColumn = [&](Value c, int64_t width) -> LogicalResult {
    code->memo.emplace_back();
    Indices at = kernel::indicesOf(row.prefix, c);
    if (failed(tensors.storeOutputs(section.outputs, at, width)) || (also && failed(also(at, width))))
      return failure();
    code->memo.pop_back();
    return success();
  };
  auto wholePanel = [&]() -> LogicalResult {
    for (int64_t v = 0; v < kPanelWidth; v += config.lanes)
      if (failed(storeColumn(add(column, constant(v)), config.lanes)))
        return failure();
    return success();
  };
  auto rest = [&](Value columns) {
    return vectorLoop(columns, [&](Value c, int64_t w) { return storeColumn(add(column, c), w); });
  };
  LogicalResult stored = success();
  if (section.columns % kPanelWidth == 0) {
    stored = wholePanel();
  } else {
    Value columns = min(sub(constant(section.columns), column), constant(kPanelWidth));
    Value isWhole = equal(columns, constant(kPanelWidth));
    stored = ifThen(isWhole, wholePanel, [&] { return rest(columns); });
  }
  return stored;
}

/// Returns true if an op is one instruction of vectors.
static bool isOneInstruction(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, nn::ReluOp>(op);
}

bool LinearEmitter::storesFromRegisters() {
  if (sections.size() != 1 || together() != 1 || sections.front().slices.front() != root->getResult(0))
    return false;
  SetVector<Operation *> ops;
  for (unsigned output : sections.front().outputs)
    if (Operation *op = function.yielded(output).getDefiningOp(); op && op != root.getOperation())
      ops.insert(op);
  int64_t operations = root.getBias() ? 1 : 0;
  for (unsigned next = 0; next < ops.size(); ++next) {
    Operation *op = ops[next];
    ValueRange read = op->getOperands();
    if (auto map = dyn_cast<linalg::LinalgOp>(op)) {
      // What it reads of the root is read at its own position.
      for (OpOperand *input : map.getDpsInputOperands())
        if (!isa<BlockArgument>(input->get()) && !map.isScalar(input) &&
            !map.getMatchingIndexingMap(input).isIdentity())
          return false;
      for (Operation &inner : map.getBlock()->without_terminator())
        if (++operations; !isOneInstruction(&inner))
          return false;
      if (map.getNumParallelLoops() != map.getNumLoops() || map.getNumDpsInits() != 1 ||
          !map.getMatchingIndexingMap(map.getDpsInitOperand(0)).isIdentity() ||
          !map.getMatchingBlockArgument(map.getDpsInitOperand(0)).use_empty())
        return false;
      read = map.getDpsInputs();
    } else if (isOneInstruction(op)) {
      ++operations;
    } else if (isa<arith::ConstantOp>(op)) {
      continue;
    } else {
      return false;
    }
    for (Value operand : read)
      if (Operation *from = operand.getDefiningOp(); from && from != root.getOperation())
        ops.insert(from);
  }
  return operations <= kOperationsInRegisters;
}

LogicalResult LinearEmitter::storeSums(const LinearSection &section, const RowScope &row, Value column, Value sums,
                                       int64_t columns) {
  RowGuard inRow(tensors, row);
  // Columns inside that are no whole vector are stored by halves of one, quarters of one, and so on.
  for (int64_t first = 0, width = config.lanes; first < columns; width /= 2) {
    if (columns - first < width)
      continue;
    Value part = sums;
    if (width == 1)
      part = make<vector::ExtractOp>(sums, first);
    else if (width != config.lanes)
      part = make<vector::ExtractStridedSliceOp>(sums, ArrayRef<int64_t>{first}, ArrayRef<int64_t>{width},
                                                 ArrayRef<int64_t>{1});
    tensors.bound[root->getResult(0)] = [&](ArrayRef<Index> at, int64_t lanes) -> Element {
      if (!root.getBias())
        return part;
      Element bias = tensors.evaluate(root.getBias(), {Index{at.back().base, true}}, lanes);
      if (failed(bias))
        return failure();
      return make<arith::AddFOp>(part, *bias).getResult();
    };
    code->memo.emplace_back();
    if (failed(
            tensors.storeOutputs(section.outputs, kernel::indicesOf(row.prefix, add(column, constant(first))), width)))
      return failure();
    code->memo.pop_back();
    first += width;
  }
  tensors.bound.erase(root->getResult(0));
  return success();
}

LogicalResult LinearEmitter::withColumnsOf(Value panel, function_ref<LogicalResult(int64_t)> body) {
  int64_t features = sections.front().columns, whole = features / kPanelWidth, last = features % kPanelWidth;
  if (last == 0)
    return body(kPanelWidth);
  if (whole == 0)
    return body(last);
  Value isWhole = less(panel, constant(whole));
  return ifThen(isWhole, [&] { return body(kPanelWidth); }, [&] { return body(last); });
}

} // namespace intarsia::cpu
