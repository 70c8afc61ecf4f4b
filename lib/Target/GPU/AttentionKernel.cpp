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
  nn::AttentionOp root;
  AttentionTile tile{};
  StringRef microkernel;
};

AttentionShape shapeOf(nn::AttentionOp root) {
  auto featuresOf = [](Value tensor) { return cast<RankedTensorType>(tensor.getType()).getDimSize(3); };
  return {featuresOf(root.getQuery()), featuresOf(root.getValue())};
}
} // namespace

Emitter makeAttentionKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::AttentionOp>(op);
  auto isReadable = [](Value tensor) { return !tensor || MicrokernelEmitter::isReadable(tensor); };
  bool isTaken =
      shapeOf(root).fits(architecture.warpSize) && MicrokernelEmitter::yieldsOnly(kernel, root) &&
      llvm::all_of(SmallVector<Value>{root.getQuery(), root.getKey(), root.getValue(), root.getMask()}, isReadable);
  return isTaken ? std::make_unique<AttentionKernel>(kernel, root, architecture) : nullptr;
}

void AttentionKernel::chooseShape(KernelShape &stated) {
  AttentionShape shape = shapeOf(root);
  Type element = getElementTypeOrSelf(root.getQuery());
  if (element.isF32())
    element = root.getPrecision().value_or(element);
  // Integers of 8 bits are permitted, and f16 has more.
  if (element.isInteger(8))
    element = b.getF16Type();
  std::optional<AttentionProducts> products;
  if (shape.fitsMatrices() && (element.isF16() || element.isBF16())) {
    bool areConverted = element != getElementTypeOrSelf(root.getKey());
    products = {kindOf(element), 1, areConverted, !areConverted && architecture.matrixFamily == MatrixFamily::Wgmma};
  }
  tile = shape.tileFor(architecture, products);
  microkernel = !products                ? "itx_attention"
                : products->byWarpgroups ? "itx_attention_warpgroups"
                                         : "itx_attention_matrix";
  stated.state("kernel", "attention");
  stateTile(stated, microkernel, tile);
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
  function.beginLaunch(tile.threads, query[0] * query[2] * query[1].ceilDiv(tile.rows));
  Value shared = function.sharedMemory(number(tile.sharedBytes));
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
  callTile(microkernel, tile, shared);
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
