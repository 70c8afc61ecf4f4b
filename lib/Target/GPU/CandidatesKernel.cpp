//===- CandidatesKernel.cpp - The largest logits of rows, and the denominators of their softmax ------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"
#include "lib/Target/GPU/Microkernels/CandidateShapes.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// A launch finds the largest logits of each part of a row, and the sums of their powers, another one merges the parts.
class CandidatesKernel final : public MicrokernelEmitter {
public:
  CandidatesKernel(rt::KernelOp kernel, nn::CandidatesOp root, const Architecture &architecture)
      : MicrokernelEmitter(kernel, architecture), root(root) {}

private:
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", "candidates");
    shape.state("threads", candidates::threadsOfBlock);
    shape.state("columns", candidates::columnsOfPart);
  }
  LogicalResult run() override;
  /// Begins a launch of so many blocks, and pushes what both microkernels take.
  LogicalResult begin(AffineExpr blocks, AffineExpr lists, AffineExpr sums);
  /// Pushes where a result is stored, or null.
  void pushResult(Value result);

  nn::CandidatesOp root;
};
} // namespace

static_assert(candidates::listSize == nn::CandidatesOp::largestCount &&
              candidates::mostTemperatures == nn::CandidatesOp::mostTemperatures);

Emitter makeCandidatesKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::CandidatesOp>(op);
  llvm::SmallDenseSet<Value> stored;
  bool isTaken =
      MicrokernelEmitter::isReadable(root.getLogits()) && MicrokernelEmitter::isReadable(root.getTemperatures()) &&
      llvm::all_of(kernel.getBody().front().getTerminator()->getOperands(),
                   [&](Value result) { return result.getDefiningOp() == root && stored.insert(result).second; });
  return isTaken ? std::make_unique<CandidatesKernel>(kernel, root, architecture) : nullptr;
}

LogicalResult CandidatesKernel::begin(AffineExpr blocks, AffineExpr lists, AffineExpr sums) {
  function.beginLaunch(candidates::threadsOfBlock, blocks);
  if (failed(pushStrided(root.getLogits())))
    return failure();
  push(cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1));
  if (failed(pushStrided(root.getTemperatures())))
    return failure();
  push(cast<RankedTensorType>(root.getTemperatures().getType()).getDimSize(1));
  pushScratch(lists);
  pushScratch(sums);
  push(function.sharedMemory(number(candidates::sharedBytesOfBlock)));
  return success();
}

void CandidatesKernel::pushResult(Value result) {
  for (unsigned i = 0; i != function.outputs.size(); ++i)
    if (function.yielded(i) == result)
      return push(function.outputs[i].pointer);
  pushNull();
}

LogicalResult CandidatesKernel::run() {
  if (failed(prepare(root.getLogits())) || failed(prepare(root.getTemperatures())))
    return failure();
  AffineExpr rows = function.sizes.of(root.getLogits())[0];
  int64_t vocabulary = cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1);
  AffineExpr parts = rows * llvm::divideCeil(vocabulary, candidates::columnsOfPart);
  AffineExpr lists = function.reserve(parts * (candidates::listSize * candidates::bytesOfEntry));
  AffineExpr sums = function.reserve(parts * (candidates::floatsOfPartSums * 4));
  if (failed(begin(parts, lists, sums)))
    return failure();
  call("itx_candidates_of_parts");
  function.endLaunch();
  if (failed(begin(rows, lists, sums)))
    return failure();
  pushResult(root.getValues());
  pushResult(root.getTokens());
  pushResult(root.getSums());
  push(root.getCount());
  call("itx_candidates_of_rows");
  function.endLaunch();
  return success();
}

} // namespace intarsia::gpu
