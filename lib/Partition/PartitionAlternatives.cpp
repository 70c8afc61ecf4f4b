//===- PartitionAlternatives.cpp - One function for each device ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DEF_PARTITIONALTERNATIVES
#include "lib/Partition/Passes.h.inc"

namespace {

struct PartitionAlternatives : impl::PartitionAlternativesBase<PartitionAlternatives> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<rt::DeviceOp> devices(module.getOps<rt::DeviceOp>());
    if (devices.size() < 2)
      return;
    llvm::StringSet<> used;
    module.walk([&](Operation *op) {
      if (auto device = op->getAttrOfType<FlatSymbolRefAttr>(rt::deviceAttr))
        used.insert(device.getValue());
    });
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function->hasAttr(rt::alternativeAttr))
        return; // the module has its alternatives
      if (!function.isExternal() && !function.isPrivate())
        functions.push_back(function);
    }
    SymbolTable symbols(module);
    for (rt::DeviceOp device : llvm::drop_begin(devices)) {
      if (used.contains(device.getSymName()))
        continue;
      for (func::FuncOp function : functions)
        symbols.insert(alternativeOn(device, function), ++function->getIterator());
    }
  }

  static func::FuncOp alternativeOn(rt::DeviceOp device, func::FuncOp function) {
    func::FuncOp copy = function.clone();
    copy.setSymName((function.getSymName() + "." + device.getSymName()).str());
    copy->setAttr(rt::alternativeAttr, function.getSymNameAttr());
    copy->setAttr(rt::deviceAttr, FlatSymbolRefAttr::get(device.getSymNameAttr())); // of ops that are added later
    copy.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op != copy && !isa<RegionBranchOpInterface>(op) && rt::runsOnDevice(op))
        op->setAttr(rt::deviceAttr, FlatSymbolRefAttr::get(device.getSymNameAttr()));
      // Ops in control flow are placed each for itself.
      return op == copy || isa<RegionBranchOpInterface>(op) ? WalkResult::advance() : WalkResult::skip();
    });
    return copy;
  }
};

} // namespace
} // namespace intarsia::partition
