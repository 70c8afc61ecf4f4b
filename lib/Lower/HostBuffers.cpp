//===- HostBuffers.cpp - Buffers of host programs: memories, views, copies, results ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/HostProgram.h"

#include "dialects/Nn/Prepacking.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

using namespace mlir;

namespace intarsia::lower {

//===-- Tensors and views -------------------------------------------------------------------------------------===//

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

MemRefType bufferType(Value tensor, Attribute memory) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get(type.getShape(), type.getElementType(), MemRefLayoutAttrInterface(), memory);
}

Value viewRoot(Value value) {
  while (Value source = viewSource(value))
    value = source;
  return value;
}

//===-- Devices and memories ----------------------------------------------------------------------------------===//

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

SmallVector<nn::GroupOp> consumersOf(Value tensor) {
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
/// checked by the host. What a part of a function only passes on stays where the part before it has it.
FailureOr<Attribute> HostProgram::memoryOfInput(BlockArgument argument) {
  auto has = [&](StringRef attribute) { return bool(source.getArgAttr(argument.getArgNumber(), attribute)); };
  if (has("nn.range") || has("nn.below"))
    return Attribute();
  std::optional<Attribute> memory;
  auto before = source->getAttrOfType<FlatSymbolRefAttr>("nn.continues");
  if (before && argument.use_empty())
    if (auto part = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(source, before))
      if (argument.getArgNumber() < part.getNumArguments())
        if (auto buffer = dyn_cast<MemRefType>(part.getArgumentTypes()[argument.getArgNumber()]))
          return buffer.getMemorySpace();
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

//===-- Results, views and copies -----------------------------------------------------------------------------===//

/// Makes the buffers of the results. The kernel or the exchange that gives a result writes it in place, or the copy to
/// the memory of the host does, so views between them are undone; what several results share is copied to the others at
/// the end.
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
    // A gather is not among them: it may write only some rows of its result.
    bool isExchanged = isa_and_nonnull<shard::AllReduceOp, shard::AllToAllOp, shard::BroadcastOp,
                                       shard::ReduceScatterOp, shard::RecvOp>(root.getDefiningOp());
    if (DeviceUse *device = isExchanged ? exchangingDevice(root.getDefiningOp()) : nullptr)
      home = device->memory;
    isWritten.push_back((group || isExchanged) && !states.contains(root) && taken.insert(root).second);
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

/// Returns the number of slices of equal size that the result of a product is read as, if ops read several of them
/// together; else 1.
static int64_t slicesReadTogether(Value result, const target::Target &target) {
  DenseSet<Operation *> others;
  bool meet = false;
  int64_t slices = 0, columns = 0;
  for (Operation *user : result.getUsers()) {
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
  ContractionOpInterface product = argument.hasOneUse() ? asProductWithWeight(*argument.user_begin()) : nullptr;
  return target.layout(builder.getContext(), use.value_or(StoredOperand::None), format,
                       product ? slicesReadTogether(product->getResult(0), target) : 1);
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

} // namespace intarsia::lower
