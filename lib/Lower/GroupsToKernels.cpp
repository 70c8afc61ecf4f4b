//===- GroupsToKernels.cpp - Groups become kernels, functions become host programs -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Lower/Lower.h"
#include "intarsia/Target/Target.h"
#include "lib/Lower/ConstantTable.h"
#include "lib/Lower/EventOrder.h"
#include "lib/Lower/InputRanges.h"
#include "lib/Lower/KernelTable.h"
#include "lib/Lower/Passes.h"
#include "lib/Lower/WeightExpression.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::lower {
#define GEN_PASS_DEF_LOWERGROUPSTOKERNELS
#include "lib/Lower/Passes.h.inc"

namespace {

MemRefType bufferType(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get(type.getShape(), type.getElementType());
}

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

Value viewRoot(Value value) {
  while (Value source = viewSource(value))
    value = source;
  return value;
}

/// Codes and scales that are the numbers of a weight: the weight is what is made ahead of time.
bool isPartOfWeight(Operation &op) {
  return isa<nn::QuantizeOp>(op) && llvm::all_of(op.getUsers(), llvm::IsaPred<nn::DequantizeOp>);
}

bool isView(Operation &op) { return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op); }

/// A function on tensors becomes a host program.
class HostProgram {
public:
  HostProgram(func::FuncOp source, KernelTable &kernels, ConstantTable &constants, const target::Target &target)
      : source(source), kernels(kernels), constants(constants), target(target), sizes(source),
        builder(source.getContext()) {}

  LogicalResult build();

private:
  LogicalResult checkSource();
  LogicalResult checkSizes();
  void makeFunction();
  void nameSizes();
  void makeSizeChecks();
  std::string originOf(AffineExpr left, AffineExpr right);
  Value sizeValue(AffineExpr size);
  void makeOutputs(func::ReturnOp returnOp);
  LogicalResult dispatch(nn::GroupOp group);
  LogicalResult copyResults(func::ReturnOp returnOp);
  FailureOr<Value> updatedInPlace(nn::GroupOp group, unsigned result, SmallVectorImpl<Value> &after);
  LogicalResult checkStates(func::ReturnOp returnOp);
  FailureOr<Value> bufferOf(Value value, rt::LayoutAttr layout = nullptr);
  Value viewOf(Value view, Value sourceBuffer);
  Value undoView(Value view, Value viewBuffer);
  rt::LayoutAttr layoutOf(nn::GroupOp group, unsigned operand);
  SmallVector<Value> dynamicSizes(Value tensor);

  func::FuncOp source;
  KernelTable &kernels;
  ConstantTable &constants;
  const target::Target &target;
  SymbolicSizes sizes;
  OpBuilder builder;
  func::FuncOp host;
  std::unique_ptr<SizeMaterializer> sizeValues;
  Value queue;
  DenseMap<Value, Value> buffers; // of tensors that are not constants
  DenseMap<std::pair<Attribute, Type>, Value> constantBuffers;
  DenseMap<Value, Value> events; // of roots that a kernel writes
  SmallVector<Value> outputs;    // null for states
  SmallVector<bool> isWritten;   // in place, by the kernel that computes it
  DenseSet<Value> states;        // tensors that may be updated in place
  EventOrder order;
};

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
  for (Operation &op : source.getBody().front())
    for (Type type : op.getResultTypes())
      if (isa<RankedTensorType>(type) && !hasBytes(type) && !isPartOfWeight(op))
        return op.emitError() << "elements of type " << getElementTypeOrSelf(type)
                              << " have no layout in memory; a group must hide them";
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

