//===- FuseLayouts.cpp - How computed tensors lie in memory -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/LayoutProblem.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSELAYOUTS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
DenseElementsAttr transposed(DenseElementsAttr elements, ArrayRef<int64_t> layout) {
  auto type = cast<RankedTensorType>(elements.getType());
  RankedTensorType result = inLayout(type, layout);
  if (elements.isSplat())
    return elements.resizeSplat(result);
  size_t size = type.getElementTypeBitWidth() / 8;
  ArrayRef<char> from = elements.getRawData();
  std::vector<char> to(from.size());
  SmallVector<int64_t> strides = computeStrides(type.getShape()), at(layout.size(), 0);
  for (size_t next = 0; next < to.size(); next += size) {
    int64_t source = 0;
    for (auto [position, dimension] : llvm::enumerate(layout))
      source += at[position] * strides[dimension];
    std::copy_n(from.data() + source * size, size, to.data() + next);
    for (int64_t position = int64_t(layout.size()) - 1; position >= 0 && ++at[position] == result.getDimSize(position);
         --position)
      at[position] = 0;
  }
  return DenseElementsAttr::getFromRawBuffer(result, to);
}

/// Groups of neighbouring dimensions, each with at most one that is not 1.
SmallVector<ReassociationIndices> groupsOfOnes(ArrayRef<int64_t> shape) {
  SmallVector<ReassociationIndices> groups(1);
  bool hasOther = false;
  for (auto [dimension, size] : llvm::enumerate(shape)) {
    if (size != 1 && hasOther)
      groups.emplace_back();
    hasOther |= size != 1;
    groups.back().push_back(int64_t(dimension));
  }
  return groups;
}

/// Builds ops in their orders, and copies where layouts meet.
class LayoutRewriter {
public:
  LayoutRewriter(LayoutProblem &problem, Fuser &fuser) : problem(problem), fuser(fuser) {}
  LogicalResult rewrite();

private:
  Value make(OpBuilder &builder, Value value, ArrayRef<int64_t> layout);
  Value get(OpBuilder &builder, Value origin, const Layout &layout, Operation *consumer);
  Value copy(OpBuilder &builder, const Stored &from, Value origin, const Layout &layout, Operation *consumer);
  void rewriteOp(unsigned number);
  void renameSizes();

  LayoutProblem &problem;
  Fuser &fuser;
  llvm::DenseMap<Value, SmallVector<Stored>> available; ///< layouts that there are, by origin
};

/// Makes a constant, a fill or what else isMadeInAnyLayout in a layout.
Value LayoutRewriter::make(OpBuilder &builder, Value value, ArrayRef<int64_t> layout) {
  if (isIdentity(layout))
    return value;
  Location location = value.getLoc();
  RankedTensorType type = inLayout(cast<RankedTensorType>(value.getType()), layout);
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)))
    return arith::ConstantOp::create(builder, location, transposed(elements, layout));
  if (auto fill = value.getDefiningOp<linalg::FillOp>())
    return linalg::FillOp::create(builder, location, fill.getInputs()[0], make(builder, fill.getOutputs()[0], layout))
        .getResult(0);
  // Sizes of dynamic dimensions in the new order.
  auto sizes = [&](ValueRange dynamic) {
    SmallVector<Value> all, result;
    for (int64_t size : cast<RankedTensorType>(value.getType()).getShape()) {
      all.push_back(ShapedType::isDynamic(size) ? dynamic.front() : Value());
      dynamic = dynamic.drop_front(ShapedType::isDynamic(size));
    }
    for (int64_t dimension : layout)
      if (all[dimension])
        result.push_back(all[dimension]);
    return result;
  };
  if (auto empty = value.getDefiningOp<tensor::EmptyOp>())
    return tensor::EmptyOp::create(builder, location, type, sizes(empty.getDynamicSizes()));
  if (auto splat = value.getDefiningOp<tensor::SplatOp>())
    return tensor::SplatOp::create(builder, location, splat.getInput(), type, sizes(splat.getDynamicSizes()));
  Value empty = tensor::EmptyOp::create(builder, location, type, ValueRange());
  return linalg::TransposeOp::create(builder, location, value, empty, layout)->getResult(0);
}

Value LayoutRewriter::copy(OpBuilder &builder, const Stored &from, Value origin, const Layout &layout,
                           Operation *consumer) {
  // The transposition of what lies.
  Layout permutation = compose(inverse(from.layout), layout);
  Location location = problem.locationOf(origin, layout, consumer);
  auto type = cast<RankedTensorType>(from.value.getType());
  SmallVector<OpFoldResult> sizes = sizesInLayout(builder, location, from.value, permutation);
  if (areSameInMemory(type, identityLayout(type.getRank()), permutation)) {
    // Only dimensions of 1 move: a view.
    RankedTensorType result = inLayout(type, permutation);
    SmallVector<int64_t> others = llvm::filter_to_vector(type.getShape(), [](int64_t size) { return size != 1; });
    if (others.empty())
      others.push_back(1);
    Value flat =
        tensor::CollapseShapeOp::create(builder, location, RankedTensorType::get(others, type.getElementType()),
                                        from.value, groupsOfOnes(type.getShape()));
    return tensor::ExpandShapeOp::create(builder, location, result, flat, groupsOfOnes(result.getShape()), sizes);
  }
  Value empty = tensor::EmptyOp::create(builder, location, sizes, type.getElementType());
  Builder maps(builder.getContext());
  AffineMap identity = AffineMap::getMultiDimIdentityMap(unsigned(type.getRank()), builder.getContext());
  SmallVector<AffineExpr> read(permutation.size());
  for (auto [position, dimension] : llvm::enumerate(permutation))
    read[dimension] = maps.getAffineDimExpr(position);
  auto generic = linalg::GenericOp::create(
      builder, location, empty.getType(), from.value, empty,
      ArrayRef{AffineMap::get(unsigned(type.getRank()), 0, read, builder.getContext()), identity},
      SmallVector<utils::IteratorType>(type.getRank(), utils::IteratorType::parallel),
      [](OpBuilder &body, Location at, ValueRange arguments) { linalg::YieldOp::create(body, at, arguments[0]); });
  if (Attribute device = consumer->getDiscardableAttr(rt::deviceAttr))
    generic->setDiscardableAttr(rt::deviceAttr, device);
  return generic.getResult(0);
}

