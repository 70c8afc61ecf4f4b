//===- FunctionEmitter.cpp - The skeleton of a GPU function of a kernel -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

/// As the strictest instructions want shared memory: matrices with a swizzle of 128 bytes (PTX ISA, "Matrix descriptor
/// format").
static constexpr uint64_t sharedAlignment = 1024;

/// Shared memory that a block has on every architecture without asking for more: 48 KiB on NVIDIA's (CUDA C++
/// Programming Guide, "Technical Specifications per Compute Capability"), 64 KiB on AMD's.
static constexpr int64_t largestShared = 48 << 10;

/// The most vectors that a lane loads before it stores: a multiprocessor with 32 warps then has 64 KiB on their way,
/// which the memory of an H200 needs 10 to 40 of.
static constexpr int64_t mostVectorsTogether = 4;

KernelEmitter::KernelEmitter(rt::KernelOp kernel, const Architecture &architecture)
    : LoopEmitter({.lanes = 1,
                   .convertsF16 = true,
                   .convertsBf16 = true,
                   .rounds = true,
                   .bufferAlignment = ITX_BUFFER_ALIGNMENT},
                  kernel.getLoc()),
      architecture(architecture), kernel(kernel), function(*this, kernel, architecture), memory(function),
      tensors(function) {}

LogicalResult KernelEmitter::decideShape(kernel::KernelShape &shape) {
  if (failed(function.checkSizes()))
    return failure();
  chooseShape(shape);
  return success();
}

LogicalResult KernelEmitter::emit(mlir::gpu::GPUModuleOp into, StringRef prefix) {
  function.enter(into, prefix);
  return run();
}

static Attribute describe(OpBuilder &b, const SymbolicSizes &sizes, ArrayRef<TensorMapShape> tensorMaps) {
  SmallVector<Attribute> all;
  for (const TensorMapShape &map : tensorMaps) {
    NamedAttrList facts;
    facts.append("buffer", b.getI64IntegerAttr(map.buffer));
    facts.append("element_bytes", b.getI64IntegerAttr(map.elementBytes));
    facts.append("rows", b.getStringAttr(sizes.toString(map.rows)));
    facts.append("columns", b.getStringAttr(sizes.toString(map.columns)));
    facts.append("box", b.getDenseI64ArrayAttr({map.boxRows, map.boxColumns}));
    facts.append("swizzle_bytes", b.getI64IntegerAttr(map.swizzleBytes));
    all.push_back(facts.getDictionary(b.getContext()));
  }
  return b.getArrayAttr(all);
}

void FunctionEmitter::beginLaunch(int64_t threadsOfBlock, AffineExpr blocksOfGrid,
                                  ArrayRef<TensorMapShape> tensorMaps) {
  blocks = blocksOfGrid;
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
  unsigned buffers = kernel.getNumArguments() + kernel.getResultTypes().size();
  SmallVector<Type> inputs(buffers, pointer);
  inputs.append(kernel.getSizes().size(), b.getI64Type());
  inputs.push_back(pointer);
  inputs.append(tensorMaps.size(), LLVM::LLVMPointerType::get(b.getContext()));
  b.setInsertionPointToEnd(module.getBody());
  std::string symbol;
  do
    symbol = name + "_" + std::to_string(launches++);
  while (module.lookupSymbol(symbol));
  operation = make<mlir::gpu::GPUFuncOp>(symbol, b.getFunctionType(inputs, {}));
  operation->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  operation.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(threadsOfBlock), 1, 1}));
  if (!tensorMaps.empty())
    operation->setAttr(tensorMapsAttribute, describe(b, sizes, tensorMaps));
  b.setInsertionPointToEnd(&operation.getBody().front());
  auto end = make<mlir::gpu::ReturnOp>();
  beginFunction(end);
  sharedBytes = getAffineConstantExpr(0, b.getContext());
  scratchBytes = reserved;
  lanesShareRow = true;
  warpsOfBlock = threadsOfBlock / architecture.warpSize;
  for (unsigned index = 0; index != buffers; ++index)
    addBuffer(index, operation.getArgument(index));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(code->prologueEnd);
  auto asI64 = [&](Value index) -> Value { return make<arith::IndexCastUIOp>(b.getI64Type(), index); };
  thread = asI64(make<mlir::gpu::ThreadIdOp>(mlir::gpu::Dimension::x));
  block = asI64(make<mlir::gpu::BlockIdOp>(mlir::gpu::Dimension::x));
  lane = rem(thread, constant(architecture.warpSize));
  warp = div(thread, constant(architecture.warpSize));
}

