//===- GroupsToKernels.cpp - Groups become kernels, functions become host programs -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/GatheredRows.h"
#include "lib/Lower/HostProgram.h"

#include "dialects/Nn/Prepacking.h"
#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Lower/Lower.h"
#include "lib/Lower/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::lower {
#define GEN_PASS_DEF_LOWERGROUPSTOKERNELS
#include "lib/Lower/Passes.h.inc"

LogicalResult HostProgram::checkSource() {
  if (source.isExternal() || !source.getBody().hasOneBlock())
    return source.emitError() << "an entry point must have a body of one block";
  auto isRanked = [](Type type) { return isa<RankedTensorType>(type); };
  if (!llvm::all_of(source.getArgumentTypes(), isRanked) || !llvm::all_of(source.getResultTypes(), isRanked))
    return source.emitError() << "arguments and results of an entry point must be ranked tensors";
  auto hasBytes = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    if (isa<FloatType>(element))
      return isa<Float8E4M3FNType, Float8E5M2Type, Float16Type, BFloat16Type, Float32Type, Float64Type>(element);
    return element.isInteger() && (element.isInteger(1) || element.getIntOrFloatBitWidth() % 8 == 0);
  };
  auto isIndex = [](Type type) { return getElementTypeOrSelf(type).isIndex(); };
  if (llvm::any_of(source.getArgumentTypes(), isIndex) || llvm::any_of(source.getResultTypes(), isIndex))
    return source.emitError() << "an argument or result has elements of type 'index', which no call passes; make them "
                                 "i64, and convert them by arith.index_cast";
  for (Type type : source.getArgumentTypes())
    if (Type element = getElementTypeOrSelf(type);
        isa<FloatType>(element) && (!hasBytes(type) || isa<Float8E5M2Type>(element)))
      return source.emitError() << "an argument has elements of type " << element << ", which no call passes";
  WalkResult hidden = source.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
    for (Type type : op->getResultTypes())
      if (isa<RankedTensorType>(type) && !hasBytes(type) && !nn::isPartOfPrepacked(op))
        return op->emitError() << "elements of type " << getElementTypeOrSelf(type)
                               << " have no layout in memory; a group must hide them";
    return isa<nn::GroupOp>(op) ? WalkResult::skip() : WalkResult::advance();
  });
  if (hidden.wasInterrupted())
    return failure();
  // Products of sizes are computed with 64 bits: those that a call decides are checked there.
  auto isTooLarge = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    int64_t elements = 1;
    return tensor && llvm::any_of(tensor.getShape(), [&](int64_t size) {
             return size > 0 && llvm::MulOverflow(elements, size, elements);
           });
  };
  WalkResult walked = source.walk([&](Operation *op) {
    for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
      if (auto type = llvm::find_if(types, isTooLarge); type != types.end()) {
        op->emitError() << "has a tensor of type " << *type << ", whose elements cannot be counted with 64 bits";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

/// Returns the name of an op whose needs are checked. An assertion about a size has the name of the op that it is of.
static StringRef nameOf(Operation *op) {
  auto assertion = dyn_cast<cf::AssertOp>(op);
  return assertion ? assertion.getMsg() : op->getName().getStringRef();
}

/// Sizes that no call can have, or that cannot be checked, are refused here.
LogicalResult HostProgram::checkSizes() {
  for (const SizeConstraint &constraint : sizes.constraints()) {
    bool isKnown = sizes.isKnown(constraint.left) && sizes.isKnown(constraint.right);
    if (isKnown && sizes.isPossible(constraint))
      continue;
    InFlightDiagnostic error = constraint.op->emitError()
                               << "'" << nameOf(constraint.op) << "' needs " << sizes.toString(constraint.left)
                               << (constraint.relation == SizeConstraint::Relation::Equal ? " to be equal to "
                                                                                          : " to be at most ")
                               << sizes.toString(constraint.right);
    if (!isKnown)
      return error << ", but a size there ('?') is not a function of the sizes of the inputs and cannot be checked";
    error << ", which no call can meet" << originOf(constraint.left, constraint.right);
    for (const SymbolicSizes::Replacement &replacement : sizes.replacements())
      error.attachNote(replacement.op->getLoc())
          << "'" << replacement.op->getName() << "' needs " << sizes.names()[replacement.symbol] << " to be "
          << sizes.toString(replacement.by)
          << originOf(builder.getAffineSymbolExpr(replacement.symbol), replacement.by);
    return failure();
  }
  return success();
}

/// Describes where the symbols of two sizes come from: " (n is dimension 0 of input 'x')".
std::string HostProgram::originOf(AffineExpr left, AffineExpr right) {
  std::string text;
  llvm::SmallBitVector seen(sizes.names().size());
  auto add = [&](AffineExpr part) {
    auto symbol = dyn_cast<AffineSymbolExpr>(part);
    if (!symbol || seen.test(symbol.getPosition()))
      return;
    seen.set(symbol.getPosition());
    std::optional<SymbolicSizes::Origin> origin = sizes.origin(symbol.getPosition());
    if (!origin)
      return;
    auto name = source.getArgAttrOfType<StringAttr>(origin->argument, "nn.name");
    text += (text.empty() ? "" : ", ") + sizes.names()[symbol.getPosition()] + " is dimension " +
            std::to_string(origin->dimension) + " of input '" +
            (name ? name.str() : "arg" + std::to_string(origin->argument)) + "'";
  };
  left.walk(add);
  right.walk(add);
  return text.empty() ? "" : " (" + text + ")";
}

LogicalResult HostProgram::makeFunction() {
  SmallVector<Type> inputTypes;
  for (Value argument : source.getArguments()) {
    // A size that can only be one number is that number.
    SmallVector<int64_t> shape;
    for (AffineExpr size : sizes.of(argument)) {
      auto constant = dyn_cast<AffineConstantExpr>(size);
      shape.push_back(constant ? constant.getValue() : ShapedType::kDynamic);
    }
    FailureOr<Attribute> memory = Attribute();
    bool isState = states.contains(argument);
    memory = isState ? memoryOfState(cast<BlockArgument>(argument)) : memoryOfInput(cast<BlockArgument>(argument));
    if (failed(memory))
      return failure();
    homes[argument] = *memory;
    inputTypes.push_back(
        MemRefType::get(shape, getElementTypeOrSelf(argument.getType()), MemRefLayoutAttrInterface(), *memory));
  }
  builder.setInsertionPoint(source);
  host = func::FuncOp::create(builder, source.getLoc(), source.getName(), builder.getFunctionType(inputTypes, {}));
  for (NamedAttribute attribute : source->getDiscardableAttrs())
    host->setAttr(attribute.getName(), attribute.getValue());
  if (ArrayAttr attributes = source.getArgAttrsAttr())
    host.setArgAttrsAttr(attributes);
  nameSizes();

  Block *body = host.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  if (failed(makeQueues()))
    return failure();
  for (auto [argument, buffer] : llvm::zip_equal(source.getArguments(), body->getArguments())) {
    buffer.setLoc(argument.getLoc());
    Attribute memory = homes.lookup(argument);
    Value &known = buffers[{argument, memory}];
    known = buffer;
    if (MemRefType type = bufferType(argument, memory); type != buffer.getType())
      known = memref::CastOp::create(builder, argument.getLoc(), type, buffer);
  }
  states.forEach([&](Value version, BlockArgument state) {
    Attribute memory = homes.lookup(state);
    homes[version] = memory;
    Value buffer = buffers.lookup({state, memory});
    buffers[{version, memory}] = buffer;
  });
  sizeValues = std::make_unique<SizeMaterializer>(builder.getIndexType(), [this](AffineExpr size) -> Value {
    auto symbol = dyn_cast<AffineSymbolExpr>(size);
    return symbol ? rt::SymbolOp::create(builder, host.getLoc(), builder.getIndexType(),
                                         builder.getStringAttr(sizes.names()[symbol.getPosition()]))
                  : Value();
  });
  makeSizeChecks();
  return success();
}

/// Gets the queues of all devices that the function uses.
LogicalResult HostProgram::makeQueues() {
  if (source.walk([&](nn::GroupOp group) { return WalkResult(success(deviceOf(group) != nullptr)); }).wasInterrupted())
    return failure();
  if (!deviceOf(source))
    return failure();
  auto get = [&](FlatSymbolRefAttr device, int64_t index) -> Value {
    return rt::GetQueueOp::create(builder, host.getLoc(), rt::QueueType::get(builder.getContext(), device), index);
  };
  for (auto &[name, use] : devices) {
    if (name.empty())
      continue;
    use.queue = get(use.name, 0);
    use.copyQueue = use.memory ? get(use.name, 1) : use.queue;
    if (!headEnd)
      headEnd = use.queue.getDefiningOp();
  }
  for (auto &[name, use] : devices)
    if (name.empty())
      use = devices[use.name.getValue().str()];
  DenseSet<Attribute> used;
  source.walk([&](nn::GroupOp group) { used.insert(deviceOf(group)->name); });
  if (used.size() == 1)
    if (DeviceUse &use = devices[cast<FlatSymbolRefAttr>(*used.begin()).getValue().str()]; use.memory)
      onlyDevice = &use;
  return success();
}

/// A call is checked by the names of its sizes: those that the model did not name get theirs here, those that must be
/// equal the same one.
void HostProgram::nameSizes() {
  llvm::SetVector<Attribute> symbols;
  SmallVector<NamedAttribute> limits;
  SmallVector<Attribute> empty;
  for (auto [number, argument] : llvm::enumerate(source.getArguments())) {
    SmallVector<Attribute> names;
    for (AffineExpr expression : sizes.of(argument)) {
      auto symbol = dyn_cast<AffineSymbolExpr>(expression);
      names.push_back(builder.getStringAttr(symbol ? sizes.names()[symbol.getPosition()] : ""));
      if (!symbol || !symbols.insert(names.back()))
        continue;
      if (sizes.mayBeEmpty(symbol.getPosition()))
        empty.push_back(names.back());
      if (std::optional<int64_t> limit = sizes.limit(symbol.getPosition()))
        limits.push_back(
            builder.getNamedAttr(cast<StringAttr>(names.back()).getValue(), builder.getI64IntegerAttr(*limit)));
    }
    if (!cast<RankedTensorType>(argument.getType()).hasStaticShape())
      host.setArgAttr(number, "nn.sizes", builder.getArrayAttr(names));
  }
  host->setAttr(rt::hostSymbolsAttr, builder.getArrayAttr(symbols.getArrayRef()));
  host->removeAttr("nn.expected_sizes"); // what there was to decide is decided
  host->removeAttr("nn.size_limits");
  if (!limits.empty())
    host->setAttr("nn.size_limits", builder.getDictionaryAttr(limits));
  host->removeAttr("nn.empty_sizes");
  if (!empty.empty())
    host->setAttr("nn.empty_sizes", builder.getArrayAttr(empty));
}

/// Returns a size as messages of failed checks print it. A dimension that data indexes needs at least 1 element if any
/// index is read, and only then can the check fail: the message says 1.
static std::string textOf(const SymbolicSizes &sizes, const SizeConstraint &constraint) {
  SizeRange range = sizes.range(constraint.left);
  bool isOfChoices = constraint.relation == SizeConstraint::Relation::AtMost && range.low == 0 && range.high == 1;
  return isOfChoices ? "1" : sizes.toString(constraint.left);
}

/// Emits checks of the conditions that ops put on sizes, beyond equal names: once a call, before anything is made, or
/// those of a branch at its beginning.
void HostProgram::makeSizeChecks(Block *branch) {
  for (const SizeConstraint &constraint : sizes.constraints())
    if (branchOf(constraint) == branch && !isa<cf::AssertOp>(constraint.op))
      makeSizeCheck(constraint);
}

void HostProgram::makeSizeCheck(const SizeConstraint &constraint) {
  bool isEqual = constraint.relation == SizeConstraint::Relation::Equal;
  std::string why = "'" + nameOf(constraint.op).str() + "'";
  if (std::string name = labelOf(constraint.op->getLoc()); !name.empty())
    why += " of '" + name + "'";
  why += " needs it" + originOf(constraint.left, constraint.right);
  Value left = sizeValue(constraint.left), right = sizeValue(constraint.right);
  OpBuilder::InsertionGuard guard(builder);
  if (!branchOf(constraint))
    builder.setInsertionPoint(headEnd);
  rt::CheckOp::create(builder, constraint.op->getLoc(), left, isEqual ? rt::Relation::Equal : rt::Relation::AtMost,
                      right, textOf(sizes, constraint), sizes.toString(constraint.right), why);
}

/// The value of a size, computed before the first work of the host program.
Value HostProgram::sizeValue(AffineExpr size) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(headEnd);
  return sizeValues->get(builder, host.getLoc(), size);
}

SmallVector<Value> HostProgram::dynamicSizes(Value tensor) {
  SmallVector<Value> values;
  auto type = cast<RankedTensorType>(tensor.getType());
  for (auto [size, expression] : llvm::zip_equal(type.getShape(), sizes.of(tensor)))
    if (ShapedType::isDynamic(size))
      values.push_back(sizeValue(expression));
  return values;
}

/// Returns the buffer of the state that a result of the group is an update of; null for results with memory of their
/// own. What has used the state before joins `after`; all of that is in this block, or waited for.
FailureOr<Value> HostProgram::updatedInPlace(nn::GroupOp group, unsigned result, SmallVectorImpl<Value> &after) {
  auto updated = dyn_cast<OpResult>(group.getBodyBlock().getTerminator()->getOperand(result));
  if (!updated || !isa<InPlaceOpInterface>(updated.getOwner()))
    return Value();
  std::optional<unsigned> operand = updatedArgument(group, result);
  Value before = operand ? group.getInputs()[*operand] : Value();
  if (!before || !states.contains(before))
    return updated.getOwner()->emitOpError() << "updates a tensor in place that is no argument with nn.state";
  for (nn::GroupOp consumer : consumersOf(before))
    for (Value other : consumer &&consumer != group ? consumer.getResults() : ValueRange())
      if (Value event = events.lookup({other, homes.lookup(other)}))
        after.push_back(event);
  return buffers.lookup({before, homes.lookup(before)});
}

/// Lets the host check the indices that the kernel of a group is given and that other kernels have computed.
LogicalResult HostProgram::checkIndices(nn::GroupOp group) {
  for (const ComputedIndex &index : computedIndices.lookup(group)) {
    Value tensor = group.getInputs()[index.input];
    if (!checkedIndices.insert({viewRoot(tensor), index.limit}).second)
      continue;
    FailureOr<Value> buffer = awaitOnHost(tensor, group.getLoc());
    if (failed(buffer))
      return failure();
    std::string why = "'" + index.op->getName().getStringRef().str() + "'";
    if (std::string name = labelOf(group); !name.empty())
      why += " of '" + name + "'";
    why += " needs it" + originOf(index.limit, index.limit);
    rt::CheckIndicesOp::create(builder, group.getLoc(), *buffer, dynamicSizes(tensor), sizeValue(index.limit),
                               index.name, sizes.toString(index.limit), why);
  }
  return success();
}

LogicalResult HostProgram::dispatch(nn::GroupOp group) {
  SmallVector<rt::LayoutAttrInterface> layouts;
  SmallVector<Value> inputs, results, after, sizeValues;
  DeviceUse *device = deviceOf(group);
  if (!device || failed(checkIndices(group)))
    return failure();
  for (unsigned operand = 0; operand < group.getInputs().size(); ++operand) {
    layouts.push_back(layoutOf(group, operand, *device->target));
    FailureOr<Value> buffer = bufferOf(group.getInputs()[operand], device->memory, layouts.back());
    if (failed(buffer))
      return failure();
    inputs.push_back(*buffer);
    if (Value event = events.lookup({viewRoot(group.getInputs()[operand]), device->memory}))
      after.push_back(event);
  }
  SmallVector<Value> updated;
  for (unsigned result = 0; result < group.getNumResults(); ++result) {
    FailureOr<Value> buffer = updatedInPlace(group, result, after);
    if (failed(buffer))
      return failure();
    updated.push_back(*buffer);
  }
  std::string label = labelOf(group);
  Location location = group.getLoc();
  FailureOr<KernelUse> use = kernels.add(group, device->name, layouts, sizes);
  if (failed(use))
    return failure();
  for (AffineExpr expression : use->sizes)
    sizeValues.push_back(sizeValue(expression));
  for (auto [number, result] : llvm::enumerate(group.getResults())) {
    homes[result] = device->memory;
    Value &buffer = buffers[{result, device->memory}];
    if (updated[number])
      buffer = updated[number];
    if (!buffer)
      buffer = makeBuffer(result, device->memory);
    results.push_back(buffer);
  }
  after = order.prune(after);
  Value event = rt::DispatchOp::create(
      builder, location, rt::EventType::get(builder.getContext()), FlatSymbolRefAttr::get(use->kernel.getSymNameAttr()),
      device->queue, after, sizeValues, inputs, results, label.empty() ? StringAttr() : builder.getStringAttr(label));
  order.add(event, after);
  for (Value result : group.getResults())
    events[{result, device->memory}] = event;
  return copyToConsumers(group);
}

/// Builds what the ops of a block do at the end of the host program's current block.
LogicalResult HostProgram::buildBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (isControlFlow(&op) || isa<nn::GroupOp, tensor::ExtractOp, cf::AssertOp>(op)) {
      LogicalResult built = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                                .Case([&](nn::GroupOp group) { return dispatch(group); })
                                .Case([&](tensor::ExtractOp extract) { return read(extract); })
                                .Case([&](cf::AssertOp assertion) { return check(assertion); })
                                .Case([&](scf::IfOp branch) { return buildIf(branch); })
                                .Case([&](scf::ForOp loop) { return buildFor(loop); })
                                .Default([&](Operation *loop) { return buildWhile(cast<scf::WhileOp>(loop)); });
      if (failed(built))
        return failure();
      continue;
    }
    if (isa_and_nonnull<shard::ShardDialect>(op.getDialect())) {
      if (failed(runTogether(&op)))
        return failure();
      continue;
    }
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op); slice && isGatheredRows(slice))
      continue; // which the gather has written
    bool isTensorOp = llvm::any_of(op.getResultTypes(), [](Type type) { return isa<TensorType>(type); });
    if (op.getNumRegions() && !isa<linalg::TransposeOp>(op))
      return op.emitOpError() << "is outside of a group; run the fuse phase first";
    if (!isTensorOp || isView(op) || isa<tensor::EmptyOp>(op) || nn::isPartOfPrepacked(&op) || op.use_empty())
      continue; // integers and views when they are used, sizes from the function's symbols
    std::string reason;
    if (!nn::isPrepacked(op.getResult(0), &reason))
      return op.emitOpError() << "is outside of a group and not prepacked"
                              << (reason.empty() ? "; run the fuse phase first" : ": ") << reason;
  }
  return success();
}