/// The tensor of an origin in a layout: what there is, a view or a copy of that.
Value LayoutRewriter::get(OpBuilder &builder, Value origin, const Layout &layout, Operation *consumer) {
  SmallVector<Stored> &all = available[origin];
  if (all.empty())
    all.push_back({origin, identityLayout(int64_t(layout.size()))});
  for (const Stored &each : all)
    if (each.layout == layout)
      return each.value;
  Value value;
  if (isMadeInAnyLayout(origin)) {
    builder.setInsertionPointAfterValue(origin);
    value = make(builder, origin, layout);
  } else {
    auto type = cast<RankedTensorType>(origin.getType());
    const Stored *from =
        llvm::find_if(all, [&](const Stored &each) { return areSameInMemory(type, each.layout, layout); });
    if (from == all.end())
      from = all.begin();
    builder.setInsertionPointAfterValue(from->value);
    value = copy(builder, *from, origin, layout, consumer);
  }
  all.push_back({value, layout});
  return value;
}

/// Leaves the reason for the group that an op joins; views join none.
static void explain(Operation *op, StringRef why) {
  if (!why.empty() && kernelRootOf(op))
    op->setDiscardableAttr(layoutAttr, StringAttr::get(op->getContext(), why));
}

void LayoutRewriter::rewriteOp(unsigned number) {
  LaidOutOp &op = problem.ops[number];
  const Layout &order = op.orders[problem.orderOf(op)];
  OpBuilder builder(op.op);
  // What the op has for each operand, and the layout that it sees it in.
  SmallVector<Stored> operands;
  for (OpOperand &operand : op.op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    operands.push_back({operand.get(), identityLayout(type ? type.getRank() : 0)});
  }
  bool isSame = problem.orderOf(op) == 0;
  SmallVector<std::pair<OpOperand *, Value>> nested;
  for (unsigned index : op.reads) {
    const LayoutRead &read = problem.reads[index];
    Value origin = read.origin.value;
    if (read.isNested) {
      nested.emplace_back(read.operand, get(builder, origin, read.origin.permutation, op.op));
      continue;
    }
    unsigned operand = read.operand->getOperandNumber();
    Layout layout;
    if (isMadeInAnyLayout(origin))
      layout = compose(read.origin.permutation,
                       isSame ? operands[operand].layout : op.rules.layoutOfOperand(order, operand));
    else
      layout = problem.chosenLayout(read);
    // An op that reads one layout gets a copy, which becomes part of its kernel.
    if (op.rules.hasOrders() &&
        op.rules.reading(order, operand, LayoutProblem::seen(read, layout)) == Reading::Impossible)
      layout = compose(read.origin.permutation, op.rules.layoutOfOperand(order, operand));
    operands[operand] = {get(builder, origin, layout, op.op), LayoutProblem::seen(read, layout)};
  }
  for (auto &[operand, value] : nested)
    operand->set(value);
  isSame &= llvm::all_of(operands, [](const Stored &each) { return isIdentity(each.layout); });
  if (isSame) {
    for (auto [operand, given] : llvm::zip(op.op->getOpOperands(), operands))
      operand.set(given.value);
    return;
  }
  builder.setInsertionPoint(op.op);
  Operation *built = op.rules.build(builder, order, operands);
  explain(built, op.why);
  for (auto [before, after] : llvm::zip(op.op->getResults(), built->getResults())) {
    Layout layout = op.rules.layoutOfResult(order, before.getResultNumber());
    available[before] = {{after, layout}};
    if (isIdentity(layout))
      before.replaceAllUsesWith(after);
  }
}

/// Sizes are asked of the tensors that there are.
void LayoutRewriter::renameSizes() {
  OpBuilder builder(fuser.body().getParentOp()->getContext());
  for (tensor::DimOp size : llvm::make_early_inc_range(fuser.body().getOps<tensor::DimOp>())) {
    std::optional<int64_t> dimension = size.getConstantIndex();
    if (!isa<RankedTensorType>(size.getSource().getType()))
      continue;
    LayoutOrigin origin = problem.originOf(size.getSource());
    auto found = available.find(origin.value);
    if (found == available.end() || !dimension)
      continue;
    const Stored &stored = found->second.front();
    int64_t position = llvm::find(stored.layout, origin.permutation[*dimension]) - stored.layout.begin();
    builder.setInsertionPoint(size);
    size.getSourceMutable().assign(stored.value);
    size.getIndexMutable().assign(arith::ConstantIndexOp::create(builder, size.getLoc(), position));
  }
}

LogicalResult LayoutRewriter::rewrite() {
  for (unsigned number = 0; number < problem.ops.size(); ++number)
    rewriteOp(number);
  renameSizes();
  return fuser.finish();
}

struct FuseLayouts : fuse::impl::FuseLayoutsBase<FuseLayouts> {
  using FuseLayoutsBase::FuseLayoutsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), flip);
    LayoutProblem problem(fuser);
    if (!problem.find())
      return;
    problem.choose();
    if (failed(LayoutRewriter(problem, fuser).rewrite()))
      return signalPassFailure();
  }
};
} // namespace