void FunctionEmitter::planRegistersFor(int32_t blocks) {
  if (architecture.vendor == Vendor::Nvidia)
    operation->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(blocks));
}

void FunctionEmitter::endLaunch() {
  auto text = [&](AffineExpr expression) { return b.getStringAttr(sizes.toString(expression)); };
  operation->setAttr(gridAttribute, text(blocks));
  operation->setAttr(sharedAttribute, text(sharedBytes));
  operation->setAttr(scratchAttribute, text(scratchBytes));
}

Value FunctionEmitter::emitSize(int64_t position) {
  return operation.getArgument(kernel.getNumArguments() + kernel.getResultTypes().size() + position);
}

Value FunctionEmitter::sharedMemory(AffineExpr bytes) {
  OpBuilder::InsertionGuard guard(b);
  Type byte = b.getI8Type();
  if (!module.lookupSymbol(sharedMemoryName)) {
    b.setInsertionPointToStart(module.getBody());
    // Its size is that of the launch; target-gpu-finish-functions gives it the linkage that this needs.
    make<LLVM::GlobalOp>(LLVM::LLVMArrayType::get(byte, 0), /*isConstant=*/false, LLVM::Linkage::Internal,
                         sharedMemoryName, Attribute(), sharedAlignment, sharedSpace);
  }
  Value offset = size(sharedBytes);
  b.setInsertionPoint(code->prologueEnd);
  Value base = make<LLVM::AddressOfOp>(LLVM::LLVMPointerType::get(b.getContext(), sharedSpace), sharedMemoryName);
  sharedBytes = sharedBytes + bytes.ceilDiv(ITX_BUFFER_ALIGNMENT) * ITX_BUFFER_ALIGNMENT;
  return memory.at(base, offset, byte);
}

Value FunctionEmitter::scratch(AffineExpr bytes) {
  AffineExpr ofWarp = bytes.ceilDiv(ITX_BUFFER_ALIGNMENT) * ITX_BUFFER_ALIGNMENT;
  auto inShared = dyn_cast<AffineConstantExpr>(sharedBytes + ofWarp * warpsOfBlock);
  if (inShared && inShared.getValue() <= largestShared) {
    Value all = sharedMemory(ofWarp * warpsOfBlock), stride = size(ofWarp);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(code->prologueEnd);
    return memory.at(all, mul(warp, stride), b.getI8Type());
  }
  Value begin = size(scratchBytes), stride = size(ofWarp);
  scratchBytes = scratchBytes + blocks * ofWarp * warpsOfBlock;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(code->prologueEnd);
  Value warpOfGrid = add(mul(block, constant(warpsOfBlock)), warp);
  return memory.at(operation.getArgument(scratchArgument()), add(begin, mul(warpOfGrid, stride)), b.getI8Type());
}

AffineExpr FunctionEmitter::reserve(AffineExpr bytes) {
  AffineExpr offset = reserved;
  reserved = reserved + bytes.ceilDiv(ITX_BUFFER_ALIGNMENT) * ITX_BUFFER_ALIGNMENT;
  return offset;
}

Value FunctionEmitter::kernelScratch(AffineExpr offset) {
  Value bytes = size(offset);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(code->prologueEnd);
  return memory.at(operation.getArgument(scratchArgument()), bytes, b.getI8Type());
}

void FunctionEmitter::emitBlockBarrier() { make<mlir::gpu::BarrierOp>(); }

void FunctionEmitter::emitWarpBarrier() {
  if (architecture.vendor == Vendor::Nvidia) {
    Value all = word(-1);
    make<LLVM::CallIntrinsicOp>(b.getStringAttr("llvm.nvvm.bar.warp.sync"), ValueRange{all});
    return;
  }
  // A wave runs in lockstep: its memory accesses need an order, its threads none.
  make<LLVM::FenceOp>(LLVM::AtomicOrdering::acq_rel, "wavefront");
  make<LLVM::CallIntrinsicOp>(b.getStringAttr("llvm.amdgcn.wave.barrier"), ValueRange{});
}

