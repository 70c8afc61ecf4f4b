//===- HostRegions.cpp - Control flow of host programs ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/HostProgram.h"

#include "intarsia/Analysis/Assertions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/Path.h"

namespace intarsia::lower {

/// The values of control flow: tensors lie in buffers that outlive it, the host passes integers. States stay where they
/// are.
struct HostProgram::Carried {
  SmallVector<Value> buffers; // null for integers and states
  SmallVector<Value> scalars; // what the integers begin as

  /// The buffers that are given and hold tensors.
  bool holds(Value buffer) const { return buffer && llvm::is_contained(buffers, buffer); }
};

/// Makes a buffer that the whole control flow sees.
Value HostProgram::makeBuffer(Value tensor, Attribute memory) {
  SmallVector<Value> dynamic = dynamicSizes(tensor);
  OpBuilder::InsertionGuard guard(builder);
  if (outermost)
    builder.setInsertionPoint(outermost);
  return rt::AllocOp::create(builder, tensor.getLoc(), bufferType(tensor, memory), dynamic);
}

/// Waits until everything that was started is done.
void HostProgram::waitForAll(Location location) {
  if (SmallVector<Value> last = order.last(); !last.empty())
    rt::WaitOp::create(builder, location, last);
  events.clear();
  order = EventOrder();
}

//===-- Integers ----------------------------------------------------------------------------------------------===//

/// Returns an integer of the source in the host program; null if the host cannot compute it.
Value HostProgram::scalarOf(Value value) {
  if (Value known = scalars.lookup(value))
    return known;
  if (AffineExpr size = value.getType().isIndex() ? sizes.ofIndex(value) : AffineExpr(); size && sizes.isKnown(size))
    return sizeValue(size);
  Operation *op = value.getDefiningOp();
  if (!op || !isa_and_nonnull<arith::ArithDialect>(op->getDialect()) || op->getNumResults() != 1)
    return nullptr;
  IRMapping operands;
  for (Value operand : op->getOperands()) {
    Value known = scalarOf(operand);
    if (!known)
      return nullptr;
    operands.map(operand, known);
  }
  Operation *copy = builder.clone(*op, operands);
  copy->setLoc(op->getLoc());
  return scalars[value] = copy->getResult(0);
}

/// Returns those of a list that are no tensors; failure, with an error at `op`, if the host cannot compute one.
FailureOr<SmallVector<Value>> HostProgram::scalarsOf(Operation *op, ValueRange list) {
  SmallVector<Value> result;
  for (Value value : list) {
    if (isa<TensorType>(value.getType()))
      continue;
    result.push_back(value.getType().isIntOrIndex() ? scalarOf(value) : Value());
    if (!result.back())
      return op->emitError() << "'" << op->getName() << "' needs a number of type " << value.getType()
                             << " that the host cannot compute: it computes integers from sizes, constants and "
                                "elements of tensors";
  }
  return result;
}

/// Waits until a tensor is in the memory of the host, and returns its buffer there.
FailureOr<Value> HostProgram::awaitOnHost(Value tensor, Location location) {
  FailureOr<Value> buffer = bufferOf(tensor, Attribute());
  Value event = events.lookup({viewRoot(tensor), Attribute()});
  if (succeeded(buffer) && event)
    rt::WaitOp::create(builder, location, event);
  return buffer;
}

/// Reads an element of a tensor: the host waits for it.
LogicalResult HostProgram::read(tensor::ExtractOp extract) {
  Value tensor = extract.getTensor();
  bool isFirst = true; // all indices so far are 0
  for (auto [dimension, index] : llvm::enumerate(extract.getIndices())) {
    std::optional<int64_t> number = getConstantIntValue(index);
    AffineExpr size = sizes.of(tensor)[dimension];
    if (!isFirst && extract.getTensor().getType().isDynamicDim(dimension))
      return extract.emitOpError() << "reads behind a dynamic dimension of " << tensor.getType()
                                   << "; compute a tensor of one element";
    isFirst &= number == 0;
    if (!number || *number < 0 || !sizes.isKnown(size) || sizes.range(size).low <= *number)
      return extract.emitOpError() << "reads an element that " << tensor.getType()
                                   << " may not have: indices are constants that are less than any size";
  }
  FailureOr<Value> buffer = awaitOnHost(tensor, extract.getLoc());
  if (failed(buffer))
    return failure();
  FailureOr<SmallVector<Value>> indices = scalarsOf(extract, extract.getIndices());
  if (failed(indices))
    return failure();
  scalars[extract.getResult()] = memref::LoadOp::create(builder, extract.getLoc(), *buffer, *indices);
  return success();
}

/// True for an integer of the source that follows from sizes alone.
static bool isOfSizes(Value number) {
  Operation *op = number.getDefiningOp();
  return op && (isa<tensor::DimOp>(op) ||
                (isa<arith::ArithDialect>(op->getDialect()) && llvm::all_of(op->getOperands(), isOfSizes)));
}

/// Lets the host end the call if a condition does not hold. An error about an index shows it and its limit.
LogicalResult HostProgram::check(cf::AssertOp assertion) {
  // Assertions before this one, whose messages may say more, come first. Without a constraint on sizes it is one of
  // data.
  bool isChecked = false;
  for (const SizeConstraint &constraint : sizes.constraints())
    if (constraint.op == assertion) {
      makeSizeCheck(constraint);
      isChecked = true;
    }
  if (isChecked)
    return success();
  Location location = assertion.getLoc();
  auto compare = assertion.getArg().getDefiningOp<arith::CmpIOp>();
  using Predicate = arith::CmpIPredicate;
  // What is simplified has its constants on the right.
  bool isOfIndex = compare && assertion->hasAttr(assertsIndexAttr) &&
                   llvm::is_contained({Predicate::ult, Predicate::ugt}, compare.getPredicate());
  SmallVector<Value> compared{assertion.getArg()};
  if (isOfIndex)
    compared = {compare.getLhs(), compare.getRhs()};
  if (isOfIndex && compare.getPredicate() == Predicate::ugt)
    std::swap(compared[0], compared[1]);
  AffineExpr least = isOfIndex ? sizes.ofIndex(compared[0]) : AffineExpr(),
             most = isOfIndex ? sizes.ofIndex(compared[1]) : AffineExpr();
  if (sizes.isKnown(least) && sizes.isKnown(most)) {
    SizeRange index = sizes.range(least), room = sizes.range(SymbolicSizes::normalize(most - least));
    if (index.low >= 0 && room.low > 0)
      return success();
    if (!outermost && (index.high < 0 || room.high <= 0))
      return assertion.emitError() << assertion.getMsg() << " is " << sizes.toString(least) << ", must be in [0, "
                                   << sizes.toString(most) << "), which no call can meet";
  }
  OpBuilder::InsertionGuard guard(builder);
  if (!outermost && llvm::all_of(compared, isOfSizes))
    builder.setInsertionPoint(headEnd); // before any work
  FailureOr<SmallVector<Value>> numbers = scalarsOf(assertion, compared);
  if (failed(numbers))
    return failure();
  auto asIndex = [&](Value number) -> Value {
    if (number.getType().isIndex())
      return number;
    if (number.getType().isInteger(1))
      return arith::IndexCastUIOp::create(builder, location, builder.getIndexType(), number);
    return arith::IndexCastOp::create(builder, location, builder.getIndexType(), number);
  };
  auto constant = [&](int64_t number) -> Value { return arith::ConstantIndexOp::create(builder, location, number); };
  std::string where = labelOf(location);
  if (auto file = location->findInstanceOf<FileLineColLoc>(); where.empty() && file)
    where = (llvm::sys::path::filename(file.getFilename()) + ":" + Twine(file.getLine())).str();
  std::string why = where.empty() ? "as 'cf.assert' says" : "asserted at '" + where + "'";
  if (!isOfIndex) {
    rt::CheckOp::create(builder, location, asIndex(numbers->front()), rt::Relation::Equal, constant(1),
                        "the condition of 'cf.assert'", "1", assertion.getMsg().str() + ", " + why);
    return success();
  }
  Value index = asIndex(numbers->front()), limit = asIndex(numbers->back());
  Value last = arith::SubIOp::create(builder, location, limit, constant(1));
  rt::CheckOp::create(builder, location, constant(0), rt::Relation::AtMost, index, "0", assertion.getMsg(), why);
  rt::CheckOp::create(builder, location, index, rt::Relation::AtMost, last, assertion.getMsg(), "the last one", why);
  return success();
}

//===-- Tensors that regions give -----------------------------------------------------------------------------===//

/// Returns the memory for a tensor: where what computes it leaves it, or where `otherwise` is.
Attribute HostProgram::memoryOf(Value computed, Value otherwise) {
  Value root = viewRoot(computed);
  if (auto group = root.getDefiningOp<nn::GroupOp>())
    return deviceOf(group)->memory;
  unsigned number = isa<OpResult>(root) ? cast<OpResult>(root).getResultNumber() : 0;
  if (auto branch = root.getDefiningOp<scf::IfOp>())
    return memoryOf(branch.thenYield().getOperand(number), branch.elseYield().getOperand(number));
  if (auto loop = root.getDefiningOp<scf::ForOp>())
    return memoryOf(loop.getYieldedValues()[number], loop.getInitArgs()[number]);
  if (auto loop = root.getDefiningOp<scf::WhileOp>())
    return memoryOf(loop.getConditionOp().getArgs()[number], otherwise);
  return homes.lookup(viewRoot(otherwise));
}

/// Copies a tensor to a buffer; between two devices by way of the host.
LogicalResult HostProgram::store(Value value, Value to) {
  Attribute home = homes.lookup(viewRoot(value)), memory = cast<MemRefType>(to.getType()).getMemorySpace();
  FailureOr<Value> from = bufferOf(value, !home || !memory ? home : memory);
  if (failed(from))
    return failure();
  if (*from != to)
    copy(value.getLoc(), value, *from, to);
  return success();
}

/// Makes what a loop carries from what it begins with; `arguments` are its values in the body.
FailureOr<HostProgram::Carried> HostProgram::makeCarried(Operation *op, ValueRange inits, ValueRange arguments,
                                                         ValueRange yielded) {
  Carried carried;
  FailureOr<SmallVector<Value>> first = scalarsOf(op, inits);
  if (failed(first))
    return failure();
  carried.scalars = std::move(*first);
  for (auto [init, argument, end] : llvm::zip_equal(inits, arguments, yielded)) {
    if (!isa<TensorType>(init.getType()) || states.contains(argument)) {
      carried.buffers.push_back(nullptr);
      continue;
    }
    Attribute memory = memoryOf(end, init);
    Value buffer = makeBuffer(argument, memory);
    if (failed(store(init, buffer)))
      return failure();
    carried.buffers.push_back(buffer);
    homes[argument] = memory;
  }
  return carried;
}

/// Stores the next values of what a loop carries. Work of the region is done before that, which may still read the
/// values before; what moves from one buffer to another goes by way of a third.
LogicalResult HostProgram::storeCarried(const Carried &carried, ValueRange values) {
  SmallVector<std::pair<Value, Value>> moved; // from a buffer of its own, to one that is carried
  waitForAll(builder.getUnknownLoc());
  SmallVector<std::pair<Value, Value>> stored;
  for (auto [value, buffer] : llvm::zip_equal(values, carried.buffers)) {
    if (!buffer)
      continue;
    Value root = viewRoot(value);
    Value source = buffers.lookup({root, homes.lookup(root)});
    if (source == buffer)
      continue;
    if (!carried.holds(source)) {
      stored.push_back({value, buffer});
      continue;
    }
    Value between = makeBuffer(value, homes.lookup(root));
    if (failed(store(value, between)))
      return failure();
    moved.push_back({between, buffer});
    stored.push_back({value, nullptr});
  }
  if (!moved.empty())
    waitForAll(builder.getUnknownLoc());
  auto next = moved.begin();
  for (auto [value, buffer] : stored) {
    if (buffer) {
      if (failed(store(value, buffer)))
        return failure();
      continue;
    }
    copy(value.getLoc(), value, next->first, next->second);
    ++next;
  }
  waitForAll(builder.getUnknownLoc());
  return success();
}

//===-- Ops ---------------------------------------------------------------------------------------------------===//

/// Builds a region at the end of `into`. What is known in it alone is forgotten behind it.
LogicalResult HostProgram::buildRegion(Block &block, Block &into, Operation *hostOp,
                                       llvm::function_ref<LogicalResult()> finish) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&into);
  bool isOutermost = !outermost;
  if (isOutermost)
    outermost = hostOp;
  if (isa<scf::IfOp>(hostOp))
    makeSizeChecks(&block);
  auto buffersBefore = buffers;
  auto scalarsBefore = scalars;
  auto checkedBefore = checkedIndices;
  LogicalResult built = failed(buildBlock(block)) ? failure() : finish();
  buffers = std::move(buffersBefore);
  scalars = std::move(scalarsBefore);
  checkedIndices = std::move(checkedBefore);
  if (isOutermost)
    outermost = nullptr;
  return built;
}

