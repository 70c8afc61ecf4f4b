//===- GroupsToKernels.cpp - Groups become kernels, functions become host programs -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/HostProgram.h"

#include "dialects/Nn/Prepacking.h"
#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Lower/Lower.h"
#include "lib/Lower/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::lower {
#define GEN_PASS_DEF_LOWERGROUPSTOKERNELS
#include "lib/Lower/Passes.h.inc"

namespace {

/// The source of a value that is another's data under another shape; null for values that are not.
Value viewSource(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op))
    return expand.getSrc();
  if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op))
    return collapse.getSrc();
  if (auto cast = dyn_cast_or_null<tensor::CastOp>(op))
    return cast.getSource();
  return nullptr;
}

/// Such a part has no memory: the weight is what is prepacked.
bool isPartOfWeight(Operation &op) { return nn::isPartOfPrepacked(&op); }

bool isView(Operation &op) { return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op); }

} // namespace

MemRefType bufferType(Value tensor, Attribute memory) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get(type.getShape(), type.getElementType(), MemRefLayoutAttrInterface(), memory);
}

Value viewRoot(Value value) {
  while (Value source = viewSource(value))
    value = source;
  return value;
}

LogicalResult HostProgram::checkSource() {
  if (source.isExternal() || !source.getBody().hasOneBlock())
    return source.emitError() << "an entry point must have a body of one block";
  auto isRanked = [](Type type) { return isa<RankedTensorType>(type); };
  if (!llvm::all_of(source.getArgumentTypes(), isRanked) || !llvm::all_of(source.getResultTypes(), isRanked))
    return source.emitError() << "arguments and results of an entry point must be ranked tensors";
  auto hasBytes = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isIntOrFloat() && (element.isInteger(1) || element.getIntOrFloatBitWidth() % 8 == 0);
  };
  WalkResult hidden = source.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
    for (Type type : op->getResultTypes())
      if (isa<RankedTensorType>(type) && !hasBytes(type) && !isPartOfWeight(*op))
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

