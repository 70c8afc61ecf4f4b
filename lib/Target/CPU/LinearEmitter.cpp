//===- LinearEmitter.cpp - How the columns of a linear's result are stored --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/LinearEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace intarsia::cpu {

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

} // namespace intarsia::cpu
