//===- Verify.cpp - What may leave the lower phase ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Constants/Constants.h"
#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Lower/Lower.h"
#include "lib/Lower/LaunchSizes.h"
#include "lib/Lower/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;

namespace intarsia::lower {
#define GEN_PASS_DEF_LOWERVERIFY
#include "lib/Lower/Passes.h.inc"

namespace {

/// The names or expressions of a value's dynamic sizes, one for each dimension.
LogicalResult verifySizes(Operation *function, const Twine &where, ShapedType type, Attribute attribute) {
  auto names = dyn_cast_if_present<ArrayAttr>(attribute);
  if (!names && type.hasStaticShape())
    return success();
  if (!names || static_cast<int64_t>(names.size()) != type.getRank() || !llvm::all_of(names, llvm::IsaPred<StringAttr>))
    return function->emitOpError() << where << " is " << type << " and needs nn.sizes with a string for each dimension";
  for (auto [dimension, name] : llvm::enumerate(names.getAsRange<StringAttr>()))
    if (type.isDynamicDim(dimension) == name.empty())
      return function->emitOpError() << "nn.sizes of " << where << " is " << names << ", the type " << type;
  return success();
}

LogicalResult verifyKernel(rt::KernelOp kernel) {
  if (FlatSymbolRefAttr device = kernel.getDeviceAttr();
      device && !SymbolTable::lookupNearestSymbolFrom<rt::DeviceOp>(kernel, device))
    return kernel.emitOpError() << "runs on " << device << ", which is no rt.device of the module";
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return kernel.emitOpError() << "argument " << index << " is " << type << ", must be a ranked tensor";
    if (failed(verifySizes(kernel, "argument " + Twine(index), tensor, kernel.getArgAttr(index, "nn.sizes"))))
      return failure();
  }
  for (auto [index, type] : llvm::enumerate(kernel.getResultTypes()))
    if (failed(verifySizes(kernel, "result " + Twine(index), cast<RankedTensorType>(type),
                           kernel.getResultAttr(index, "nn.sizes"))))
      return failure();
  WalkResult result = kernel.getBody().walk([&](Operation *op) -> WalkResult {
    if (isa<nn::GroupOp, nn::WeightOp, nn::ArchiveOp>(op))
      return op->emitOpError() << "must not be inside a kernel";
    if (!isa<nn::NnDialect, rt::RtDialect, tensor::TensorDialect, linalg::LinalgDialect, arith::ArithDialect,
             math::MathDialect>(op->getDialect()))
      return op->emitOpError() << "is of a dialect that kernels do not hold (kernel '" << kernel.getSymName() << "')";
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto elements = dyn_cast<ElementsAttr>(constant.getValue()); elements && !elements.isSplat())
        return op->emitOpError() << "holds data; kernels get tables as operands";
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Calls are checked against arguments and results as the function describes them.
LogicalResult verifySignature(func::FuncOp function, ArrayAttr symbols, ArrayAttr results) {
  if (!llvm::all_of(symbols, llvm::IsaPred<StringAttr>))
    return function.emitOpError() << rt::hostSymbolsAttr << " is " << symbols << ", must be a list of strings";
  llvm::DenseSet<Attribute> carried;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref || !memref.getLayout().isIdentity())
      return function.emitOpError() << "argument " << index << " is " << type << ", must be a dense memref";
    auto names = function.getArgAttrOfType<ArrayAttr>(index, "nn.sizes");
    if (failed(verifySizes(function, "argument " + Twine(index), memref, names)))
      return failure();
    for (Attribute name : names ? names.getValue() : ArrayRef<Attribute>()) {
      if (!cast<StringAttr>(name).empty() && !llvm::is_contained(symbols, name))
        return function.emitOpError() << "nn.sizes of argument " << index << " names " << name << ", "
                                      << rt::hostSymbolsAttr << " does not";
      carried.insert(name);
    }
  }
  for (auto [index, symbol] : llvm::enumerate(symbols)) {
    if (!carried.contains(symbol))
      return function.emitOpError() << rt::hostSymbolsAttr << " names " << symbol << ", no argument does";
    if (llvm::is_contained(symbols.getValue().take_front(index), symbol))
      return function.emitOpError() << rt::hostSymbolsAttr << " names " << symbol << " twice";
  }
  for (auto [index, result] : llvm::enumerate(results)) {
    auto description = dyn_cast<DictionaryAttr>(result);
    auto type = description ? description.getAs<TypeAttr>("type") : TypeAttr();
    auto tensor = type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
    if (!tensor)
      return function.emitOpError() << rt::hostResultsAttr << " describes result " << index << " as " << result
                                    << ", must be a dictionary with the tensor's `type`";
    if (failed(verifySizes(function, "result " + Twine(index), tensor, description.get("nn.sizes"))))
      return failure();
  }
  return success();
}

/// The memory of a buffer is that of a device of the module.
LogicalResult verifyMemory(Operation *op, MemRefType buffer) {
  auto memory = dyn_cast<rt::MemoryAttr>(buffer.getMemorySpace());
  if (!memory)
    return op->emitOpError() << "has a buffer " << buffer << " in a memory that is no #rt.memory";
  if (!SymbolTable::lookupNearestSymbolFrom<rt::DeviceOp>(op, memory.getDevice()))
    return op->emitOpError() << "has a buffer " << buffer << " in the memory of " << memory.getDevice()
                             << ", which is no rt.device of the module";
  return success();
}

/// Returns what a buffer is a view of.
Value rootOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  return buffer;
}

