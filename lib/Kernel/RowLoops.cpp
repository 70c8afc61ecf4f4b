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

FailureOr<Value> KernelBody::emitReduction(Value count, bool maximum, Type type,
                                           function_ref<FailureOr<Value>(Value i, int64_t width)> element) {
  int64_t lanes = code->instructions.lanes;
  // Four sums in flight hide the latency of an addition (4 cycles on the machines measured).
  constexpr int64_t kChains = 4;
  auto combine = [&](Value a, Value c) -> Value {
    if (maximum)
      return arith::MaximumFOp::create(b, loc, a, c);
    return arith::AddFOp::create(b, loc, a, c);
  };
  double neutral = maximum ? -std::numeric_limits<double>::infinity() : 0.0;
  Value chainStep = constant(kChains * lanes);
  Value chainEnd = mul(div(count, chainStep), chainStep);
  Value vectorEnd = mul(div(count, constant(lanes)), constant(lanes));
  SmallVector<Value> sums(kChains, floatConstant(neutral, type, lanes));
  auto isZero = [&](Value begin, Value end) {
    APInt x, y;
    return begin == end || (matchPattern(begin, m_ConstantInt(&x)) && matchPattern(end, m_ConstantInt(&y)) && x == y);
  };
  using Next = FailureOr<SmallVector<Value>>;
  if (!isZero(constant(0), chainEnd)) {
    Next chains = forLoop(constant(0), chainEnd, chainStep, sums, [&](Value i, ValueRange running) -> Next {
      SmallVector<Value> next;
      for (int64_t chain = 0; chain < kChains; ++chain) {
        FailureOr<Value> x = element(add(i, constant(chain * lanes)), lanes);
        if (failed(x))
          return failure();
        next.push_back(combine(running[chain], *x));
      }
      return next;
    });
    if (failed(chains))
      return failure();
    sums = *chains;
  }
  auto addRest = [&](Value begin, Value end, int64_t width, Value start) -> FailureOr<Value> {
    if (isZero(begin, end))
      return start;
    Next rest = forLoop(begin, end, constant(width), start, [&](Value i, ValueRange running) -> Next {
      FailureOr<Value> x = element(i, width);
      if (failed(x))
        return failure();
      return SmallVector<Value>{combine(running[0], *x)};
    });
    if (failed(rest))
      return failure();
    return (*rest)[0];
  };
  FailureOr<Value> sum =
      addRest(chainEnd, vectorEnd, lanes, combine(combine(sums[0], sums[1]), combine(sums[2], sums[3])));
  if (failed(sum))
    return failure();
  Value scalar =
      vector::ReductionOp::create(b, loc, maximum ? vector::CombiningKind::MAXIMUMF : vector::CombiningKind::ADD, *sum,
                                  maximum ? arith::FastMathFlags::none : arith::FastMathFlags::reassoc);
  return addRest(vectorEnd, count, 1, scalar);
}

} // namespace intarsia::kernel
