//===- LayoutRules.cpp - Ops with tensors in other orders of dimensions -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/LayoutRules.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/GatheredRows.h"
#include "intarsia/Cost/Cost.h"
#include "lib/Fuse/KernelShapes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

Layout fuse::identityLayout(int64_t rank) { return llvm::to_vector<4>(llvm::seq<int64_t>(0, rank)); }

bool fuse::isIdentity(ArrayRef<int64_t> layout) {
  return llvm::all_of(llvm::enumerate(layout), [](auto each) { return int64_t(each.index()) == each.value(); });
}

Layout fuse::compose(ArrayRef<int64_t> outer, ArrayRef<int64_t> inner) {
  Layout result;
  for (int64_t dimension : inner)
    result.push_back(outer[dimension]);
  return result;
}

Layout fuse::inverse(ArrayRef<int64_t> layout) {
  Layout result(layout.size());
  for (auto [position, dimension] : llvm::enumerate(layout))
    result[dimension] = int64_t(position);
  return result;
}

RankedTensorType fuse::inLayout(RankedTensorType type, ArrayRef<int64_t> layout) {
  return RankedTensorType::get(compose(type.getShape(), layout), type.getElementType());
}

bool fuse::areSameInMemory(RankedTensorType type, ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  auto ofSize = [&](ArrayRef<int64_t> layout) {
    return llvm::filter_to_vector(layout, [&](int64_t dimension) { return type.getDimSize(dimension) != 1; });
  };
  return ofSize(a) == ofSize(b);
}

SmallVector<OpFoldResult> fuse::sizesInLayout(OpBuilder &builder, Location location, Value tensor,
                                              ArrayRef<int64_t> layout) {
  SmallVector<OpFoldResult> sizes;
  auto type = cast<RankedTensorType>(tensor.getType());
  for (int64_t dimension : layout)
    sizes.push_back(type.isDynamicDim(dimension)
                        ? OpFoldResult(tensor::DimOp::create(builder, location, tensor, dimension).getResult())
                        : OpFoldResult(builder.getIndexAttr(type.getDimSize(dimension))));
  return sizes;
}

std::optional<Layout> fuse::transposition(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || !isParallelGeneric(op) || generic.getNumDpsInputs() != 1 || generic.getNumLoops() < 2)
    return std::nullopt;
  auto source = dyn_cast<RankedTensorType>(generic.getDpsInputOperand(0)->get().getType());
  auto result = cast<RankedTensorType>(generic.getResult(0).getType());
  AffineMap read = generic.getMatchingIndexingMap(generic.getDpsInputOperand(0));
  AffineMap written = generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
  Block &body = *generic.getBody();
  if (!source || !read.isPermutation() || source.getElementType() != result.getElementType() ||
      !llvm::hasSingleElement(body) || body.getTerminator()->getOperand(0) != body.getArgument(0))
    return std::nullopt;
  Layout permutation;
  for (AffineExpr loop : written.getResults())
    permutation.push_back(int64_t(*read.getResultPosition(loop)));
  // Users have the result's type.
  return inLayout(source, permutation) == result ? std::optional(permutation) : std::nullopt;
}

//===-- Kinds -------------------------------------------------------------------------------------------------===//

LayoutRules::LayoutRules(Operation *op) : op(op), kind(kindOf(op)) {}

static bool isTensorOfRank(Value value, int64_t rank) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == rank;
}

/// True for loops whose results take each of their indices once, in some order, and whose loops over these all results
/// have.
static bool hasOrdersOfLoops(linalg::GenericOp op) {
  for (OpOperand &init : op.getDpsInitsMutable()) {
    AffineMap map = op.getMatchingIndexingMap(&init);
    if (!map.isProjectedPermutation() || map.getNumResults() != op.getNumParallelLoops())
      return false;
  }
  return op.getNumResults() > 0 && op.hasPureTensorSemantics();
}

