//===- FunctionEmitter.cpp - The skeletons of both functions of a kernel ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/FunctionEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::cpu {

FunctionEmitter::FunctionEmitter(rt::KernelOp kernel, const TileConfig &config)
    : MemoryEmitter(config, kernel.getLoc()), kernel(kernel), sizes(kernel) {}

/// Makes the launch say so if a size does not fit in 64 bits. The host program knows only the sizes of buffers to fit:
/// what the kernel never stores may have more elements.
void FunctionEmitter::refuseOverflow() {
  kernel.getBody().walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isa<RankedTensorType>(result.getType()))
        for (AffineExpr expression : sizes.of(result))
          if (isa<AffineBinaryOpExpr>(expression) && isKnown(expression))
            size(expression);
  });
  Value overflow;
  Type pair = LLVM::LLVMStructType::getLiteral(b.getContext(), {b.getI64Type(), b.getI1Type()});
  for (Operation &each : llvm::make_early_inc_range(function.getBody().front())) {
    Operation *op = &each;
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
      continue;
    b.setInsertionPoint(op);
    Value left = op->getOperand(0), right = op->getOperand(1), both;
    if (isa<arith::AddIOp>(op))
      both = LLVM::SAddWithOverflowOp::create(b, loc, pair, left, right);
    else if (isa<arith::SubIOp>(op))
      both = LLVM::SSubWithOverflowOp::create(b, loc, pair, left, right);
    else
      both = LLVM::SMulWithOverflowOp::create(b, loc, pair, left, right);
    Value result = LLVM::ExtractValueOp::create(b, loc, both, 0), own = LLVM::ExtractValueOp::create(b, loc, both, 1);
    overflow = overflow ? arith::OrIOp::create(b, loc, overflow, own).getResult() : own;
    // Something may be divided by it.
    op->replaceAllUsesWith(ValueRange{arith::SelectOp::create(b, loc, own, constant(1), result).getResult()});
    op->erase();
  }
  b.setInsertionPoint(function.getBody().front().getTerminator());
  if (overflow)
    ifThen(overflow, [&] { setLaunchValue(ITX_PLAN_WORKSPACE_BYTES, constant(-1)); });
}

LogicalResult refuse(rt::KernelOp kernel, Operation *op, const Twine &reason) {
  return op->emitError() << "the cpu target cannot compile '" << op->getName() << "' in kernel '" << kernel.getSymName()
                         << "': " << reason.str();
}

LogicalResult FunctionEmitter::unsupported(Operation *op, const Twine &reason) { return refuse(kernel, op, reason); }

LogicalResult FunctionEmitter::storesOnly(Operation *root) {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (yielded(i).getDefiningOp() != root)
      return unsupported(root, "an op stands between it and the kernel's result");
  return success();
}

static func::FuncOp makeFunction(OpBuilder &b, Location loc, ModuleOp module, StringRef name, ArrayRef<Type> inputs) {
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

void FunctionEmitter::beginLaunch(ModuleOp module, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  function = makeFunction(b, loc, module, name, {pointer, b.getI64Type(), pointer});
  sizesPointer = function.getArgument(0);
  threads = function.getArgument(1);
  launchPointer = function.getArgument(2);
  sizeValues.emplace(b.getI64Type(), [this](AffineExpr expression) { return knownSize(expression); });
  constants.clear();
  memo.assign(1, {});
  Operation *end = func::ReturnOp::create(b, loc);
  b.setInsertionPoint(end);
  // Marks where the prologue ends: sizes and constants go before it, what is computed after it.
  prologueEnd = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  b.setInsertionPoint(end);
}

void FunctionEmitter::beginRun(ModuleOp module, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  function = makeFunction(b, loc, module, name, {pointer, b.getI64Type(), b.getI64Type(), pointer});
  sizeValues.emplace(b.getI64Type(), [this](AffineExpr expression) { return knownSize(expression); });
  constants.clear();
  memo.assign(1, {});
  workspaceBytes = getAffineConstantExpr(0, b.getContext());

  Value arguments = function.getArgument(0);
  auto field = [&](int32_t index) -> Value {
    Value address = LLVM::GEPOp::create(b, loc, pointer, pointer, arguments, ArrayRef<LLVM::GEPArg>{index});
    return LLVM::LoadOp::create(b, loc, pointer, address);
  };
  Value buffers = field(0);
  sizesPointer = field(1);
  launchPointer = field(2);
  sharedPointer = field(3);
  tileBegin = function.getArgument(1);
  tileEnd = function.getArgument(2);
  workspace = function.getArgument(3);
  threads = nullptr;

  Operation *end = func::ReturnOp::create(b, loc);
  b.setInsertionPoint(end);
  prologueEnd = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  b.setInsertionPoint(end);

  int32_t index = 0;
  auto makeStorage = [&](Value value, RankedTensorType type) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(prologueEnd);
    Storage result;
    Value address = LLVM::GEPOp::create(b, loc, pointer, pointer, buffers, ArrayRef<LLVM::GEPArg>{index++});
    result.pointer = LLVM::LoadOp::create(b, loc, pointer, address);
    result.elementType = type.getElementType();
    result.sizes.assign(sizes.of(value).begin(), sizes.of(value).end());
    Value stride = constant(1);
    result.strides.assign(type.getRank(), Value());
    for (int64_t d = type.getRank() - 1; d >= 0; --d) {
      result.strides[d] = stride;
      if (d)
        stride = mul(stride, size(result.sizes[d]));
    }
    return result;
  };
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    storage[argument] = makeStorage(argument, type);
  }
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    outputs.push_back(makeStorage(yielded(i), cast<RankedTensorType>(yielded(i).getType())));
}

