//===- HostLoops.cpp - Loops that stay loops ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels do not see the counter of a loop of the host, so that it is carried as a tensor too. Each iteration puts its
// part into a tensor that is carried, which is copied each time. Long loops have two levels, of which the inner one
// fills a block of parts, so that they do not copy a long tensor in each iteration.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/HostLoops.h"

#include "lib/Import/Onnx/Ops/Positions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {

/// Iterations that fill one block of parts: a loop of n iterations copies each part 64 + n / 64 times.
static constexpr int64_t blockSize = 64;

std::string describe(Value tensor) {
  auto type = tensorType(tensor);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << type.getElementType() << "[";
  llvm::interleaveComma(type.getShape(), stream, [&](int64_t size) {
    if (ShapedType::isDynamic(size))
      stream << "?";
    else
      stream << size;
  });
  stream << "]";
  return text;
}

std::optional<Value> scalarOf(NodeContext &node, Value tensor) {
  for (int64_t size : tensorType(tensor).getShape())
    if (!ShapedType::isDynamic(size) && size != 1)
      return std::nullopt;
  return node.reshaped(tensor, {});
}

Value partAt(NodeContext &node, Value tensor, int64_t axis, Value number, bool isReverse) {
  Shape shape = node.graph.shapeOf(node.at, tensor);
  OpFoldResult size = node.ir().size(shape[axis]);
  shape.erase(shape.begin() + axis);
  Value part = node.ir().elementwise(node.at, tensorType(tensor).getElementType(), shape, {{number, {}}},
                                     [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                       Value index = arith::IndexCastOp::create(b, at, b.getIndexType(), v[0]);
                                       Value last =
                                           arith::SubIOp::create(b, at, getValueOrCreateConstantIndexOp(b, at, size),
                                                                 arith::ConstantIndexOp::create(b, at, 1));
                                       if (isReverse)
                                         index = arith::SubIOp::create(b, at, last, index);
                                       llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
                                       position.insert(position.begin() + axis, clampedTo(b, at, index, size));
                                       return tensor::ExtractOp::create(b, at, tensor, position);
                                     });
  node.graph.setShape(part, shape);
  return part;
}

namespace {

/// Builds one loop.
class LoopBuilder {
public:
  LoopBuilder(NodeContext &node, const HostLoop &loop) : node(node), ops(node.ops()), at(node.at), loop(loop) {}

  std::optional<LoopResults> build(LoopBody body);

private:
  bool buildStep(LoopBody body);
  bool isKept(Value begin, Value end, Value &stored);
  std::optional<Size> outside(const Size &size);
  Value outside(Value index, unsigned depth);
  Size countOf();
  Value numberOf(int64_t value) {
    auto type = RankedTensorType::get({}, ops.getI64Type());
    return arith::ConstantOp::create(ops, at, DenseElementsAttr::get(type, ops.getI64IntegerAttr(value)));
  }
  Value added(Value number, int64_t more);
  Value inserted(Value part, Value whole, Value number, int64_t first, int64_t divisor, bool wraps);
  Value index(int64_t value) { return arith::ConstantIndexOp::create(ops, at, value); }
  Value zeros(const Shape &shape, Type element) {
    return node.filled(shape, cast<TypedAttr>(ops.getZeroAttr(element)));
  }
  void finish(scf::ForOp op, llvm::ArrayRef<Value> yielded);
  scf::ForOp makeFor(Value end, llvm::ArrayRef<Value> inits);
  std::optional<LoopResults> counted();
  std::optional<LoopResults> conditional();

  NodeContext &node;
  OpBuilder &ops;
  Location at;
  const HostLoop &loop;
  scf::ForOp holder; ///< of the body, until the results are known
  LoopStep step;
  llvm::SmallVector<Value> inits; ///< the number and what is carried
  llvm::SmallVector<Shape> shapesOfParts;
};

/// Returns a tensor<i64> that is `more` larger.
Value LoopBuilder::added(Value number, int64_t more) {
  return node.broadcast({number}, ops.getI64Type(), [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
    return arith::AddIOp::create(b, loc, v[0], arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(more)));
  });
}