LogicalResult HostProgram::build() {
  if (failed(checkSource()))
    return failure();
  Block &body = source.getBody().front();
  auto returnOp = cast<func::ReturnOp>(body.getTerminator());
  for (Value operand : returnOp.getOperands())
    for (AffineExpr expression : sizes.of(operand))
      if (!sizes.isKnown(expression))
        return returnOp.emitError() << "a size of the result " << operand.getType()
                                    << " is not a function of the sizes of the inputs";
  if (failed(checkSizes()) || failed(states.find(source)))
    return failure();
  FailureOr<ComputedIndices> computed = inferInputRanges(source, sizes);
  if (failed(computed))
    return failure();
  computedIndices = std::move(*computed);
  if (failed(makeFunction()))
    return failure();
  makeOutputs(returnOp);
  if (failed(buildBlock(body)))
    return failure();
  if (failed(copyResults(returnOp)))
    return failure();
  if (SmallVector<Value> last = order.last(); !last.empty())
    rt::WaitOp::create(builder, returnOp.getLoc(), last);
  func::ReturnOp::create(builder, returnOp.getLoc());
  source.erase();
  return success();
}

namespace {
struct GroupsToKernels : impl::LowerGroupsToKernelsBase<GroupsToKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    if (functions.empty()) {
      module.emitOpError() << "has no function";
      return signalPassFailure();
    }
    // Constants come first, then kernels, then functions. The markers go away with the first function.
    OpBuilder builder(functions.front());
    auto marker = [&] { return ModuleOp::create(builder, builder.getUnknownLoc()); };
    ModuleOp constantsEnd = marker(), kernelsEnd = marker();
    auto eraseMarkers = llvm::scope_exit([&] {
      constantsEnd.erase();
      kernelsEnd.erase();
    });
    SymbolTable symbols(module);
    ConstantTable constants(symbols, constantsEnd);
    KernelTable kernels(symbols, kernelsEnd);
    for (func::FuncOp function : functions) {
      if (function.isPrivate() && SymbolTable::symbolKnownUseEmpty(function, module)) {
        function.erase();
        continue;
      }
      if (failed(HostProgram(function, kernels, constants).build()))
        return signalPassFailure();
    }
  }
};

} // namespace
} // namespace intarsia::lower