void HostProgram::makeFunction() {
  SmallVector<Type> inputTypes;
  for (Value argument : source.getArguments()) {
    // A size that can only be one number is that number.
    SmallVector<int64_t> shape;
    for (AffineExpr size : sizes.of(argument)) {
      auto constant = dyn_cast<AffineConstantExpr>(size);
      shape.push_back(constant ? constant.getValue() : ShapedType::kDynamic);
    }
    inputTypes.push_back(MemRefType::get(shape, getElementTypeOrSelf(argument.getType())));
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
  queue = rt::GetQueueOp::create(builder, host.getLoc(), rt::QueueType::get(builder.getContext()), 0);
  for (auto [argument, buffer] : llvm::zip_equal(source.getArguments(), body->getArguments())) {
    buffer.setLoc(argument.getLoc());
    buffers[argument] = buffer;
    if (MemRefType type = bufferType(argument); type != buffer.getType())
      buffers[argument] = memref::CastOp::create(builder, argument.getLoc(), type, buffer);
    if (source.getArgAttr(argument.getArgNumber(), "nn.state"))
      states.insert(argument);
  }
  sizeValues = std::make_unique<SizeMaterializer>(builder.getIndexType(), [this](AffineExpr size) -> Value {
    auto symbol = dyn_cast<AffineSymbolExpr>(size);
    return symbol ? rt::SymbolOp::create(builder, host.getLoc(), builder.getIndexType(),
                                         builder.getStringAttr(sizes.names()[symbol.getPosition()]))
                  : Value();
  });
  makeSizeChecks();
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
    builder.setInsertionPoint(queue.getDefiningOp());
    rt::CheckOp::create(builder, constraint.op->getLoc(), left, isEqual ? rt::Relation::Equal : rt::Relation::AtMost,
                        right, sizes.toString(constraint.left), sizes.toString(constraint.right), why);
  }
}

/// The value of a size, computed before the first work of the host program.
Value HostProgram::sizeValue(AffineExpr size) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(queue.getDefiningOp());
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

/// Makes the buffers of the results. The kernel that computes a result writes it in place, so views between them are
/// undone; what several results share is copied to the others at the end.
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

    Value output = rt::OutputOp::create(builder, returnOp.getLoc(), bufferType(operand),
                                        builder.getI64IntegerAttr(descriptions.size() - 1), dynamicSizes(operand));
    outputs.push_back(output);
    Value root = viewRoot(operand);
    isWritten.push_back(root.getDefiningOp<nn::GroupOp>() && taken.insert(root).second);
    if (!isWritten.back())
      continue;
    Value buffer = output;
    for (Value value = operand; value != root; value = viewSource(value)) {
      buffers[value] = buffer;
      buffer = undoView(value, buffer);
    }
    buffers[root] = buffer;
  }
  host->setAttr(rt::hostResultsAttr, builder.getArrayAttr(descriptions));
}

/// The buffer of the source of a view, given the view's.
Value HostProgram::undoView(Value view, Value viewBuffer) {
  Location location = view.getLoc();
  Value sourceTensor = viewSource(view);
  MemRefType type = bufferType(sourceTensor);
  if (auto expand = view.getDefiningOp<tensor::ExpandShapeOp>())
    return memref::CollapseShapeOp::create(builder, location, type, viewBuffer, expand.getReassociationIndices());
  if (auto collapse = view.getDefiningOp<tensor::CollapseShapeOp>())
    return memref::ExpandShapeOp::create(builder, location, type, viewBuffer, collapse.getReassociationIndices(),
                                         getMixedValues(type.getShape(), dynamicSizes(sourceTensor), builder));
  return memref::CastOp::create(builder, location, type, viewBuffer);
}

Value HostProgram::viewOf(Value view, Value sourceBuffer) {
  Location location = view.getLoc();
  MemRefType type = bufferType(view);
  if (auto expand = view.getDefiningOp<tensor::ExpandShapeOp>())
    return memref::ExpandShapeOp::create(builder, location, type, sourceBuffer, expand.getReassociationIndices(),
                                         getMixedValues(type.getShape(), dynamicSizes(view), builder));
  if (auto collapse = view.getDefiningOp<tensor::CollapseShapeOp>())
    return memref::CollapseShapeOp::create(builder, location, type, sourceBuffer, collapse.getReassociationIndices());
  return memref::CastOp::create(builder, location, type, sourceBuffer);
}

