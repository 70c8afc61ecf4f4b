//===- LogitEmitter.cpp - The largest of logits ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LogitEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

Value LogitEmitter::keysOf(Value logits, int64_t width) {
  // Adding zero makes -0 equal to 0. The larger a negative float's magnitude, the larger are its bits.
  Value sum = make<arith::AddFOp>(logits, floatConstant(0.0, b.getF32Type(), width));
  Value bits = make<arith::BitcastOp>(vectorOf(b.getI32Type(), width), sum);
  Value sign = make<arith::ShRSIOp>(bits, integers(31, width));
  Value key = make<arith::XOrIOp>(bits, make<arith::AndIOp>(sign, integers(largestKey, width)));
  Value isNaN = make<arith::CmpFOp>(arith::CmpFPredicate::UNO, logits, logits);
  return select(isNaN, integers(largestKey, width), key);
}

Value LogitEmitter::largestKeyOf(Value keys, int64_t count) {
  int64_t lanes = code->instructions.lanes;
  Value best = forLoop(constant(0), constant(count), constant(lanes), {integers(leastKey, lanes)},
                       [&](Value i, ValueRange running) {
                         Value key = memory.load(keys, i, b.getI32Type(), lanes);
                         return SmallVector<Value>{make<arith::MaxSIOp>(running[0], key)};
                       })[0];
  return make<vector::ReductionOp>(vector::CombiningKind::MAXSI, best);
}

Value LogitEmitter::slotOfLargest(Value keys, int64_t count, Value iota) {
  int64_t lanes = code->instructions.lanes;
  Type i32 = b.getI32Type();
  Value wanted = splat(largestKeyOf(keys, count), lanes);
  Value first = forLoop(constant(0), constant(count), constant(lanes), {integers(largestKey, lanes)},
                        [&](Value i, ValueRange running) {
                          Value isLargest = equal(memory.load(keys, i, i32, lanes), wanted);
                          Value slot = make<arith::AddIOp>(iota, splat(make<arith::TruncIOp>(i32, i), lanes));
                          slot = select(isLargest, slot, integers(largestKey, lanes));
                          return SmallVector<Value>{make<arith::MinSIOp>(running[0], slot)};
                        })[0];
  return make<vector::ReductionOp>(vector::CombiningKind::MINSI, first);
}

Value LogitEmitter::shiftOf(Value largest) {
  Type f32 = b.getF32Type();
  Value lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, 1);
  Value isNone = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, largest, lowest);
  return select(isNone, floatConstant(0.0, f32, 1), largest);
}

} // namespace intarsia::kernel