LogicalResult HostProgram::buildIf(scf::IfOp op) {
  FailureOr<SmallVector<Value>> condition = scalarsOf(op, op.getCondition());
  if (failed(condition))
    return failure();
  Carried results;
  SmallVector<Type> scalarTypes;
  for (Value result : op.getResults()) {
    bool isTensor = isa<TensorType>(result.getType());
    unsigned number = cast<OpResult>(result).getResultNumber();
    results.buffers.push_back(nullptr);
    if (!isTensor) {
      scalarTypes.push_back(result.getType());
      continue;
    }
    if (states.contains(result))
      continue;
    homes[result] = memoryOf(op.thenYield().getOperand(number), op.elseYield().getOperand(number));
    results.buffers.back() = makeBuffer(result, homes[result]);
  }
  waitForAll(op.getLoc());
  auto host = scf::IfOp::create(builder, op.getLoc(), scalarTypes, condition->front(), /*addThenBlock=*/true,
                                /*addElseBlock=*/op.elseBlock() != nullptr);
  for (auto [from, to] : {std::pair(op.thenBlock(), host.thenBlock()), {op.elseBlock(), host.elseBlock()}}) {
    if (!from)
      continue;
    Block *block = from;
    auto finish = [&]() -> LogicalResult {
      Operation *yield = block->getTerminator();
      FailureOr<SmallVector<Value>> given = scalarsOf(yield, yield->getOperands());
      if (failed(given) || failed(storeCarried(results, yield->getOperands())))
        return failure();
      scf::YieldOp::create(builder, yield->getLoc(), *given);
      return success();
    };
    if (failed(buildRegion(*from, *to, host, finish)))
      return failure();
  }
  unsigned nextScalar = 0;
  for (auto [result, buffer] : llvm::zip_equal(op.getResults(), results.buffers))
    if (buffer)
      buffers[{result, homes.lookup(result)}] = buffer;
    else if (!isa<TensorType>(result.getType()))
      scalars[result] = host.getResult(nextScalar++);
  return success();
}

