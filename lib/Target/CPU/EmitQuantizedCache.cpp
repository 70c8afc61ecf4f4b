//===- EmitQuantizedCache.cpp - Paged caches of codes ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The layout is that of nn.cache_append_quantized.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// 4-bit codes come in blocks of 32 in 16 bytes.
constexpr int64_t kBlockCodes = 32, kBlockBytes = 16;
/// A scale byte holds the bits 14 to 7 of an f16. The largest is the last one before infinity.
constexpr int64_t kScaleShift = 7, kLargestScale = 0xf7;
} // namespace

/// Whether `row` is a row of this call that holds the token at `position` of `sequence`.
Value KernelEmitter::isTokenAt(const TokenPlaces &places, Value row, Value sequence, Value position) {
  Value inside = arith::AndIOp::create(
      b, loc, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, row, constant(0)), less(row, places.tokens));
  Value some = max(min(row, sub(places.tokens, constant(1))), constant(0));
  auto equal = [&](Value x, Value y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y); };
  Value same = arith::AndIOp::create(b, loc, equal(integerAt(places.sequences, {Index{some}}), sequence),
                                     equal(integerAt(places.positions, {Index{some}}), position));
  return arith::AndIOp::create(b, loc, inside, same);
}

/// Writes rows[row, head, :], rounded, to a slot of a panel [features, page].
void KernelEmitter::storeColumn(Value rows, Value row, Value head, Value panel, int64_t page, Value slot, Type rounded,
                                Type stored) {
  int64_t features = cast<RankedTensorType>(rows.getType()).getDimSize(2);
  vectorLoop(constant(features), [&](Value feature, int64_t width) {
    Value x = evaluate(rows, {Index{row}, Index{head}, Index{feature, true}}, width);
    if (isa<Float8E4M3FNType>(rounded))
      x = narrowE4M3(x, width);
    else if (!rounded.isF32())
      x = narrow(x, rounded, width);
    if (stored != rounded)
      x = widen(x, stored, width);
    for (int64_t lane = 0; lane < width; ++lane) {
      Value value = width == 1 ? x : vector::ExtractOp::create(b, loc, x, lane).getResult();
      Value offset = add(mul(add(feature, constant(lane)), constant(page)), slot);
      LLVM::StoreOp::create(b, loc, value, offsetPointer(panel, offset, stored), stored.getIntOrFloatBitWidth() / 8);
    }
  });
}

/// Keys of the first `slots` places of a page as an f32 panel [features, page]: rows of this call where it has them,
/// the tail's otherwise. `base` is the position of slot 0, `firstRow` the number that its row has or would have.
void KernelEmitter::gatherPage(Value panel, const Storage &tail, Value rows, const TokenPlaces &places, Value sequence,
                               Value head, Value base, Value firstRow, Value slots) {
  auto rowsType = cast<RankedTensorType>(rows.getType());
  int64_t features = rowsType.getDimSize(2), page = kPanelWidth;
  Type f32 = b.getF32Type();
  ifThen(
      isTokenAt(places, firstRow, sequence, base), [] {},
      [&] {
        Value from = offsetPointer(tail.pointer, add(mul(sequence, tail.strides[0]), mul(head, tail.strides[1])),
                                   tail.elementType);
        forLoop(constant(0), constant(features * page), constant(config.lanes), [&](Value i) {
          storeAt(loadAt(from, i, tail.elementType, config.lanes), panel, i, f32, config.lanes);
        });
      });
  forLoop(constant(0), slots, constant(1), [&](Value slot) {
    Value row = add(firstRow, slot);
    ifThen(isTokenAt(places, row, sequence, add(base, slot)),
           [&] { storeColumn(rows, row, head, panel, page, slot, tail.elementType, f32); });
  });
}

//===-- Codes -------------------------------------------------------------------------------------------------===//

