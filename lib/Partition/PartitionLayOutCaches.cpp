//===- PartitionLayOutCaches.cpp - Pages of caches as their devices read them -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/FunctionCaches.h"
#include "intarsia/Target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DEF_PARTITIONLAYOUTCACHES
#include "lib/Partition/Passes.h.inc"

namespace {

/// A cache whose layout is open, and the devices that use it.
struct OpenCache {
  FunctionCache *cache;
  SmallVector<target::Device> devices; ///< each once, in the order of their ops
};

struct PartitionLayOutCaches : impl::PartitionLayOutCachesBase<PartitionLayOutCaches> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(layOut(function)) || failed(noteFormats(function)))
        return signalPassFailure();
  }

private:
  /// Notes the formats of caches in the metadata of a model: its artifact says them, so that caches can be handed over.
  LogicalResult noteFormats(func::FuncOp function) {
    auto metadata = function->getAttrOfType<DictionaryAttr>("nn.metadata");
    if (!metadata)
      return success();
    FailureOr<SmallVector<FunctionCache>> caches = findCaches(function);
    if (failed(caches))
      return failure();
    if (caches->empty())
      return success();
    Builder builder(function);
    NamedAttrList formats, entries(metadata);
    for (FunctionCache &cache : *caches) {
      std::string element;
      llvm::raw_string_ostream(element) << cache.format.getElement()
                                        << (cache.format.getUnrotated() ? " unrotated" : "");
      formats.set(cache.name,
                  builder.getDictionaryAttr(
                      {builder.getNamedAttr("element", builder.getStringAttr(element)),
                       builder.getNamedAttr("transposed", builder.getBoolAttr(cache.format.getTransposed()))}));
    }
    entries.set("caches", formats.getDictionary(builder.getContext()));
    function->setAttr("nn.metadata", entries.getDictionary(builder.getContext()));
    return success();
  }

  LogicalResult layOut(func::FuncOp function) {
    FailureOr<SmallVector<FunctionCache>> caches = findCaches(function);
    if (failed(caches))
      return failure();
    SmallVector<OpenCache> open;
    llvm::SetVector<int64_t> fixed;
    for (FunctionCache &cache : *caches) {
      if (!cache.format.isOpen()) {
        fixed.insert(cache.format.getPage());
        continue;
      }
      open.push_back({&cache, {}});
      if (failed(findDevices(open.back())))
        return failure();
    }
    if (open.empty())
      return success();
    FailureOr<int64_t> page = choosePage(function, open, fixed.getArrayRef());
    if (failed(page))
      return failure();
    for (OpenCache &one : open) {
      FailureOr<bool> transposed = orderOf(one, *page);
      if (failed(transposed))
        return failure();
      setFormat(function, *one.cache, one.cache->format.withLayout(*page, *transposed));
    }
    return success();
  }

  LogicalResult findDevices(OpenCache &one) {
    for (Operation *user : one.cache->users) {
      FailureOr<target::Device> device = target::deviceOf(user);
      if (failed(device))
        return failure();
      if (llvm::none_of(one.devices, [&](const target::Device &other) { return other.op == device->op; }))
        one.devices.push_back(*device);
    }
    return success();
  }

  /// Chooses the pages of a function: those of caches that are laid out, else the first preference that all devices
  /// take.
  FailureOr<int64_t> choosePage(func::FuncOp function, ArrayRef<OpenCache> open, ArrayRef<int64_t> fixed) {
    llvm::SetVector<int64_t> candidates(fixed.begin(), fixed.end());
    if (candidates.empty())
      for (const OpenCache &one : open)
        for (target::Device device : one.devices) {
          llvm::Expected<target::CacheLayout> layout = device.target->cacheLayout(one.cache->format, /*page=*/0);
          if (!layout)
            return one.cache->users.front()->emitOpError()
                   << "keeps '" << one.cache->name << "' as " << one.cache->format << " on @" << device.op.getSymName()
                   << ", which cannot: " << llvm::toString(layout.takeError());
          candidates.insert(layout->page);
        }
    std::string refusals;
    for (int64_t page : candidates) {
      std::string refusal = refusalOf(open, page);
      if (refusal.empty())
        return page;
      refusals += "; " + refusal;
    }
    return function.emitError() << "caches of '" << function.getSymName()
                                << "' share a page table and need pages of one size, which its devices do not agree on"
                                << refusals << ": place all ops that use caches on one device";
  }

  /// Returns who does not take pages of a size and why, for instance "@cpu: …"; empty if all do.
  static std::string refusalOf(ArrayRef<OpenCache> open, int64_t page) {
    for (const OpenCache &one : open)
      for (target::Device device : one.devices) {
        llvm::Expected<target::CacheLayout> layout = device.target->cacheLayout(one.cache->format, page);
        if (!layout)
          return "@" + device.op.getSymName().str() + ": " + llvm::toString(layout.takeError());
      }
    return "";
  }

  FailureOr<bool> orderOf(const OpenCache &one, int64_t page) {
    std::optional<bool> transposed;
    for (target::Device device : one.devices) {
      bool order = llvm::cantFail(device.target->cacheLayout(one.cache->format, page)).transposed;
      if (transposed && *transposed != order)
        return one.cache->users.front()->emitOpError()
               << "uses '" << one.cache->name << "' on @" << target::Device(one.devices.front()).op.getSymName()
               << ", another op uses it on @" << device.op.getSymName()
               << ", where pages have another order: place all ops that use it on one device";
      transposed = order;
    }
    return *transposed;
  }
};

} // namespace
} // namespace intarsia::partition
