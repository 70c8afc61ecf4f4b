//===- FuseComputeAtLoad.cpp - Computes what is constant once, when a module is loaded ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/FormatVariadic.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSECOMPUTEATLOAD
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Tensors may take this many bytes more than the weights that they are computed from: tables of positions do, and no
/// device that runs models misses it.
constexpr double mostAddedBytes = 64 << 20;

bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.hasStaticShape() : type.isIntOrIndexOrFloat();
}

/// The ops of a function that compute the same in each call.
class ConstantOps {
public:
  explicit ConstantOps(func::FuncOp function) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == function)
        return WalkResult::advance();
      if (isConstant(op)) {
        ops.insert(op);
        return WalkResult::skip();
      }
      return isa<linalg::LinalgOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
  }

  bool contains(Operation *op) const { return op && ops.contains(op); }
  ArrayRef<Operation *> inOrder() const { return ops.getArrayRef(); }

  /// Returns the ops that a value is computed by, in the order of the function. Weights and what is made of them at
  /// compile time come first or are left out.
  SmallVector<Operation *> sliceOf(Value value, bool withCompileTime) const {
    DenseSet<Operation *> found;
    SmallVector<Operation *> open{value.getDefiningOp()};
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      if (!op || (!withCompileTime && isMadeAtCompileTime(op)) || !found.insert(op).second)
        continue;
      for (Value operand : operandsOf(op))
        open.push_back(operand.getDefiningOp());
    }
    return llvm::to_vector(llvm::make_filter_range(ops, [&](Operation *op) { return found.contains(op); }));
  }

  static bool isMadeAtCompileTime(Operation *op) {
    return op->getNumResults() == 1 && isa<RankedTensorType>(op->getResult(0).getType()) &&
           isCompileTime(op->getResult(0));
  }

private:
  /// Returns the operands of an op, and what its regions read from outside.
  static SmallVector<Value> operandsOf(Operation *op) {
    SmallVector<Value> values(op->getOperands());
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    llvm::append_range(values, captured);
    return values;
  }

  bool isConstant(Operation *op) const {
    bool isKnownOp = isa<linalg::LinalgOp>(op) || op->getNumRegions() == 0;
    // Kernels read quantized weights as they are stored.
    bool isQuantization = isa<nn::QuantizeOp, nn::DequantizeOp>(op) && !isMadeAtCompileTime(op);
    return isKnownOp && op->getNumResults() != 0 && isMemoryEffectFree(op) && !isQuantization &&
           !op->hasTrait<OpTrait::IsTerminator>() && !isa_and_nonnull<shard::ShardDialect>(op->getDialect()) &&
           llvm::all_of(op->getResultTypes(), isStatic) &&
           llvm::all_of(operandsOf(op), [&](Value value) { return contains(value.getDefiningOp()); });
  }

  llvm::SetVector<Operation *> ops;
};

/// The function that computes what several functions read. Equal ops are one.
class LoadFunction {
public:
  explicit LoadFunction(ModuleOp module) : module(module), builder(module.getContext()) {}

  /// Adds the ops that a value is computed by, and returns its name as a global.
  StringAttr add(Value value, ArrayRef<Operation *> slice, Attribute device) {
    if (!function) {
      builder.setInsertionPointToEnd(module.getBody());
      function = func::FuncOp::create(builder, module.getLoc(), "constants_at_load", builder.getFunctionType({}, {}));
      SymbolTable(module).insert(function);
      function->setAttr("nn.runs_at_load", builder.getUnitAttr());
      if (device)
        function->setAttr(rt::deviceAttr, device);
      builder.setInsertionPointToStart(function.addEntryBlock());
    }
    for (Operation *op : slice)
      if (!copies.contains(op->getResult(0)))
        copy(op);
    Value result = copies.lookup(value);
    StringAttr &name = names[result];
    if (!name) {
      name = builder.getStringAttr(function.getSymName() + "." + Twine(results.size()));
      results.push_back(result);
    }
    return name;
  }

  void finish() {
    if (!function)
      return;
    func::ReturnOp::create(builder, module.getLoc(), results);
    function.setFunctionType(builder.getFunctionType({}, ValueRange(results).getTypes()));
    for (auto [number, result] : llvm::enumerate(results))
      function.setResultAttr(number, "nn.global", names[result]);
  }

private:
  void copy(Operation *op) {
    Operation *made = builder.clone(*op, copies);
    // Regions are compared by OperationEquivalence; hashes need not know them.
    llvm::hash_code hash =
        OperationEquivalence::computeHash(made, OperationEquivalence::directHashValue,
                                          OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations);
    for (Operation *other : equals[hash])
      if (OperationEquivalence::isEquivalentTo(made, other, OperationEquivalence::IgnoreLocations)) {
        copies.map(op->getResults(), other->getResults());
        made->erase();
        return;
      }
    equals[hash].push_back(made);
  }

  ModuleOp module;
  OpBuilder builder;
  func::FuncOp function;
  IRMapping copies;
  DenseMap<Value, StringAttr> names;
  SmallVector<Value> results;
  DenseMap<llvm::hash_code, SmallVector<Operation *, 1>> equals;
};