Value FunctionEmitter::exchanged(Value value, int64_t distance) {
  Type type = value.getType();
  unsigned bits = type.getIntOrFloatBitWidth();
  // Warps exchange 32 bits at a time.
  if (bits == 32)
    return make<mlir::gpu::ShuffleOp>(value, int32_t(distance), int32_t(architecture.warpSize),
                                      mlir::gpu::ShuffleMode::XOR)
        .getShuffleResult();
  if (isa<FloatType>(type)) {
    Value pattern = make<arith::BitcastOp>(b.getIntegerType(bits), value);
    return make<arith::BitcastOp>(type, exchanged(pattern, distance));
  }
  if (bits < 32)
    return make<arith::TruncIOp>(type, exchanged(make<arith::ExtUIOp>(b.getI32Type(), value), distance));
  Value upper = make<arith::ShRUIOp>(value, make<arith::ConstantOp>(b.getIntegerAttr(type, 32)));
  auto half = [&](Value of) -> Value {
    return make<arith::ExtUIOp>(type, exchanged(make<arith::TruncIOp>(b.getI32Type(), of), distance));
  };
  Value low = half(value), high = make<arith::ShLIOp>(half(upper), make<arith::ConstantOp>(b.getIntegerAttr(type, 32)));
  return make<arith::OrIOp>(low, high);
}

Value FunctionEmitter::combineLanes(Value value, kernel::Combination kind, std::optional<int64_t> lanes) {
  for (int64_t distance = lanes.value_or(architecture.warpSize) / 2; distance != 0; distance /= 2)
    value = vector::makeArithReduction(b, loc, kind, value, exchanged(value, distance));
  return value;
}

/// Elements that a lane loads at a time: 16 bytes of f32.
static constexpr int64_t widestVector = 4;

bool isMultipleOf(Value size, int64_t divisor) {
  std::optional<int64_t> known = getConstantIntValue(size);
  return known && *known % divisor == 0;
}

/// Returns how many neighbouring elements lanes take at a time of so many.
static int64_t widthFor(Value count) { return isMultipleOf(count, widestVector) ? widestVector : 1; }

LogicalResult FunctionEmitter::emitVectorLoop(Value count, function_ref<LogicalResult(Value, int64_t)> body) {
  int64_t width = widthFor(count);
  if (!lanesShareRow)
    return forLoop(constant(0), count, constant(width), [&](Value i) { return body(i, width); });
  Value ofLane = mul(lane, constant(width)), step = constant(architecture.warpSize * width);
  LogicalResult emitted = alone([&] {
    // The loop has as many turns for all lanes: LLVM knows how many.
    if (isMultipleOf(count, architecture.warpSize * width))
      return forLoop(constant(0), count, step, [&](Value i) { return body(add(i, ofLane), width); });
    return forLoop(ofLane, count, step, [&](Value i) { return body(i, width); });
  });
  // What a lane wrote may be read by another one.
  emitWarpBarrier();
  return emitted;
}

LogicalResult FunctionEmitter::emitStoreLoop(Value count,
                                             function_ref<FailureOr<SmallVector<Value>>(Value, int64_t)> compute,
                                             function_ref<void(Value, int64_t, ArrayRef<Value>)> store) {
  // A load waits for the stores before it, which may be to the same memory: a lane loads several vectors, then stores.
  int64_t width = widthFor(count), step = architecture.warpSize * width, together = mostVectorsTogether;
  while (together > 1 && !isMultipleOf(count, together * step))
    together /= 2;
  if (!lanesShareRow || together == 1)
    return KernelBody::emitStoreLoop(count, compute, store);
  Value ofLane = mul(lane, constant(width));
  LogicalResult emitted = alone([&] {
    return forLoop(constant(0), count, constant(together * step), [&](Value i) -> LogicalResult {
      SmallVector<std::pair<Value, SmallVector<Value>>> vectors;
      for (int64_t vector = 0; vector != together; ++vector) {
        Value at = add(add(i, ofLane), constant(vector * step));
        FailureOr<SmallVector<Value>> values = compute(at, width);
        if (failed(values))
          return failure();
        vectors.emplace_back(at, *values);
      }
      for (const auto &[at, values] : vectors)
        store(at, width, values);
      return success();
    });
  });
  emitWarpBarrier();
  return emitted;
}

