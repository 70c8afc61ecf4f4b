//===- RouteKernel.cpp - The experts of each token --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LogitEmitter.h"
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t threadsOfBlock = 128;
constexpr int64_t largestKey = kernel::LogitEmitter::largestKey, leastKey = kernel::LogitEmitter::leastKey;

/// A warp routes a token. Keys are integers that compare as logits do, NaN the largest; one that was chosen becomes the
/// least, which no logit has.
class RouteKernel final : public KernelEmitter {
public:
  RouteKernel(rt::KernelOp kernel, nn::RouteOp root, const Architecture &architecture)
      : KernelEmitter(kernel, architecture), root(root),
        experts(cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1)), topK(root.getTopK()) {}

private:
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", "route");
    shape.state("threads", threadsOfBlock);
  }
  LogicalResult run() override;
  LogicalResult readLogits(Value token);
  void takeLargest(Value token, Value k);
  LogicalResult storeWeights(Value token);

  kernel::LogitEmitter order{*this};

  nn::RouteOp root;
  int64_t experts, topK;
  Value keys, logits, chosen; ///< in scratch of the warp; `chosen` are logits
};
} // namespace

Emitter makeRouteKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::RouteOp>(op);
  bool isTaken = MicrokernelEmitter::isReadable(root.getLogits()) &&
                 llvm::all_of(kernel.getBody().front().getTerminator()->getOperands(),
                              [&](Value result) { return result.getDefiningOp() == root; });
  return isTaken ? std::make_unique<RouteKernel>(kernel, root, architecture) : nullptr;
}

LogicalResult RouteKernel::run() {
  AffineExpr tokens = function.sizes.of(root.getLogits())[0];
  function.beginLaunch(threadsOfBlock, tokens.ceilDiv(threadsOfBlock / architecture.warpSize));
  auto room = [&](int64_t elements) { return function.scratch(number(elements * 4)); };
  keys = room(experts);
  logits = room(experts);
  chosen = room(topK);
  Value token = add(mul(function.block, constant(function.warpsOfBlock)), function.warp);
  LogicalResult emitted = ifThen(less(token, function.size(tokens)), [&]() -> LogicalResult {
    if (failed(readLogits(token)))
      return failure();
    forLoop(constant(0), constant(topK), constant(1), [&](Value k) { takeLargest(token, k); });
    return storeWeights(token);
  });
  function.endLaunch();
  return emitted;
}

LogicalResult RouteKernel::readLogits(Value token) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  return vectorLoop(constant(experts), [&](Value expert, int64_t width) -> LogicalResult {
    Element logit = tensors.evaluate(root.getLogits(), {Index{token}, Index{expert, true}}, width);
    if (failed(logit))
      return failure();
    memory.store(*logit, logits, expert, f32, width);
    memory.store(order.keysOf(*logit, width), keys, expert, i32, width);
    return success();
  });
}

/// Moves the first of the largest logits to slot `k` of the chosen ones.
void RouteKernel::takeLargest(Value token, Value k) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type(), i64 = b.getI64Type();
  // A key above what is the larger, the lower the expert's number is.
  Value best = forLoop(function.lane, constant(experts), constant(architecture.warpSize),
                       {constant(std::numeric_limits<int64_t>::min())}, [&](Value expert, ValueRange running) {
                         Value key = make<arith::ExtSIOp>(i64, memory.load(keys, expert, i32, 1));
                         Value high = make<arith::ShLIOp>(key, constant(32));
                         Value candidate = make<arith::OrIOp>(high, sub(constant(largestKey), expert));
                         return SmallVector<Value>{max(running[0], candidate)};
                       })[0];
  best = make<arith::AndIOp>(function.combineLanes(best, kernel::Combination::MAXSI), constant(largestKey));
  Value expert = sub(constant(largestKey), best);
  Value isFirst = equal(function.lane, constant(0));
  ifThen(isFirst, [&] {
    memory.store(memory.load(logits, expert, f32, 1), chosen, k, f32, 1);
    memory.store(order.integers(leastKey, 1), keys, expert, i32, 1);
    for (unsigned i = 0; i != function.outputs.size(); ++i)
      if (function.yielded(i) == root.getIndices())
        tensors.store(make<arith::TruncIOp>(i32, expert), function.outputs[i], {Index{token}, Index{k}}, 1);
  });
  function.emitWarpBarrier();
}

/// Stores the softmax of the chosen logits, over themselves or over all.
LogicalResult RouteKernel::storeWeights(Value token) {
  Type f32 = b.getF32Type();
  Value maximum = memory.load(chosen, constant(0), f32, 1);
  Value shift = order.shiftOf(maximum);
  auto power = [&](Value from, Value i, int64_t width) {
    Value logit = memory.load(from, i, f32, width);
    return kernel::emitExpNonPositive(b, loc, make<arith::SubFOp>(logit, splat(shift, width)));
  };
  bool normalize = root.getNormalize();
  Value total = reduce(constant(normalize ? topK : experts), kernel::Combination::ADD, f32,
                       [&](Value i, int64_t width) { return power(normalize ? chosen : logits, i, width); });
  Value isZero = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, total, floatConstant(0.0, f32, 1));
  total = select(isZero, floatConstant(1.0, f32, 1), total);
  for (unsigned i = 0; i != function.outputs.size(); ++i)
    if (function.yielded(i) == root.getWeights())
      vectorLoop(constant(topK), [&](Value k, int64_t width) {
        Value weight = make<arith::DivFOp>(power(chosen, k, width), splat(total, width));
        tensors.store(weight, function.outputs[i], {Index{token}, Index{k, true}}, width);
      });
  return success();
}

} // namespace intarsia::gpu