void FunctionEmitter::setLaunchValue(int64_t slot, Value value) {
  LLVM::StoreOp::create(b, loc, value, offsetPointer(launchPointer, constant(slot), b.getI64Type()));
}

Value FunctionEmitter::launchValue(int64_t slot) {
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), offsetPointer(launchPointer, constant(slot), b.getI64Type()));
}

Value FunctionEmitter::yielded(unsigned output) {
  return stripReshapes(kernel.getBody().front().getTerminator()->getOperand(output));
}

Value FunctionEmitter::stripReshapes(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

Value FunctionEmitter::scratch(AffineExpr bytes) {
  OpBuilder::InsertionGuard guard(b);
  Value offset = size(workspaceBytes);
  b.setInsertionPoint(prologueEnd);
  Value result = offsetPointer(workspace, offset, b.getI8Type());
  workspaceBytes = workspaceBytes + bytes.ceilDiv(ITX_BUFFER_ALIGNMENT) * ITX_BUFFER_ALIGNMENT;
  return result;
}

Value FunctionEmitter::scratch(int64_t bytes) { return scratch(getAffineConstantExpr(bytes, b.getContext())); }

SmallVector<Value> FunctionEmitter::delinearize(Value flat, ArrayRef<AffineExpr> dims) {
  SmallVector<Value> result(dims.size());
  for (int64_t d = static_cast<int64_t>(dims.size()) - 1; d >= 0; --d) {
    if (d == 0) {
      result[d] = flat;
      break;
    }
    Value extent = size(dims[d]);
    result[d] = rem(flat, extent);
    flat = div(flat, extent);
  }
  return result;
}

Value FunctionEmitter::size(AffineExpr expression) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(prologueEnd);
  return sizeValues->get(b, loc, expression);
}

Value FunctionEmitter::knownSize(AffineExpr expression) {
  if (auto value = dyn_cast<AffineConstantExpr>(expression))
    return constant(value.getValue());
  auto symbol = dyn_cast<AffineSymbolExpr>(expression);
  if (!symbol)
    return nullptr;
  StringRef name = sizes.names()[symbol.getPosition()];
  auto found = llvm::find(kernel.getSizes(), b.getStringAttr(name));
  assert(found != kernel.getSizes().end() && "checkSizes() refuses other sizes");
  Value position = constant(found - kernel.getSizes().begin());
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), offsetPointer(sizesPointer, position, b.getI64Type()));
}

AffineExpr FunctionEmitter::productExpression(ArrayRef<AffineExpr> dims) {
  AffineExpr result = getAffineConstantExpr(1, b.getContext());
  for (AffineExpr dim : dims)
    result = result * dim;
  return result;
}

Value FunctionEmitter::product(ArrayRef<AffineExpr> dims) { return size(productExpression(dims)); }

FailureOr<Value> FunctionEmitter::indexValue(OpFoldResult value) {
  if (auto attribute = dyn_cast<Attribute>(value))
    return constant(cast<IntegerAttr>(attribute).getInt());
  if (AffineExpr expression = sizes.ofIndex(cast<Value>(value)); isKnown(expression))
    return size(expression);
  Operation *op = cast<Value>(value).getDefiningOp();
  return unsupported(op ? op : kernel.getOperation(), "an index that is not a function of sizes");
}

/// Returns the first symbol of an expression that is not one of the kernel's sizes.
static std::optional<StringRef> otherSize(AffineExpr expression, const SymbolicSizes &sizes, rt::KernelOp kernel) {
  std::optional<StringRef> other;
  expression.walk([&](AffineExpr part) {
    auto symbol = dyn_cast<AffineSymbolExpr>(part);
    if (!symbol || other)
      return;
    StringRef name = sizes.names()[symbol.getPosition()];
    auto isName = [&](Attribute size) { return cast<StringAttr>(size).getValue() == name; };
    if (llvm::none_of(kernel.getSizes(), isName))
      other = name;
  });
  return other;
}

bool FunctionEmitter::isKnown(AffineExpr expression) const {
  return expression && !otherSize(expression, sizes, kernel);
}

LogicalResult FunctionEmitter::checkSizes() {
  SmallVector<Value> worklist(kernel.getBody().front().getTerminator()->getOperands());
  llvm::append_range(worklist, kernel.getBody().getArguments());
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (isa<RankedTensorType>(value.getType()))
      for (AffineExpr expression : sizes.of(value))
        if (std::optional<StringRef> other = otherSize(expression, sizes, kernel))
          return unsupported(kernel, "the size '" + *other + "' is not one of the kernel's sizes");
    if (Operation *op = value.getDefiningOp())
      llvm::append_range(worklist, op->getOperands());
  }
  return success();
}

} // namespace intarsia::cpu
