//===- QuantizedCache.cpp - Values of quantized caches ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The layout is that of #nn.cache_format.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/CacheEmitter.h"

#include "lib/Target/CPU/QuantizedCache.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// A scale byte holds the bits 14 to 7 of an f16. The largest is the last one before infinity.
constexpr int64_t kScaleShift = 7, kLargestScale = 0xf7;
} // namespace

void CacheEmitter::loadParameters(Value pointer, int64_t count, int64_t bits, Value known, Value scales, Value zeros) {
  Type f32 = b.getF32Type();
  vectorLoop(constant(count), [&](Value i, int64_t width) {
    Value scale = scaleOf(memory.load(pointer, i, b.getI8Type(), width), width);
    Value zero = memory.load(pointer, add(i, constant(count)), b.getI8Type(), width);
    Type i32 = vectorOf(b.getI32Type(), width);
    zero = bits == 4 ? make<arith::ExtSIOp>(i32, zero).getResult() : make<arith::ExtUIOp>(i32, zero).getResult();
    if (known) {
      Value index = splat(i, width);
      if (width > 1) {
        SmallVector<int64_t> lanes = llvm::to_vector(llvm::seq<int64_t>(0, width));
        Value steps = make<arith::ConstantOp>(b.getI64VectorAttr(lanes));
        index = make<arith::AddIOp>(index, steps);
      }
      scale = select(less(index, splat(known, width)), scale, floatConstant(0.0, f32, width));
    }
    memory.store(scale, scales, i, f32, width);
    memory.store(make<arith::SIToFPOp>(vectorOf(f32, width), zero), zeros, i, f32, width);
  });
}

Value CacheEmitter::scaleOf(Value bytes, int64_t width) {
  Type i16 = vectorOf(b.getI16Type(), width);
  Value shift = make<arith::ConstantOp>(
      width == 1 ? TypedAttr(b.getI16IntegerAttr(kScaleShift))
                 : TypedAttr(DenseElementsAttr::get(cast<ShapedType>(i16), APInt(16, kScaleShift))));
  Value bits = make<arith::ShLIOp>(make<arith::ExtUIOp>(i16, bytes), shift);
  Value half = make<arith::BitcastOp>(vectorOf(b.getF16Type(), width), bits);
  return memory.widen(half, vectorOf(b.getF32Type(), 1), width);
}

Value CacheEmitter::larger(Value x, Value y) {
  return select(make<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y), x, y);
}

Value CacheEmitter::smaller(Value x, Value y) {
  return select(make<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, y), x, y);
}

/// Rounds to an integer, ties to even, by adding 1.5 * 2^23. NaN becomes the lower limit.
Value CacheEmitter::roundToEven(Value x, int64_t width) {
  Type f32 = b.getF32Type();
  x = smaller(larger(x, floatConstant(-4096.0, f32, width)), floatConstant(4096.0, f32, width));
  x = make<arith::AddFOp>(x, floatConstant(0x1.8p23, f32, width));
  return make<arith::SubFOp>(x, floatConstant(0x1.8p23, f32, width));
}

void CacheEmitter::quantizeGroup(Value source, int64_t count, int64_t bits, Value target, Value parameters,
                                 Value scaleOffset, Value zeroOffset) {
  GroupScale scale = scaleOfGroup(source, count, bits, parameters, scaleOffset, zeroOffset);
  Type i8 = b.getI8Type();
  if (bits == 8) {
    vectorLoop(constant(count), [&](Value i, int64_t width) {
      memory.store(quantizedAt(source, i, width, bits, scale), target, i, i8, width);
    });
    return;
  }
  int64_t lanes = config.lanes;
  Value four = make<arith::ConstantOp>(DenseElementsAttr::get(cast<ShapedType>(vectorOf(i8, lanes)), APInt(8, 4)));
  forLoop(constant(0), constant(count / kBlockValues), constant(1), [&](Value block) {
    for (int64_t byte = 0; byte < kBlockBytes; byte += lanes) {
      Value first = add(mul(block, constant(kBlockValues)), constant(byte));
      Value upper = quantizedAt(source, add(first, constant(kBlockBytes)), lanes, bits, scale);
      upper = make<arith::ShLIOp>(upper, four);
      Value pair = make<arith::OrIOp>(quantizedAt(source, first, lanes, bits, scale), upper);
      memory.store(pair, target, add(mul(block, constant(kBlockBytes)), constant(byte)), i8, lanes);
    }
  });
}

