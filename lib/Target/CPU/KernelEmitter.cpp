//===- KernelEmitter.cpp - Skeleton, memory and small pieces ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

KernelEmitter::KernelEmitter(rt::KernelOp kernel, const TileConfig &config)
    : kernel(kernel), config(config), sizes(kernel), b(kernel.getContext()), loc(kernel.getLoc()) {}

LogicalResult KernelEmitter::emit(ModuleOp module, StringRef planName, StringRef runName) {
  // The run function first: it says how much scratch the plan has to ask for.
  beginRun(module, runName);
  if (failed(run()) || refused)
    return failure();
  beginPlan(module, planName);
  setPlan(ITX_PLAN_WORKSPACE_BYTES, size(workspaceBytes));
  setPlan(ITX_PLAN_SHARED_BYTES, constant(0));
  setPlan(ITX_PLAN_ZEROED_BYTES, constant(0));
  setPlan(ITX_PLAN_FINISH_TILES, constant(0));
  if (failed(plan()))
    return failure();
  refuseOverflow();
  b.clearInsertionPoint();
  return failure(refused);
}

/// Makes the plan say so if a size does not fit in 64 bits. The host program knows only the sizes of buffers to fit:
/// what the kernel never stores may have more elements.
void KernelEmitter::refuseOverflow() {
  kernel.getBody().walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isa<RankedTensorType>(result.getType()))
        for (AffineExpr expression : sizes.of(result))
          if (isa<AffineBinaryOpExpr>(expression) && sizes.isKnown(expression))
            size(expression);
  });
  Value overflow;
  Type pair = LLVM::LLVMStructType::getLiteral(b.getContext(), {b.getI64Type(), b.getI1Type()});
  for (Operation &number : llvm::make_early_inc_range(function.getBody().front())) {
    Operation *op = &number;
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
    ifThen(overflow, [&] { setPlan(ITX_PLAN_WORKSPACE_BYTES, constant(-1)); });
}

LogicalResult refuse(rt::KernelOp kernel, Operation *op, const Twine &reason) {
  return op->emitError() << "the cpu target cannot compile '" << op->getName() << "' in kernel '" << kernel.getSymName()
                         << "': " << reason.str();
}

LogicalResult KernelEmitter::unsupported(Operation *op, const Twine &reason) {
  if (!refused)
    (void)refuse(kernel, op, reason);
  refused = true;
  return failure();
}

LogicalResult KernelEmitter::storesOnly(Operation *root) {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (yielded(i).getDefiningOp() != root)
      return unsupported(root, "an op stands between it and the kernel's result");
  return success();
}

//===-- Function skeletons ------------------------------------------------------------------------------------===//

static func::FuncOp makeFunction(OpBuilder &b, Location loc, ModuleOp module, StringRef name, ArrayRef<Type> inputs) {
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

void KernelEmitter::beginPlan(ModuleOp module, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  function = makeFunction(b, loc, module, name, {pointer, b.getI64Type(), pointer});
  sizesPointer = function.getArgument(0);
  threads = function.getArgument(1);
  planPointer = function.getArgument(2);
  sizeValues.emplace(b.getI64Type(), [this](AffineExpr expression) { return knownSize(expression); });
  constants.clear();
  memo.assign(1, {});
  Operation *end = func::ReturnOp::create(b, loc);
  b.setInsertionPoint(end);
  // Marks where the prologue ends: sizes and constants go before it, what is computed after it.
  prologueEnd = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  b.setInsertionPoint(end);
}

void KernelEmitter::beginRun(ModuleOp module, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  function = makeFunction(b, loc, module, name, {pointer, b.getI64Type(), b.getI64Type(), pointer});
  sizeValues.emplace(b.getI64Type(), [this](AffineExpr expression) { return knownSize(expression); });
  constants.clear();
  bound.clear();
  storage.clear();
  outputs.clear();
  memo.assign(1, {});
  currentRow = nullptr;
  workspaceBytes = getAffineConstantExpr(0, b.getContext());

  Value arguments = function.getArgument(0);
  auto field = [&](int32_t index) -> Value {
    Value address = LLVM::GEPOp::create(b, loc, pointer, pointer, arguments, ArrayRef<LLVM::GEPArg>{index});
    return LLVM::LoadOp::create(b, loc, pointer, address);
  };
  Value buffers = field(0);
  sizesPointer = field(1);
  planPointer = field(2);
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

void KernelEmitter::setPlan(int64_t slot, Value value) {
  LLVM::StoreOp::create(b, loc, value, offsetPointer(planPointer, constant(slot), b.getI64Type()));
}

Value KernelEmitter::planValue(int64_t slot) {
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), offsetPointer(planPointer, constant(slot), b.getI64Type()));
}

