//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "intarsia/Analysis/SizeMaterializer.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

FailureOr<Devices> fuse::devicesOf(func::FuncOp function) {
  Devices devices;
  auto add = [&](Operation *op) -> LogicalResult {
    auto [entry, isNew] = devices.try_emplace(op->getAttr(rt::deviceAttr));
    if (!isNew)
      return success();
    FailureOr<target::Device> device = target::deviceOf(op);
    if (succeeded(device))
      entry->second = *device;
    return device;
  };
  if (failed(add(function)))
    return failure();
  for (Operation &op : function.getOps())
    if (failed(add(&op)))
      return failure();
  return devices;
}

Fuser::Fuser(func::FuncOp function, StringRef pass, Devices devices, ArrayRef<std::string> flip)
    : function(function), model(function), devices(std::move(devices)), decisions(function, pass, flip) {}

/// Ops of the body that read the value, themselves or in their regions, and not for its sizes alone.
static llvm::SetVector<Operation *> consumersOf(Value value) {
  llvm::SetVector<Operation *> consumers;
  for (Operation *user : value.getUsers())
    if (!isa<tensor::DimOp>(user))
      consumers.insert(value.getParentBlock()->findAncestorOpInBlock(*user));
  return consumers;
}

SmallVector<Value> Fuser::results(const Candidate &candidate) const {
  SmallVector<Value> results;
  for (Operation *op : candidate.ops)
    for (Value result : op->getResults())
      if (llvm::any_of(consumersOf(result), [&](Operation *consumer) { return !candidate.has(consumer); }))
        results.push_back(result);
  return results;
}

