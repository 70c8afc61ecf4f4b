//===- RowLoops.cpp - Loops of one thread over the elements of a row --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/KernelBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

LogicalResult KernelBody::emitVectorLoop(Value count, function_ref<LogicalResult(Value, int64_t)> emitBody) {
  Value width = constant(code->instructions.lanes);
  Value whole = mul(div(count, width), width);
  if (auto n = getConstantIntValue(whole); !n || *n > 0)
    if (failed(forLoop(constant(0), whole, width, [&](Value i) { return emitBody(i, code->instructions.lanes); })))
      return failure();
  auto n = getConstantIntValue(count);
  if (!n || *n % code->instructions.lanes != 0)
    return forLoop(whole, count, constant(1), [&](Value i) { return emitBody(i, 1); });
  return success();
}

LogicalResult KernelBody::emitStoreLoop(Value count,
                                        function_ref<FailureOr<SmallVector<Value>>(Value, int64_t)> compute,
                                        function_ref<void(Value, int64_t, ArrayRef<Value>)> store) {
  return emitVectorLoop(count, [&](Value i, int64_t width) -> LogicalResult {
    FailureOr<SmallVector<Value>> values = compute(i, width);
    if (failed(values))
      return failure();
    store(i, width, *values);
    return success();
  });
}

Values KernelBody::emitReductions(Value count, ArrayRef<Reduction> reductions,
                                  function_ref<Values(Value i, int64_t width)> elements) {
  int64_t lanes = code->instructions.lanes;
  // Four sums in flight hide the latency of an addition (4 cycles on the machines measured).
  constexpr size_t sumsInFlight = 4;
  const size_t values = reductions.size(), chains = std::max<size_t>(sumsInFlight / values, 1);
  Value chainStep = constant(int64_t(chains) * lanes);
  Value chainEnd = mul(div(count, chainStep), chainStep);
  Value vectorEnd = mul(div(count, constant(lanes)), constant(lanes));
  SmallVector<Value> first = neutral(b, loc, reductions, lanes), sums;
  for (size_t chain = 0; chain != chains; ++chain)
    llvm::append_range(sums, first);
  auto isZero = [&](Value begin, Value end) {
    APInt x, y;
    return begin == end || (matchPattern(begin, m_ConstantInt(&x)) && matchPattern(end, m_ConstantInt(&y)) && x == y);
  };
  if (!isZero(constant(0), chainEnd)) {
    Values carried = forLoop(constant(0), chainEnd, chainStep, sums, [&](Value i, ValueRange running) -> Values {
      SmallVector<Value> next;
      for (size_t chain = 0; chain != chains; ++chain) {
        Values x = elements(add(i, constant(int64_t(chain) * lanes)), lanes);
        if (failed(x))
          return failure();
        llvm::append_range(next, combine(b, loc, reductions, running.slice(chain * values, values), *x));
      }
      return next;
    });
    if (failed(carried))
      return failure();
    sums = *carried;
  }
  for (size_t half = chains / 2; half != 0; half /= 2)
    for (size_t chain = 0; chain != half; ++chain) {
      ArrayRef<Value> all(sums);
      SmallVector<Value> both = combine(b, loc, reductions, all.slice(2 * chain * values, values),
                                        all.slice((2 * chain + 1) * values, values));
      llvm::copy(both, sums.begin() + chain * values);
    }
  sums.truncate(values);
  auto addRest = [&](Value begin, Value end, int64_t width, ValueRange start) -> Values {
    if (isZero(begin, end))
      return SmallVector<Value>(start);
    return forLoop(begin, end, constant(width), start, [&](Value i, ValueRange running) -> Values {
      Values x = elements(i, width);
      if (failed(x))
        return failure();
      return combine(b, loc, reductions, running, *x);
    });
  };
  Values whole = addRest(chainEnd, vectorEnd, lanes, sums);
  if (failed(whole))
    return failure();
  return addRest(vectorEnd, count, 1, combineLanes(b, loc, reductions, *whole));
}

/// Returns the lanes of a vector moved by `distance` to higher numbers; the lowest ones get those of `lower`.
static Value moveLanes(OpBuilder &b, Location loc, Value vector, Value lower, int64_t lanes, int64_t distance) {
  SmallVector<int64_t> from;
  for (int64_t lane = 0; lane != lanes; ++lane)
    from.push_back(lane < distance ? lanes + lane : lane - distance);
  return vector::ShuffleOp::create(b, loc, vector, lower, from);
}

Value reverseLanes(OpBuilder &b, Location loc, Value vector) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  SmallVector<int64_t> from = llvm::to_vector(llvm::reverse(llvm::seq(type.getNumElements())));
  return vector::ShuffleOp::create(b, loc, vector, vector, from);
}

LogicalResult KernelBody::emitPrefixes(Value count, const Prefixes &prefixes,
                                       function_ref<FailureOr<Value>(Value i, int64_t width)> element,
                                       function_ref<void(Value i, int64_t width, Value prefix)> store) {
  int64_t lanes = code->instructions.lanes;
  const Reduction &reduction = prefixes.reduction;
  auto both = [&](Value before, Value x) { return combine(b, loc, reduction, before, x).front(); };
  auto combineFrom = [&](Value begin, Value end, int64_t width, ValueRange start) -> Values {
    Value none = neutral(b, loc, reduction, width).front();
    return forLoop(begin, end, constant(width), start, [&](Value turn, ValueRange running) -> Values {
      Value i = prefixes.isReverse ? sub(sub(count, constant(width)), turn) : turn;
      FailureOr<Value> x = element(i, width);
      if (failed(x))
        return failure();
      if (width == 1) {
        Value next = both(running[0], *x);
        store(i, 1, prefixes.isExclusive ? running[0] : next);
        return SmallVector<Value>{next};
      }
      // Each step combines the lanes with those whose numbers are 1, 2, 4, … lower (Hillis and Steele, "Data parallel
      // algorithms", CACM 1986).
      Value inVector = prefixes.isReverse ? reverseLanes(b, loc, *x) : *x;
      for (int64_t distance = 1; distance < width; distance *= 2)
        inVector = both(moveLanes(b, loc, inVector, none, width, distance), inVector);
      Value last = vector::ExtractOp::create(b, loc, inVector, width - 1);
      if (prefixes.isExclusive)
        inVector = moveLanes(b, loc, inVector, none, width, 1);
      Value all = both(splat(running[0], width), inVector);
      store(i, width, prefixes.isReverse ? reverseLanes(b, loc, all) : all);
      return SmallVector<Value>{both(running[0], last)};
    });
  };
  Values carried = neutral(b, loc, reduction, 1);
  Value whole = constant(0);
  if (lanes != 1) {
    whole = mul(div(count, constant(lanes)), constant(lanes));
    carried = combineFrom(constant(0), whole, lanes, *carried);
    if (failed(carried))
      return failure();
  }
  return combineFrom(whole, count, 1, *carried);
}

} // namespace intarsia::kernel