kernel::Values FunctionEmitter::emitReductions(Value count, ArrayRef<kernel::Reduction> reductions,
                                               function_ref<kernel::Values(Value i, int64_t width)> elements) {
  bool together = lanesShareRow;
  int64_t width = widthFor(count);
  SmallVector<Value> first = kernel::neutral(b, loc, reductions, width);
  auto accumulate = [&](Value i, ValueRange running) -> kernel::Values {
    kernel::Values x = elements(i, width);
    if (failed(x))
      return failure();
    return kernel::combine(b, loc, reductions, running, *x);
  };
  kernel::Values results = alone([&] {
    Value offset = together ? mul(lane, constant(width)) : constant(0);
    int64_t step = together ? architecture.warpSize * width : width;
    if (isMultipleOf(count, step))
      return forLoop(constant(0), count, constant(step), first,
                     [&](Value i, ValueRange running) { return accumulate(add(i, offset), running); });
    return forLoop(offset, count, constant(step), first, accumulate);
  });
  if (failed(results))
    return failure();
  for (auto [reduction, result] : llvm::zip_equal(reductions, *results)) {
    if (width > 1)
      result = make<vector::ReductionOp>(reduction.kind, result);
    if (together)
      result = combineLanes(result, reduction.kind);
  }
  if (together)
    emitWarpBarrier();
  return results;
}

/// In each turn a lane combines neighbouring elements, and learns from the other lanes what those before it have.
LogicalResult FunctionEmitter::emitPrefixes(Value count, const kernel::Prefixes &prefixes,
                                            function_ref<FailureOr<Value>(Value i, int64_t width)> element,
                                            function_ref<void(Value i, int64_t width, Value prefix)> store) {
  if (!lanesShareRow)
    return KernelBody::emitPrefixes(count, prefixes, element, store);
  const kernel::Reduction &reduction = prefixes.reduction;
  auto both = [&](Value before, Value x) { return kernel::combine(b, loc, reduction, before, x).front(); };
  int64_t width = widthFor(count), step = architecture.warpSize * width;
  Value none = kernel::neutral(b, loc, reduction, 1).front();
  kernel::Values last = alone([&] {
    return forLoop(constant(0), count, constant(step), none, [&](Value turn, ValueRange running) -> kernel::Values {
      Value mine = add(turn, mul(lane, constant(width)));
      Value i = prefixes.isReverse ? sub(sub(count, constant(width)), mine) : mine;
      // All lanes take part in each turn, so that they can exchange values.
      Value isInside = less(mine, count);
      bool areAllInside = isMultipleOf(count, step);
      FailureOr<Value> x;
      if (areAllInside) {
        x = element(i, width);
      } else {
        kernel::Values chosen = ifElse(
            isInside, vectorOf(reduction.type, width),
            [&]() -> kernel::Values {
              FailureOr<Value> inside = element(i, width);
              return failed(inside) ? kernel::Values() : kernel::Values(SmallVector<Value>{*inside});
            },
            [&]() -> kernel::Values { return kernel::neutral(b, loc, reduction, width); });
        x = failed(chosen) ? FailureOr<Value>() : chosen->front();
      }
      if (failed(x))
        return failure();
      Value ordered = prefixes.isReverse ? kernel::reverseLanes(b, loc, *x) : *x;
      SmallVector<Value> combined;
      for (int64_t k = 0; k != width; ++k) {
        Value each = width == 1 ? ordered : make<vector::ExtractOp>(ordered, k).getResult();
        combined.push_back(k == 0 ? each : both(combined.back(), each));
      }
      // `total` becomes what groups of 2, 4, 8, … lanes have, `before` what the lanes of the group before this one
      // have.
      Value total = combined.back(), before = none;
      for (int64_t distance = 1; distance != architecture.warpSize; distance *= 2) {
        Value other = exchanged(total, distance);
        Value isUpper = equal(rem(div(lane, constant(distance)), constant(2)), constant(1));
        before = select(isUpper, both(other, before), before);
        total = both(other, total);
      }
      Value start = both(running[0], before);
      SmallVector<Value> results;
      for (int64_t k = 0; k != width; ++k) {
        if (prefixes.isExclusive)
          results.push_back(k == 0 ? start : both(start, combined[k - 1]));
        else
          results.push_back(both(start, combined[k]));
      }
      Value all = results.front();
      if (width != 1)
        all = make<vector::FromElementsOp>(cast<VectorType>(vectorOf(reduction.type, width)), results);
      if (prefixes.isReverse)
        all = kernel::reverseLanes(b, loc, all);
      if (areAllInside)
        store(i, width, all);
      else
        ifThen(isInside, [&] { store(i, width, all); });
      return SmallVector<Value>{both(running[0], total)};
    });
  });
  emitWarpBarrier();
  return last;
}

} // namespace intarsia::gpu