/// `lanes` codes of a row from `column` on, as f32. `row` is the offset of the row in bytes.
Value KernelEmitter::loadCodes(Value pointer, Value row, int64_t column, int64_t bits) {
  int64_t lanes = config.lanes, byte = column;
  if (bits == 4)
    byte = column / kBlockCodes * kBlockBytes + column % kBlockBytes;
  Type i32 = vectorOf(b.getI32Type(), lanes);
  Value codes = arith::ExtUIOp::create(b, loc, i32, loadAt(pointer, add(row, constant(byte)), b.getI8Type(), lanes));
  auto constantOf = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(cast<ShapedType>(i32), APInt(32, value)));
  };
  if (bits == 4 && column % kBlockCodes < kBlockBytes)
    codes = arith::AndIOp::create(b, loc, codes, constantOf(15));
  else if (bits == 4)
    codes = arith::ShRUIOp::create(b, loc, codes, constantOf(4));
  return arith::SIToFPOp::create(b, loc, vectorOf(b.getF32Type(), lanes), codes);
}

/// Scale and zero of `count` groups as f32; those from `known` on have a scale of zero.
void KernelEmitter::loadParameters(Value pointer, int64_t count, int64_t bits, Value known, Value scales, Value zeros) {
  Type f32 = b.getF32Type();
  vectorLoop(constant(count), [&](Value i, int64_t width) {
    Value scale = scaleOf(loadAt(pointer, i, b.getI8Type(), width), width);
    Value zero = loadAt(pointer, add(i, constant(count)), b.getI8Type(), width);
    Type i32 = vectorOf(b.getI32Type(), width);
    zero = bits == 4 ? arith::ExtSIOp::create(b, loc, i32, zero).getResult()
                     : arith::ExtUIOp::create(b, loc, i32, zero).getResult();
    if (known) {
      Value index = splat(i, width);
      if (width > 1) {
        SmallVector<int64_t> lanes = llvm::to_vector(llvm::seq<int64_t>(0, width));
        Value steps = arith::ConstantOp::create(b, loc, b.getI64VectorAttr(lanes));
        index = arith::AddIOp::create(b, loc, index, steps);
      }
      scale = arith::SelectOp::create(b, loc, less(index, splat(known, width)), scale, floatConstant(0.0, f32, width));
    }
    storeAt(scale, scales, i, f32, width);
    storeAt(arith::SIToFPOp::create(b, loc, vectorOf(f32, width), zero), zeros, i, f32, width);
  });
}

/// Bytes of scales as f32.
Value KernelEmitter::scaleOf(Value bytes, int64_t width) {
  Type i16 = vectorOf(b.getI16Type(), width);
  Value shift = arith::ConstantOp::create(
      b, loc,
      width == 1 ? TypedAttr(b.getI16IntegerAttr(kScaleShift))
                 : TypedAttr(DenseElementsAttr::get(cast<ShapedType>(i16), APInt(16, kScaleShift))));
  Value bits = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i16, bytes), shift);
  Value half = arith::BitcastOp::create(b, loc, vectorOf(b.getF16Type(), width), bits);
  return widen(half, vectorOf(b.getF32Type(), 1), width);
}

