//===- CandidatesKernel.cpp - The largest logits of rows, and the denominators of their softmax ------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
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
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kLargest = std::numeric_limits<int32_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A tile is a row. Logits become integers in the same order, NaN above all. The largest of the largest of all blocks
/// is taken `count` times, its slot marked by the least integer, which no logit has.
class CandidatesKernel final : public KernelEmitter {
public:
  CandidatesKernel(rt::KernelOp kernel, nn::CandidatesOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root),
        vocabulary(cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1)), lanes(config.lanes),
        blocks(llvm::divideCeil(vocabulary, kBlock)), paddedBlocks(llvm::alignTo(blocks, lanes)) {}

private:
  LogicalResult run() override;
  void launch() override;

  LogicalResult readLogits(Value row);
  LogicalResult takeLargest(Value row, Value k);
  LogicalResult storeSums(Value row);
  /// An integer and the first slot that has it.
  struct Largest {
    Value key, slot;
  };
  Largest largestOf(Value keysOfPart, int64_t count);
  Value largestKeyOf(Value keysOfPart, int64_t count);
  Value keysOfBlock(Value number) { return memory.at(keys, mul(number, constant(kBlock)), b.getI32Type()); }
  Value keyOf(Value logit, int64_t width);
  /// Stores an element of a result, if the kernel has it.
  void storeIfYielded(Value element, Value result, Value row, Value column);
  Value integers(int32_t value, int64_t width) {
    return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)), width);
  }

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
  iota = arith::ConstantOp::create(b, loc, b.getI32VectorAttr(laneIndices));
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value row) -> LogicalResult {
    if (failed(readLogits(row)) || failed(forLoop(constant(0), constant(root.getCount()), constant(1),
                                                  [&](Value k) -> LogicalResult { return takeLargest(row, k); })))
      return failure();
    return storeSums(row);
  });
}

Value CandidatesKernel::keyOf(Value logit, int64_t width) {
  // Adding zero makes -0 equal to 0. The larger a negative float's magnitude, the larger are its bits.
  Value sum = arith::AddFOp::create(b, loc, logit, floatConstant(0.0, b.getF32Type(), width));
  Value bits = arith::BitcastOp::create(b, loc, vectorOf(b.getI32Type(), width), sum);
  Value sign = arith::ShRSIOp::create(b, loc, bits, integers(31, width));
  Value key = arith::XOrIOp::create(b, loc, bits, arith::AndIOp::create(b, loc, sign, integers(kLargest, width)));
  Value isNaN = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, logit, logit);
  return arith::SelectOp::create(b, loc, isNaN, integers(kLargest, width), key);
}

/// Writes the integers that the logits of a row are compared by, and the largest of each block.
LogicalResult CandidatesKernel::readLogits(Value row) {
  Type i32 = b.getI32Type();
  forLoop(constant(vocabulary), constant(blocks * kBlock), constant(1),
          [&](Value pad) { memory.store(integers(kLeast, 1), keys, pad, i32, 1); });
  forLoop(constant(blocks), constant(paddedBlocks), constant(1),
          [&](Value pad) { memory.store(integers(kLeast, 1), largest, pad, i32, 1); });
  return forLoop(constant(0), constant(blocks), constant(1), [&](Value number) -> LogicalResult {
    Value begin = mul(number, constant(kBlock));
    Value count = min(sub(constant(vocabulary), begin), constant(kBlock));
    LogicalResult read = vectorLoop(count, [&](Value i, int64_t width) -> LogicalResult {
      Value column = add(begin, i);
      Element logit = tensors.evaluate(root.getLogits(), {Index{row}, Index{column, true}}, width);
      if (failed(logit))
        return failure();
      memory.store(keyOf(*logit, width), keys, column, i32, width);
      return success();
    });
    memory.store(largestKeyOf(keysOfBlock(number), kBlock), largest, number, i32, 1);
    return read;
  });
}

