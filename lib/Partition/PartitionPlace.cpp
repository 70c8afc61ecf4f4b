//===- PartitionPlace.cpp - Ops get devices by their names --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"
#include "intarsia/Cost/Catalogue.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONPLACE
#include "lib/Partition/Passes.h.inc"

namespace {

/// One placement of the option.
struct Placement {
  std::string text;
  llvm::GlobPattern glob;
  FlatSymbolRefAttr device;
  bool isUsed = false;
};

/// The names in an op's location.
SmallVector<StringRef> namesOf(Operation *op) {
  SmallVector<StringRef> names;
  op->getLoc()->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part))
      names.push_back(name.getName().getValue());
    return WalkResult::advance();
  });
  return names;
}

struct PartitionPlace : impl::PartitionPlaceBase<PartitionPlace> {
  using PartitionPlaceBase::PartitionPlaceBase;

  void runOnOperation() override {
    SmallVector<Placement> all;
    for (const std::string &text : placements)
      if (failed(parse(text, all)))
        return signalPassFailure();
    llvm::StringSet<> seen;
    for (auto function : getOperation().getOps<func::FuncOp>())
      function.walk<WalkOrder::PreOrder>([&](Operation *op) {
        bool isControlFlow = isa<RegionBranchOpInterface>(op); // ops in it are placed each for itself
        if (op != function && !isControlFlow && rt::runsOnDevice(op))
          place(op, all, seen);
        return op == function || isControlFlow ? WalkResult::advance() : WalkResult::skip();
      });
    for (const Placement &placement : all)
      if (!placement.isUsed) {
        refuseUnused(placement, seen);
        return signalPassFailure();
      }
  }

  static void place(Operation *op, MutableArrayRef<Placement> all, llvm::StringSet<> &seen) {
    SmallVector<StringRef> names = namesOf(op);
    for (StringRef name : names)
      seen.insert(name);
    for (Placement &placement : all) {
      if (llvm::none_of(names, [&](StringRef name) { return placement.glob.match(name); }))
        continue;
      placement.isUsed = true;
      op->setAttr(rt::deviceAttr, placement.device);
    }
  }

  LogicalResult parse(const std::string &text, SmallVectorImpl<Placement> &all) {
    auto [pattern, device] = StringRef(text).rsplit("=@");
    if (pattern.empty() || device.empty())
      return getOperation().emitError() << "the placement '" << text
                                        << "' is not GLOB=@device, for instance encoder.layer.0.*=@cpu";
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return getOperation().emitError() << "the placement '" << text
                                        << "' has an invalid glob: " << llvm::toString(glob.takeError());
    std::string known;
    for (auto declared : getOperation().getOps<rt::DeviceOp>()) {
      known += (known.empty() ? "@" : ", @") + declared.getSymName().str();
      if (declared.getSymName() == device) {
        all.push_back({text, std::move(*glob), FlatSymbolRefAttr::get(declared.getSymNameAttr())});
        return success();
      }
    }
    return getOperation().emitError() << "the placement '" << text
                                      << "' is on a device that the module is not compiled for"
                                      << (known.empty() ? "" : "; its devices are " + known)
                                      << ": name it in --target too";
  }

  void refuseUnused(const Placement &placement, const llvm::StringSet<> &seen) {
    std::vector<std::string> names;
    for (const auto &entry : seen)
      names.push_back(entry.getKey().str());
    llvm::sort(names);
    StringRef pattern = StringRef(placement.text).rsplit("=@").first;
    InFlightDiagnostic error = getOperation().emitError() << "the placement '" << placement.text << "' matches no op";
    if (std::string near = nearestNames(pattern, names); !near.empty())
      error << near;
    else if (!names.empty())
      error << "; the model has for instance '" << names.front() << "' and '" << names.back() << "'";
  }
};

} // namespace
} // namespace intarsia::partition