Value KernelEmitter::yielded(unsigned output) {
  return stripReshapes(kernel.getBody().front().getTerminator()->getOperand(output));
}

Value KernelEmitter::stripReshapes(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

//===-- Memory ------------------------------------------------------------------------------------------------===//

Type KernelEmitter::computeType(Type element) {
  if (element.isIndex())
    return IntegerType::get(element.getContext(), 64);
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
    return Float32Type::get(element.getContext());
  return element;
}

Type KernelEmitter::storedType(Type element) {
  if (element.isInteger(1) || isa<Float8E4M3FNType>(element))
    return IntegerType::get(element.getContext(), 8);
  if (element.isIndex())
    return IntegerType::get(element.getContext(), 64);
  return element;
}

Type KernelEmitter::vectorOf(Type element, int64_t width) {
  return width == 1 ? element : VectorType::get({width}, element);
}

Value KernelEmitter::offsetPointer(Value pointer, Value elements, Type elementType) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), storedType(elementType), pointer,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(elements)});
}

Value KernelEmitter::loadAt(Value pointer, Value offset, Type elementType, int64_t width) {
  Type stored = storedType(elementType);
  unsigned alignment = stored.getIntOrFloatBitWidth() / 8;
  Value value =
      LLVM::LoadOp::create(b, loc, vectorOf(stored, width), offsetPointer(pointer, offset, elementType), alignment);
  if (elementType.isInteger(1)) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType()));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (isa<Float8E4M3FNType>(elementType))
    return widenE4M3(value, width);
  Type compute = computeType(elementType);
  if (compute != stored)
    value = widen(value, compute, width);
  return value;
}

void KernelEmitter::storeAt(Value value, Value pointer, Value offset, Type elementType, int64_t width) {
  Type stored = storedType(elementType);
  if (elementType.isInteger(1))
    value = arith::ExtUIOp::create(b, loc, vectorOf(stored, width), value);
  else if (isa<Float8E4M3FNType>(elementType))
    value = narrowE4M3(value, width);
  else if (stored != computeType(elementType))
    value = narrow(value, stored, width);
  unsigned alignment = stored.getIntOrFloatBitWidth() / 8;
  LLVM::StoreOp::create(b, loc, value, offsetPointer(pointer, offset, elementType), alignment);
}

/// Offset in elements of lane 0. A row that is walked in order is addressed by its number: no division comes back in.
Value KernelEmitter::address(const Storage &storage, ArrayRef<Index> at) {
  if (at.empty())
    return constant(0);
  if (currentRow && storage.dense && at.size() == currentRow->prefix.size() + 1) {
    bool same = true;
    for (auto [index, prefix, expected, actual] :
         llvm::zip(at.drop_back(), currentRow->prefix, currentRow->sizes, ArrayRef(storage.sizes).drop_back()))
      same &= index.base == prefix && !index.lane && expected == actual;
    if (same && at.size() > 1)
      return add(mul(currentRow->flat, storage.strides[at.size() - 2]), at.back().base);
  }
  Value offset = constant(0);
  for (auto [index, stride] : llvm::zip(at, storage.strides))
    offset = add(offset, mul(index.base, stride));
  return offset;
}

Value KernelEmitter::load(const Storage &storage, ArrayRef<Index> at, int64_t width) {
  return loadAt(storage.pointer, address(storage, at), storage.elementType, width);
}

void KernelEmitter::store(Value value, const Storage &storage, ArrayRef<Index> at, int64_t width) {
  storeAt(value, storage.pointer, address(storage, at), storage.elementType, width);
}