LogicalResult HostProgram::buildFor(scf::ForOp op) {
  FailureOr<SmallVector<Value>> bounds = scalarsOf(op, {op.getLowerBound(), op.getUpperBound(), op.getStep()});
  if (failed(bounds))
    return failure();
  if (std::optional<int64_t> step = getConstantIntValue(op.getStep()); !step || *step < 1)
    return op.emitOpError() << "has a step that is no positive constant, and might not end";
  FailureOr<Carried> carried = makeCarried(op, op.getInitArgs(), op.getRegionIterArgs(), op.getYieldedValues());
  if (failed(carried))
    return failure();
  waitForAll(op.getLoc());
  auto host = scf::ForOp::create(builder, op.getLoc(), (*bounds)[0], (*bounds)[1], (*bounds)[2], carried->scalars,
                                 /*bodyBuilder=*/nullptr, op.getUnsignedCmp());
  if (!host.getBody()->empty())
    host.getBody()->back().erase();
  scalars[op.getInductionVar()] = host.getInductionVar();
  unsigned nextScalar = 0;
  for (auto [argument, result, buffer] : llvm::zip_equal(op.getRegionIterArgs(), op.getResults(), carried->buffers)) {
    if (!isa<TensorType>(result.getType())) {
      scalars[argument] = host.getRegionIterArg(nextScalar);
      scalars[result] = host.getResult(nextScalar++);
    }
    if (!buffer)
      continue;
    homes[result] = homes.lookup(argument);
    buffers[{argument, homes.lookup(argument)}] = buffers[{result, homes.lookup(result)}] = buffer;
  }
  return buildRegion(*op.getBody(), *host.getBody(), host, [&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> next = scalarsOf(op, op.getYieldedValues());
    if (failed(next) || failed(storeCarried(*carried, op.getYieldedValues())))
      return failure();
    scf::YieldOp::create(builder, op.getLoc(), *next);
    return success();
  });
}