/// The buffer that holds a tensor. Constants are made in the layout that is asked for.
FailureOr<Value> HostProgram::bufferOf(Value value, rt::LayoutAttr layout) {
  if (Value known = buffers.lookup(value))
    return known;
  std::string reason;
  if (auto expression = weightExpressionOf(value, reason)) {
    if (!layout)
      layout = rt::LayoutAttr::get(builder.getContext(), rt::LayoutKind::RowMajor, 0, Attribute(), 1);
    FlatSymbolRefAttr name = constants.add(*expression, layout, value.getLoc());
    MemRefType type = bufferType(value);
    Value &buffer = constantBuffers[{name, type}];
    if (!buffer)
      buffer = rt::ConstantDataOp::create(builder, value.getLoc(), type, name);
    return buffer;
  }
  Value source = viewSource(value);
  if (!source) {
    if (isa<tensor::EmptyOp>(value.getDefiningOp()))
      return value.getDefiningOp()->emitOpError() << "is read, but nothing writes it; fill it with linalg.fill";
    InFlightDiagnostic diagnostic = value.getDefiningOp()->emitOpError()
                                    << "is outside of a group and not made ahead of time"
                                    << (reason.empty() ? "; run the fuse phase first" : ": ") << reason;
    return diagnostic;
  }
  FailureOr<Value> sourceBuffer = bufferOf(source);
  if (failed(sourceBuffer))
    return failure();
  return buffers[value] = viewOf(value, *sourceBuffer);
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
    llvm::SetVector<Operation *> readers(user->user_begin(), user->user_end());
    for (unsigned i = 0; i < readers.size(); ++i)
      readers.insert(readers[i]->user_begin(), readers[i]->user_end());
    readers.remove_if(llvm::IsaPred<nn::YieldOp>);
    meet |= llvm::any_of(readers, [&](Operation *reader) { return others.contains(reader); });
    others.insert(readers.begin(), readers.end());
  }
  return meet && target.splitsAt(columns) ? slices : 1;
}

/// Returns how the device stores a constant that a group reads, by the ops that read it; null for operands that are
/// computed.
rt::LayoutAttr HostProgram::layoutOf(nn::GroupOp group, unsigned operand) {
  std::string reason;
  auto expression = weightExpressionOf(group.getInputs()[operand], reason);
  if (!expression)
    return nullptr;
  Attribute format = codedFormatOf(*expression);
  BlockArgument argument = group.getBodyBlock().getArgument(operand);
  std::optional<StoredOperand> use;
  for (OpOperand &read : argument.getUses()) {
    auto reader = dyn_cast<StoredOperandOpInterface>(read.getOwner());
    StoredOperand one = reader ? reader.getStoredOperand(read.getOperandNumber()) : StoredOperand::None;
    // A table that a linear reads as its weight too is one matrix.
    bool isBoth = use && *use != one && llvm::is_contained({StoredOperand::Matrix, StoredOperand::Table}, *use) &&
                  llvm::is_contained({StoredOperand::Matrix, StoredOperand::Table}, one) && format;
    use = !use || *use == one ? one : isBoth ? StoredOperand::Matrix : StoredOperand::None;
  }
  auto linear = argument.hasOneUse() ? dyn_cast<nn::LinearOp>(*argument.user_begin()) : nullptr;
  return target.layout(builder.getContext(), use.value_or(StoredOperand::None), format,
                       linear ? slicesReadTogether(linear, target) : 1);
}

/// The operand that a result of an op is an update of; null for results with memory of their own.
static Value updatedOperand(OpResult result) {
  auto inPlace = dyn_cast<InPlaceOpInterface>(result.getOwner());
  return inPlace ? inPlace.getUpdatedOperand(result.getResultNumber()).get() : Value();
}

/// The buffer of the operand that a result of the group is an update of; null for results with memory of their own.
/// Earlier readers of the operand join `after`.
FailureOr<Value> HostProgram::updatedInPlace(nn::GroupOp group, unsigned result, SmallVectorImpl<Value> &after) {
  auto updated = dyn_cast<OpResult>(group.getBodyBlock().getTerminator()->getOperand(result));
  Value operand = updated ? updatedOperand(updated) : Value();
  if (!operand)
    return Value();
  auto argument = dyn_cast<BlockArgument>(operand);
  Value cache = argument ? group.getInputs()[argument.getArgNumber()] : Value();
  if (!cache || !states.contains(cache))
    return updated.getOwner()->emitOpError() << "updates a tensor in place that is no argument with nn.state";
  bool readElsewhere = !argument.hasOneUse();
  for (Operation *reader : cache.getUsers()) {
    if (reader == group)
      continue;
    // A group that comes before has read what it needs by then.
    readElsewhere |= !isa<nn::GroupOp>(reader) || !reader->isBeforeInBlock(group);
    for (Value other : reader->getResults())
      if (Value event = events.lookup(other))
        after.push_back(event);
  }
  if (readElsewhere || llvm::count(group.getInputs(), cache) != 1)
    return updated.getOwner()->emitOpError() << "updates a tensor in place that something else reads";
  states.insert(group.getResult(result));
  return buffers.lookup(cache);
}

