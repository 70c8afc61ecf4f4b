//===- CacheAppendKernel.cpp - Rows into paged caches ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t threadsOfBlock = 128;

/// A warp stores the row of a token and head: as elements, quantized, or into the tail; or it quantizes the page whose
/// last slot the row has.
class CacheAppendKernel final : public MicrokernelEmitter {
public:
  CacheAppendKernel(rt::KernelOp kernel, nn::CacheAppendOp root, const Architecture &architecture)
      : MicrokernelEmitter(kernel, architecture), root(root), format(root.getFormat()) {}

private:
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", "cache append");
    shape.state("microkernel", microkernel());
    shape.state("threads", threadsOfBlock);
  }
  LogicalResult run() override;
  LogicalResult pushCaches();
  StringRef microkernel();

  nn::CacheAppendOp root;
  nn::CacheFormatAttr format;
};
} // namespace

Emitter makeCacheAppendKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::CacheAppendOp>(op);
  auto rows = cast<RankedTensorType>(root.getRows().getType());
  SmallVector<Value> whole(root.getCache());
  llvm::append_values(whole, root.getPositions(), root.getSequences());
  if (root.getPageTable())
    whole.push_back(root.getPageTable());
  if (root.getFrequencies() || root.getFormat().isOpen() || rows.isDynamicDim(1) || rows.isDynamicDim(2) ||
      !llvm::all_of(whole, MicrokernelEmitter::isWhole) || !MicrokernelEmitter::isReadable(root.getRows()))
    return nullptr;
  Operation *yield = kernel.getBody().front().getTerminator();
  bool isTaken = llvm::equal(yield->getOperands(), root.getResults());
  return isTaken ? std::make_unique<CacheAppendKernel>(kernel, root, architecture) : nullptr;
}

StringRef CacheAppendKernel::microkernel() {
  if (root.getTail())
    return "itx_cache_append_tail";
  if (!format.isQuantized())
    return "itx_cache_append";
  return format.hasTail() ? "itx_cache_append_quantized_pages" : "itx_cache_append_quantized_rows";
}

/// Pushes the cache that is written, and the tail that is written or read.
LogicalResult CacheAppendKernel::pushCaches() {
  SmallVector<Value> pointers;
  for (Value tensor : root.getCache()) {
    std::optional<Storage> storage = tensors.view(tensor);
    if (!storage)
      return function.refuse(root, "a cache that is computed in the same kernel");
    pointers.push_back(storage->pointer);
  }
  auto rows = cast<RankedTensorType>(root.getRows().getType());
  bool hasParameters = !root.getTail() && format.isQuantized();
  push(pointers[0]);
  if (hasParameters)
    push(pointers[1]);
  else
    pushNull();
  int64_t quantized = format.getBits() == 4 ? ElementKind::UI4 : ElementKind::UI8;
  push(format.isQuantized() ? quantized : kindOf(format.getElement()));
  push(format.getTransposed());
  push(rows.getDimSize(1));
  push(format.getPage());
  push(rows.getDimSize(2));
  if (root.getTail() || (hasParameters && format.hasTail())) {
    push(pointers.back());
    push(kindOf(cast<RankedTensorType>(root.getCache().back().getType()).getElementType()));
  } else {
    pushNull();
    push(ElementKind::F32);
  }
  return success();
}

LogicalResult CacheAppendKernel::run() {
  if (failed(prepare(root.getRows())))
    return failure();
  ArrayRef<AffineExpr> extents = function.sizes.of(root.getRows());
  int64_t warps = threadsOfBlock / architecture.warpSize;
  function.beginLaunch(threadsOfBlock, (extents[0] * extents[1]).ceilDiv(warps));
  if (failed(pushCaches()) || failed(pushStrided(root.getRows())))
    return failure();
  for (Value tensor : {root.getPositions(), root.getSequences(), root.getPageTable()}) {
    if (!tensor) {
      pushNull();
      continue;
    }
    std::optional<Storage> indices = tensors.view(tensor);
    if (!indices)
      return function.refuse(root, "an index that is computed in the same kernel");
    push(indices->pointer);
  }
  push(kindOf(cast<RankedTensorType>(root.getPositions().getType()).getElementType()));
  push(root.getPageTable() ? function.sizeOf(root.getPageTable(), 1) : constant(0));
  push(function.size(extents[0]));
  push(warps);
  call(microkernel());
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