/// True if two sizes that are not known to be equal may be so in a call: sizes that the call gives, or one of the call
/// and a number. Sizes that are computed from others count as different: a value that grows has such a size.
static bool mayBeEqual(const Size &one, const Size &other) {
  auto isGiven = [](const Size &size) {
    return !size.isDynamic() || !size.index || size.index.getDefiningOp<tensor::DimOp>();
  };
  if (!one.isDynamic() || !other.isDynamic())
    return one.isDynamic() || other.isDynamic();
  return isGiven(one) && isGiven(other);
}

/// Returns true if a value has the same type at the end of an iteration as at its beginning. `stored` is the value at
/// the end, cast to that type where sizes are known on one side only.
bool LoopBuilder::isKept(Value begin, Value end, Value &stored) {
  auto type = tensorType(begin), next = tensorType(end);
  bool isSame = type.getElementType() == next.getElementType() && type.getRank() == next.getRank();
  if (isSame) {
    Shape before = node.graph.shapeOf(at, begin), after = node.graph.shapeOf(at, end);
    for (auto [one, other] : llvm::zip_equal(before, after))
      isSame &= node.graph.areEqual(one, other) || mayBeEqual(one, other);
    auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, before.size()));
    if (isSame && !llvm::all_of(llvm::zip_equal(before, after),
                                [&](auto pair) { return node.graph.areEqual(std::get<0>(pair), std::get<1>(pair)); })) {
      // Sizes that meet in an op must be equal in a call, so that this op checks them.
      end = node.ir().elementwise(at, type.getElementType(), before, {{end, all}},
                                  [](OpBuilder &, Location, ValueRange v) { return v[0]; });
      node.graph.setShape(end, before);
      next = tensorType(end);
    }
  }
  if (!isSame) {
    node.refuse("carries a value of " + describe(begin) + " and goes on with one of " + describe(end) +
                "; it must keep its shape, or the number of iterations be known to the compiler");
    return false;
  }
  stored = type == next ? end : Value(tensor::CastOp::create(ops, at, type, end));
  return true;
}

/// Returns an index of the body computed before the loop instead; null if it depends on values that each iteration
/// computes.
Value LoopBuilder::outside(Value value, unsigned depth) {
  if (!holder.getRegion().isAncestor(value.getParentRegion()))
    return value;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    // A value that is carried has the same shape in all iterations, so that the first one tells its sizes.
    bool isCarried = argument.getOwner() == holder.getBody() && argument.getArgNumber() > 0;
    return isCarried && isa<TensorType>(value.getType()) ? inits[argument.getArgNumber() - 1] : Value();
  }
  Operation *op = value.getDefiningOp();
  if (depth == 0 || !op || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return {};
  auto dim = dyn_cast<tensor::DimOp>(op);
  if (!dim && !isa<arith::ArithDialect>(op->getDialect()))
    return {};
  if (!dim && !value.getType().isIntOrIndex())
    return {};
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    // Only the size of the tensor is read here, not its elements.
    Value mapped = outside(operand, depth - 1);
    if (!mapped)
      return {};
    mapping.map(operand, mapped);
  }
  return ops.clone(*op, mapping)->getResult(0);
}

std::optional<Size> LoopBuilder::outside(const Size &size) {
  if (!size.isDynamic() || !size.index)
    return size;
  constexpr unsigned mostOps = 32; // that depend on each other
  Value moved = outside(size.index, mostOps);
  if (!moved) {
    node.refuse("the size of a result is computed in each iteration");
    return std::nullopt;
  }
  return Size(moved);
}