struct FuseComputeAtLoad : fuse::impl::FuseComputeAtLoadBase<FuseComputeAtLoad> {
  using FuseComputeAtLoadBase::FuseComputeAtLoadBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.getOps<shard::GridOp>().empty())
      for (auto function : module.getOps<func::FuncOp>())
        if (failed(refuseInWorld(function)))
          return signalPassFailure();
    // Ranks have parts of weights, and alternatives exist for some machines: each would need a function of its own.
    if (!module.getOps<shard::GridOp>().empty() ||
        llvm::any_of(module.getOps<func::FuncOp>(),
                     [](func::FuncOp function) { return function->hasAttr(rt::alternativeAttr); }))
      return;
    LoadFunction atLoad(module);
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!function.isExternal() && !function->hasAttr("nn.runs_at_load") && failed(take(function, atLoad)))
        return signalPassFailure();
    atLoad.finish();
  }

  /// Refuses what the ranks of a world cannot: each has functions of its own.
  static LogicalResult refuseInWorld(func::FuncOp function) {
    for (unsigned number = 0; number < function.getNumArguments(); ++number)
      if (auto global = function.getArgAttrOfType<StringAttr>(number, "nn.global"))
        return function.emitError() << "function '" << function.getSymName() << "' has the global '"
                                    << global.getValue()
                                    << "', which models of several ranks cannot have: compile it for one process";
    if (function->hasAttr("nn.continues"))
      return function.emitError() << "function '" << function.getSymName()
                                  << "' has sizes that a call computes, which models of several ranks cannot have: "
                                     "compile it for one process";
    return success();
  }

  LogicalResult take(func::FuncOp function, LoadFunction &atLoad) {
    ConstantOps constants(function);
    SmallVector<Value> wanted; // by ops that differ from call to call
    for (Operation *op : constants.inOrder())
      for (Value result : op->getResults())
        if (!ConstantOps::isMadeAtCompileTime(op) && hasWork(op) && isa<RankedTensorType>(result.getType()) &&
            cast<RankedTensorType>(result.getType()).getNumElements() != 0 &&
            llvm::any_of(result.getUsers(),
                         [&](Operation *user) { return !isa<tensor::DimOp>(user) && !isIn(user, constants); }))
          wanted.push_back(result);
    if (wanted.empty())
      return success();
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return failure();
    WorkModel model(function);
    SmallVector<std::pair<Value, StringAttr>> taken;
    SmallVector<std::string> flips(flip.begin(), flip.end());
    Decisions decisions(function, getArgument(), flips);
    for (Value value : wanted) {
      auto device = devices->find(value.getDefiningOp()->getAttr(rt::deviceAttr));
      if (device == devices->end()) // in a region, of another device
        continue;
      std::string why;
      if (isWorthIt(value, constants, model, *device->second.model, decisions, why))
        taken.emplace_back(value, atLoad.add(value, constants.sliceOf(value, /*withCompileTime=*/true),
                                             function->getAttr(rt::deviceAttr)));
    }
    decisions.record();
    for (auto [value, name] : taken) {
      unsigned number = function.getNumArguments();
      Builder builder(function.getContext());
      DictionaryAttr attributes =
          builder.getDictionaryAttr({builder.getNamedAttr("nn.global", name),
                                     builder.getNamedAttr("nn.name", builder.getStringAttr("@" + name.getValue()))});
      unsigned known = number;
      for (unsigned i = 0; i < number; ++i) // of an equal value
        if (function.getArgAttr(i, "nn.global") == name)
          known = i;
      if (known == number && failed(function.insertArgument(number, value.getType(), attributes, value.getLoc())))
        return failure();
      value.replaceAllUsesWith(function.getArgument(known));
    }
    return success();
  }

  /// False for what kernels have copies of: it is no tensor of its own in a call either.
  static bool hasWork(Operation *op) { return !isa<tensor::EmptyOp, linalg::FillOp, tensor::SplatOp>(op); }

  /// True for an op that computes the same in each call, or that is in a region of such.
  static bool isIn(Operation *op, const ConstantOps &constants) {
    for (; op; op = op->getParentOp())
      if (constants.contains(op))
        return true;
    return false;
  }

  /// Returns an op that reads a value as it is stored, as attention reads its mask; null if the kernels that go on with
  /// the value compute it themselves, as those of rows do.
  static Operation *storedUser(Value value, const ConstantOps &constants) {
    for (Operation *user : value.getUsers())
      if (!isa<tensor::DimOp>(user) && !isIn(user, constants))
        if (std::optional<KernelRoot> root = kernelRootOf(user);
            root && *root != KernelRoot::Rows && *root != KernelRoot::Generic)
          return user;
    return nullptr;
  }

  /// True if reading a value is cheaper than computing it again, also where that joins another kernel.
  static bool isWorthIt(Value value, const ConstantOps &constants, const WorkModel &model, const DeviceModel &device,
                        Decisions &decisions, std::string &why) {
    SmallVector<Operation *> slice = constants.sliceOf(value, /*withCompileTime=*/false);
    KernelWork computing = model.work(KernelRoot::Generic, slice), reading;
    double bytes = model.bytes(value), computingUs, readingUs;
    if (Operation *user = storedUser(value, constants)) {
      // A kernel of its own writes the value. The one that reads it does so beside its arithmetic.
      computing.activationBytes = bytes;
      computingUs = device.microseconds(computing);
      const KernelWork without = model.work(*kernelRootOf(user), {user});
      reading = without;
      reading.weightBytes += bytes;
      reading.activationBytes = std::max(0.0, reading.activationBytes - bytes);
      readingUs = device.microseconds(reading) - device.microseconds(without);
    } else {
      computing.activationBytes = 0; // in a kernel that goes on with the value
      computingUs = device.microseconds(computing) - device.launchUs;
      reading.weightBytes = bytes;
      readingUs = device.microseconds(reading) - device.launchUs;
    }
    if (bytes > computing.weightBytes + mostAddedBytes)
      return false;
    return decisions.joins({value.getDefiningOp(), KernelRoot::Generic, "constants_at_load", readingUs, computingUs,
                            llvm::formatv("{0:f1} KB are kept", bytes / 1e3).str()},
                           why);
  }
};
} // namespace