LayoutRules::Kind LayoutRules::kindOf(Operation *op) {
  if (op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType()) || isCompileTime(op->getResult(0)))
    return Kind::Fixed;
  int64_t rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return hasOrdersOfLoops(generic) ? Kind::Loops : Kind::Fixed;
  if (isElementwise(op) || isa<tensor::CastOp>(op)) {
    bool isOfOneRank = llvm::all_of(op->getOperands(), [&](Value operand) {
      return !isa<TensorType>(operand.getType()) || isTensorOfRank(operand, rank);
    });
    return isOfOneRank ? Kind::Elementwise : Kind::Fixed;
  }
  if (isRowWise(op)) {
    bool areOthersOfRow = llvm::all_of(op->getOperands().drop_front(), [](Value operand) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      return !type || type.getRank() <= 1;
    });
    return op->getNumResults() == 1 && isTensorOfRank(op->getOperand(0), rank) && areOthersOfRow ? Kind::Rows
                                                                                                 : Kind::Fixed;
  }
  if (isa<nn::MatmulOp>(op))
    return Kind::Matrices;
  if (ContractionOpInterface product = asProductWithWeight(op)) {
    ContractionMaps maps = product.getMaps();
    bool sharesRows = op->getNumResults() == 1 && maps.left.getNumResults() == maps.result.getNumResults() &&
                      maps.left.getResults().drop_back() == maps.result.getResults().drop_back();
    return sharesRows ? Kind::Left : Kind::Fixed;
  }
  if (isa<tensor::ConcatOp>(op))
    return Kind::Concat;
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return isGatheredRows(slice) ? Kind::Fixed : Kind::Slice;
  // A scalar has no order of dimensions, so a reshape to or from one says nothing about dimensions of 1.
  if (isa<tensor::ExpandShapeOp>(op) && !isTensorOfRank(op->getOperand(0), 0))
    return Kind::Expand;
  if (isa<tensor::CollapseShapeOp>(op) && rank != 0)
    return Kind::Collapse;
  return Kind::Fixed;
}

bool LayoutRules::isElementByElement() const {
  return kind == Kind::Elementwise || (kind == Kind::Loops && isParallelGeneric(op));
}

RankedTensorType LayoutRules::typeOfOrder() const {
  bool isOfSource = kind == Kind::Slice || kind == Kind::Expand;
  Value tensor = isOfSource ? op->getOperand(0) : op->getNumResults() ? op->getResult(0) : Value();
  return tensor ? dyn_cast<RankedTensorType>(tensor.getType()) : RankedTensorType();
}

Layout LayoutRules::identity() const {
  RankedTensorType type = typeOfOrder();
  return identityLayout(type ? type.getRank() : 0);
}

//===-- Reshapes ----------------------------------------------------------------------------------------------===//

static SmallVector<ReassociationIndices> groupsOf(Operation *op) {
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return expand.getReassociationIndices();
  return cast<tensor::CollapseShapeOp>(op).getReassociationIndices();
}

Layout LayoutRules::expand(ArrayRef<int64_t> order) const {
  Layout layout;
  SmallVector<ReassociationIndices> groups = groupsOf(op);
  for (int64_t group : order)
    layout.append(groups[group].begin(), groups[group].end());
  return layout;
}

std::optional<Layout> LayoutRules::collapse(ArrayRef<int64_t> layout) const {
  Layout order;
  SmallVector<ReassociationIndices> groups = groupsOf(op);
  for (unsigned position = 0; position < layout.size();) {
    auto group = llvm::find_if(groups, [&](auto &each) { return each.front() == layout[position]; });
    if (group == groups.end() || ArrayRef<int64_t>(*group) != layout.slice(position).take_front(group->size()))
      return std::nullopt;
    order.push_back(group - groups.begin());
    position += group->size();
  }
  return order.size() == groups.size() ? std::optional(order) : std::nullopt;
}

//===-- Loops -------------------------------------------------------------------------------------------------===//

/// The loops over the result in an order, outermost first.
SmallVector<unsigned> LayoutRules::parallelLoops(ArrayRef<int64_t> order) const {
  AffineMap written = loops().getMatchingIndexingMap(loops().getDpsInitOperand(0));
  SmallVector<unsigned> result;
  for (int64_t dimension : order)
    result.push_back(written.getDimPosition(dimension));
  return result;
}