/// Work writes workspaces, states and results, never what the call or the module gave to read.
LogicalResult verifyWritten(Operation *op, ValueRange buffers) {
  for (auto [index, buffer] : llvm::enumerate(buffers)) {
    std::optional<rt::Lifetime> lifetime = rt::lifetimeOf(buffer);
    bool isInput = lifetime == rt::Lifetime::External && !rootOf(buffer).getDefiningOp();
    if (lifetime == rt::Lifetime::Constant || isInput)
      return op->emitOpError() << "writes "
                               << (isInput ? "an input of the function, which has no nn.state" : "a constant")
                               << " (output " << index << ")";
  }
  return success();
}

/// True for an integer that is computed from what the host has read from a buffer.
bool isRead(Value number) {
  SmallVector<Value> open{number};
  DenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || isa<memref::LoadOp>(op) || isControlFlow(op))
      return true;
    open.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// True for the check of a number that is only known while the host program runs, or that only holds in a branch; sizes
/// that the whole call needs are checked before.
bool isCheckWhileRunning(Operation &op) {
  auto check = dyn_cast<rt::CheckOp>(op);
  return check && (isControlFlow(op.getParentOp()) || isRead(check.getLeft()) || isRead(check.getRight()));
}

/// Verifies one host program.
class HostVerifier {
public:
  explicit HostVerifier(func::FuncOp function) : function(function) {}

