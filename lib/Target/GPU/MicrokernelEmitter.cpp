//===- MicrokernelEmitter.cpp - Kernels that call microkernels ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/MicrokernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

static constexpr int64_t threadsOfPrologue = 256;

/// Skips ops that see the elements of another tensor in the same or another order.
static Value skipViews(Value tensor, bool alsoSlices) {
  while (Operation *op = tensor.getDefiningOp()) {
    bool isReshape = isa<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op);
    if (!isReshape && !(alsoSlices && isa<tensor::ExtractSliceOp>(op)))
      break;
    tensor = op->getOperand(0);
  }
  return tensor;
}

bool MicrokernelEmitter::isWhole(Value tensor) { return isa<BlockArgument>(skipViews(tensor, /*alsoSlices=*/false)); }

bool MicrokernelEmitter::isView(Value tensor) {
  // Dimensions of a slice need not be one when they are collapsed.
  for (Operation *op = tensor.getDefiningOp(); op; op = op->getOperand(0).getDefiningOp()) {
    if (!isa<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(op))
      return false;
    if (isa<tensor::CollapseShapeOp>(op) && !isWhole(op->getOperand(0)))
      return false;
  }
  return true;
}

bool MicrokernelEmitter::isReadable(Value tensor) {
  SmallVector<Value> worklist = {tensor};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (isa<RowwiseOpInterface, nn::QuantizeOp, nn::DequantizeOp, KernelRootOpInterface>(op) && !isa<nn::RopeOp>(op))
      return false;
    llvm::append_range(worklist, op->getOperands());
  }
  return true;
}

bool MicrokernelEmitter::yieldsOnly(rt::KernelOp kernel, Operation *root) {
  Operation *yield = kernel.getBody().front().getTerminator();
  return yield->getNumOperands() == 1 && kernel::KernelBody::stripReshapes(yield->getOperand(0)) == root->getResult(0);
}

int64_t MicrokernelEmitter::kindOf(Type element) {
  if (element.isF16())
    return ElementKind::F16;
  if (element.isBF16())
    return ElementKind::BF16;
  if (isa<Float8E4M3FNType>(element))
    return ElementKind::E4M3;
  if (element.isInteger(1))
    return ElementKind::I1;
  if (element.isInteger(32))
    return ElementKind::I32;
  if (element.isInteger(64) || element.isIndex())
    return ElementKind::I64;
  assert(element.isF32() && "verifiers refuse other types");
  return ElementKind::F32;
}

LogicalResult MicrokernelEmitter::prepare(Value tensor) {
  if (isView(tensor) || prepared.contains(tensor))
    return success();
  Type f32 = b.getF32Type();
  ArrayRef<AffineExpr> extents = function.sizes.of(tensor);
  AffineExpr offset = prepared[tensor] = function.reserve(function.productExpression(extents) * 4);
  ArrayRef<AffineExpr> leading = extents.drop_back();
  AffineExpr rows = function.productExpression(leading);
  function.beginLaunch(threadsOfPrologue, rows.ceilDiv(threadsOfPrologue / architecture.warpSize));
  Value row = add(mul(function.block, constant(function.warpsOfBlock)), function.warp);
  LogicalResult emitted = ifThen(less(row, function.size(rows)), [&]() -> LogicalResult {
    Value to = memory.at(function.kernelScratch(offset), mul(row, function.size(extents.back())), f32);
    SmallVector<Value> prefix = function.delinearize(row, leading);
    return vectorLoop(function.size(extents.back()), [&](Value i, int64_t width) -> LogicalResult {
      Element element = tensors.evaluate(tensor, kernel::indicesOf(prefix, i), width);
      if (failed(element))
        return failure();
      Value x = *element;
      if (getElementTypeOrSelf(x.getType()).isInteger(1))
        x = select(x, floatConstant(0.0, f32, width),
                   floatConstant(-std::numeric_limits<double>::infinity(), f32, width));
      memory.store(x, to, i, f32, width);
      return success();
    });
  });
  function.endLaunch();
  return emitted;
}

void MicrokernelEmitter::pushNull() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(code->prologueEnd);
  arguments.push_back(make<LLVM::ZeroOp>(LLVM::LLVMPointerType::get(b.getContext(), globalSpace)));
}

void MicrokernelEmitter::pushScratch(AffineExpr offset) { push(function.kernelScratch(offset)); }

LogicalResult MicrokernelEmitter::pushPointer(Value tensor) {
  std::optional<Storage> storage = tensors.view(tensor);
  if (!storage)
    return function.refuse(kernel, "an operand of its root is computed in it");
  push(storage->pointer);
  push(kindOf(storage->elementType));
  return success();
}

LogicalResult MicrokernelEmitter::pushStrided(Value tensor, bool broadcasts) {
  ArrayRef<AffineExpr> extents = function.sizes.of(tensor);
  AffineExpr one = number(1);
  SmallVector<Value> strides;
  if (auto found = prepared.find(tensor); found != prepared.end()) {
    pushScratch(found->second);
    push(ElementKind::F32);
    for (unsigned d = 0; d != extents.size(); ++d)
      strides.push_back(function.product(extents.drop_front(d + 1)));
  } else {
    std::optional<Storage> storage = tensors.view(tensor);
    if (!storage)
      return function.refuse(kernel, "an operand of its root is no view of an argument");
    push(storage->pointer);
    push(kindOf(storage->elementType));
    strides = storage->strides;
  }
  for (auto [stride, extent] : llvm::zip_equal(strides, extents))
    push(broadcasts && extent == one ? constant(0) : stride);
  return success();
}

void MicrokernelEmitter::pushOutput() {
  push(function.outputs.front().pointer);
  push(kindOf(function.outputs.front().elementType));
}

void MicrokernelEmitter::call(StringRef microkernel, int32_t leastBlocks) {
  auto module = function.operation->getParentOfType<mlir::gpu::GPUModuleOp>();
  auto declared = module.lookupSymbol<LLVM::LLVMFuncOp>(microkernel);
  if (!declared) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    SmallVector<Type> types(ValueRange(arguments).getTypes());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types);
    declared = make<LLVM::LLVMFuncOp>(microkernel, type);
  }
  make<LLVM::CallOp>(declared, arguments);
  function.planRegistersFor(leastBlocks);
  arguments.clear();
}

void MicrokernelEmitter::stateTile(KernelShape &shape, StringRef microkernel, const AttentionTile &tile) {
  shape.state("microkernel", microkernel);
  shape.state("queries", tile.rows);
  shape.state("block_keys", tile.keys);
  shape.state("threads", tile.threads);
  shape.state("shared_bytes", tile.sharedBytes);
}

void MicrokernelEmitter::callTile(StringRef microkernel, const AttentionTile &tile, Value shared) {
  for (int64_t argument : tile.arguments)
    push(argument);
  push(shared);
  // Two groups of four warps fill the registers of a multiprocessor.
  call(microkernel, /*leastBlocks=*/tile.byWarpgroups ? 1 : 2);
}

} // namespace intarsia::gpu
