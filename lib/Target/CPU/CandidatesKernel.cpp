//===- CandidatesKernel.cpp - The largest logits of rows, and the denominators of their softmax ------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LogitEmitter.h"
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/KernelRoots.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
/// Logits of a block, whose largest is known: about the square root of large vocabularies, so that finding the next
/// largest logit passes over as many blocks as logits.
constexpr int64_t kBlock = 256;

/// A tile is a row. The largest of the largest of all blocks is taken `count` times, its slot marked by the least
/// integer, which no logit has.
class CandidatesKernel final : public KernelEmitter {
public:
  CandidatesKernel(rt::KernelOp kernel, nn::CandidatesOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root),
        vocabulary(cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1)), lanes(config.lanes),
        blocks(llvm::divideCeil(vocabulary, kBlock)), paddedBlocks(llvm::alignTo(blocks, lanes)) {}

private:
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", "candidates");
    shape.state("rows", 1);
    shape.state("block_logits", kBlock);
  }
  LogicalResult run() override;
  void launch() override;

  LogicalResult readLogits(Value row);
  LogicalResult takeLargest(Value row, Value k);
  LogicalResult storeSums(Value row);
  /// Returns the first slot that has the largest of `count` integers.
  Value slotOfLargest(Value keysOfPart, int64_t count) {
    return make<arith::ExtSIOp>(b.getI64Type(), order.slotOfLargest(keysOfPart, count, iota));
  }
  Value keysOfBlock(Value number) { return memory.at(keys, mul(number, constant(kBlock)), b.getI32Type()); }

  LogitEmitter order{*this};
  nn::CandidatesOp root;
  int64_t vocabulary, lanes, blocks, paddedBlocks;
  Value keys, largest; ///< scratch: of logits, and the largest of each block, up to whole blocks and vectors
  Value shift;         ///< scratch: the largest logit
  Value iota;
};
} // namespace

Emitter makeCandidatesKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<CandidatesKernel>(kernel, cast<nn::CandidatesOp>(root), config);
}

void CandidatesKernel::launch() { function.setSlot(ITX_PLAN_TILES, function.sizeOf(root.getLogits(), 0)); }

LogicalResult CandidatesKernel::run() {
  if (failed(function.storesOnly(root)))
    return failure();
  keys = function.scratch(blocks * kBlock * 4);
  largest = function.scratch(paddedBlocks * 4);
  shift = function.scratch(4);
  SmallVector<int32_t> laneIndices = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  iota = make<arith::ConstantOp>(b.getI32VectorAttr(laneIndices));
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value row) -> LogicalResult {
    if (failed(readLogits(row)) || failed(forLoop(constant(0), constant(root.getCount()), constant(1),
                                                  [&](Value k) -> LogicalResult { return takeLargest(row, k); })))
      return failure();
    return storeSums(row);
  });
}

/// Writes the integers that the logits of a row are compared by, and the largest of each block.
LogicalResult CandidatesKernel::readLogits(Value row) {
  Type i32 = b.getI32Type();
  forLoop(constant(vocabulary), constant(blocks * kBlock), constant(1),
          [&](Value pad) { memory.store(order.integers(LogitEmitter::leastKey, 1), keys, pad, i32, 1); });
  forLoop(constant(blocks), constant(paddedBlocks), constant(1),
          [&](Value pad) { memory.store(order.integers(LogitEmitter::leastKey, 1), largest, pad, i32, 1); });
  return forLoop(constant(0), constant(blocks), constant(1), [&](Value number) -> LogicalResult {
    Value begin = mul(number, constant(kBlock));
    Value count = min(sub(constant(vocabulary), begin), constant(kBlock));
    LogicalResult read = vectorLoop(count, [&](Value i, int64_t width) -> LogicalResult {
      Value column = add(begin, i);
      Element logit = tensors.evaluate(root.getLogits(), {Index{row}, Index{column, true}}, width);
      if (failed(logit))
        return failure();
      memory.store(order.keysOf(*logit, width), keys, column, i32, width);
      return success();
    });
    memory.store(order.largestKeyOf(keysOfBlock(number), kBlock), largest, number, i32, 1);
    return read;
  });
}

/// Stores the first of the largest logits that are left as candidate `k`.
LogicalResult CandidatesKernel::takeLargest(Value row, Value k) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value number = slotOfLargest(largest, paddedBlocks), slot = slotOfLargest(keysOfBlock(number), kBlock);
  Value token = add(mul(number, constant(kBlock)), slot);
  memory.store(order.integers(LogitEmitter::leastKey, 1), keys, token, i32, 1);
  memory.store(order.largestKeyOf(keysOfBlock(number), kBlock), largest, number, i32, 1);
  Element logit = tensors.evaluate(root.getLogits(), {Index{row}, Index{token}}, 1);
  if (failed(logit))
    return failure();
  tensors.storeResult(*logit, root.getValues(), {Index{row}, Index{k}}, 1);
  tensors.storeResult(make<arith::TruncIOp>(i32, token), root.getTokens(), {Index{row}, Index{k}}, 1);
  Value isFirst = equal(k, constant(0));
  ifThen(isFirst, [&] { memory.store(*logit, shift, constant(0), f32, 1); });
  return success();
}

LogicalResult CandidatesKernel::storeSums(Value row) {
  Type f32 = b.getF32Type();
  Value maximum = order.shiftOf(memory.load(shift, constant(0), f32, 1));
  int64_t temperatures = cast<RankedTensorType>(root.getTemperatures().getType()).getDimSize(1);
  for (int64_t j = 0; j != temperatures; ++j) {
    Element temperature = tensors.evaluate(root.getTemperatures(), {Index{row}, Index{constant(j)}}, 1);
    if (failed(temperature))
      return failure();
    FailureOr<Value> sum =
        reduce(constant(vocabulary), kernel::Combination::ADD, f32, [&](Value i, int64_t width) -> FailureOr<Value> {
          Element logit = tensors.evaluate(root.getLogits(), {Index{row}, Index{i, true}}, width);
          if (failed(logit))
            return failure();
          Value difference = make<arith::SubFOp>(*logit, splat(maximum, width));
          Value exponent = make<arith::DivFOp>(difference, splat(*temperature, width));
          return emitExpNonPositive(b, loc, exponent);
        });
    if (failed(sum))
      return failure();
    tensors.storeResult(*sum, root.getSums(), {Index{row}, Index{constant(j)}}, 1);
  }
  return success();
}

} // namespace intarsia::cpu