  LogicalResult verify() {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitOpError() << "must have a body of one block";
    if (function.getNumResults())
      return function.emitOpError() << "returns values; results of host programs are rt.output";
    symbols = function->getAttrOfType<ArrayAttr>(rt::hostSymbolsAttr);
    results = function->getAttrOfType<ArrayAttr>(rt::hostResultsAttr);
    if (!symbols || !results)
      return function.emitOpError() << "lacks the attributes '" << rt::hostSymbolsAttr << "' and '"
                                    << rt::hostResultsAttr << "'";
    if (failed(verifySignature(function, symbols, results)))
      return failure();
    hasOutput.assign(results.size(), false);
    if (failed(verifyBlock(function.getBody().front())))
      return failure();
    for (auto [index, present] : llvm::enumerate(hasOutput))
      if (!present)
        return function.emitOpError() << "has no buffer for result " << index;
    return success();
  }

private:
  LogicalResult verifyBlock(Block &block) {
    for (Operation &op : block) {
      bool isMade =
          isa<rt::SymbolOp, rt::OutputOp, rt::CheckOp, rt::WorkspaceOp, rt::AllocOp>(op) && !isCheckWhileRunning(op);
      if (isMade && op.getParentOp() != function)
        return op.emitOpError() << "stands in control flow; sizes are checked and buffers made before any";
      if (failed(isMade                                                              ? verifyMade(op)
                 : isControlFlow(&op)                                                ? verifyControlFlow(op)
                 : isa<rt::DispatchOp, rt::CopyOp, rt::CollectiveOp, rt::WaitOp>(op) ? verifyWork(op)
                                                                                     : verifyOther(op)) ||
          failed(verifyBuffers(op)))
        return failure();
    }
    return success();
  }

  /// Verifies what comes before the first work: sizes, checks, buffers.
  LogicalResult verifyMade(Operation &op) {
    if (auto symbol = dyn_cast<rt::SymbolOp>(op)) {
      if (!llvm::is_contained(symbols, Attribute(symbol.getNameAttr())))
        return op.emitOpError() << "names '" << symbol.getName() << "', which is no size of this function";
      return success();
    }
    if (isa<rt::AllocOp>(op))
      return op.emitOpError() << "has no slot in the workspace; run lower-plan-buffers";
    if (isa<rt::CheckOp>(op)) {
      if (started || !workspaces.empty() || llvm::is_contained(hasOutput, true))
        return op.emitOpError() << "comes after a buffer was made; sizes are checked first";
      return success();
    }
    return isa<rt::OutputOp>(op) ? verifyOutput(cast<rt::OutputOp>(op)) : verifyWorkspace(cast<rt::WorkspaceOp>(op));
  }

  LogicalResult verifyOutput(rt::OutputOp output) {
    uint64_t index = output.getIndex();
    if (index >= results.size())
      return output.emitOpError() << "is result " << index << " of a function that has " << results.size();
    auto described = cast<ShapedType>(cast<DictionaryAttr>(results[index]).getAs<TypeAttr>("type").getValue());
    auto type = cast<MemRefType>(output.getType());
    if (type.getShape() != described.getShape() || type.getElementType() != described.getElementType())
      return output.emitOpError() << "is " << type << ", " << rt::hostResultsAttr << " describes result " << index
                                  << " as " << described;
    if (std::exchange(hasOutput[index], true))
      return output.emitOpError() << "makes result " << index << " a second time";
    if (started)
      return output.emitOpError() << "comes after work was started; buffers are made first";
    return success();
  }

  LogicalResult verifyWorkspace(rt::WorkspaceOp made) {
    auto type = cast<MemRefType>(made.getType());
    if (type.getShape() != ArrayRef(ShapedType::kDynamic) || !type.getElementType().isInteger(8) ||
        !type.getLayout().isIdentity())
      return made.emitOpError() << "is " << type << ", must be memref<?xi8> in one of the memories";
    if (started)
      return made.emitOpError() << "comes after work was started; buffers are made first";
    if (!workspaces.insert({type.getMemorySpace(), made.getResult()}).second)
      return made.emitOpError() << "is the second workspace of the function in its memory";
    return success();
  }

  /// Verifies work and waits: events order what one block starts, and all work of a region is done at its ends.
  LogicalResult verifyWork(Operation &op) {
    started |= !isa<rt::WaitOp>(op);
    for (Value operand : op.getOperands())
      if (isa<rt::EventType>(operand.getType()) && operand.getParentBlock() != op.getBlock())
        return op.emitOpError()
               << "waits for an event of another block; work is waited for in the block that starts it";
    if (auto dispatch = dyn_cast<rt::DispatchOp>(op))
      return verifyWritten(&op, dispatch.getOutputs());
    if (auto copy = dyn_cast<rt::CopyOp>(op))
      return verifyWritten(&op, copy.getDestination());
    if (auto collective = dyn_cast<rt::CollectiveOp>(op); collective && collective.getDestination())
      return verifyWritten(&op, collective.getDestination());
    return success();
  }