/// The loop whose iterations lie beside each other in the result.
std::optional<unsigned> LayoutRules::lane(ArrayRef<int64_t> order) const {
  SmallVector<int64_t> extents = loops().getStaticLoopRanges();
  for (unsigned loop : llvm::reverse(parallelLoops(order)))
    if (extents[loop] != 1)
      return loop;
  return std::nullopt;
}

/// The parallel loop that a dimension of an operand follows: alone, or a window's position. Nullopt if none does.
static std::optional<unsigned> loopAlong(linalg::GenericOp op, AffineExpr at) {
  std::optional<unsigned> found;
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    if (kind != utils::IteratorType::parallel || !at.isFunctionOfDim(loop))
      continue;
    if (found)
      return std::nullopt;
    found = unsigned(loop);
  }
  return found;
}

static bool isReduced(linalg::GenericOp op, AffineExpr at) {
  auto loop = dyn_cast<AffineDimExpr>(at);
  return loop && op.getIteratorTypesArray()[loop.getPosition()] == utils::IteratorType::reduction;
}

//===-- Orders and layouts ------------------------------------------------------------------------------------===//

static bool endsWith(ArrayRef<int64_t> layout, int64_t count) {
  int64_t rank = int64_t(layout.size());
  return llvm::all_of(llvm::seq(rank - count, rank), [&](int64_t position) { return layout[position] == position; });
}

std::optional<Layout> LayoutRules::orderOfResult(unsigned result, ArrayRef<int64_t> layout) const {
  switch (kind) {
  case Kind::Fixed:
    return std::nullopt;
  case Kind::Elementwise:
  case Kind::Concat:
    return Layout(layout);
  case Kind::Rows:
  case Kind::Left:
    return endsWith(layout, 1) ? std::optional(Layout(layout)) : std::nullopt;
  case Kind::Matrices:
    return endsWith(layout, 2) ? std::optional(Layout(layout)) : std::nullopt;
  case Kind::Slice: {
    llvm::SmallBitVector dropped = cast<tensor::ExtractSliceOp>(op).getDroppedDims();
    Layout order, kept;
    for (unsigned dimension = 0; dimension < dropped.size(); ++dimension)
      (dropped.test(dimension) ? order : kept).push_back(dimension);
    order.append(compose(kept, layout));
    return order;
  }
  case Kind::Expand:
    return collapse(layout);
  case Kind::Collapse:
    return Layout(layout);
  case Kind::Loops: {
    linalg::GenericOp generic = loops();
    AffineMap first = generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
    AffineMap written = generic.getMatchingIndexingMap(generic.getDpsInitOperand(result));
    Layout order;
    for (int64_t dimension : layout)
      order.push_back(int64_t(*first.getResultPosition(written.getResult(dimension))));
    return order;
  }
  }
  llvm_unreachable("all kinds are named");
}

std::optional<Layout> LayoutRules::orderOfOperand(unsigned operand, ArrayRef<int64_t> layout) const {
  switch (kind) {
  case Kind::Fixed:
    return std::nullopt;
  case Kind::Elementwise:
  case Kind::Concat:
    return Layout(layout);
  case Kind::Rows:
    return operand == 0 ? orderOfResult(0, layout) : std::nullopt;
  case Kind::Left:
    return operand == asProductWithWeight(op).getLeftOperand().getOperandNumber() ? orderOfResult(0, layout)
                                                                                  : std::nullopt;
  case Kind::Matrices: {
    Layout order(layout);
    int64_t rank = int64_t(layout.size());
    if (order[rank - 1] == rank - 2)
      std::swap(order[rank - 1], order[rank - 2]);
    return orderOfResult(0, order);
  }
  case Kind::Slice:
  case Kind::Expand:
    return operand == 0 ? std::optional(Layout(layout)) : std::nullopt;
  case Kind::Collapse:
    return operand == 0 ? collapse(layout) : std::nullopt;
  case Kind::Loops: {
    linalg::GenericOp generic = loops();
    if (operand >= generic.getNumDpsInputs())
      return orderOfResult(operand - generic.getNumDpsInputs(), layout);
    // An operand tells if it has all dimensions of the result.
    AffineMap written = generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
    AffineMap read = generic.getMatchingIndexingMap(&op->getOpOperand(operand));
    Layout order;
    for (int64_t dimension : layout)
      if (std::optional<unsigned> loop = loopAlong(generic, read.getResult(dimension))) {
        int64_t position = *written.getResultPosition(getAffineDimExpr(*loop, op->getContext()));
        if (llvm::is_contained(order, position))
          return std::nullopt;
        order.push_back(position);
      }
    return order.size() == written.getNumResults() ? std::optional(order) : std::nullopt;
  }
  }
  llvm_unreachable("all kinds are named");
}