/// Quantizes `count` f32 at `source` to codes at `codes`, their scale and zero to the two offsets from `parameters`.
void KernelEmitter::quantizeGroup(Value source, int64_t count, int64_t bits, Value codes, Value parameters,
                                  Value scaleOffset, Value zeroOffset) {
  Type f32 = b.getF32Type(), i8 = b.getI8Type(), i16 = b.getI16Type(), i32 = b.getI32Type();
  auto number = [&](double value, int64_t width = 1) { return floatConstant(value, f32, width); };
  auto ordered = [&](arith::CmpFPredicate predicate, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, arith::CmpFOp::create(b, loc, predicate, x, y), x, y);
  };
  auto larger = [&](Value x, Value y) { return ordered(arith::CmpFPredicate::OGT, x, y); };
  auto smaller = [&](Value x, Value y) { return ordered(arith::CmpFPredicate::OLT, x, y); };
  // Adding 1.5 * 2^23 rounds to an integer, to even; NaN becomes the lower limit.
  auto round = [&](Value x, int64_t width) -> Value {
    x = smaller(larger(x, number(-4096.0, width)), number(4096.0, width));
    x = arith::AddFOp::create(b, loc, x, number(0x1.8p23, width));
    return arith::SubFOp::create(b, loc, x, number(0x1.8p23, width));
  };
  auto negate = [&](Value x) -> Value { return arith::NegFOp::create(b, loc, x); };
  auto load = [&](Value i, int64_t width) { return loadAt(source, i, f32, width); };

  Value high = reduce(constant(count), /*maximum=*/true, f32, load);
  Value low = negate(
      reduce(constant(count), /*maximum=*/true, f32, [&](Value i, int64_t width) { return negate(load(i, width)); }));
  if (bits == 8) {
    high = larger(high, number(0.0));
    low = smaller(low, number(0.0));
  }
  int64_t largest = (1 << bits) - 1, firstZero = bits == 4 ? -128 : 0;
  Value least = arith::DivFOp::create(b, loc, arith::SubFOp::create(b, loc, high, low), number(largest));
  if (bits == 4) {
    Value magnitude = larger(high, negate(low));
    magnitude = larger(magnitude, larger(negate(high), low));
    least = larger(least, arith::DivFOp::create(b, loc, magnitude, number(127.0)));
  }
  auto integer = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)); };
  Value raw =
      arith::ExtUIOp::create(b, loc, i32, arith::BitcastOp::create(b, loc, i16, narrow(least, b.getF16Type(), 1)));
  raw = arith::AddIOp::create(b, loc, raw, integer((1 << kScaleShift) - 1));
  raw = arith::ShRUIOp::create(b, loc, raw, integer(kScaleShift));
  raw = arith::MinUIOp::create(b, loc, arith::MaxUIOp::create(b, loc, raw, integer(1)), integer(kLargestScale));
  Value scaleByte = arith::TruncIOp::create(b, loc, i8, raw);
  Value scale = scaleOf(scaleByte, 1);
  Value zero = round(negate(arith::DivFOp::create(b, loc, low, scale)), 1);
  zero = smaller(larger(zero, number(firstZero)), number(firstZero + 255));
  storeAt(scaleByte, parameters, scaleOffset, i8, 1);
  storeAt(arith::TruncIOp::create(b, loc, i8, arith::FPToSIOp::create(b, loc, i32, zero)), parameters, zeroOffset, i8,
          1);

  auto codesAt = [&](Value i, int64_t width) -> Value {
    Value code = round(arith::DivFOp::create(b, loc, load(i, width), splat(scale, width)), width);
    code = arith::AddFOp::create(b, loc, code, splat(zero, width));
    code = smaller(larger(code, number(0.0, width)), number(largest, width));
    Value integers = arith::FPToSIOp::create(b, loc, vectorOf(i32, width), code);
    return arith::TruncIOp::create(b, loc, vectorOf(i8, width), integers);
  };
  if (bits == 8) {
    vectorLoop(constant(count), [&](Value i, int64_t width) { storeAt(codesAt(i, width), codes, i, i8, width); });
    return;
  }
  int64_t lanes = config.lanes;
  Value four =
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(cast<ShapedType>(vectorOf(i8, lanes)), APInt(8, 4)));
  forLoop(constant(0), constant(count / kBlockCodes), constant(1), [&](Value block) {
    for (int64_t byte = 0; byte < kBlockBytes; byte += lanes) {
      Value first = add(mul(block, constant(kBlockCodes)), constant(byte));
      Value upper = arith::ShLIOp::create(b, loc, codesAt(add(first, constant(kBlockBytes)), lanes), four);
      Value pair = arith::OrIOp::create(b, loc, codesAt(first, lanes), upper);
      storeAt(pair, codes, add(mul(block, constant(kBlockBytes)), constant(byte)), i8, lanes);
    }
  });
}

//===-- Appends -----------------------------------------------------------------------------------------------===//