/// Computes the scale and the zero of a group, and stores them.
CacheEmitter::GroupScale CacheEmitter::scaleOfGroup(Value source, int64_t count, int64_t bits, Value parameters,
                                                    Value scaleOffset, Value zeroOffset) {
  Type f32 = b.getF32Type(), i8 = b.getI8Type(), i16 = b.getI16Type(), i32 = b.getI32Type();
  auto scalar = [&](double value) { return floatConstant(value, f32, 1); };
  auto negate = [&](Value x) -> Value { return make<arith::NegFOp>(x); };
  auto load = [&](Value i, int64_t width) { return memory.load(source, i, f32, width); };

  Value high = reduce(constant(count), kernel::Combination::MAXIMUMF, f32, load);
  Value low = negate(reduce(constant(count), kernel::Combination::MAXIMUMF, f32,
                            [&](Value i, int64_t width) { return negate(load(i, width)); }));
  if (bits == 8) {
    high = larger(high, scalar(0.0));
    low = smaller(low, scalar(0.0));
  }
  int64_t largest = (1 << bits) - 1, firstZero = bits == 4 ? -128 : 0;
  Value least = make<arith::DivFOp>(make<arith::SubFOp>(high, low), scalar(largest));
  if (bits == 4) {
    Value magnitude = larger(high, negate(low));
    magnitude = larger(magnitude, larger(negate(high), low));
    least = larger(least, make<arith::DivFOp>(magnitude, scalar(127.0)));
  }
  auto integer = [&](int64_t value) -> Value { return word(value); };
  Value raw = make<arith::ExtUIOp>(i32, make<arith::BitcastOp>(i16, memory.narrow(least, b.getF16Type(), 1)));
  raw = make<arith::AddIOp>(raw, integer((1 << kScaleShift) - 1));
  raw = make<arith::ShRUIOp>(raw, integer(kScaleShift));
  raw = make<arith::MinUIOp>(make<arith::MaxUIOp>(raw, integer(1)), integer(kLargestScale));
  Value scaleByte = make<arith::TruncIOp>(i8, raw);
  Value scale = scaleOf(scaleByte, 1);
  Value zero = roundToEven(negate(make<arith::DivFOp>(low, scale)), 1);
  zero = smaller(larger(zero, scalar(firstZero)), scalar(firstZero + 255));
  memory.store(scaleByte, parameters, scaleOffset, i8, 1);
  memory.store(make<arith::TruncIOp>(i8, make<arith::FPToSIOp>(i32, zero)), parameters, zeroOffset, i8, 1);
  return {scale, zero};
}

/// Returns `width` f32 at an element of the source quantized, as bytes.
Value CacheEmitter::quantizedAt(Value source, Value i, int64_t width, int64_t bits, const GroupScale &scale) {
  Type f32 = b.getF32Type();
  int64_t largest = (1 << bits) - 1;
  Value value = memory.load(source, i, f32, width);
  Value quantized = roundToEven(make<arith::DivFOp>(value, splat(scale.scale, width)), width);
  quantized = make<arith::AddFOp>(quantized, splat(scale.zero, width));
  quantized = smaller(larger(quantized, floatConstant(0.0, f32, width)), floatConstant(largest, f32, width));
  Value integers = make<arith::FPToSIOp>(vectorOf(b.getI32Type(), width), quantized);
  return make<arith::TruncIOp>(vectorOf(b.getI8Type(), width), integers);
}

} // namespace intarsia::cpu