/// Builds an iteration in the body of a loop that carries all values except the parts.
bool LoopBuilder::buildStep(LoopBody body) {
  inits = {numberOf(loop.first)};
  inits.append(loop.carried);
  Value zero = index(0);
  holder = scf::ForOp::create(ops, at, zero, zero, index(1), inits);
  OpBuilder::InsertionGuard guard(ops);
  Block *block = holder.getBody();
  block->clear();
  ops.setInsertionPointToEnd(block);
  llvm::SmallVector<Value> carried;
  for (auto [init, argument] : llvm::zip_equal(inits, holder.getRegionIterArgs())) {
    if (!tensorType(init).hasStaticShape())
      node.graph.setShape(argument, node.graph.shapeOf(at, init));
    carried.push_back(argument);
  }
  Value number = carried.front();
  std::optional<LoopStep> built = body(number, llvm::ArrayRef(carried).drop_front());
  if (!built || node.isRefused() || node.ir().sink().any()) {
    node.leaveOut();
    return false;
  }
  step = std::move(*built);
  if (step.carried.size() != loop.carried.size())
    return node.refuse("carries " + llvm::Twine(loop.carried.size()) + " values and goes on with " +
                       llvm::Twine(step.carried.size())),
           false;
  llvm::SmallVector<Value> next{added(number, 1)};
  if (step.goesOn) {
    std::optional<Value> goesOn = scalarOf(node, step.goesOn);
    if (!goesOn)
      return node.refuse("whether it goes on is not one element"), false;
    step.goesOn = *goesOn;
  }
  for (auto [begin, end] : llvm::zip_equal(loop.carried, step.carried))
    if (!isKept(begin, end, next.emplace_back()))
      return false;
  step.carried = std::move(next);
  for (Value part : step.parts)
    shapesOfParts.push_back(node.graph.shapeOf(at, part));
  return true;
}

/// Returns `whole` [n, …] with `part` […] in place of its element (number - first) / divisor; with `wraps` of the
/// remainder of that number by the block size.
Value LoopBuilder::inserted(Value part, Value whole, Value number, int64_t first, int64_t divisor, bool wraps) {
  Shape shape = node.graph.shapeOf(at, whole);
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  llvm::SmallVector<unsigned, 4> behind(llvm::drop_begin(all));
  Value result = node.ir().elementwise(
      at, tensorType(whole).getElementType(), shape, {{whole, all}, {part, behind}, {number, {}}},
      [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
        auto constant = [&](int64_t value) -> Value {
          return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
        };
        Value place = v[2];
        if (first != 0)
          place = arith::SubIOp::create(b, loc, place, constant(first));
        if (divisor != 1)
          place = arith::DivUIOp::create(b, loc, place, constant(divisor));
        if (wraps)
          place = arith::RemUIOp::create(b, loc, place, constant(blockSize));
        Value own = arith::IndexCastOp::create(b, loc, b.getI64Type(), linalg::IndexOp::create(b, loc, 0));
        Value isIt = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, own, place);
        return arith::SelectOp::create(b, loc, isIt, v[1], v[0]);
      });
  node.graph.setShape(result, shape);
  return result;
}

/// Makes a loop from 0 to `end` whose body is empty, and leaves the builder behind it.
scf::ForOp LoopBuilder::makeFor(Value end, llvm::ArrayRef<Value> begin) {
  Value zero = index(0), one = index(1);
  auto op = scf::ForOp::create(ops, at, zero, end, one, begin);
  op.getBody()->clear();
  for (auto [init, argument] : llvm::zip_equal(begin, op.getRegionIterArgs()))
    if (!tensorType(init).hasStaticShape())
      node.graph.setShape(argument, node.graph.shapeOf(at, init));
  for (auto [init, result] : llvm::zip_equal(begin, op.getResults()))
    if (!tensorType(init).hasStaticShape())
      node.graph.setShape(result, node.graph.shapeOf(at, init));
  return op;
}

void LoopBuilder::finish(scf::ForOp op, llvm::ArrayRef<Value> yielded) {
  OpBuilder::InsertionGuard guard(ops);
  ops.setInsertionPointToEnd(op.getBody());
  scf::YieldOp::create(ops, at, yielded);
}