/// Sizes that no call can have, or that cannot be checked, are refused here.
LogicalResult HostProgram::checkSizes() {
  for (const SizeConstraint &constraint : sizes.constraints()) {
    bool isKnown = sizes.isKnown(constraint.left) && sizes.isKnown(constraint.right);
    if (isKnown && sizes.isPossible(constraint))
      continue;
    InFlightDiagnostic error = constraint.op->emitError()
                               << "'" << constraint.op->getName() << "' needs " << sizes.toString(constraint.left)
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

/// Returns the device that an op runs on; null after an error.
DeviceUse *HostProgram::deviceOf(Operation *op) {
  auto name = op->getAttrOfType<FlatSymbolRefAttr>(rt::deviceAttr);
  DeviceUse &use = devices[name ? name.getValue().str() : ""];
  if (use.name)
    return &use;
  FailureOr<target::Device> device = target::deviceOf(op);
  if (failed(device))
    return nullptr;
  DeviceUse &named = devices[device->op.getSymName().str()];
  if (!named.name) {
    MLIRContext *context = builder.getContext();
    named.name = FlatSymbolRefAttr::get(device->op.getSymNameAttr());
    named.target = device->target;
    if (!device->target->usesHostMemory())
      named.memory = rt::MemoryAttr::get(context, named.name);
  }
  return &(use = named);
}

/// Returns the memory of an argument that kernels update in place: that of the device that they run on.
FailureOr<Attribute> HostProgram::memoryOfState(BlockArgument argument) {
  DeviceUse *first = nullptr;
  for (nn::GroupOp group : states.usersOf(argument)) {
    DeviceUse *device = deviceOf(group);
    if (!device)
      return failure();
    if (first && first->name != device->name)
      return group->emitOpError() << "runs on " << device->name << " and uses state '" << nameOf(argument)
                                  << "', which is in the memory of " << first->name
                                  << ": state stays where it is, so place all ops that use it on one device";
    first = device;
  }
  return first ? first->memory : Attribute();
}

/// The groups that read a tensor, through views of it; null for other consumers.
static SmallVector<nn::GroupOp> consumersOf(Value tensor) {
  SmallVector<Value> views = {tensor};
  SmallVector<nn::GroupOp> consumers;
  while (!views.empty())
    for (Operation *consumer : views.pop_back_val().getUsers())
      if (isView(*consumer))
        views.push_back(consumer->getResult(0));
      else
        consumers.push_back(dyn_cast<nn::GroupOp>(consumer));
  return consumers;
}

/// Returns the memory that a call gives an input in: that of a device if the device alone reads it, else the host's.
/// The runtime then copies what is not there, and a tensor that is there is used as it is. Values with a range are
/// checked by the host.
FailureOr<Attribute> HostProgram::memoryOfInput(BlockArgument argument) {
  auto has = [&](StringRef attribute) { return bool(source.getArgAttr(argument.getArgNumber(), attribute)); };
  if (has("nn.range") || has("nn.below"))
    return Attribute();
  std::optional<Attribute> memory;
  for (nn::GroupOp consumer : consumersOf(argument)) {
    if (!consumer)
      return Attribute();
    DeviceUse *device = deviceOf(consumer);
    if (!device)
      return failure();
    if (memory.value_or(device->memory) != device->memory)
      return Attribute();
    memory = device->memory;
  }
  return memory.value_or(Attribute());
}

/// Returns the memory of a result that a kernel writes to its home: the home, unless the result is read on the host or
/// on another device. A copy in memory of the host is then needed in any case, and is the result.
Attribute HostProgram::memoryOfResult(Value root, Attribute home) {
  for (nn::GroupOp consumer : consumersOf(root))
    if (consumer && deviceOf(consumer)->memory != home)
      return Attribute();
  return home;
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
  return success();
}

/// A call is checked by the names of its sizes: those that the model did not name get theirs here, those that must be
/// equal the same one.
void HostProgram::nameSizes() {
  llvm::SetVector<Attribute> symbols;
  SmallVector<NamedAttribute> limits;
  for (auto [number, argument] : llvm::enumerate(source.getArguments())) {
    SmallVector<Attribute> names;
    for (AffineExpr expression : sizes.of(argument)) {
      auto symbol = dyn_cast<AffineSymbolExpr>(expression);
      names.push_back(builder.getStringAttr(symbol ? sizes.names()[symbol.getPosition()] : ""));
      if (!symbol || !symbols.insert(names.back()))
        continue;
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
}

/// Emits checks of the conditions that ops put on sizes, beyond equal names: once a call, before anything is made.
void HostProgram::makeSizeChecks() {
  for (const SizeConstraint &constraint : sizes.constraints()) {
    bool isEqual = constraint.relation == SizeConstraint::Relation::Equal;
    std::string why = "'" + constraint.op->getName().getStringRef().str() + "'";
    if (std::string name = labelOf(constraint.op->getLoc()); !name.empty())
      why += " of '" + name + "'";
    why += " needs it" + originOf(constraint.left, constraint.right);
    Value left = sizeValue(constraint.left), right = sizeValue(constraint.right);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(headEnd);
    rt::CheckOp::create(builder, constraint.op->getLoc(), left, isEqual ? rt::Relation::Equal : rt::Relation::AtMost,
                        right, sizes.toString(constraint.left), sizes.toString(constraint.right), why);
  }
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

/// Makes the buffers of the results. The kernel that computes a result writes it in place, or the copy to the memory of
/// the host does, so views between them are undone; what several results share is copied to the others at the end.
void HostProgram::makeOutputs(func::ReturnOp returnOp) {
  SmallVector<Attribute> descriptions;
  DenseSet<Value> taken;
  for (auto [number, operand] : llvm::enumerate(returnOp.getOperands())) {
    if (source.getResultAttr(number, "nn.state")) {
      outputs.push_back(nullptr);
      isWritten.push_back(true);
      continue;
    }
    SmallVector<std::string> texts;
    auto type = cast<RankedTensorType>(operand.getType());
    for (auto [size, expression] : llvm::zip_equal(type.getShape(), sizes.of(operand)))
      texts.push_back(ShapedType::isDynamic(size) ? sizes.toString(expression) : "");
    SmallVector<NamedAttribute> description(source.getResultAttrs(number));
    llvm::erase_if(description, [](NamedAttribute attribute) { return attribute.getName() == "nn.sizes"; });
    SmallVector<StringRef> references(texts.begin(), texts.end());
    description.push_back(builder.getNamedAttr("nn.sizes", builder.getStrArrayAttr(references)));
    description.push_back(builder.getNamedAttr("type", TypeAttr::get(type)));
    descriptions.push_back(builder.getDictionaryAttr(description));

    Value root = viewRoot(operand);
    auto group = root.getDefiningOp<nn::GroupOp>();
    Attribute home = group ? deviceOf(group)->memory : Attribute();
    isWritten.push_back(group && !states.contains(root) && taken.insert(root).second);
    Attribute memory = isWritten.back() ? memoryOfResult(root, home) : Attribute();
    Value output = rt::OutputOp::create(builder, returnOp.getLoc(), bufferType(operand, memory),
                                        builder.getI64IntegerAttr(descriptions.size() - 1), dynamicSizes(operand));
    outputs.push_back(output);
    if (!isWritten.back())
      continue;
    Value buffer = output;
    for (Value value = operand; value != root; value = viewSource(value)) {
      if (memory == home)
        buffers[{value, home}] = buffer;
      buffer = undoView(value, buffer);
    }
    (memory == home ? buffers[{root, home}] : hostOutputs[root]) = buffer;
  }
  host->setAttr(rt::hostResultsAttr, builder.getArrayAttr(descriptions));
}

/// The buffer of the source of a view, given the view's.
Value HostProgram::undoView(Value view, Value viewBuffer) {
  Location location = view.getLoc();
  Value sourceTensor = viewSource(view);
  MemRefType type = bufferType(sourceTensor, cast<MemRefType>(viewBuffer.getType()).getMemorySpace());
  if (auto expand = view.getDefiningOp<tensor::ExpandShapeOp>())
    return memref::CollapseShapeOp::create(builder, location, type, viewBuffer, expand.getReassociationIndices());
  if (auto collapse = view.getDefiningOp<tensor::CollapseShapeOp>())
    return memref::ExpandShapeOp::create(builder, location, type, viewBuffer, collapse.getReassociationIndices(),
                                         getMixedValues(type.getShape(), dynamicSizes(sourceTensor), builder));
  return memref::CastOp::create(builder, location, type, viewBuffer);
}

Value HostProgram::viewOf(Value view, Value sourceBuffer) {
  Location location = view.getLoc();
  MemRefType type = bufferType(view, cast<MemRefType>(sourceBuffer.getType()).getMemorySpace());
  if (auto expand = view.getDefiningOp<tensor::ExpandShapeOp>())
    return memref::ExpandShapeOp::create(builder, location, type, sourceBuffer, expand.getReassociationIndices(),
                                         getMixedValues(type.getShape(), dynamicSizes(view), builder));
  if (auto collapse = view.getDefiningOp<tensor::CollapseShapeOp>())
    return memref::CollapseShapeOp::create(builder, location, type, sourceBuffer, collapse.getReassociationIndices());
  return memref::CastOp::create(builder, location, type, sourceBuffer);
}

/// Puts a copy on a queue of the device whose memory one of the buffers is in, after what has written `from`.
Value HostProgram::copy(Location location, Value value, Value from, Value to) {
  FlatSymbolRefAttr device = rt::memoryDeviceOf(from.getType());
  if (!device)
    device = rt::memoryDeviceOf(to.getType());
  DeviceUse *use = device ? &devices[device.getValue().str()] : deviceOf(source);
  SmallVector<Value> after;
  if (Value event = events.lookup({viewRoot(value), cast<MemRefType>(from.getType()).getMemorySpace()}))
    after.push_back(event);
  Value event = rt::CopyOp::create(builder, location, rt::EventType::get(builder.getContext()), use->copyQueue, after,
                                   dynamicSizes(value), from, to);
  order.add(event, after);
  return event;
}

/// Copies a root to another memory than that which it was written to; between two devices by way of the host.
Value HostProgram::copyOf(Value root, Attribute memory) {
  if (Value known = buffers.lookup({root, memory}))
    return known;
  Attribute home = homes.lookup(root);
  Value from = home && memory ? copyOf(root, Attribute()) : buffers.lookup({root, home});
  Value to = memory ? Value() : hostOutputs.lookup(root);
  if (!to)
    to = makeBuffer(root, memory);
  events[{root, memory}] = copy(root.getLoc(), root, from, to);
  return buffers[{root, memory}] = to;
}

/// The buffer that holds a tensor in a memory. Constants are made in the layout that is asked for.
FailureOr<Value> HostProgram::bufferOf(Value value, Attribute memory, rt::LayoutAttrInterface layout) {
  if (Value known = buffers.lookup({value, memory}))
    return known;
  std::string reason;
  if (nn::isPrepacked(value, &reason)) {
    if (!layout)
      layout = rt::RowMajorAttr::get(builder.getContext());
    FlatSymbolRefAttr name = constants.add(value, layout);
    MemRefType type = bufferType(value, memory);
    Value &buffer = constantBuffers[{name, type}];
    OpBuilder::InsertionGuard guard(builder);
    if (outermost)
      builder.setInsertionPoint(outermost); // for all that follows, not for one region
    if (!buffer)
      buffer = rt::ConstantDataOp::create(builder, value.getLoc(), type, name);
    return buffer;
  }
  Value source = viewSource(value);
  if (!source && buffers.contains({value, homes.lookup(value)})) {
    if (states.contains(value))
      return emitError(value.getLoc()) << "the state '" << nameOf(states.stateOf(value))
                                       << "' is read in another memory than it is in";
    return copyOf(value, memory);
  }
  if (!source) {
    if (isa_and_nonnull<tensor::EmptyOp>(value.getDefiningOp()))
      return value.getDefiningOp()->emitOpError() << "is read, but nothing writes it; fill it with linalg.fill";
    InFlightDiagnostic diagnostic = value.getDefiningOp()->emitOpError()
                                    << "is outside of a group and not prepacked"
                                    << (reason.empty() ? "; run the fuse phase first" : ": ") << reason;
    return diagnostic;
  }
  FailureOr<Value> sourceBuffer = bufferOf(source, memory);
  if (failed(sourceBuffer))
    return failure();
  return buffers[{value, memory}] = viewOf(value, *sourceBuffer);
}

/// Returns the number of slices of equal size that a linear's result is read as, if ops read several of them together;
/// else 1.
static int64_t slicesReadTogether(nn::LinearOp linear, const target::Target &target) {
  DenseSet<Operation *> others;
  bool meet = false;
  int64_t slices = 0, columns = 0;
  for (Operation *user : linear.getResult().getUsers()) {
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!slice || (slices++ && slice.getType().getShape().back() != columns))
      return 1;
    columns = slice.getType().getShape().back();
    llvm::SetVector<Operation *> consumers(user->user_begin(), user->user_end());
    for (unsigned i = 0; i < consumers.size(); ++i)
      consumers.insert(consumers[i]->user_begin(), consumers[i]->user_end());
    consumers.remove_if(llvm::IsaPred<nn::YieldOp>);
    meet |= llvm::any_of(consumers, [&](Operation *consumer) { return others.contains(consumer); });
    others.insert(consumers.begin(), consumers.end());
  }
  return meet && target.splitsAt(columns) ? slices : 1;
}

/// Returns how the device stores a constant that a group reads, by the ops that read it; null for operands that are
/// computed.
rt::LayoutAttrInterface HostProgram::layoutOf(nn::GroupOp group, unsigned operand, const target::Target &target) {
  Value weight = group.getInputs()[operand];
  if (!nn::isPrepacked(weight))
    return nullptr;
  BlockFormatAttrInterface format = nn::quantizedFormatOf(weight);
  if (format && !target.storesQuantized(format, cast<RankedTensorType>(weight.getType()).getShape().back()))
    format = nullptr;
  BlockArgument argument = group.getBodyBlock().getArgument(operand);
  std::optional<StoredOperand> use;
  for (OpOperand &read : argument.getUses()) {
    auto consumer = dyn_cast<StoredOperandOpInterface>(read.getOwner());
    StoredOperand one = consumer ? consumer.getStoredOperand(read.getOperandNumber()) : StoredOperand::None;
    // A table that a linear reads as its weight too is one matrix.
    bool isBoth = use && *use != one && llvm::is_contained({StoredOperand::Matrix, StoredOperand::Table}, *use) &&
                  llvm::is_contained({StoredOperand::Matrix, StoredOperand::Table}, one) && format;
    use = !use || *use == one ? one : isBoth ? StoredOperand::Matrix : StoredOperand::None;
  }
  auto linear = argument.hasOneUse() ? dyn_cast<nn::LinearOp>(*argument.user_begin()) : nullptr;
  return target.layout(builder.getContext(), use.value_or(StoredOperand::None), format,
                       linear ? slicesReadTogether(linear, target) : 1);
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

/// Copies results to the memories of the groups that read them, right behind their kernel: the copy then goes on beside
/// what the host does next.
LogicalResult HostProgram::copyToConsumers(nn::GroupOp group) {
  for (Value result : group.getResults())
    for (nn::GroupOp consumer : consumersOf(result)) {
      DeviceUse *device = consumer ? deviceOf(consumer) : nullptr;
      if (device && device->memory != homes.lookup(result) && !states.contains(result))
        copyOf(result, device->memory);
    }
  return success();
}

LogicalResult HostProgram::copyResults(func::ReturnOp returnOp) {
  for (auto [number, operand] : llvm::enumerate(returnOp.getOperands())) {
    if (isWritten[number])
      continue;
    Value root = viewRoot(operand);
    bool isOnHost = buffers.contains({root, Attribute()});
    FailureOr<Value> buffer = bufferOf(operand, isOnHost ? Attribute() : homes.lookup(root));
    if (failed(buffer))
      return failure();
    copy(returnOp.getLoc(), operand, *buffer, outputs[number]);
  }
  return success();
}

/// Builds what the ops of a block do at the end of the host program's current block.
LogicalResult HostProgram::buildBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (isControlFlow(&op) || isa<nn::GroupOp, tensor::ExtractOp>(op)) {
      LogicalResult built = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                                .Case([&](nn::GroupOp group) { return dispatch(group); })
                                .Case([&](tensor::ExtractOp extract) { return read(extract); })
                                .Case([&](scf::IfOp branch) { return buildIf(branch); })
                                .Case([&](scf::ForOp loop) { return buildFor(loop); })
                                .Default([&](Operation *loop) { return buildWhile(cast<scf::WhileOp>(loop)); });
      if (failed(built))
        return failure();
      continue;
    }
    bool isTensorOp = llvm::any_of(op.getResultTypes(), [](Type type) { return isa<TensorType>(type); });
    if (op.getNumRegions() && !isa<linalg::TransposeOp>(op))
      return op.emitOpError() << "is outside of a group; run the fuse phase first";
    if (!isTensorOp || isView(op) || isa<tensor::EmptyOp>(op) || isPartOfWeight(op) || op.use_empty())
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