Layout LayoutRules::layoutOfResult(ArrayRef<int64_t> order, unsigned result) const {
  switch (kind) {
  case Kind::Slice: {
    llvm::SmallBitVector dropped = cast<tensor::ExtractSliceOp>(op).getDroppedDims();
    Layout layout;
    for (int64_t dimension : order)
      if (!dropped.test(dimension))
        layout.push_back(dimension - llvm::count_if(llvm::seq<int64_t>(0, dimension),
                                                    [&](int64_t before) { return dropped.test(before); }));
    return layout;
  }
  case Kind::Expand:
    return expand(order);
  case Kind::Loops: {
    linalg::GenericOp generic = loops();
    AffineMap written = generic.getMatchingIndexingMap(generic.getDpsInitOperand(result));
    Layout layout;
    for (unsigned loop : parallelLoops(order))
      layout.push_back(int64_t(*written.getResultPosition(getAffineDimExpr(loop, op->getContext()))));
    return layout;
  }
  case Kind::Fixed: {
    auto type = dyn_cast<RankedTensorType>(op->getResult(result).getType());
    return identityLayout(type ? type.getRank() : 0);
  }
  default:
    return Layout(order);
  }
}

Layout LayoutRules::layoutOfOperand(ArrayRef<int64_t> order, unsigned operand) const {
  auto type = dyn_cast<RankedTensorType>(op->getOperand(operand).getType());
  Layout asWritten = identityLayout(type ? type.getRank() : 0);
  switch (kind) {
  case Kind::Elementwise:
    return type ? Layout(order) : asWritten;
  case Kind::Concat:
  case Kind::Matrices:
    return Layout(order);
  case Kind::Rows:
    return operand == 0 ? Layout(order) : asWritten;
  case Kind::Left:
    return operand == asProductWithWeight(op).getLeftOperand().getOperandNumber() ? Layout(order) : asWritten;
  case Kind::Slice:
  case Kind::Expand:
    return operand == 0 ? Layout(order) : asWritten;
  case Kind::Collapse:
    return operand == 0 ? expand(order) : asWritten;
  case Kind::Fixed:
    return asWritten;
  case Kind::Loops:
    break;
  }
  linalg::GenericOp generic = loops();
  if (operand >= generic.getNumDpsInputs())
    return layoutOfResult(order, operand - generic.getNumDpsInputs());
  if (!type)
    return asWritten;
  // Outermost what the outer loops go over, then windows, what is reduced, innermost what lies along the result's rows.
  AffineMap read = generic.getMatchingIndexingMap(&op->getOpOperand(operand));
  SmallVector<unsigned> parallel = parallelLoops(order);
  std::optional<unsigned> along = lane(order);
  auto isOfWindow = [&](AffineExpr at) {
    return llvm::any_of(generic.getIndexingMapsArray(), [&](AffineMap map) {
      return llvm::any_of(map.getResults(), [&](AffineExpr other) {
        return other != at && loopAlong(generic, other) && isa<AffineDimExpr>(at) &&
               other.isFunctionOfDim(cast<AffineDimExpr>(at).getPosition());
      });
    });
  };
  auto position = [&](int64_t dimension) -> int64_t {
    AffineExpr at = read.getResult(dimension);
    if (isa<AffineConstantExpr>(at))
      return -1;
    int64_t inner = int64_t(parallel.size());
    std::optional<unsigned> loop = loopAlong(generic, at);
    if (!loop)
      return isOfWindow(at) ? inner : inner + 1;
    bool isLane = along && *loop == *along && isa<AffineDimExpr>(at);
    return isLane ? inner + 2 : llvm::find(parallel, *loop) - parallel.begin();
  };
  Layout layout = asWritten;
  llvm::stable_sort(layout, [&](int64_t a, int64_t b) { return position(a) < position(b); });
  return layout;
}