/// Returns how many iterations there are from `loop.first` on: none if the condition before them does not hold.
Size LoopBuilder::countOf() {
  Size left = loop.first == 0 ? *loop.count : node.compute(SizeOp::Subtract, *loop.count, loop.first);
  if (!loop.goesOn)
    return left;
  Value goesOn = tensor::ExtractOp::create(ops, at, loop.goesOn, ValueRange());
  Value count = getValueOrCreateConstantIndexOp(ops, at, node.ir().size(left));
  return Size(arith::SelectOp::create(ops, at, goesOn, count, index(0)).getResult());
}

/// A loop whose number of iterations is known when it begins.
std::optional<LoopResults> LoopBuilder::counted() {
  if (!step.parts.empty() && (loop.goesOn || loop.isComputed))
    return node.refuse("each iteration has a result, so that the number of iterations must be known to the compiler, "
                       "or a size of the call"),
           std::nullopt;
  Size count = countOf();
  auto indexOf = [&](const Size &size) { return getValueOrCreateConstantIndexOp(ops, at, node.ir().size(size)); };
  bool hasBlocks = !step.parts.empty() && (count.isDynamic() || count.value > 2 * blockSize);
  Size blocks = hasBlocks ? node.compute(SizeOp::DivideUp, count, blockSize) : Size(1);
  llvm::SmallVector<Value> wholes, begin = inits;
  for (auto [part, shape] : llvm::zip_equal(step.parts, shapesOfParts)) {
    Shape whole;
    for (const Size &size : shape) {
      std::optional<Size> moved = outside(size);
      if (!moved)
        return std::nullopt;
      whole.push_back(*moved);
    }
    whole.insert(whole.begin(), hasBlocks ? Size(blockSize) : count);
    if (hasBlocks)
      whole.insert(whole.begin(), blocks);
    if (!node.isCounted(whole))
      return std::nullopt;
    wholes.push_back(zeros(whole, tensorType(part).getElementType()));
  }
  begin.append(wholes);
  size_t kept = inits.size();
  Value end = indexOf(count);
  scf::ForOp outer = hasBlocks ? makeFor(indexOf(blocks), begin) : scf::ForOp();
  scf::ForOp inner;
  {
    OpBuilder::InsertionGuard guard(ops);
    llvm::SmallVector<Value> start(begin);
    if (outer) {
      ops.setInsertionPointToEnd(outer.getBody());
      start.assign(outer.getRegionIterArgs().begin(), outer.getRegionIterArgs().begin() + kept);
      for (Value whole : wholes) {
        Shape shape = node.graph.shapeOf(at, whole);
        shape.erase(shape.begin());
        start.push_back(zeros(shape, tensorType(whole).getElementType()));
      }
      Value done = arith::MulIOp::create(ops, at, outer.getInductionVar(), index(blockSize));
      end = arith::MinSIOp::create(ops, at, arith::SubIOp::create(ops, at, end, done), index(blockSize));
    }
    inner = makeFor(end, start);
    // The body moves into this loop, whose first values are those that the body carried in its holder.
    Block *body = inner.getBody(), *built = holder.getBody();
    llvm::SmallVector<Value> arguments(body->getArguments().take_front(built->getNumArguments()));
    for (auto [from, to] : llvm::zip_equal(built->getArguments(), arguments))
      from.replaceAllUsesWith(to);
    for (Value &value : step.carried)
      if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == built)
        value = arguments[argument.getArgNumber()];
    for (Value &value : step.parts)
      if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == built)
        value = arguments[argument.getArgNumber()];
    body->getOperations().splice(body->end(), built->getOperations());
    ops.setInsertionPointToEnd(body);
    llvm::SmallVector<Value> yielded(step.carried);
    for (auto [number, part] : llvm::enumerate(step.parts))
      yielded.push_back(inserted(part, inner.getRegionIterArg(kept + number), inner.getRegionIterArg(0), loop.first, 1,
                                 /*wraps=*/hasBlocks));
    finish(inner, yielded);
    if (outer) {
      ops.setInsertionPointAfter(inner);
      llvm::SmallVector<Value> results(inner.getResults().begin(), inner.getResults().begin() + kept);
      for (size_t number = 0; number < step.parts.size(); ++number)
        results.push_back(inserted(inner.getResult(kept + number), outer.getRegionIterArg(kept + number),
                                   outer.getRegionIterArg(0), loop.first, blockSize, /*wraps=*/false));
      finish(outer, results);
    }
  }
  scf::ForOp op = outer ? outer : inner;
  LoopResults results;
  llvm::append_range(results.carried, op.getResults().slice(1, kept - 1));
  for (Value whole : op.getResults().drop_front(kept)) {
    if (outer) {
      Shape shape = node.graph.shapeOf(at, whole);
      shape[1] = node.product({shape[0], Size(blockSize)});
      shape.erase(shape.begin());
      whole = node.sliced(node.reshaped(whole, shape), 0, 0, count);
    }
    results.parts.push_back(whole);
  }
  return results;
}

