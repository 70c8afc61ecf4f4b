//===- RouteKernel.cpp - The experts of each token --------------------------------------------------------------===//
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
/// Slot of the launch.
enum { kTokensPerTile = ITX_PLAN_PRIVATE };
/// A tile routes at least this many tokens: some microseconds of work.
constexpr int64_t kRoutedTokens = 16;
/// Tiles per thread, so that a thread that is held up does not hold up the others.
constexpr int64_t kTilesPerThread = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The largest logit is taken top_k times, its slot marked by the least integer, which no logit has.
class RouteKernel final : public KernelEmitter {
public:
  RouteKernel(rt::KernelOp kernel, nn::RouteOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root),
        experts(cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1)), topK(root.getTopK()),
        lanes(config.lanes), padded(llvm::alignTo(experts, lanes)) {}

private:
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", "route");
    shape.choose("least_tokens", leastTokens, {1, kMostBlockRows});
    shape.state("tiles_per_thread", kTilesPerThread);
  }
  LogicalResult run() override;
  void launch() override;

  LogicalResult readLogits(Value token);
  void takeLargest(Value token, Value k);
  void storeWeights(Value token);
  Value sumOfPowers(Value values, int64_t count, int64_t width, Value shift);
  Value power(Value logit, int64_t width, Value shift);

  LogitEmitter order{*this};
  nn::RouteOp root;
  int64_t experts, topK, lanes, padded;
  int64_t leastTokens = kRoutedTokens; ///< of a tile
  /// Scratch of a token: logits as integers and as they are, up to `padded`, and the chosen ones.
  Value keys, logits, chosen;
  Value iota;
};
} // namespace

Emitter makeRouteKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<RouteKernel>(kernel, cast<nn::RouteOp>(root), config);
}

void RouteKernel::launch() {
  Value tokens = function.sizeOf(root.getLogits(), 0);
  Value perTile = max(ceilDiv(tokens, mul(function.threads, constant(kTilesPerThread))), constant(leastTokens));
  function.setSlot(kTokensPerTile, perTile);
  function.setSlot(ITX_PLAN_TILES, ceilDiv(tokens, perTile));
}

LogicalResult RouteKernel::run() {
  Value tokens = function.sizeOf(root.getLogits(), 0);
  if (failed(function.storesOnly(root)))
    return failure();
  keys = function.scratch(padded * 4);
  logits = function.scratch(padded * 4);
  chosen = function.scratch(topK * 4);
  SmallVector<int32_t> laneIndices = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  iota = make<arith::ConstantOp>(b.getI32VectorAttr(laneIndices));
  Value perTile = function.slot(kTokensPerTile);
  Value begin = mul(function.tileBegin, perTile);
  return forLoop(begin, min(mul(function.tileEnd, perTile), tokens), constant(1), [&](Value token) -> LogicalResult {
    if (failed(readLogits(token)))
      return failure();
    forLoop(constant(0), constant(topK), constant(1), [&](Value k) { takeLargest(token, k); });
    storeWeights(token);
    return success();
  });
}

/// Writes the logits of a token, and the integers that they are compared by.
LogicalResult RouteKernel::readLogits(Value token) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  LogicalResult read = vectorLoop(constant(experts), [&](Value expert, int64_t width) -> LogicalResult {
    Element element = tensors.evaluate(root.getLogits(), {Index{token}, Index{expert, true}}, width);
    if (failed(element))
      return failure();
    Value logit = *element;
    memory.store(logit, logits, expert, f32, width);
    memory.store(order.keysOf(logit, width), keys, expert, i32, width);
    return success();
  });
  for (int64_t pad = experts; pad < padded; ++pad) {
    memory.store(order.integers(LogitEmitter::leastKey, 1), keys, constant(pad), i32, 1);
    memory.store(floatConstant(-kInfinity, f32, 1), logits, constant(pad), f32, 1);
  }
  return read;
}

/// Moves the first of the largest logits to slot `k` of the chosen ones.
void RouteKernel::takeLargest(Value token, Value k) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value index = order.slotOfLargest(keys, padded, iota);
  Value wide = make<arith::ExtSIOp>(b.getI64Type(), index);
  memory.store(memory.load(logits, wide, f32, 1), chosen, k, f32, 1);
  memory.store(order.integers(LogitEmitter::leastKey, 1), keys, wide, i32, 1);
  tensors.storeResult(index, root.getIndices(), {Index{token}, Index{k}}, 1);
}

Value RouteKernel::power(Value logit, int64_t width, Value shift) {
  return emitExpNonPositive(b, loc, make<arith::SubFOp>(logit, splat(shift, width)));
}

/// Sums the exponentials of `count` logits less `shift`.
Value RouteKernel::sumOfPowers(Value values, int64_t count, int64_t width, Value shift) {
  Type f32 = b.getF32Type();
  return forLoop(constant(0), constant(count), constant(width), {floatConstant(0.0, f32, width)},
                 [&](Value i, ValueRange running) {
                   Value e = power(memory.load(values, i, f32, width), width, shift);
                   return SmallVector<Value>{make<arith::AddFOp>(running[0], e)};
                 })[0];
}

/// Stores the softmax of the chosen logits, over themselves or over all.
void RouteKernel::storeWeights(Value token) {
  Type f32 = b.getF32Type();
  Value maximum = memory.load(chosen, constant(0), f32, 1);
  Value shift = order.shiftOf(maximum);
  Value total = root.getNormalize() ? sumOfPowers(chosen, topK, 1, shift) : sumOfPowers(logits, padded, lanes, shift);
  if (!root.getNormalize())
    total = make<vector::ReductionOp>(vector::CombiningKind::ADD, total, arith::FastMathFlags::reassoc);
  Value isZero = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, total, floatConstant(0.0, f32, 1));
  total = select(isZero, floatConstant(1.0, f32, 1), total);
  for (unsigned i = 0; i < function.outputs.size(); ++i)
    if (function.yielded(i) == root.getWeights())
      forLoop(constant(0), constant(topK), constant(1), [&](Value k) {
        Value weight = make<arith::DivFOp>(power(memory.load(chosen, k, f32, 1), 1, shift), total);
        tensors.store(weight, function.outputs[i], {Index{token}, Index{k}}, 1);
      });
}

} // namespace intarsia::cpu
