//===- GeneralKernel.cpp - Kernels of any ops, from the ops' references -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Reference/Reference.h"
#include "lib/Kernel/MathFunctions.h"
#include "lib/Target/GPU/FunctionEmitter.h"
#include "lib/Target/GPU/KernelRoots.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t threadsOfBlock = 256;
constexpr int64_t scratchAlignment = 64;

/// Replaces f64 by f32: references compute in f64, which most GPUs do at a fraction of their speed.
class Demotion {
public:
  explicit Demotion(func::FuncOp function) : function(function) {}

  void run() {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { demote(op); });
    // Conversions between equal types.
    function.walk([](Operation *op) {
      if (isa<arith::ExtFOp, arith::TruncFOp>(op) && op->getOperand(0).getType() == op->getResult(0).getType()) {
        op->getResult(0).replaceAllUsesWith(op->getOperand(0));
        op->erase();
      }
    });
  }

private:
  static Type demoted(Type type) {
    if (type.isF64())
      return Float32Type::get(type.getContext());
    if (auto memory = dyn_cast<MemRefType>(type); memory && memory.getElementType().isF64())
      return MemRefType::get(memory.getShape(), demoted(memory.getElementType()), memory.getLayout());
    return type;
  }

  void demote(Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(demoted(argument.getType()));
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto value = dyn_cast<FloatAttr>(constant.getValue()); value && value.getType().isF64())
        constant.setValueAttr(FloatAttr::get(Float32Type::get(op->getContext()), value.getValueAsDouble()));
    for (OpResult result : op->getResults())
      result.setType(demoted(result.getType()));
    // A float that is widened to what it is demoted to, or narrowed from it, keeps its op if the types differ.
    if (isa<arith::ExtFOp>(op) && getBits(op->getOperand(0)) > getBits(op->getResult(0)))
      op->getResult(0).setType(op->getOperand(0).getType());
  }
  static unsigned getBits(Value value) { return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(); }

  func::FuncOp function;
};