  LogicalResult verifyControlFlow(Operation &op) {
    started = true;
    for (Type type : op.getResultTypes())
      if (!type.isIntOrIndex())
        return op.emitOpError() << "gives a " << type << "; control flow of host programs passes integers alone";
    for (Region &region : op.getRegions())
      for (Block &block : region) {
        for (Type type : block.getArgumentTypes())
          if (!type.isIntOrIndex())
            return op.emitOpError() << "carries a " << type << "; control flow of host programs passes integers alone";
        if (failed(verifyBlock(block)))
          return failure();
      }
    return success();
  }

  LogicalResult verifyOther(Operation &op) {
    if (auto queue = dyn_cast<rt::GetQueueOp>(op)) {
      FlatSymbolRefAttr device = queue.getType().getDevice();
      if (!SymbolTable::lookupNearestSymbolFrom<rt::DeviceOp>(&op, device))
        return op.emitOpError() << "is a queue of " << device << ", which is no rt.device of the module";
      return success();
    }
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      if (!load.getType().isInteger() || load.getMemRefType().getMemorySpace())
        return op.emitOpError() << "reads " << load.getType() << " from " << load.getMemRefType()
                                << "; the host reads integers in its own memory";
      return success();
    }
    bool isArithmetic = isa<arith::ArithDialect>(op.getDialect()) && op.getNumResults() == 1 &&
                        op.getResult(0).getType().isIntOrIndex() &&
                        llvm::all_of(op.getOperandTypes(), [](Type type) { return type.isIntOrIndex(); });
    if (!isArithmetic && !isa<rt::RtDialect>(op.getDialect()) &&
        !isa<func::ReturnOp, scf::YieldOp, scf::ConditionOp, memref::ViewOp, memref::ExpandShapeOp,
             memref::CollapseShapeOp, memref::CastOp>(op))
      return op.emitOpError() << "does not belong into a host program";
    return success();
  }

  LogicalResult verifyBuffers(Operation &op) {
    if (auto view = dyn_cast<memref::ViewOp>(op);
        view && !llvm::is_contained(llvm::make_second_range(workspaces), view.getSource()))
      return op.emitOpError() << "is a view of what is not the function's workspace";
    for (Type type : op.getResultTypes()) {
      auto memref = dyn_cast<MemRefType>(type);
      if (isa<UnrankedMemRefType>(type))
        return op.emitOpError() << "gives a buffer whose shape has no rank";
      if (memref && !memref.getLayout().isIdentity())
        return op.emitOpError() << "gives a buffer that is not dense";
      if (memref && memref.getMemorySpace() && failed(verifyMemory(&op, memref)))
        return failure();
    }
    return success();
  }

  func::FuncOp function;
  ArrayAttr symbols, results;
  SmallVector<bool> hasOutput;
  bool started = false;
  llvm::SmallMapVector<Attribute, Value, 2> workspaces; // by memory
};

struct Verify : impl::LowerVerifyBase<Verify> {
  void runOnOperation() override {
    for (Operation &op : getOperation().getOps()) {
      LogicalResult result = success();
      if (auto kernel = dyn_cast<rt::KernelOp>(op))
        result = verifyKernel(kernel);
      else if (!isa<func::FuncOp, nn::ArchiveOp, nn::ConstantsOp, rt::ConstantOp, rt::DeviceOp, rt::ObjectOp,
                    shard::GridOp>(op))
        result = op.emitOpError() << "does not belong into a lowered module";
      if (failed(result))
        return signalPassFailure();
    }
    LaunchSizes launches(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(HostVerifier(function).verify()) || failed(launches.verify(function)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace intarsia::lower
