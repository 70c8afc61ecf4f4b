//===- PartitionAddCandidates.cpp - Functions that find the likeliest tokens where logits are ---------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DEF_PARTITIONADDCANDIDATES
#include "lib/Partition/Passes.h.inc"

namespace {

/// The temperatures of a row: that of the model's own probabilities, and that of the sampler.
constexpr int64_t temperatures = 2;

struct PartitionAddCandidates : impl::PartitionAddCandidatesBase<PartitionAddCandidates> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module.getOps<rt::DeviceOp>().empty())
      return; // nothing says where logits are
    SymbolTable symbols(module);
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      // A module that has alternatives already has these functions too.
      if (function->hasAttr(rt::alternativeAttr))
        return;
      std::string name = (function.getSymName() + "_candidates").str();
      Value logits = logitsOf(function);
      if (!logits || symbols.lookup(name))
        continue;
      Operation *source = sourceOf(logits);
      if (!source)
        continue;
      FailureOr<bool> isUseful = mayStayOnDevice(source);
      if (failed(isUseful))
        return signalPassFailure();
      if (*isUseful)
        symbols.insert(candidatesOf(function, name, cast<RankedTensorType>(logits.getType()),
                                    source->getAttrOfType<FlatSymbolRefAttr>(rt::deviceAttr)),
                       ++function->getIterator());
    }
  }

private:
  /// Returns the logits of a forward step: the result of this name, f32 [outputs, vocabulary], of a function with
  /// state.
  static Value logitsOf(func::FuncOp function) {
    bool hasState = false;
    for (unsigned i = 0; i != function.getNumArguments(); ++i)
      hasState |= bool(function.getArgAttr(i, "nn.state"));
    if (function.isExternal() || function.isPrivate() || !hasState)
      return {};
    Operation *end = function.getBody().front().getTerminator();
    for (auto [index, value] : llvm::enumerate(end->getOperands())) {
      auto name = function.getResultAttrOfType<StringAttr>(index, "nn.name");
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (name && name == "logits" && type && type.getRank() == 2 && type.getElementType().isF32() &&
          !type.isDynamicDim(1))
        return value;
    }
    return {};
  }

  /// Returns the op whose kernel computes a value, null if that is an input or control flow.
  static Operation *sourceOf(Value value) {
    Operation *op = value.getDefiningOp();
    while (op && !rt::runsOnDevice(op) && op->getNumOperands() != 0)
      op = op->getOperand(0).getDefiningOp();
    return op && rt::runsOnDevice(op) && !isa<RegionBranchOpInterface>(op) ? op : nullptr;
  }

  /// Returns true if a device with a memory of its own computes the logits, or will in an alternative of the function.
  FailureOr<bool> mayStayOnDevice(Operation *source) {
    FailureOr<target::Device> device = target::deviceOf(source);
    if (failed(device))
      return failure();
    if (!device->target->usesHostMemory())
      return device->target->findsCandidates();
    llvm::StringSet<> used;
    getOperation().walk([&](Operation *op) {
      if (auto placed = op->getAttrOfType<FlatSymbolRefAttr>(rt::deviceAttr))
        used.insert(placed.getValue());
    });
    return llvm::any_of(llvm::drop_begin(getOperation().getOps<rt::DeviceOp>()), [&](rt::DeviceOp other) {
      const target::Target *target = target::Target::find(other.getTarget().getKind());
      return target && !target->usesHostMemory() && target->findsCandidates() && !used.contains(other.getSymName());
    });
  }

  static func::FuncOp candidatesOf(func::FuncOp step, StringRef name, RankedTensorType logits,
                                   FlatSymbolRefAttr device) {
    MLIRContext *context = step.getContext();
    OpBuilder builder(context);
    auto locationOf = [&](StringRef value) -> Location { return NameLoc::get(builder.getStringAttr(value)); };
    Type f32 = builder.getF32Type();
    auto rowsOf = [&](int64_t columns) { return RankedTensorType::get({ShapedType::kDynamic, columns}, f32); };
    SmallVector<Type> inputs = {rowsOf(logits.getDimSize(1)), rowsOf(temperatures)};
    auto function = func::FuncOp::create(step.getLoc(), name, builder.getFunctionType(inputs, {}));
    Block *entry = function.addEntryBlock();
    for (auto [index, input] : llvm::enumerate(ArrayRef<StringRef>{"logits", "temperatures"})) {
      entry->getArgument(index).setLoc(locationOf(input));
      function.setArgAttr(index, "nn.name", builder.getStringAttr(input));
      function.setArgAttr(index, "nn.sizes", builder.getStrArrayAttr({"outputs", ""}));
    }
    builder.setInsertionPointToEnd(entry);
    int64_t count = std::min(nn::CandidatesOp::largestCount, logits.getDimSize(1));
    auto op = nn::CandidatesOp::create(builder, locationOf("candidates"), entry->getArgument(0), entry->getArgument(1),
                                       builder.getI64IntegerAttr(count));
    if (device)
      op->setAttr(rt::deviceAttr, device);
    func::ReturnOp::create(builder, step.getLoc(), op->getResults());
    function.setFunctionType(builder.getFunctionType(inputs, op->getResultTypes()));
    for (auto [index, result] : llvm::enumerate(ArrayRef<StringRef>{"values", "tokens", "sums"})) {
      function.setResultAttr(index, "nn.name", builder.getStringAttr(result));
      function.setResultAttr(index, "nn.sizes", builder.getStrArrayAttr({"outputs", ""}));
    }
    return function;
  }
};

} // namespace
} // namespace intarsia::partition