/// `count` is a multiple of the lanes.
Value CandidatesKernel::largestKeyOf(Value keysOfPart, int64_t count) {
  Value best = forLoop(constant(0), constant(count), constant(lanes), {integers(kLeast, lanes)},
                       [&](Value i, ValueRange running) {
                         Value key = memory.load(keysOfPart, i, b.getI32Type(), lanes);
                         return SmallVector<Value>{arith::MaxSIOp::create(b, loc, running[0], key)};
                       })[0];
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXSI, best);
}

CandidatesKernel::Largest CandidatesKernel::largestOf(Value keysOfPart, int64_t count) {
  Type i32 = b.getI32Type();
  Value key = largestKeyOf(keysOfPart, count), wanted = splat(key, lanes);
  Value first = forLoop(
      constant(0), constant(count), constant(lanes), {integers(kLargest, lanes)}, [&](Value i, ValueRange running) {
        Value isBest =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, memory.load(keysOfPart, i, i32, lanes), wanted);
        Value slot = splat(arith::TruncIOp::create(b, loc, i32, i), lanes);
        slot = arith::SelectOp::create(b, loc, isBest, arith::AddIOp::create(b, loc, iota, slot),
                                       integers(kLargest, lanes));
        return SmallVector<Value>{arith::MinSIOp::create(b, loc, running[0], slot)};
      })[0];
  Value slot = vector::ReductionOp::create(b, loc, vector::CombiningKind::MINSI, first);
  return {key, arith::ExtSIOp::create(b, loc, b.getI64Type(), slot)};
}

void CandidatesKernel::storeIfYielded(Value element, Value result, Value row, Value column) {
  for (unsigned i = 0; i < function.outputs.size(); ++i)
    if (function.yielded(i) == result)
      tensors.store(element, function.outputs[i], {Index{row}, Index{column}}, 1);
}

/// Stores the first of the largest logits that are left as candidate `k`.
LogicalResult CandidatesKernel::takeLargest(Value row, Value k) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value number = largestOf(largest, paddedBlocks).slot, slot = largestOf(keysOfBlock(number), kBlock).slot;
  Value token = add(mul(number, constant(kBlock)), slot);
  memory.store(integers(kLeast, 1), keys, token, i32, 1);
  memory.store(largestKeyOf(keysOfBlock(number), kBlock), largest, number, i32, 1);
  Element logit = tensors.evaluate(root.getLogits(), {Index{row}, Index{token}}, 1);
  if (failed(logit))
    return failure();
  storeIfYielded(*logit, root.getValues(), row, k);
  storeIfYielded(arith::TruncIOp::create(b, loc, i32, token), root.getTokens(), row, k);
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, k, constant(0));
  ifThen(isFirst, [&] { memory.store(*logit, shift, constant(0), f32, 1); });
  return success();
}

LogicalResult CandidatesKernel::storeSums(Value row) {
  Type f32 = b.getF32Type();
  Value maximum = memory.load(shift, constant(0), f32, 1);
  // Logits of -inf alone: subtracting 0 instead keeps their exponentials at zero.
  Value isNone = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, floatConstant(-kInfinity, f32, 1));
  maximum = arith::SelectOp::create(b, loc, isNone, floatConstant(0.0, f32, 1), maximum);
  int64_t temperatures = cast<RankedTensorType>(root.getTemperatures().getType()).getDimSize(1);
  for (int64_t j = 0; j != temperatures; ++j) {
    Element temperature = tensors.evaluate(root.getTemperatures(), {Index{row}, Index{constant(j)}}, 1);
    if (failed(temperature))
      return failure();
    FailureOr<Value> sum =
        reduce(constant(vocabulary), /*maximum=*/false, f32, [&](Value i, int64_t width) -> FailureOr<Value> {
          Element logit = tensors.evaluate(root.getLogits(), {Index{row}, Index{i, true}}, width);
          if (failed(logit))
            return failure();
          Value difference = arith::SubFOp::create(b, loc, *logit, splat(maximum, width));
          Value exponent = arith::DivFOp::create(b, loc, difference, splat(*temperature, width));
          return emitExpNonPositive(b, loc, exponent);
        });
    if (failed(sum))
      return failure();
    storeIfYielded(*sum, root.getSums(), row, constant(j));
  }
  return success();
}

} // namespace intarsia::cpu