std::optional<Storage> KernelEmitter::view(Value tensor) {
  if (auto it = storage.find(tensor); it != storage.end())
    return it->second;
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return std::nullopt;
  Sizes resultSizes(sizes.of(tensor).begin(), sizes.of(tensor).end());
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return view(cast.getSource());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    std::optional<Storage> source = view(slice.getSource());
    if (!source)
      return std::nullopt;
    Storage result = *source;
    result.strides.clear();
    result.sizes = resultSizes;
    result.dense = false;
    Value offset = constant(0);
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (int64_t d = 0; d < slice.getSourceType().getRank(); ++d) {
      offset = add(offset, mul(indexValue(slice.getMixedOffsets()[d]), source->strides[d]));
      if (!dropped[d])
        result.strides.push_back(mul(source->strides[d], indexValue(slice.getMixedStrides()[d])));
    }
    result.pointer = offsetPointer(source->pointer, offset, source->elementType);
    return result;
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    std::optional<Storage> source = view(expand.getSrc());
    if (!source)
      return std::nullopt;
    Storage result = *source;
    result.strides.assign(resultSizes.size(), Value());
    result.sizes = resultSizes;
    for (auto [d, group] : llvm::enumerate(expand.getReassociationIndices())) {
      Value stride = source->strides[d];
      for (int64_t inner : llvm::reverse(group)) {
        result.strides[inner] = stride;
        if (inner != group.front())
          stride = mul(stride, size(resultSizes[inner]));
      }
    }
    return result;
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    std::optional<Storage> source = view(collapse.getSrc());
    if (!source)
      return std::nullopt;
    Storage result = *source;
    result.strides.clear();
    result.sizes = resultSizes;
    for (auto &group : collapse.getReassociationIndices()) {
      SmallVector<int64_t> wide;
      for (int64_t d : group)
        if (source->sizes[d] != getAffineConstantExpr(1, b.getContext()))
          wide.push_back(d);
      if (!source->dense && wide.size() > 1)
        return std::nullopt;
      result.strides.push_back(source->strides[wide.empty() ? group.back() : wide.back()]);
    }
    return result;
  }
  return std::nullopt;
}

Value KernelEmitter::scratch(AffineExpr bytes) {
  OpBuilder::InsertionGuard guard(b);
  Value offset = size(workspaceBytes);
  b.setInsertionPoint(prologueEnd);
  Value result = offsetPointer(workspace, offset, b.getI8Type());
  workspaceBytes = workspaceBytes + bytes.ceilDiv(ITX_BUFFER_ALIGNMENT) * ITX_BUFFER_ALIGNMENT;
  return result;
}

Value KernelEmitter::scratch(int64_t bytes) { return scratch(getAffineConstantExpr(bytes, b.getContext())); }

//===-- Small pieces ------------------------------------------------------------------------------------------===//

Value KernelEmitter::constant(int64_t value) {
  Value &cached = constants[value];
  if (!cached) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(prologueEnd->getBlock());
    cached = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  return cached;
}

static std::optional<int64_t> constantOf(Value value) {
  APInt result;
  if (matchPattern(value, m_ConstantInt(&result)))
    return result.getSExtValue();
  return std::nullopt;
}

Value KernelEmitter::add(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(*x + *y);
  if (x && *x == 0)
    return c;
  if (y && *y == 0)
    return a;
  return arith::AddIOp::create(b, loc, a, c);
}
Value KernelEmitter::sub(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(*x - *y);
  if (y && *y == 0)
    return a;
  return arith::SubIOp::create(b, loc, a, c);
}
Value KernelEmitter::mul(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(*x * *y);
  if ((x && *x == 0) || (y && *y == 0))
    return constant(0);
  if (x && *x == 1)
    return c;
  if (y && *y == 1)
    return a;
  return arith::MulIOp::create(b, loc, a, c);
}
// Sizes and indices are never negative, so unsigned division is right, and it is the cheaper one.
Value KernelEmitter::div(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y && *y != 0)
    return constant(*x / *y);
  if (y && *y == 1)
    return a;
  return arith::DivUIOp::create(b, loc, a, c);
}
Value KernelEmitter::rem(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y && *y != 0)
    return constant(*x % *y);
  if (y && *y == 1)
    return constant(0);
  return arith::RemUIOp::create(b, loc, a, c);
}
Value KernelEmitter::ceilDiv(Value a, Value c) { return div(add(a, sub(c, constant(1))), c); }
Value KernelEmitter::min(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(std::min(*x, *y));
  return arith::MinSIOp::create(b, loc, a, c);
}
Value KernelEmitter::max(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(std::max(*x, *y));
  return arith::MaxSIOp::create(b, loc, a, c);
}
Value KernelEmitter::less(Value a, Value c) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, a, c); }

