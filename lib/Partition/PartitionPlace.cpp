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

/// One place of the option.
struct Place {
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
    SmallVector<Place> all;
    for (const std::string &text : places)
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
    for (const Place &place : all)
      if (!place.isUsed) {
        refuseUnused(place, seen);
        return signalPassFailure();
      }
  }

  static void place(Operation *op, MutableArrayRef<Place> all, llvm::StringSet<> &seen) {
    SmallVector<StringRef> names = namesOf(op);
    for (StringRef name : names)
      seen.insert(name);
    for (Place &place : all) {
      if (llvm::none_of(names, [&](StringRef name) { return place.glob.match(name); }))
        continue;
      place.isUsed = true;
      op->setAttr(rt::deviceAttr, place.device);
    }
  }

  LogicalResult parse(const std::string &text, SmallVectorImpl<Place> &all) {
    auto [pattern, device] = StringRef(text).rsplit("=@");
    if (pattern.empty() || device.empty())
      return getOperation().emitError() << "the place '" << text
                                        << "' is not GLOB=@device, for instance encoder.layer.0.*=@cpu";
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return getOperation().emitError() << "the place '" << text
                                        << "' has an invalid glob: " << llvm::toString(glob.takeError());
    std::string known;
    for (auto declared : getOperation().getOps<rt::DeviceOp>()) {
      known += (known.empty() ? "@" : ", @") + declared.getSymName().str();
      if (declared.getSymName() == device) {
        all.push_back({text, std::move(*glob), FlatSymbolRefAttr::get(declared.getSymNameAttr())});
        return success();
      }
    }
    return getOperation().emitError() << "the place '" << text << "' is on a device that the module is not compiled for"
                                      << (known.empty() ? "" : "; its devices are " + known)
                                      << ": name it in --target too";
  }

  void refuseUnused(const Place &place, const llvm::StringSet<> &seen) {
    std::vector<std::string> names;
    for (const auto &entry : seen)
      names.push_back(entry.getKey().str());
    llvm::sort(names);
    StringRef pattern = StringRef(place.text).rsplit("=@").first;
    InFlightDiagnostic error = getOperation().emitError() << "the place '" << place.text << "' matches no op";
    if (std::string near = nearestNames(pattern, names); !near.empty())
      error << near;
    else if (!names.empty())
      error << "; the model has for instance '" << names.front() << "' and '" << names.back() << "'";
  }
};

} // namespace
} // namespace intarsia::partition