/// Results that are arguments in their last state.
LogicalResult HostProgram::checkStates(func::ReturnOp returnOp) {
  for (auto [number, operand] : llvm::enumerate(returnOp.getOperands())) {
    auto argument = source.getResultAttrOfType<IntegerAttr>(number, "nn.state");
    if (argument && buffers.lookup(operand) != buffers.lookup(source.getArgument(argument.getInt())))
      return returnOp.emitOpError() << "result " << number << " is not argument " << argument.getInt()
                                    << " in its last state, as its nn.state says";
  }
  return success();
}

LogicalResult HostProgram::dispatch(nn::GroupOp group) {
  SmallVector<rt::LayoutAttr> layouts;
  SmallVector<Value> inputs, results, after, sizeValues;
  for (unsigned operand = 0; operand < group.getInputs().size(); ++operand) {
    layouts.push_back(layoutOf(group, operand));
    FailureOr<Value> buffer = bufferOf(group.getInputs()[operand], layouts.back());
    if (failed(buffer))
      return failure();
    inputs.push_back(*buffer);
    if (Value event = events.lookup(viewRoot(group.getInputs()[operand])))
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
  FailureOr<KernelUse> use = kernels.add(group, layouts, sizes);
  if (failed(use))
    return failure();
  for (AffineExpr expression : use->sizes)
    sizeValues.push_back(sizeValue(expression));
  for (auto [number, result] : llvm::enumerate(group.getResults())) {
    Value &buffer = buffers[result];
    if (updated[number])
      buffer = updated[number];
    if (!buffer)
      buffer = rt::AllocOp::create(builder, location, bufferType(result), dynamicSizes(result));
    results.push_back(buffer);
  }
  after = order.prune(after);
  Value event = rt::DispatchOp::create(builder, location, rt::EventType::get(builder.getContext()),
                                       FlatSymbolRefAttr::get(use->kernel.getSymNameAttr()), queue, after, sizeValues,
                                       inputs, results, label.empty() ? StringAttr() : builder.getStringAttr(label));
  order.add(event, after);
  for (Value result : group.getResults())
    events[result] = event;
  return success();
}

LogicalResult HostProgram::copyResults(func::ReturnOp returnOp) {
  for (auto [number, operand] : llvm::enumerate(returnOp.getOperands())) {
    if (isWritten[number])
      continue;
    FailureOr<Value> buffer = bufferOf(operand);
    if (failed(buffer))
      return failure();
    SmallVector<Value> after;
    if (Value event = events.lookup(viewRoot(operand)))
      after.push_back(event);
    Value event = rt::CopyOp::create(builder, returnOp.getLoc(), rt::EventType::get(builder.getContext()), queue, after,
                                     dynamicSizes(operand), *buffer, outputs[number]);
    order.add(event, after);
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
  if (failed(checkSizes()) || failed(inferInputRanges(source, sizes)))
    return failure();
  makeFunction();
  makeOutputs(returnOp);
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (auto group = dyn_cast<nn::GroupOp>(op)) {
      if (failed(dispatch(group)))
        return failure();
      continue;
    }
    bool isTensorOp = llvm::any_of(op.getResultTypes(), [](Type type) { return isa<TensorType>(type); });
    if (op.getNumRegions() && !isa<linalg::TransposeOp>(op))
      return op.emitOpError() << "is outside of a group; run the fuse phase first";
    if (!isTensorOp || isView(op) || isa<tensor::EmptyOp>(op) || isPartOfWeight(op) || op.use_empty())
      continue; // sizes are computed from the function's symbols, views when they are used
    std::string reason;
    if (!weightExpressionOf(op.getResult(0), reason))
      return op.emitOpError() << "is outside of a group and not made ahead of time"
                              << (reason.empty() ? "; run the fuse phase first" : ": ") << reason;
  }
  if (failed(checkStates(returnOp)) || failed(copyResults(returnOp)))
    return failure();
  if (SmallVector<Value> last = order.last(); !last.empty())
    rt::WaitOp::create(builder, returnOp.getLoc(), last);
  func::ReturnOp::create(builder, returnOp.getLoc());
  source.erase();
  return success();
}

struct GroupsToKernels : impl::LowerGroupsToKernelsBase<GroupsToKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    if (functions.empty()) {
      module.emitOpError() << "has no function";
      return signalPassFailure();
    }
    FailureOr<target::Device> device = target::deviceOf(module);
    if (failed(device))
      return signalPassFailure();
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
      if (failed(HostProgram(function, kernels, constants, *device->target).build()))
        return signalPassFailure();
    }
  }
};

} // namespace
} // namespace intarsia::lower