Value KernelEmitter::floatConstant(double value, Type type, int64_t width) {
  Attribute scalar = b.getFloatAttr(type, value);
  if (width == 1)
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(scalar));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(VectorType::get({width}, type), scalar));
}

Value KernelEmitter::splat(Value scalar, int64_t width) {
  if (width == 1)
    return scalar;
  return vector::BroadcastOp::create(b, loc, VectorType::get({width}, scalar.getType()), scalar);
}

void KernelEmitter::forLoop(Value begin, Value end, Value step, const Body &emitBody) {
  forLoop(begin, end, step, ValueRange{}, [&](Value iv, ValueRange) {
    emitBody(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> KernelEmitter::forLoop(Value begin, Value end, Value step, ValueRange inits,
                                          function_ref<SmallVector<Value>(Value, ValueRange)> emitBody) {
  auto loop = scf::ForOp::create(b, loc, begin, end, step, inits);
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  if (!block->empty() && block->mightHaveTerminator())
    b.setInsertionPoint(block->getTerminator());
  else
    b.setInsertionPointToEnd(block);
  memo.emplace_back();
  SmallVector<Value> results = emitBody(loop.getInductionVar(), loop.getRegionIterArgs());
  memo.pop_back();
  if (!inits.empty())
    scf::YieldOp::create(b, loc, results);
  return SmallVector<Value>(loop.getResults());
}

void KernelEmitter::ifThen(Value condition, function_ref<void()> then, function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, loc, TypeRange{}, condition, /*withElseRegion=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  memo.emplace_back();
  then();
  memo.pop_back();
  if (otherwise) {
    b.setInsertionPoint(op.elseBlock()->getTerminator());
    memo.emplace_back();
    otherwise();
    memo.pop_back();
  }
}

void KernelEmitter::vectorLoop(Value count, function_ref<void(Value, int64_t)> emitBody) {
  Value width = constant(config.lanes);
  Value whole = mul(div(count, width), width);
  if (auto n = constantOf(whole); !n || *n > 0)
    forLoop(constant(0), whole, width, [&](Value i) { emitBody(i, config.lanes); });
  auto n = constantOf(count);
  if (!n || *n % config.lanes != 0)
    forLoop(whole, count, constant(1), [&](Value i) { emitBody(i, 1); });
}

SmallVector<Value> KernelEmitter::delinearize(Value flat, ArrayRef<AffineExpr> dims) {
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

Value KernelEmitter::size(AffineExpr expression) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(prologueEnd);
  return sizeValues->get(b, loc, expression);
}

Value KernelEmitter::knownSize(AffineExpr expression) {
  if (auto value = dyn_cast<AffineConstantExpr>(expression))
    return constant(value.getValue());
  auto symbol = dyn_cast<AffineSymbolExpr>(expression);
  if (!symbol)
    return nullptr;
  StringRef name = sizes.names()[symbol.getPosition()];
  auto found = llvm::find(kernel.getSizes(), b.getStringAttr(name));
  if (found == kernel.getSizes().end()) {
    (void)unsupported(kernel, "the size '" + name + "' is not one of the kernel's sizes");
    return constant(0);
  }
  Value position = constant(found - kernel.getSizes().begin());
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), offsetPointer(sizesPointer, position, b.getI64Type()));
}

AffineExpr KernelEmitter::productExpression(ArrayRef<AffineExpr> dims) {
  AffineExpr result = getAffineConstantExpr(1, b.getContext());
  for (AffineExpr dim : dims)
    result = result * dim;
  return result;
}

Value KernelEmitter::product(ArrayRef<AffineExpr> dims) { return size(productExpression(dims)); }

Value KernelEmitter::indexValue(OpFoldResult value) {
  if (auto attribute = dyn_cast<Attribute>(value))
    return constant(cast<IntegerAttr>(attribute).getInt());
  if (AffineExpr expression = sizes.ofIndex(cast<Value>(value)))
    return size(expression);
  if (Operation *op = cast<Value>(value).getDefiningOp())
    (void)unsupported(op, "an index that is not a function of sizes");
  else
    (void)unsupported(kernel, "an index that is not a function of sizes");
  return constant(0);
}

KernelEmitter::RowScope KernelEmitter::makeRow(Value flat, ArrayRef<AffineExpr> leading) {
  RowScope row;
  row.flat = flat;
  row.sizes.assign(leading.begin(), leading.end());
  row.prefix = delinearize(flat, leading);
  return row;
}

} // namespace intarsia::cpu