LogicalResult HostProgram::buildWhile(scf::WhileOp op) {
  ValueRange yielded = op.getYieldOp().getOperands(), passed = op.getConditionOp().getArgs();
  FailureOr<Carried> carried = makeCarried(op, op.getInits(), op.getBeforeArguments(), yielded);
  if (failed(carried))
    return failure();
  // Each tensor that the condition passes on has a buffer, which holds the result of the loop too: that of what the
  // loop carries, if the condition passes that on as it is.
  Carried passedOn;
  SmallVector<Type> scalarTypes;
  for (auto [value, result] : llvm::zip_equal(passed, op.getResults())) {
    passedOn.buffers.push_back(nullptr);
    if (!isa<TensorType>(value.getType())) {
      scalarTypes.push_back(value.getType());
      continue;
    }
    if (states.contains(result))
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == op.getBeforeBody()) {
      passedOn.buffers.back() = carried->buffers[argument.getArgNumber()];
      homes[result] = homes.lookup(argument);
      continue;
    }
    Attribute memory = memoryOf(value, value);
    passedOn.buffers.back() = makeBuffer(result, memory);
    homes[result] = memory;
  }
  waitForAll(op.getLoc());
  auto host = scf::WhileOp::create(builder, op.getLoc(), scalarTypes, carried->scalars);
  SmallVector<Location> before(carried->scalars.size(), op.getLoc()), after(scalarTypes.size(), op.getLoc());
  Block *beforeBlock = builder.createBlock(&host.getBefore(), {}, ValueRange(carried->scalars).getTypes(), before);
  Block *afterBlock = builder.createBlock(&host.getAfter(), {}, scalarTypes, after);
  builder.setInsertionPointAfter(host);
  unsigned nextScalar = 0;
  for (auto [argument, buffer] : llvm::zip_equal(op.getBeforeArguments(), carried->buffers))
    if (buffer)
      buffers[{argument, homes.lookup(argument)}] = buffer;
    else if (!isa<TensorType>(argument.getType()))
      scalars[argument] = beforeBlock->getArgument(nextScalar++);
  LogicalResult built = buildRegion(*op.getBeforeBody(), *beforeBlock, host, [&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> condition = scalarsOf(op, op.getConditionOp().getCondition());
    FailureOr<SmallVector<Value>> next = scalarsOf(op, passed);
    if (failed(condition) || failed(next) || failed(storeCarried(passedOn, passed)))
      return failure();
    scf::ConditionOp::create(builder, op.getLoc(), condition->front(), *next);
    return success();
  });
  if (failed(built))
    return failure();
  nextScalar = 0;
  for (auto [argument, result, buffer] : llvm::zip_equal(op.getAfterArguments(), op.getResults(), passedOn.buffers)) {
    if (!isa<TensorType>(result.getType())) {
      scalars[argument] = afterBlock->getArgument(nextScalar);
      scalars[result] = host.getResult(nextScalar++);
    }
    if (!buffer)
      continue;
    homes[argument] = homes.lookup(result);
    buffers[{argument, homes.lookup(argument)}] = buffers[{result, homes.lookup(result)}] = buffer;
  }
  return buildRegion(*op.getAfterBody(), *afterBlock, host, [&]() -> LogicalResult {
    FailureOr<SmallVector<Value>> next = scalarsOf(op, yielded);
    if (failed(next) || failed(storeCarried(*carried, yielded)))
      return failure();
    scf::YieldOp::create(builder, op.getLoc(), *next);
    return success();
  });
}

} // namespace intarsia::lower