/// Builds a loop that a condition ends. The condition is the last value that the loop carries.
std::optional<LoopResults> LoopBuilder::conditional() {
  if (!step.parts.empty())
    return node.refuse("each iteration has a result, so that whether it goes on must be known to the compiler"),
           std::nullopt;
  if (!step.goesOn && !loop.count)
    return node.refuse("the loop never ends"), std::nullopt;
  auto scalar = RankedTensorType::get({}, ops.getI1Type());
  auto yes = [&]() -> Value {
    return arith::ConstantOp::create(ops, at, DenseElementsAttr::get(scalar, ops.getBoolAttr(true)));
  };
  inits.push_back(loop.goesOn ? loop.goesOn : yes());
  auto types = llvm::to_vector(ValueRange(inits).getTypes());
  auto op = scf::WhileOp::create(ops, at, types, inits);
  {
    OpBuilder::InsertionGuard guard(ops);
    llvm::SmallVector<Location> places(inits.size(), at);
    Block *before = ops.createBlock(&op.getBefore(), {}, types, places);
    Value goesOn = tensor::ExtractOp::create(ops, at, before->getArguments().back(), ValueRange());
    if (loop.count) {
      Value number = tensor::ExtractOp::create(ops, at, before->getArgument(0), ValueRange());
      Value limit = getValueOrCreateConstantIndexOp(ops, at, node.ir().size(*loop.count));
      Value done = arith::IndexCastOp::create(ops, at, ops.getIndexType(), number);
      Value isLess = arith::CmpIOp::create(ops, at, arith::CmpIPredicate::slt, done, limit);
      goesOn = arith::AndIOp::create(ops, at, goesOn, isLess);
    }
    scf::ConditionOp::create(ops, at, goesOn, before->getArguments());
    op.getAfter().takeBody(holder.getRegion());
    Block &after = op.getAfter().front();
    after.eraseArgument(0); // the counter, which nothing reads
    after.addArgument(scalar, at);
    ops.setInsertionPointToEnd(&after);
    llvm::SmallVector<Value> next(step.carried);
    next.push_back(step.goesOn ? step.goesOn : yes());
    scf::YieldOp::create(ops, at, next);
  }
  LoopResults results;
  llvm::append_range(results.carried, op.getResults().drop_front().drop_back());
  for (auto [init, result] : llvm::zip_equal(loop.carried, results.carried))
    if (!tensorType(init).hasStaticShape())
      node.graph.setShape(result, node.graph.shapeOf(at, init));
  return results;
}

std::optional<LoopResults> LoopBuilder::build(LoopBody body) {
  bool isBuilt = buildStep(body);
  std::optional<LoopResults> results;
  if (isBuilt && (step.goesOn || !loop.count))
    results = conditional();
  else if (isBuilt)
    results = counted();
  // The body of a refused node may stay in the module, which is not used then.
  if (results)
    holder.erase();
  return results;
}

} // namespace

std::optional<LoopResults> buildLoop(NodeContext &node, const HostLoop &loop, LoopBody body) {
  return LoopBuilder(node, loop).build(body);
}

} // namespace intarsia::onnx