/// Returns true if the kernel itself has values in f64, which are computed so.
bool hasF64(rt::KernelOp kernel) {
  auto isF64 = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  WalkResult walked = kernel.getBody().walk([&](Operation *op) {
    return llvm::any_of(op->getOperandTypes(), isF64) || llvm::any_of(op->getResultTypes(), isF64)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return walked.wasInterrupted();
}

/// Replaces elementary functions of f32 by polynomials. Fails with a message at a function that has none.
LogicalResult expandMath(Operation *root, rt::KernelOp kernel, StringRef targetKind) {
  SmallVector<Operation *> functions;
  root->walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
      functions.push_back(op);
  });
  for (Operation *op : functions) {
    kernel::MathKind kind = kernel::mathKind(op);
    if (kind == kernel::MathKind::None)
      return kernel::refuse(targetKind, kernel, op, "there is no polynomial for it");
    if (kind == kernel::MathKind::Polynomial && getElementTypeOrSelf(op->getOperand(0)).isF64())
      return kernel::refuse(targetKind, kernel, op, "there is no polynomial for it in f64");
    OpBuilder builder(op);
    if (Value result = kernel::emitMathFunction(builder, op->getLoc(), op, op->getOperands())) {
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  }
  return success();
}

/// Makes GPU functions of the linalg ops of a function on buffers.
class GeneralKernel {
public:
  GeneralKernel(rt::KernelOp kernel, const Architecture &architecture, mlir::gpu::GPUModuleOp module, StringRef name)
      : kernel(kernel), architecture(architecture), module(module), name(name), b(kernel.getLoc(), kernel.getContext()),
        sizes(kernel), scratchBytes(getAffineConstantExpr(0, kernel.getContext())) {}

  LogicalResult run() {
    OwningOpRef<ModuleOp> buffers(ModuleOp::create(kernel.getLoc()));
    if (failed(reference::buildReferenceFunction(kernel, 0, *buffers)))
      return failure();
    PassManager manager(kernel.getContext());
    reference::buildReferenceBuffers(manager);
    manager.addPass(memref::createResolveShapedTypeResultDimsPass());
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
    if (failed(manager.run(*buffers)))
      return failure();
    source = *buffers->getOps<func::FuncOp>().begin();
    if (!hasF64(kernel))
      Demotion(source).run();
    if (failed(expandMath(source, kernel, targetKind())))
      return failure();
    for (auto global : buffers->getOps<memref::GlobalOp>())
      if (!module.lookupSymbol(global.getSymName()))
        OpBuilder::atBlockBegin(module.getBody()).clone(*global);
    SmallVector<mlir::gpu::GPUFuncOp> functions;
    for (Operation &op : source.getBody().front().without_terminator()) {
      if (isMemoryEffectFree(&op) || isa<memref::AllocOp, memref::DeallocOp, LLVM::LoadOp, memref::GetGlobalOp>(op))
        continue;
      auto nest = dyn_cast<linalg::LinalgOp>(op);
      if (!nest)
        return refuse(&op, "its reference is not a sequence of loops");
      FailureOr<mlir::gpu::GPUFuncOp> function = emitLaunch(nest);
      if (failed(function))
        return failure();
      functions.push_back(*function);
    }
    if (!functions.empty())
      functions.front()->setAttr(scratchAttribute, text(scratchBytes));
    return success();
  }

private:
  StringRef targetKind() const { return architecture.vendor == Vendor::Nvidia ? "cuda" : "hip"; }
  LogicalResult refuse(Operation *op, const Twine &reason) { return kernel::refuse(targetKind(), kernel, op, reason); }

  /// Returns an expression in the kernel's sizes as text.
  StringAttr text(AffineExpr expression) {
    SmallVector<AffineExpr> symbols;
    for (Attribute size : kernel.getSizes()) {
      auto found = llvm::find(sizes.names(), cast<StringAttr>(size).getValue());
      symbols.push_back(getAffineSymbolExpr(found - sizes.names().begin(), kernel.getContext()));
    }
    return b.getStringAttr(sizes.toString(expression.replaceSymbols(symbols)));
  }

  /// Returns the number of a buffer or size that a load of the source function reads, and the argument that it reads
  /// from.
  static std::optional<std::pair<unsigned, int64_t>> argumentRead(LLVM::LoadOp load) {
    auto address = load.getAddr().getDefiningOp<LLVM::GEPOp>();
    auto base = dyn_cast<BlockArgument>(address ? address.getBase() : load.getAddr());
    if (!base)
      return std::nullopt;
    int64_t index = address ? address.getRawConstantIndices()[0] : 0;
    return std::make_pair(base.getArgNumber(), index);
  }

  /// Returns an index as an expression in the kernel's sizes, which are its symbols; null if it is none.
  AffineExpr expressionOf(OpFoldResult value) {
    MLIRContext *context = kernel.getContext();
    if (auto constant = getConstantIntValue(value))
      return getAffineConstantExpr(*constant, context);
    Operation *op = cast<Value>(value).getDefiningOp();
    if (!op)
      return nullptr;
    if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
      auto read = argumentRead(load);
      return read && read->first == 1 ? getAffineSymbolExpr(read->second, context) : AffineExpr();
    }
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
      return expressionOf(op->getOperand(0));
    if (auto dim = dyn_cast<memref::DimOp>(op)) {
      std::optional<int64_t> index = dim.getConstantIndex();
      return index ? sizeOf(dim.getSource(), *index) : AffineExpr();
    }
    if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
      SmallVector<AffineExpr> operands;
      for (Value operand : apply.getMapOperands())
        if (operands.push_back(expressionOf(operand)); !operands.back())
          return nullptr;
      unsigned dims = apply.getAffineMap().getNumDims();
      return apply.getAffineMap().getResult(0).replaceDimsAndSymbols(ArrayRef(operands).take_front(dims),
                                                                     ArrayRef(operands).drop_front(dims));
    }
    if (op->getNumOperands() != 2)
      return nullptr;
    AffineExpr left = expressionOf(op->getOperand(0)), right = expressionOf(op->getOperand(1));
    if (!left || !right)
      return nullptr;
    return llvm::TypeSwitch<Operation *, AffineExpr>(op)
        .Case([&](arith::AddIOp) { return left + right; })
        .Case([&](arith::SubIOp) { return left - right; })
        .Case([&](arith::MulIOp) { return left * right; })
        .Case<arith::FloorDivSIOp, arith::DivUIOp, arith::DivSIOp>([&](auto) { return left.floorDiv(right); })
        .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>([&](auto) { return left.ceilDiv(right); })
        .Case<arith::RemUIOp, arith::RemSIOp>([&](auto) { return left % right; })
        .Default(AffineExpr());
  }

  /// Begins a function: the kernel's arguments, one thread for each element.
  mlir::gpu::GPUFuncOp beginFunction() {
    Type pointer = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
    SmallVector<Type> inputs(buffersOfKernel(), pointer);
    inputs.append(kernel.getSizes().size(), b.getI64Type());
    inputs.push_back(pointer);
    b.setInsertionPointToEnd(module.getBody());
    auto function =
        mlir::gpu::GPUFuncOp::create(b, (name + "_" + Twine(launches++)).str(), b.getFunctionType(inputs, {}));
    function->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
    function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(threadsOfBlock), 1, 1}));
    b.setInsertionPointToEnd(&function.getBody().front());
    b.setInsertionPoint(mlir::gpu::ReturnOp::create(b));
    return function;
  }
  unsigned buffersOfKernel() { return kernel.getNumArguments() + kernel.getResultTypes().size(); }

  /// Returns a value of the source function in the current one: what it is computed by is computed again.
  FailureOr<Value> recompute(Value value, mlir::gpu::GPUFuncOp function, IRMapping &mapping) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (!op)
      return refuse(kernel, "its reference reads an argument as a whole");
    if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
      auto read = argumentRead(load);
      if (!read)
        return refuse(op, "its reference follows a pointer");
      Value argument = function.getArgument(read->first == 0 ? read->second : buffersOfKernel() + read->second);
      if (read->first == 0)
        argument = LLVM::AddrSpaceCastOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), argument);
      mapping.map(value, argument);
      return argument;
    }
    if (auto alloc = dyn_cast<memref::AllocOp>(op))
      return temporary(alloc, function, mapping);
    for (Value operand : op->getOperands())
      if (failed(recompute(operand, function, mapping)))
        return failure();
    b.clone(*op, mapping);
    return mapping.lookup(value);
  }

  /// Returns a temporary of the source function in scratch.
  FailureOr<Value> temporary(memref::AllocOp alloc, mlir::gpu::GPUFuncOp function, IRMapping &mapping) {
    MemRefType type = alloc.getType();
    auto [known, isNew] = offsets.try_emplace(alloc, AffineExpr());
    if (isNew) {
      Type element = type.getElementType();
      int64_t width = element.isIndex() ? 8 : llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
      AffineExpr bytes = getAffineConstantExpr(width, b.getContext());
      for (OpFoldResult size : alloc.getMixedSizes()) {
        AffineExpr expression = expressionOf(size);
        if (!expression)
          return refuse(kernel, "a temporary of its reference has a size that is no function of the kernel's");
        bytes = bytes * expression;
      }
      known->second = scratchBytes;
      scratchBytes = scratchBytes + bytes.ceilDiv(scratchAlignment) * scratchAlignment;
    }
    // Offsets are sums of sizes, all of which are arguments.
    SmallVector<Value> symbols;
    for (unsigned position = 0; position != kernel.getSizes().size(); ++position)
      symbols.push_back(
          arith::IndexCastOp::create(b, b.getIndexType(), function.getArgument(buffersOfKernel() + position)));
    Value offset = affine::AffineApplyOp::create(b, AffineMap::get(0, symbols.size(), known->second), symbols);
    offset = arith::IndexCastOp::create(b, b.getI64Type(), offset);
    Type generic = LLVM::LLVMPointerType::get(b.getContext());
    Value base = LLVM::AddrSpaceCastOp::create(b, generic, function.getArgument(function.getNumArguments() - 1));
    Value pointer = LLVM::GEPOp::create(b, generic, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{offset});
    Type i64 = b.getI64Type();
    auto descriptorType = LLVM::LLVMStructType::getLiteral(b.getContext(), {generic, generic, i64});
    Value descriptor = LLVM::PoisonOp::create(b, descriptorType);
    for (int64_t field : {0, 1})
      descriptor = LLVM::InsertValueOp::create(b, descriptor, pointer, field);
    Value zero = LLVM::ConstantOp::create(b, i64, b.getI64IntegerAttr(0));
    descriptor = LLVM::InsertValueOp::create(b, descriptor, zero, 2);
    auto whole = UnrealizedConversionCastOp::create(b, MemRefType::get({}, type.getElementType()), descriptor);
    SmallVector<OpFoldResult> extents, strides(type.getRank(), b.getIndexAttr(1));
    for (OpFoldResult size : alloc.getMixedSizes()) {
      if (auto dynamic = dyn_cast<Value>(size)) {
        FailureOr<Value> here = recompute(dynamic, function, mapping);
        if (failed(here))
          return failure();
        extents.push_back(*here);
      } else {
        extents.push_back(size);
      }
    }
    AffineExpr left, right;
    bindSymbols(b.getContext(), left, right);
    for (int64_t d = type.getRank() - 1; d > 0; --d)
      strides[d - 1] = affine::makeComposedFoldedAffineApply(b, b.getLoc(), left * right, {strides[d], extents[d]});
    Value view = memref::ReinterpretCastOp::create(b, MemRefType::get(type.getShape(), type.getElementType()),
                                                   whole.getResult(0), b.getIndexAttr(0), extents, strides);
    mapping.map(alloc.getResult(), view);
    return view;
  }

  /// Emits a launch that computes a linalg op: a thread for each element of its parallel loops.
  FailureOr<mlir::gpu::GPUFuncOp> emitLaunch(linalg::LinalgOp op) {
    mlir::gpu::GPUFuncOp function = beginFunction();
    IRMapping mapping;
    SetVector<Value> needed(op->operand_begin(), op->operand_end());
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == op->getBlock())
          needed.insert(operand);
    });
    for (Value value : needed)
      if (failed(recompute(value, function, mapping)))
        return failure();
    SmallVector<OpFoldResult> extents;
    AffineExpr threads = getAffineConstantExpr(1, b.getContext());
    for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray())) {
      if (iterator != utils::IteratorType::parallel)
        continue;
      AffineExpr extent = extentOf(op, loop);
      if (!extent)
        return refuse(kernel, "a loop of its reference has a size that is no function of the kernel's");
      threads = threads * extent;
    }
    auto clone = cast<linalg::LinalgOp>(b.clone(*op, mapping));
    IRRewriter rewriter(b);
    rewriter.setInsertionPoint(clone);
    FailureOr<linalg::LinalgLoops> loops = linalg::linalgOpToParallelLoops(rewriter, clone);
    if (failed(loops))
      return refuse(op, "its reference has no loops");
    rewriter.eraseOp(clone);
    for (Operation *loop : *loops)
      if (auto parallel = dyn_cast<scf::ParallelOp>(loop))
        distribute(parallel);
    function->setAttr(gridAttribute, text(threads.ceilDiv(threadsOfBlock)));
    function->setAttr(sharedAttribute, b.getStringAttr("0"));
    return function;
  }

  /// Returns the size of a loop as an expression in the kernel's sizes; null if it is none.
  AffineExpr extentOf(linalg::LinalgOp op, unsigned loop) {
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      for (auto [dimension, expression] : llvm::enumerate(map.getResults()))
        if (expression == getAffineDimExpr(loop, b.getContext()))
          if (AffineExpr size = sizeOf(operand.get(), dimension))
            return size;
    }
    return nullptr;
  }

  AffineExpr sizeOf(Value memory, unsigned dimension) {
    auto type = cast<MemRefType>(memory.getType());
    if (!type.isDynamicDim(dimension))
      return getAffineConstantExpr(type.getDimSize(dimension), b.getContext());
    Operation *op = memory.getDefiningOp();
    if (auto alloc = dyn_cast_or_null<memref::AllocOp>(op))
      return expressionOf(alloc.getMixedSizes()[dimension]);
    if (auto cast = dyn_cast_or_null<memref::ReinterpretCastOp>(op))
      return expressionOf(cast.getConstifiedMixedSizes()[dimension]);
    if (auto view = dyn_cast_or_null<memref::SubViewOp>(op)) {
      llvm::SmallBitVector dropped = view.getDroppedDims();
      unsigned position = 0;
      for (auto [index, size] : llvm::enumerate(view.getMixedSizes()))
        if (!dropped[index] && position++ == dimension)
          return expressionOf(size);
    }
    if (auto expand = dyn_cast_or_null<memref::ExpandShapeOp>(op))
      return expressionOf(expand.getMixedOutputShape()[dimension]);
    if (auto cast = dyn_cast_or_null<memref::CastOp>(op))
      return sizeOf(cast.getSource(), dimension);
    if (auto collapse = dyn_cast_or_null<memref::CollapseShapeOp>(op)) {
      AffineExpr product = getAffineConstantExpr(1, b.getContext());
      for (int64_t inner : collapse.getReassociationIndices()[dimension]) {
        AffineExpr size = sizeOf(collapse.getSrc(), inner);
        if (!size)
          return nullptr;
        product = product * size;
      }
      return product;
    }
    return nullptr;
  }

  /// Replaces parallel loops by this thread's index, which is behind their end in the last block's rest.
  void distribute(scf::ParallelOp loops) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loops);
    Value thread = mlir::gpu::ThreadIdOp::create(b, mlir::gpu::Dimension::x);
    Value block = mlir::gpu::BlockIdOp::create(b, mlir::gpu::Dimension::x);
    Value width = arith::ConstantIndexOp::create(b, threadsOfBlock);
    Value flat = arith::AddIOp::create(b, arith::MulIOp::create(b, block, width), thread);
    Value total = arith::ConstantIndexOp::create(b, 1);
    for (Value bound : loops.getUpperBound())
      total = arith::MulIOp::create(b, total, bound);
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, flat, total);
    auto branch = scf::IfOp::create(b, isInside, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
    SmallVector<Value> indices(loops.getNumLoops());
    for (unsigned loop = loops.getNumLoops(); loop-- != 0;) {
      if (loop == 0) {
        indices[0] = flat;
        break;
      }
      indices[loop] = arith::RemUIOp::create(b, flat, loops.getUpperBound()[loop]);
      flat = arith::DivUIOp::create(b, flat, loops.getUpperBound()[loop]);
    }
    for (auto [variable, index] : llvm::zip_equal(loops.getInductionVars(), indices))
      variable.replaceAllUsesWith(index);
    Block *body = loops.getBody();
    body->getTerminator()->erase();
    branch.thenBlock()->getOperations().splice(branch.thenBlock()->getTerminator()->getIterator(),
                                               body->getOperations());
    loops.erase();
  }

  rt::KernelOp kernel;
  const Architecture &architecture;
  mlir::gpu::GPUModuleOp module;
  StringRef name;
  ImplicitLocOpBuilder b;
  SymbolicSizes sizes;
  func::FuncOp source;
  unsigned launches = 0;
  AffineExpr scratchBytes;
  DenseMap<Operation *, AffineExpr> offsets; ///< of temporaries in scratch
};
} // namespace

LogicalResult emitGeneralKernel(rt::KernelOp kernel, const Architecture &architecture, mlir::gpu::GPUModuleOp module,
                                StringRef name) {
  return GeneralKernel(kernel, architecture, module, name).run();
}

} // namespace intarsia::gpu