Reading LayoutRules::reading(ArrayRef<int64_t> order, unsigned operand, ArrayRef<int64_t> layout) const {
  Layout best = layoutOfOperand(order, operand);
  if (ArrayRef<int64_t>(best) == layout)
    return Reading::AsItLies;
  if (kind == Kind::Matrices) {
    std::swap(best[best.size() - 1], best[best.size() - 2]);
    return ArrayRef<int64_t>(best) == layout ? Reading::AsItLies : Reading::Impossible;
  }
  if (kind != Kind::Loops || operand >= loops().getNumDpsInputs())
    return Reading::Impossible;
  linalg::GenericOp generic = loops();
  AffineMap read = generic.getMatchingIndexingMap(&op->getOpOperand(operand));
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  std::optional<unsigned> along = lane(order);
  if (!along || !read.isFunctionOfDim(*along))
    return Reading::AsItLies;
  for (int64_t dimension : llvm::reverse(layout)) {
    if (type.getDimSize(dimension) == 1)
      continue;
    AffineExpr at = read.getResult(dimension);
    if (at.isFunctionOfDim(*along))
      return Reading::AsItLies;
    if (!isReduced(generic, at))
      return Reading::Across;
    return generic.getNumDpsInputs() > 1 ? Reading::AlongSums : Reading::AsItLies;
  }
  return Reading::AsItLies;
}

//===-- Ops in another order ----------------------------------------------------------------------------------===//

template <typename T> static SmallVector<T> permuted(ArrayRef<T> values, ArrayRef<int64_t> layout) {
  SmallVector<T> result;
  for (int64_t dimension : layout)
    result.push_back(values[dimension]);
  return result;
}

Operation *LayoutRules::build(OpBuilder &builder, ArrayRef<int64_t> order, ArrayRef<Stored> operands) const {
  Location location = op->getLoc();
  auto typeOf = [&](unsigned result) {
    return inLayout(cast<RankedTensorType>(op->getResult(result).getType()), layoutOfResult(order, result));
  };
  auto values = llvm::map_to_vector(operands, [](const Stored &each) { return each.value; });
  Operation *built = nullptr;
  switch (kind) {
  case Kind::Elementwise:
  case Kind::Rows:
  case Kind::Left:
  case Kind::Matrices: {
    built = builder.clone(*op);
    built->setOperands(values);
    built->getResult(0).setType(typeOf(0));
    if (auto matmul = dyn_cast<nn::MatmulOp>(built)) {
      auto isSwapped = [&](unsigned operand) { return operands[operand].layout != layoutOfOperand(order, operand); };
      matmul.setTransposeLhs(matmul.getTransposeLhs() != isSwapped(0));
      matmul.setTransposeRhs(matmul.getTransposeRhs() != isSwapped(1));
    }
    return built;
  }
  case Kind::Concat: {
    int64_t axis = inverse(order)[cast<tensor::ConcatOp>(op).getDim()];
    built = tensor::ConcatOp::create(builder, location, typeOf(0), axis, values);
    break;
  }
  case Kind::Slice: {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    built = tensor::ExtractSliceOp::create(
        builder, location, typeOf(0), values[0], permuted<OpFoldResult>(slice.getMixedOffsets(), order),
        permuted<OpFoldResult>(slice.getMixedSizes(), order), permuted<OpFoldResult>(slice.getMixedStrides(), order));
    break;
  }
  case Kind::Expand:
  case Kind::Collapse: {
    SmallVector<ReassociationIndices> groups;
    int64_t next = 0;
    for (const ReassociationIndices &group : permuted<ReassociationIndices>(groupsOf(op), order)) {
      groups.emplace_back();
      for (size_t i = 0; i < group.size(); ++i)
        groups.back().push_back(next++);
    }
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
      built =
          tensor::ExpandShapeOp::create(builder, location, typeOf(0), values[0], groups,
                                        permuted<OpFoldResult>(expand.getMixedOutputShape(), layoutOfResult(order, 0)));
    else
      built = tensor::CollapseShapeOp::create(builder, location, typeOf(0), values[0], groups);
    break;
  }
  case Kind::Loops:
    built = buildLoops(builder, order, operands);
    break;
  case Kind::Fixed:
    llvm_unreachable("the op has no other order");
  }
  built->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return built;
}