void KernelEmitter::emitTailAppend(nn::TailAppendOp root) {
  std::optional<Storage> tail = storage.empty() ? std::nullopt : view(root.getTail());
  if (!planning && (!tail || yielded(0) != root.getResult() || kernel.getResultTypes().size() != 1)) {
    unsupported(root, "the tail is computed in the same kernel, or is not its one result");
    return;
  }
  auto type = cast<RankedTensorType>(root.getTail().getType());
  int64_t heads = type.getDimSize(1), page = type.getDimSize(3);
  TokenPlaces places{root.getPositions(), root.getSequences(), size(sizes.of(root.getRows())[0])};
  forTokens(root.getRows(), [&](Value token) {
    Value position = integerAt(root.getPositions(), {Index{token}});
    Value sequence = integerAt(root.getSequences(), {Index{token}});
    Value slot = rem(position, constant(page)), left = sub(constant(page), slot);
    // Rows of a page that ends in this call are of no use any more.
    ifThen(
        isTokenAt(places, add(token, left), sequence, add(position, left)), [] {},
        [&] {
          forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
            Value panel = offsetPointer(
                tail->pointer, add(mul(sequence, tail->strides[0]), mul(head, tail->strides[1])), tail->elementType);
            storeColumn(root.getRows(), token, head, panel, page, slot, tail->elementType, tail->elementType);
          });
        });
  });
}

void KernelEmitter::emitCacheAppendQuantized(nn::CacheAppendQuantizedOp root) {
  std::optional<Storage> codes, parameters, tail;
  if (!planning) {
    codes = view(root.getCodes());
    parameters = view(root.getParameters());
    if (root.getTail())
      tail = view(root.getTail());
    if (!codes || !parameters || (root.getTail() && !tail) || kernel.getResultTypes().size() != 2 ||
        yielded(0) != root.getNewCodes() || yielded(1) != root.getNewParameters()) {
      unsupported(root, "a cache is computed in the same kernel, or codes and parameters are not its two results");
      return;
    }
  }
  auto [page, bits] = nn::codeLayoutOf(root);
  if (root.getTail() && page != kPanelWidth) {
    unsupported(root, "its pages do not have " + Twine(kPanelWidth) + " slots");
    return;
  }
  auto rowsType = cast<RankedTensorType>(root.getRows().getType());
  int64_t heads = rowsType.getDimSize(1), features = rowsType.getDimSize(2);
  int64_t rowBytes = cast<RankedTensorType>(root.getCodes().getType()).getDimSize(3);
  Type f32 = b.getF32Type(), i8 = b.getI8Type();
  Value group = planning ? Value() : scratch((tail ? features * page : features) * 4);
  TokenPlaces places{root.getPositions(), root.getSequences(), size(sizes.of(root.getRows())[0])};
  forTokens(root.getRows(), [&](Value token) {
    Value position = integerAt(root.getPositions(), {Index{token}});
    Value sequence = integerAt(root.getSequences(), {Index{token}});
    Value slot = rem(position, constant(page)), place = div(position, constant(page));
    auto forHeads = [&](llvm::function_ref<void(Value, Value, Value)> body) {
      forLoop(constant(0), constant(heads), constant(1), [&](Value head) {
        body(head, pageOf(*codes, root.getPageTable(), sequence, place, head),
             pageOf(*parameters, root.getPageTable(), sequence, place, head));
      });
    };
    if (!tail) {
      forHeads([&](Value head, Value pageCodes, Value pageParameters) {
        vectorLoop(constant(features), [&](Value f, int64_t width) {
          storeAt(evaluate(root.getRows(), {Index{token}, Index{head}, Index{f, true}}, width), group, f, f32, width);
        });
        quantizeGroup(group, features, bits, offsetPointer(pageCodes, mul(slot, constant(rowBytes)), i8),
                      pageParameters, slot, add(slot, constant(page)));
      });
      return;
    }
    ifThen(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, slot, constant(page - 1)), [&] {
      forHeads([&](Value head, Value pageCodes, Value pageParameters) {
        gatherPage(group, *tail, root.getRows(), places, sequence, head, sub(position, slot), sub(token, slot),
                   constant(page));
        forLoop(constant(0), constant(features), constant(1), [&](Value f) {
          quantizeGroup(offsetPointer(group, mul(f, constant(page)), f32), page, bits,
                        offsetPointer(pageCodes, mul(f, constant(rowBytes)), i8), pageParameters, f,
                        add(f, constant(features)));
        });
      });
    });
  });
}

} // namespace intarsia::cpu
