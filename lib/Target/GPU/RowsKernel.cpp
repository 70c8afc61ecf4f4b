//===- RowsKernel.cpp - Elementwise and row-wise kernels of GPUs ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/FunctionEmitter.h"
#include "lib/Target/GPU/KernelRoots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t threadsOfBlock = 256;
/// Blocks of a multiprocessor that hide the latency of memory: half of the warps that it can have, whose lanes then
/// have 64 registers, for several vectors on their way.
constexpr int32_t leastBlocks = 4;

/// A warp computes a row of the results. Results whose rows are the same rows are computed by one function.
class RowsKernel final : public KernelEmitter {
public:
  using KernelEmitter::KernelEmitter;

private:
  LogicalResult run() override;
  LogicalResult emitScalar(unsigned output);
  LogicalResult emitRows(ArrayRef<AffineExpr> leading, ArrayRef<unsigned> outputs);

  RowEmitter rowEmitter{function, tensors};
};
} // namespace

Emitter makeRowsKernel(rt::KernelOp kernel, const Architecture &architecture) {
  return std::make_unique<RowsKernel>(kernel, architecture);
}

LogicalResult RowsKernel::run() {
  SmallVector<std::pair<Sizes, SmallVector<unsigned>>> parts;
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
    ArrayRef<AffineExpr> extents = function.sizes.of(function.yielded(i));
    if (extents.empty()) {
      if (failed(emitScalar(i)))
        return failure();
      continue;
    }
    ArrayRef<AffineExpr> leading = extents.drop_back();
    auto same = llvm::find_if(parts, [&](const auto &part) { return ArrayRef<AffineExpr>(part.first) == leading; });
    if (same == parts.end())
      parts.push_back({Sizes(leading.begin(), leading.end()), {i}});
    else
      same->second.push_back(i);
  }
  for (const auto &[leading, outputs] : parts)
    if (failed(emitRows(leading, outputs)))
      return failure();
  return success();
}

LogicalResult RowsKernel::emitScalar(unsigned output) {
  function.beginLaunch(architecture.warpSize, number(1));
  Element element = tensors.evaluate(function.yielded(output), {}, 1);
  if (failed(element))
    return failure();
  Value isFirst = equal(function.lane, constant(0));
  ifThen(isFirst, [&] { tensors.store(*element, function.outputs[output], {}, 1); });
  function.endLaunch();
  return success();
}

LogicalResult RowsKernel::emitRows(ArrayRef<AffineExpr> leading, ArrayRef<unsigned> outputs) {
  AffineExpr rows = function.productExpression(leading);
  function.beginLaunch(threadsOfBlock, rows.ceilDiv(threadsOfBlock / architecture.warpSize));
  function.planRegistersFor(leastBlocks);
  Value row = add(mul(function.block, constant(function.warpsOfBlock)), function.warp);
  LogicalResult emitted = ifThen(less(row, function.size(rows)),
                                 [&] { return rowEmitter.emitRow(tensors.makeRow(row, leading), outputs); });
  function.endLaunch();
  return emitted;
}

} // namespace intarsia::gpu