/// True if elements may be combined in any order of the loops that are reduced.
static bool combinesInAnyOrder(linalg::GenericOp op) {
  SmallVector<Operation *> combiners;
  return op->getNumResults() == 1 && matchReduction(op.getRegionOutputArgs(), 0, combiners) && combiners.size() == 1 &&
         arith::getNeutralElement(combiners[0]);
}

Operation *LayoutRules::buildLoops(OpBuilder &builder, ArrayRef<int64_t> order, ArrayRef<Stored> operands) const {
  linalg::GenericOp generic = loops();
  SmallVector<AffineMap> maps;
  for (auto [number, map] : llvm::enumerate(generic.getIndexingMapsArray())) {
    SmallVector<AffineExpr> results;
    for (int64_t dimension : operands[number].layout)
      results.push_back(map.getResult(dimension));
    maps.push_back(AffineMap::get(map.getNumDims(), map.getNumSymbols(), results, op->getContext()));
  }

  // Loops that are reduced come last, unless an operand is then read in the order of the loops: passes behind this one
  // look for that.
  SmallVector<unsigned> parallel = parallelLoops(order), reductions;
  for (auto [loop, kind] : llvm::enumerate(generic.getIteratorTypesArray()))
    if (kind == utils::IteratorType::reduction)
      reductions.push_back(loop);
  if (combinesInAnyOrder(generic)) {
    auto positionOf = [&](unsigned loop) -> size_t {
      for (unsigned operand = 0, base = 0; operand < generic.getNumDpsInputs(); ++operand) {
        for (AffineExpr at : maps[operand].getResults()) {
          if (at.isFunctionOfDim(loop))
            return base;
          ++base;
        }
      }
      return SIZE_MAX;
    };
    llvm::stable_sort(reductions, [&](unsigned a, unsigned b) { return positionOf(a) < positionOf(b); });
  }
  SmallVector<unsigned> sequence = parallel;
  sequence.append(reductions);
  for (unsigned operand = 0; operand < generic.getNumDpsInputs() && !reductions.empty(); ++operand) {
    if (!maps[operand].isPermutation())
      continue;
    auto read = llvm::map_to_vector(llvm::seq<unsigned>(0, maps[operand].getNumResults()),
                                    [&](unsigned i) { return maps[operand].getDimPosition(i); });
    auto among = [&](ArrayRef<unsigned> some) {
      return llvm::filter_to_vector(read, [&](unsigned loop) { return llvm::is_contained(some, loop); });
    };
    if (among(parallel) == parallel && among(reductions) == reductions) {
      sequence = read;
      break;
    }
  }

  SmallVector<AffineExpr> renamed(generic.getNumLoops());
  SmallVector<utils::IteratorType> kinds;
  for (auto [position, loop] : llvm::enumerate(sequence)) {
    renamed[loop] = builder.getAffineDimExpr(position);
    kinds.push_back(generic.getIteratorTypesArray()[loop]);
  }
  for (AffineMap &map : maps)
    map = map.replaceDimsAndSymbols(renamed, {}, map.getNumDims(), map.getNumSymbols());

  SmallVector<Value> inputs, inits;
  SmallVector<Type> types;
  for (auto [number, operand] : llvm::enumerate(operands))
    (int64_t(number) < generic.getNumDpsInputs() ? inputs : inits).push_back(operand.value);
  for (Value init : inits)
    types.push_back(init.getType());
  auto built = linalg::GenericOp::create(builder, op->getLoc(), types, inputs, inits, maps, kinds);
  IRMapping mapping;
  generic.getRegion().cloneInto(&built.getRegion(), mapping);
  built.getRegion().walk(
      [&](linalg::IndexOp index) { index.setDim(cast<AffineDimExpr>(renamed[index.getDim()]).getPosition()); });
  return built;
}
