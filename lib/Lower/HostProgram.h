//===- HostProgram.h - Functions become host programs -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_HOSTPROGRAM_H
#define INTARSIA_LIB_LOWER_HOSTPROGRAM_H

#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Target/Target.h"
#include "lib/Lower/ConstantTable.h"
#include "lib/Lower/EventOrder.h"
#include "lib/Lower/InputRanges.h"
#include "lib/Lower/KernelTable.h"
#include "lib/Lower/StateVersions.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <map>

namespace intarsia::lower {

using namespace mlir;

/// Returns the type of a buffer for a tensor.
MemRefType bufferType(Value tensor, Attribute memory = nullptr);
/// Returns the source of a value that is another's data under another shape; null for values that are not.
Value viewSource(Value value);
/// Returns the tensor that a value is a view of: itself if it is none.
Value viewRoot(Value value);
/// Returns true for an op whose result is a view.
inline bool isView(Operation &op) { return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op); }
/// Returns the groups that read a tensor, through views of it; null for other consumers.
SmallVector<nn::GroupOp> consumersOf(Value tensor);

/// A device, as a host program uses it.
struct DeviceUse {
  FlatSymbolRefAttr name;
  const target::Target *target;
  Attribute memory; // of its buffers; null for the host's
  Value queue;      // of its kernels
  Value copyQueue;  // another one, so that copies go on beside kernels
};

/// A function on tensors becomes a host program. Control flow stays: the host runs it. All work is done when a region
/// begins and when it ends, so that events and their order are those of one block.
class HostProgram {
public:
  HostProgram(func::FuncOp source, KernelTable &kernels, ConstantTable &constants)
      : source(source), kernels(kernels), constants(constants), sizes(source), builder(source.getContext()) {}

  LogicalResult build();

private:
  LogicalResult checkSource();
  LogicalResult checkSizes();
  LogicalResult makeFunction();
  LogicalResult makeQueues();
  DeviceUse *deviceOf(Operation *op);
  FailureOr<Attribute> memoryOfState(BlockArgument argument);
  FailureOr<Attribute> memoryOfInput(BlockArgument argument);
  Attribute memoryOfResult(Value root, Attribute home);
  void nameSizes();
  void makeSizeChecks(Block *branch = nullptr);
  void makeSizeCheck(const SizeConstraint &constraint);
  std::string originOf(AffineExpr left, AffineExpr right);
  Value sizeValue(AffineExpr size);
  void makeOutputs(func::ReturnOp returnOp);
  LogicalResult dispatch(nn::GroupOp group);
  LogicalResult runTogether(Operation *op);
  DeviceUse *exchangingDevice(Operation *op);
  LogicalResult copyToConsumers(nn::GroupOp group);
  LogicalResult copyResults(func::ReturnOp returnOp);
  LogicalResult buildBlock(Block &block);

  // Control flow (HostRegions.cpp).
  struct Carried;
  LogicalResult buildIf(scf::IfOp op);
  LogicalResult buildFor(scf::ForOp op);
  LogicalResult buildWhile(scf::WhileOp op);
  LogicalResult buildRegion(Block &block, Block &into, Operation *hostOp, llvm::function_ref<LogicalResult()> finish);
  FailureOr<Carried> makeCarried(Operation *op, ValueRange inits, ValueRange arguments, ValueRange yielded);
  LogicalResult storeCarried(const Carried &carried, ValueRange values);
  LogicalResult store(Value value, Value to);
  Attribute memoryOf(Value computed, Value otherwise);
  FailureOr<SmallVector<Value>> scalarsOf(Operation *op, ValueRange list);
  Value scalarOf(Value value);
  LogicalResult read(tensor::ExtractOp extract);
  LogicalResult check(cf::AssertOp assertion);
  Value makeBuffer(Value tensor, Attribute memory);
  void waitForAll(Location location);
  FailureOr<Value> updatedInPlace(nn::GroupOp group, unsigned result, SmallVectorImpl<Value> &after);
  FailureOr<Value> awaitOnHost(Value tensor, Location location);
  LogicalResult checkIndices(nn::GroupOp group);
  FailureOr<Value> bufferOf(Value value, Attribute memory, rt::LayoutAttrInterface layout = nullptr);
  Value copyOf(Value root, Attribute memory);
  Value copy(Location location, Value value, Value from, Value to);
  Value viewOf(Value view, Value sourceBuffer);
  Value undoView(Value view, Value viewBuffer);
  rt::LayoutAttrInterface layoutOf(nn::GroupOp group, unsigned operand, const target::Target &target);
  SmallVector<Value> dynamicSizes(Value tensor);

  func::FuncOp source;
  KernelTable &kernels;
  ConstantTable &constants;
  SymbolicSizes sizes;
  OpBuilder builder;
  func::FuncOp host;
  std::unique_ptr<SizeMaterializer> sizeValues;
  Operation *headEnd = nullptr; // sizes are computed and checked before it
  std::map<std::string, DeviceUse> devices;
  DeviceUse *onlyDevice = nullptr; // if all kernels are on one device, in its own memory
  using InMemory = std::pair<Value, Attribute>;
  DenseMap<InMemory, Value> buffers; // of tensors that are not constants, in each memory that has them
  DenseMap<Value, Attribute> homes;  // memories that roots are written to, or that a call gives arguments in
  DenseMap<std::pair<Attribute, Type>, Value> constantBuffers;
  DenseMap<InMemory, Value> events;   // of roots that a kernel or a copy writes
  SmallVector<Value> outputs;         // null for states
  DenseMap<Value, Value> hostOutputs; // of roots that are results, and copied to the memory of the host
  SmallVector<bool> isWritten;        // in place, by the kernel that computes it
  StateVersions states;               // tensors that lie in the memory of a state
  ComputedIndices computedIndices;    // by the group that uses them
  DenseSet<std::pair<Value, AffineExpr>> checkedIndices; // with their limits, in the region that is being built
  DenseMap<Value, Value> scalars;                        // integers that the host computes while it runs
  Operation *outermost = nullptr; // control flow of the host program that is being built; null outside of any
  EventOrder order;
};

} // namespace intarsia::lower

#endif
