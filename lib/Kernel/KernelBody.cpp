//===- KernelBody.cpp - The skeletons of both functions of a kernel ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/KernelBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::kernel {

KernelBody::KernelBody(const LoopEmitter &loops, rt::KernelOp kernel)
    : LoopEmitter(loops), kernel(kernel), sizes(kernel), memory(loops) {
  code->rowLoops = this;
}

/// Makes the launch say so if a size does not fit in 64 bits. The host program knows only the sizes of buffers to fit:
/// what the kernel never stores may have more elements.
LogicalResult refuse(StringRef targetKind, rt::KernelOp kernel, Operation *op, const Twine &reason) {
  return op->emitError() << "the " << targetKind << " target cannot compile '" << op->getName() << "' in kernel '"
                         << kernel.getSymName() << "': " << reason.str();
}

LogicalResult KernelBody::refuse(Operation *op, const Twine &reason) {
  return kernel::refuse(targetKind(), kernel, op, reason);
}

LogicalResult KernelBody::storesOnly(Operation *root) {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (yielded(i).getDefiningOp() != root)
      return refuse(root, "an op stands between it and the kernel's result");
  return success();
}

void KernelBody::beginFunction(Operation *end) {
  sizeValues.emplace(b.getI64Type(), [this](AffineExpr expression) { return knownSize(expression); });
  code->constants.clear();
  code->memo.assign(1, {});
  b.setInsertionPoint(end);
  // Marks where the prologue ends: sizes and constants go before it, what is computed after it.
  code->prologueEnd = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  b.setInsertionPoint(end);
}

void KernelBody::addBuffer(unsigned index, Value pointer) {
  unsigned arguments = kernel.getBody().getNumArguments();
  bool isOutput = index >= arguments;
  Value value = isOutput ? yielded(index - arguments) : Value(kernel.getBody().getArgument(index));
  auto type = cast<RankedTensorType>(value.getType());
  Storage result;
  result.pointer = pointer;
  result.elementType = type.getElementType();
  result.sizes.assign(sizes.of(value).begin(), sizes.of(value).end());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(code->prologueEnd);
  Value stride = constant(1);
  result.strides.assign(type.getRank(), Value());
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    result.strides[d] = stride;
    if (d)
      stride = mul(stride, size(result.sizes[d]));
  }
  if (!isOutput) {
    storage[value] = result;
    return;
  }
  outputs.resize(std::max<size_t>(outputs.size(), index - arguments + 1));
  outputs[index - arguments] = result;
}

Value KernelBody::yielded(unsigned output) {
  return stripReshapes(kernel.getBody().front().getTerminator()->getOperand(output));
}

Value KernelBody::stripReshapes(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

Value KernelBody::scratch(int64_t bytes) { return scratch(getAffineConstantExpr(bytes, b.getContext())); }

SmallVector<Value> KernelBody::delinearize(Value flat, ArrayRef<AffineExpr> dims) {
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

Value KernelBody::size(AffineExpr expression) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(code->prologueEnd);
  return sizeValues->get(b, loc, expression);
}

Value KernelBody::knownSize(AffineExpr expression) {
  if (auto value = dyn_cast<AffineConstantExpr>(expression))
    return constant(value.getValue());
  auto symbol = dyn_cast<AffineSymbolExpr>(expression);
  if (!symbol)
    return nullptr;
  StringRef name = sizes.names()[symbol.getPosition()];
  auto found = llvm::find(kernel.getSizes(), b.getStringAttr(name));
  assert(found != kernel.getSizes().end() && "checkSizes() refuses other sizes");
  return emitSize(found - kernel.getSizes().begin());
}

AffineExpr KernelBody::productExpression(ArrayRef<AffineExpr> dims) {
  AffineExpr result = getAffineConstantExpr(1, b.getContext());
  for (AffineExpr dim : dims)
    result = result * dim;
  return result;
}

Value KernelBody::product(ArrayRef<AffineExpr> dims) { return size(productExpression(dims)); }

FailureOr<Value> KernelBody::indexValue(OpFoldResult value) {
  if (auto attribute = dyn_cast<Attribute>(value))
    return constant(cast<IntegerAttr>(attribute).getInt());
  if (AffineExpr expression = sizes.ofIndex(cast<Value>(value)); isKnown(expression))
    return size(expression);
  Operation *op = cast<Value>(value).getDefiningOp();
  return refuse(op ? op : kernel.getOperation(), "an index that is not a function of sizes");
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

bool KernelBody::isKnown(AffineExpr expression) const { return expression && !otherSize(expression, sizes, kernel); }

LogicalResult KernelBody::checkSizes() {
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
          return refuse(kernel, "the size '" + *other + "' is not one of the kernel's sizes");
    if (Operation *op = value.getDefiningOp())
      llvm::append_range(worklist, op->getOperands());
  }
  return success();
}

} // namespace intarsia::kernel