SmallVector<Operation *> Fuser::consumers(const Candidate &candidate) const {
  SetVector<Operation *> outside;
  for (Operation *op : candidate.ops)
    for (Value result : op->getResults())
      for (Operation *consumer : consumersOf(result))
        if (!candidate.has(consumer))
          outside.insert(consumer);
  SmallVector<Operation *> ordered = outside.takeVector();
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Ops of one kernel at most. Its code is emitted by calls from a result back to what it reads, so that the depth of
/// the stack grows with them, and the costs of all ops are asked for each one that joins. Kernels of models have tens.
static constexpr size_t mostOps = 256;

bool Fuser::staysWhole(const Candidate &candidate, ArrayRef<Operation *> more) const {
  Candidate grown = candidate;
  grown.ops.insert(more.begin(), more.end());
  if (grown.ops.size() > mostOps)
    return false;
  // Reshapes and slices compute nothing: they are wherever they are read.
  auto isElsewhere = [&](Operation *op) {
    return !isa<tensor::TensorDialect>(op->getDialect()) &&
           op->getAttr(rt::deviceAttr) != candidate.root->getAttr(rt::deviceAttr);
  };
  if (llvm::any_of(grown.ops, isElsewhere) || llvm::any_of(grown.views, isElsewhere))
    return false;
  if (results(grown).size() >
      targetOf(candidate.root).largestResultCount() * std::max<size_t>(candidate.parts.size(), 1))
    return false;
  // Whatever comes in from outside must not depend on what is computed inside. What stands before all of that does not.
  Operation *first = *llvm::min_element(grown.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  SmallVector<Operation *> stack;
  llvm::SmallPtrSet<Operation *, 32> seen;
  auto visitOperands = [&](Operation *op, bool fromOutside) -> bool {
    SetVector<Value> read = capturedValues(op);
    read.insert(op->operand_begin(), op->operand_end());
    for (Value value : read) {
      Operation *definition = value.getDefiningOp();
      if (!definition)
        continue;
      if (grown.has(definition)) {
        if (fromOutside && grown.ops.contains(definition))
          return false;
        continue;
      }
      bool isBefore = definition->getBlock() == first->getBlock() && definition->isBeforeInBlock(first);
      if (!isBefore && seen.insert(definition).second)
        stack.push_back(definition);
    }
    return true;
  };
  for (Operation *op : grown.ops)
    visitOperands(op, /*fromOutside=*/false);
  for (Operation *op : grown.views)
    visitOperands(op, /*fromOutside=*/false);
  while (!stack.empty())
    if (!visitOperands(stack.pop_back_val(), /*fromOutside=*/true))
      return false;
  return true;
}

static SmallVector<Operation *> allOps(const Candidate &candidate) {
  SmallVector<Operation *> ops(candidate.views.begin(), candidate.views.end());
  ops.append(candidate.ops.begin(), candidate.ops.end());
  return ops;
}

bool Fuser::shouldJoin(Candidate &candidate, ArrayRef<Operation *> more, KernelRoot apartKind) {
  SmallVector<Operation *> before = allOps(candidate), after = before;
  after.append(more.begin(), more.end());
  const DeviceModel &device = *deviceOf(candidate.root).model;
  auto time = [&](KernelRoot kind, ArrayRef<Operation *> ops) { return device.microseconds(model.work(kind, ops)); };
  double insideUs = time(candidate.rootKind, after);
  double apartUs = time(candidate.rootKind, before) + time(apartKind, more);
  StringRef subject = more.back()->getName().getStringRef();
  return decisions.joins({candidate.root, candidate.rootKind, subject.str(), insideUs, apartUs,
                          "apart: one more kernel launch, and what lies between is written and read again"},
                         candidate.why);
}

bool Fuser::shouldView(Candidate &candidate, ArrayRef<Operation *> views, StringRef subject) {
  SmallVector<Operation *> before = allOps(candidate), after = before;
  after.append(views.begin(), views.end());
  const DeviceModel &device = *deviceOf(candidate.root).model;
  auto time = [&](KernelRoot kind, ArrayRef<Operation *> ops) { return device.microseconds(model.work(kind, ops)); };
  double insideUs = time(candidate.rootKind, after);
  double apartUs = time(candidate.rootKind, before);
  for (Operation *view : views)
    if (!isReshape(view))
      apartUs += time(KernelRoot::Rows, view);
  return decisions.joins({candidate.root, candidate.rootKind, subject.str(), insideUs, apartUs,
                          "apart: each slice is copied by a kernel of its own"},
                         candidate.why);
}

//===-- Making groups -----------------------------------------------------------------------------------------===//

namespace {
/// Fills the body of one group.
class GroupBuilder {
public:
  GroupBuilder(func::FuncOp function, const WorkModel &model, const Candidate &candidate)
      : function(function), model(model), candidate(candidate), ops(allOps(candidate)), builder(function.getContext()),
        sizeValues(builder.getIndexType(), [this](AffineExpr size) { return findSize(size); }) {
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }

  nn::GroupOp build(ArrayRef<Value> results) {
    SmallVector<Type> types;
    for (Value result : results)
      types.push_back(result.getType());
    builder.setInsertionPointAfter(ops.back());
    std::string why = candidate.why;
    for (Operation *op : ops)
      if (auto layout = op->getAttrOfType<StringAttr>(layoutAttr))
        why += (why.empty() ? "" : "; ") + layout.str();
    group = nn::GroupOp::create(builder, candidate.root->getLoc(), types, ValueRange(), candidate.rootKind, why);
    builder.setInsertionPointToEnd(&group.getBodyBlock());
    // Operands first: sizes are then asked of those, if they have them.
    for (Operation *op : ops)
      for (OpOperand &use : op->getOpOperands())
        if (isa<RankedTensorType>(use.get().getType()) && !candidate.has(use.get().getDefiningOp()) && !isCloned(use))
          input(use.get());
    for (Operation *op : ops) {
      for (OpOperand &use : op->getOpOperands())
        bring(use.get(), isCloned(use));
      for (Value captured : capturedValues(op))
        bring(captured, !isa<RankedTensorType>(captured.getType()));
      clone(*op);
    }
    if (Attribute device = candidate.root->getDiscardableAttr(rt::deviceAttr))
      group->setDiscardableAttr(rt::deviceAttr, device);
    SmallVector<Value> yielded;
    for (Value result : results)
      yielded.push_back(mapping.lookup(result));
    nn::YieldOp::create(builder, candidate.root->getLoc(), yielded);
    return group;
  }

private:
  /// Copies an op into the group, which says where its ops run.
  void clone(Operation &op) {
    Operation *inside = builder.clone(op, mapping);
    inside->removeDiscardableAttr(rt::deviceAttr);
    inside->removeDiscardableAttr(layoutAttr);
  }

  Value input(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    group.getInputsMutable().append(value);
    Value argument = group.getBodyBlock().addArgument(value.getType(), value.getLoc());
    mapping.map(value, argument);
    return argument;
  }

  /// Makes a value of the function's body available inside.
  void bring(Value value, bool isCopied) {
    if (mapping.contains(value))
      return;
    if (value.getType().isIndex()) {
      if (AffineExpr size = model.indexSize(value)) {
        mapping.map(value, sizeValue(size, value));
        return;
      }
      isCopied = true;
    }
    if (!isCopied) {
      input(value);
      return;
    }
    Operation *op = value.getDefiningOp();
    assert(op && "only results of ops are cloned into groups");
    for (Value operand : op->getOperands())
      bring(operand, !isa<RankedTensorType>(operand.getType()) || !isa<tensor::DimOp>(op));
    clone(*op);
  }

  /// The value of a size, from the dimensions of the group's operands. `origin` is a value that has it outside.
  Value sizeValue(AffineExpr size, Value origin) {
    sizeOrigin = origin;
    Value value = sizeValues.get(builder, candidate.root->getLoc(), size);
    if (!value)
      llvm::report_fatal_error("a size is neither a dimension of an argument nor of a tensor");
    return value;
  }

  /// A dimension of this size inside the group, null if there is none.
  Value findSize(AffineExpr size) {
    if (isa<AffineConstantExpr>(size))
      return nullptr;
    for (auto [outside, argument] : llvm::zip(group.getInputs(), group.getBodyBlock().getArguments()))
      if (Value dim = dimOf(outside, argument, size))
        return dim;
    if (!isa<AffineSymbolExpr>(size))
      return nullptr;
    for (BlockArgument argument : function.getArguments())
      if (isa<RankedTensorType>(argument.getType()) && llvm::is_contained(model.sizes(argument), size))
        return dimOf(argument, input(argument), size);
    // A size that no argument has: ask the tensor that it was asked of outside.
    tensor::DimOp dim = findDim(sizeOrigin, size);
    if (!dim)
      return nullptr;
    Value source = mapping.contains(dim.getSource()) ? mapping.lookup(dim.getSource()) : input(dim.getSource());
    return tensor::DimOp::create(builder, candidate.root->getLoc(), source, *dim.getConstantIndex());
  }

  /// The tensor.dim of this size among what an index value is computed from.
  tensor::DimOp findDim(Value origin, AffineExpr size) {
    Operation *op = origin.getDefiningOp();
    if (!op)
      return nullptr;
    if (auto dim = dyn_cast<tensor::DimOp>(op))
      return model.indexSize(origin) == size ? dim : nullptr;
    for (Value operand : op->getOperands())
      if (operand.getType().isIndex())
        if (tensor::DimOp dim = findDim(operand, size))
          return dim;
    return nullptr;
  }

  Value dimOf(Value outside, Value inside, AffineExpr size) {
    for (auto [position, expression] : llvm::enumerate(model.sizes(outside)))
      if (expression == size)
        return tensor::DimOp::create(builder, candidate.root->getLoc(), inside, position);
    return nullptr;
  }

  func::FuncOp function;
  const WorkModel &model;
  const Candidate &candidate;
  SmallVector<Operation *> ops;
  OpBuilder builder;
  nn::GroupOp group;
  IRMapping mapping;
  Value sizeOrigin;
  SizeMaterializer sizeValues;
};
} // namespace

nn::GroupOp Fuser::makeGroup(const Candidate &candidate) {
  SmallVector<Value> outside = results(candidate);
  nn::GroupOp group = GroupBuilder(function, model, candidate).build(outside);
  for (auto [before, after] : llvm::zip(outside, group.getResults())) {
    model.replaced(before, after);
    before.replaceAllUsesWith(after);
  }
  // Sizes may still be asked of the ops; those are dead code once the group has its own.
  SmallVector<Operation *> ops = allOps(candidate);
  llvm::sort(ops, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
  for (Operation *op : ops)
    if (op->use_empty())
      op->erase();
  return group;
}

void fuse::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Moves definitions before uses. What ranks do together stays in its order, which is the same on all of them: else one
/// would wait for another that waits for it.
static LogicalResult sortBlock(Block &block) {
  SmallVector<Operation *> pending, exchanges;
  DenseSet<Operation *> unsorted;
  for (Operation &op : block.without_terminator()) {
    pending.push_back(&op);
    unsorted.insert(&op);
    if (isa_and_nonnull<shard::ShardDialect>(op.getDialect()))
      exchanges.push_back(&op);
  }
  ArrayRef<Operation *> nextExchanges = exchanges;
  auto isReady = [&](Operation *op) {
    if (isa_and_nonnull<shard::ShardDialect>(op->getDialect()) && op != nextExchanges.front())
      return false;
    WalkResult missing = op->walk([&](Operation *inner) -> WalkResult {
      for (Value operand : inner->getOperands()) {
        Operation *definition = operand.getDefiningOp();
        Operation *outer = definition ? block.findAncestorOpInBlock(*definition) : nullptr;
        if (outer && outer != op && unsorted.contains(outer))
          return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return !missing.wasInterrupted();
  };
  while (!pending.empty()) {
    size_t before = pending.size();
    llvm::erase_if(pending, [&](Operation *op) {
      if (!isReady(op))
        return false;
      op->moveBefore(block.getTerminator());
      unsorted.erase(op);
      if (!nextExchanges.empty() && op == nextExchanges.front())
        nextExchanges = nextExchanges.drop_front();
      return true;
    });
    if (pending.size() == before)
      return pending.front()->emitError() << "fusing would change the order in which ranks exchange tensors";
  }
  return success();
}

LogicalResult Fuser::finish() {
  if (failed(sortBlock(body())))
    return failure();
  eraseDeadOps(body());
  decisions.record();
  return success();
}
