//===- AttentionKernel.cpp - Attention whose scores stay in shared memory ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/AttentionShapes.h"
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// A block computes a tile of the queries of one head: by matrix instructions if operands are of 16 bits, or may be
/// rounded to those.
class AttentionKernel final : public MicrokernelEmitter {
public:
  AttentionKernel(rt::KernelOp kernel, nn::AttentionOp root, const Architecture &architecture)
      : MicrokernelEmitter(kernel, architecture), root(root) {}

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  StringRef microkernel() const {
    return byWarpgroups ? "itx_attention_warpgroups" : byMatrices ? "itx_attention_matrix" : "itx_attention";
  }

  nn::AttentionOp root;
  Type element; ///< that is multiplied
  bool byMatrices = false, byWarpgroups = false, areConverted = false;
  int64_t rows = 0, keys = 0, threads = 0, bytes = 0; ///< of a block
};

AttentionShape shapeOf(nn::AttentionOp root) {
  auto featuresOf = [](Value tensor) { return cast<RankedTensorType>(tensor.getType()).getDimSize(3); };
  return {featuresOf(root.getQuery()), featuresOf(root.getValue())};
}
} // namespace

Emitter makeAttentionKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture) {
  return std::make_unique<AttentionKernel>(kernel, cast<nn::AttentionOp>(root), architecture);
}

bool hasAttentionKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::AttentionOp>(op);
  auto isReadable = [](Value tensor) { return !tensor || MicrokernelEmitter::isReadable(tensor); };
  return shapeOf(root).fits(architecture.warpSize) && MicrokernelEmitter::yieldsOnly(kernel, root) &&
         llvm::all_of(SmallVector<Value>{root.getQuery(), root.getKey(), root.getValue(), root.getMask()}, isReadable);
}

void AttentionKernel::chooseShape(KernelShape &stated) {
  AttentionShape shape = shapeOf(root);
  element = getElementTypeOrSelf(root.getQuery());
  if (element.isF32())
    element = root.getPrecision().value_or(element);
  // Integers of 8 bits are permitted, and f16 has more.
  if (element.isInteger(8))
    element = b.getF16Type();
  byMatrices = shape.fitsMatrices() && (element.isF16() || element.isBF16());
  areConverted = element != getElementTypeOrSelf(root.getKey());
  byWarpgroups = byMatrices && !areConverted && architecture.matrixFamily == MatrixFamily::Wgmma;
  rows = byWarpgroups ? shape.warpgroupRows() : byMatrices ? shape.matrixRows(architecture, 1) : shape.tileRows();
  keys = byWarpgroups ? warpgroupKeys : byMatrices ? shape.matrixKeys(architecture, 1, areConverted) : shape.tileKeys();
  threads = byMatrices ? (byWarpgroups ? warpsOfWarpgroups : warpsOfMatrixTile) * architecture.warpSize : threadsOfTile;
  bytes = byWarpgroups ? shape.sharedBytesOfWarpgroups(1)
          : byMatrices ? shape.sharedBytesOfMatrices(architecture, 1, areConverted)
                       : shape.sharedBytesOfTile();
  stated.state("kernel", "attention");
  stated.state("microkernel", microkernel());
  stated.state("products", TypeAttr::get(byMatrices ? element : b.getF32Type()));
  stated.state("queries", rows);
  stated.state("block_keys", keys);
  stated.state("threads", threads);
  stated.state("shared_bytes", bytes);
}

LogicalResult AttentionKernel::run() {
  SmallVector<Value> operands = {root.getQuery(), root.getKey(), root.getValue()};
  for (Value operand : operands)
    if (failed(prepare(operand)))
      return failure();
  if (root.getMask() && failed(prepare(root.getMask())))
    return failure();
  AttentionShape shape = shapeOf(root);
  ArrayRef<AffineExpr> query = function.sizes.of(root.getQuery()), key = function.sizes.of(root.getKey());
  function.beginLaunch(threads, query[0] * query[2] * query[1].ceilDiv(rows));
  Value shared = function.sharedMemory(number(bytes));
  for (Value operand : operands)
    if (failed(pushStrided(operand)))
      return failure();
  push(root.getMask() != nullptr);
  if (root.getMask()) {
    if (failed(pushStrided(root.getMask(), /*broadcasts=*/true)))
      return failure();
  } else {
    pushNull();
    push(ElementKind::F32);
    for (int stride = 0; stride != 4; ++stride)
      push(int64_t(0));
  }
  pushOutput();
  push(function.size(query[1]));
  push(function.size(key[1]));
  push(function.size(query[2]));
  push(function.size(key[2]));
  push(shape.keyFeatures);
  push(shape.valueFeatures);
  push(root.getCausal());
  pushFloat(root.getScale().convertToDouble());
  if (byWarpgroups) {
    push(warpsOfWarpgroups);
    push(keys);
    push(kindOf(element));
    push(1);
  } else if (byMatrices) {
    push(shape.rowBlocks(architecture, 1));
    push(keys);
    push(kindOf(element));
    push(1);
    push(shape.keepsQueries(architecture, 1, areConverted));
  } else {
    push(rows);
    push(keys);
  }
  push(shared);
  call(microkernel(), /*leastBlocks=*/byWarpgroups ? 1 : 2);
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
