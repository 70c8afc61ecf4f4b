//===- ReferenceCaches.cpp - Paged key/value caches as loops ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An append asks of every element of the cache, for each token of the call in turn, whether the token writes there.
// Slots that were never written may hold NaN or anything, so they are selected away and take no part in sums.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/ReferenceBuilder.h"

#include <limits>

using namespace mlir;

namespace intarsia::lower {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The places of the tokens of a call.
struct Tokens {
  Value positions, sequences;
  Value pageTable; ///< null if nothing asks for pages
  int64_t page;    ///< slots of a page

  Integer position(ScalarBuilder &b, Integer token) const {
    return b.toIndex(tensor::ExtractOp::create(b, positions, ValueRange{token}));
  }
  Integer sequence(ScalarBuilder &b, Integer token) const {
    return b.toIndex(tensor::ExtractOp::create(b, sequences, ValueRange{token}));
  }
  Integer slot(ScalarBuilder &b, Integer token) const { return position(b, token) % page; }
  /// The page of a position of the token's sequence.
  Integer pageOf(ScalarBuilder &b, Integer token, Integer position) const {
    return b.toIndex(tensor::ExtractOp::create(b, pageTable, ValueRange{sequence(b, token), position / page}));
  }
  Integer pageOf(ScalarBuilder &b, Integer token) const { return pageOf(b, token, position(b, token)); }
};

//===-- E4M3 and floats ----------------------------------------------------------------------------------------===//

/// A number as a cache stores it.
Value store(ScalarBuilder &b, Value number, Type element) {
  if (isa<FloatType>(element))
    return b.narrow(b.widen(number), element);
  const FloatFormat &format = *nn::getFloatElement(nn::BlockElement::E4M3);
  return arith::TruncIOp::create(b, element, buildEncodeFloat(b, format, b.widen(number)));
}

/// The numbers of E4M3 by code.
Value buildE4M3Table(ReferenceBuilder &builder) {
  SmallVector<float> numbers;
  for (unsigned code = 0; code != 256; ++code)
    numbers.push_back(nn::decodeElement(nn::BlockElement::E4M3, code));
  return builder.table(numbers);
}

//===-- Codes --------------------------------------------------------------------------------------------------===//

// A scale is bits 14 to 7 of an f16: at least 2^-17, at most the largest finite number.
constexpr int64_t scaleShift = 7, smallestScale = 1, largestScale = 0xf7;
// 16 bytes hold 32 codes of 4 bits.
constexpr int64_t packedCodes = 32, packedBytes = 16;

Value decodeScale(ScalarBuilder &b, Value byte) { return b.halfToFloat(b.toIndexUnsigned(byte) << scaleShift); }

/// A zero, or with 8 bits a code: 4-bit zeros have a sign.
Value decodeZero(ScalarBuilder &b, Value byte, int64_t bits) {
  return b.toFloat(bits == 4 ? b.toIndex(byte) : b.toIndexUnsigned(byte));
}

/// Rounds to even and clamps; NaN becomes `lowest`.
Value roundInto(ScalarBuilder &b, Value number, float lowest, float highest) {
  number = math::RoundEvenOp::create(b, number);
  return b.select(b.isNan(number), b.f32(lowest), b.min(b.max(number, b.f32(lowest)), b.f32(highest)));
}

Value toByte(ScalarBuilder &b, Value number) {
  return arith::TruncIOp::create(b, b.getI8Type(), arith::FPToSIOp::create(b, b.getI32Type(), number));
}

/// Groups of codes as the cache stores them; a zero and the byte of a scale for each group.
struct Codes {
  Value bytes, scales, zeros;
};

Value buildScales(ReferenceBuilder &builder, Value low, Value high, int64_t bits) {
  AffineMap all = builder.identity(typeOf(low).getRank());
  return builder.parallel(builder.sizesOf(low), builder.getI8Type(), {{low, all}, {high, all}},
                          [&](ScalarBuilder &b, ValueRange v) {
                            Value least = b.div(b.sub(v[1], v[0]), b.f32((1 << bits) - 1));
                            if (bits == 4)
                              least = b.max(least, b.div(b.max(b.abs(v[0]), b.abs(v[1])), b.f32(127)));
                            Value half = arith::BitcastOp::create(b, b.getI16Type(), b.narrow(least, b.getF16Type()));
                            Integer byte = (b.toIndexUnsigned(half) + ((1 << scaleShift) - 1)) >> scaleShift;
                            byte = smaller(larger(byte, smallestScale), largestScale);
                            return arith::IndexCastOp::create(b, b.getI8Type(), byte).getResult();
                          });
}

/// Two 4-bit codes a byte.
Value buildPacked(ReferenceBuilder &builder, Value codes) {
  MixedSizes sizes = builder.sizesOf(codes);
  sizes.back() = builder.scaled(sizes.back(), packedCodes, packedBytes);
  return builder.parallel(sizes, builder.getI8Type(), {}, [&](ScalarBuilder &b, ValueRange) {
    SmallVector<Value> indices;
    for (unsigned dimension = 0; dimension != sizes.size(); ++dimension)
      indices.push_back(b.place(dimension));
    Integer byte(b, indices.back());
    auto codeAt = [&](Integer element) -> Integer {
      indices.back() = element;
      return {b, tensor::ExtractOp::create(b, codes, indices)};
    };
    Integer low = byte / packedBytes * packedCodes + byte % packedBytes;
    return Value(codeAt(low) | codeAt(low + packedBytes) << 4);
  });
}

/// Quantizes groups [..., elements] to codes of 4 or 8 bits.
Codes buildCodes(ReferenceBuilder &builder, Value groups, int64_t bits) {
  unsigned rank = typeOf(groups).getRank();
  MixedSizes sizes = builder.sizesOf(groups);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  AffineMap all = builder.identity(rank), group = builder.leading(rank, rank - 1);
  float lowestZero = bits == 4 ? -128 : 0, largestCode = (1 << bits) - 1;
  // The range of 8 bits includes 0.
  Value low = builder.reduce(outer, 1, bits == 8 ? 0 : infinity, {{groups, all}},
                             [](ScalarBuilder &b, ValueRange v) { return b.min(b.widen(v[0]), v[1]); });
  Value high = builder.reduce(outer, 1, bits == 8 ? 0 : -infinity, {{groups, all}},
                              [](ScalarBuilder &b, ValueRange v) { return b.max(b.widen(v[0]), v[1]); });
  Value scales = buildScales(builder, low, high, bits);
  AffineMap eachGroup = builder.identity(rank - 1);
  Value zeros = builder.parallel(outer, builder.getI8Type(), {{low, eachGroup}, {scales, eachGroup}},
                                 [&](ScalarBuilder &b, ValueRange v) {
                                   Value number = b.div(arith::NegFOp::create(b, v[0]), decodeScale(b, v[1]));
                                   return toByte(b, roundInto(b, number, lowestZero, lowestZero + 255));
                                 });
  Value bytes = builder.parallel(sizes, builder.getI8Type(), {{groups, all}, {scales, group}, {zeros, group}},
                                 [&](ScalarBuilder &b, ValueRange v) {
                                   Value ratio = b.div(b.widen(v[0]), decodeScale(b, v[1]));
                                   ratio = math::RoundEvenOp::create(b, ratio);
                                   Value code = b.add(ratio, decodeZero(b, v[2], bits));
                                   return toByte(b, roundInto(b, code, 0, largestCode));
                                 });
  return {bits == 4 ? buildPacked(builder, bytes) : bytes, scales, zeros};
}

/// `scale * (code - zero)`: indices are those of the code's group and of the element, parameters are next to the group.
Value decodeElement(ScalarBuilder &b, Value codes, Value parameters, ArrayRef<Value> group, Integer element,
                    int64_t bits) {
  SmallVector<Value> indices(group);
  indices.push_back(bits == 4 ? element / packedCodes * packedBytes + element % packedBytes : element);
  Integer code = b.toIndexUnsigned(tensor::ExtractOp::create(b, codes, indices));
  if (bits == 4)
    code = code >> (element % packedCodes / packedBytes * 4) & 15;
  auto parameter = [&](int64_t row) -> Value {
    return tensor::ExtractOp::create(b, parameters, ValueRange{group[0], group[1], b.index(row), group[2]});
  };
  return b.mul(decodeScale(b, parameter(0)), b.sub(b.toFloat(code), decodeZero(b, parameter(1), bits)));
}

//===-- Pages of keys ------------------------------------------------------------------------------------------===//

/// The keys of the page that each token is in, [tokens, heads, features, page], of the tail's type: the rows of this
/// call, and what the tail has of earlier calls.
Value buildOwnPages(ReferenceBuilder &builder, const Tokens &tokens, Value rows, Value tail) {
  MixedSizes sizes = builder.sizesOf(tail);
  sizes.front() = builder.sizesOf(rows).front();
  Type element = typeOf(tail).getElementType();
  Value before = builder.parallel(sizes, element, {}, [&](ScalarBuilder &b, ValueRange) {
    SmallVector<Value> indices = {tokens.sequence(b, b.place(0)), b.place(1), b.place(2), b.place(3)};
    return tensor::ExtractOp::create(b, tail, indices).getResult();
  });
  return builder.fold(before, 1, {{rows, builder.map(5, {4, 1, 2})}}, [&](ScalarBuilder &b, ValueRange v) {
    Integer token = b.place(0), other = b.place(4);
    Integer position = tokens.position(b, token) / tokens.page * tokens.page + b.place(3);
    Integer isThere =
        (tokens.sequence(b, other) == tokens.sequence(b, token)) & (tokens.position(b, other) == position);
    return b.select(isThere, store(b, v[0], element), v[1]);
  });
}

/// The rows of the caches that attention reads, as f32.
class AttendedCaches {
public:
  AttendedCaches(ReferenceBuilder &builder, nn::CachedAttentionOp op)
      : op(op), layout(nn::codeLayoutOf(op)),
        tokens{op.getPositions(), op.getSequences(), op.getPageTable(), layout.page} {
    if (op.getTail())
      ownPages = buildOwnPages(builder, tokens, op.getRows(), op.getTail());
    else if (typeOf(op.getKeys()).getElementType().isInteger(8))
      table = buildE4M3Table(builder);
  }

  /// True if the token sees the position.
  Integer isSeen(ScalarBuilder &b, Integer token, Integer position) {
    Integer own = tokens.position(b, token), isSeen = position <= own;
    return op.getWindow() ? isSeen & (own < position + *op.getWindow()) : isSeen;
  }
  /// Elements of the key and the value at a position; anything where the token does not see it.
  Value key(ScalarBuilder &b, Integer token, Integer position, Integer head, Integer feature) {
    position = insidePosition(b, token, position);
    Integer page = tokens.pageOf(b, token, position), slot = position % layout.page;
    if (!ownPages)
      return decode(b, tensor::ExtractOp::create(b, op.getKeys(), ValueRange{page, head, feature, slot}));
    Value code = decodeElement(b, op.getKeys(), op.getKeyParameters(), {page, head, feature}, slot, layout.bits);
    Value row = b.widen(tensor::ExtractOp::create(b, ownPages, ValueRange{token, head, feature, slot}));
    Integer isOwn = position / layout.page == tokens.position(b, token) / layout.page;
    return b.select(isOwn, row, code);
  }
  Value value(ScalarBuilder &b, Integer token, Integer position, Integer head, Integer feature) {
    position = insidePosition(b, token, position);
    Integer page = tokens.pageOf(b, token, position), slot = position % layout.page;
    if (!ownPages)
      return decode(b, tensor::ExtractOp::create(b, op.getValues(), ValueRange{page, head, slot, feature}));
    return decodeElement(b, op.getValues(), op.getValueParameters(), {page, head, slot}, feature, layout.bits);
  }
  int64_t valueFeatures() {
    int64_t stored = typeOf(op.getValues()).getDimSize(3);
    return ownPages ? stored * 8 / layout.bits : stored;
  }
  int64_t page() { return layout.page; }

private:
  /// The page table need not have pages beyond a token's position.
  Integer insidePosition(ScalarBuilder &b, Integer token, Integer position) {
    return choose(isSeen(b, token, position), position, tokens.position(b, token));
  }
  Value decode(ScalarBuilder &b, Value stored) {
    return table ? b.lookUp(table, b.toIndexUnsigned(stored)) : b.widen(stored);
  }

  nn::CachedAttentionOp op;
  nn::CodeLayout layout;
  Tokens tokens;
  Value ownPages, table;
};

} // namespace

//===-- Appends ------------------------------------------------------------------------------------------------===//

Value buildReference(ReferenceBuilder &builder, nn::CacheAppendOp op) {
  RankedTensorType type = typeOf(op.getCache());
  unsigned slot = op.getTransposed() ? 3 : 2, feature = op.getTransposed() ? 2 : 3;
  Tokens tokens{op.getPositions(), op.getSequences(), op.getPageTable(), type.getDimSize(slot)};
  // The token is the last dimension.
  return builder.fold(
      op.getCache(), 1, {{op.getRows(), builder.map(5, {4, 1, feature})}}, [&](ScalarBuilder &b, ValueRange v) {
        Integer token = b.place(4);
        Integer isWritten = (tokens.pageOf(b, token) == b.place(0)) & (tokens.slot(b, token) == b.place(slot));
        return b.select(isWritten, store(b, v[0], type.getElementType()), v[1]);
      });
}

SmallVector<Value> buildReference(ReferenceBuilder &builder, nn::CacheAppendQuantizedOp op) {
  auto [page, bits] = nn::codeLayoutOf(op);
  Tokens tokens{op.getPositions(), op.getSequences(), op.getPageTable(), page};
  bool isKeys = static_cast<bool>(op.getTail());
  Value groups = isKeys ? buildOwnPages(builder, tokens, op.getRows(), op.getTail()) : Value(op.getRows());
  Codes codes = buildCodes(builder, groups, bits);
  // A group of keys is written with the last slot of its page, one of values with its own slot. The token is the last
  // dimension.
  auto isWritten = [&, page = page](ScalarBuilder &b, unsigned slotDimension) {
    Integer token = b.place(4), slot = tokens.slot(b, token);
    return (tokens.pageOf(b, token) == b.place(0)) & (isKeys ? slot == page - 1 : slot == b.place(slotDimension));
  };
  AffineMap ofBytes = isKeys ? builder.map(5, {4, 1, 2, 3}) : builder.map(5, {4, 1, 3});
  Value newCodes = builder.fold(op.getCodes(), 1, {{codes.bytes, ofBytes}},
                                [&](ScalarBuilder &b, ValueRange v) { return b.select(isWritten(b, 2), v[0], v[1]); });
  AffineMap ofGroup = isKeys ? builder.map(5, {4, 1, 3}) : builder.map(5, {4, 1});
  Value newParameters = builder.fold(op.getParameters(), 1, {{codes.scales, ofGroup}, {codes.zeros, ofGroup}},
                                     [&](ScalarBuilder &b, ValueRange v) {
                                       Value parameter = b.select(b.place(2) == 0, v[0], v[1]);
                                       return b.select(isWritten(b, 3), parameter, v[2]);
                                     });
  return {newCodes, newParameters};
}

Value buildReference(ReferenceBuilder &builder, nn::TailAppendOp op) {
  RankedTensorType type = typeOf(op.getTail());
  Tokens tokens{op.getPositions(), op.getSequences(), /*pageTable=*/Value(), type.getDimSize(3)};
  // One more than the number of the last page of each sequence, 0 without a token in the call.
  Value ends = builder.fold(builder.filled(builder.sizesOf(op.getTail()).front(), builder.getIndexAttr(0)), 1,
                            {{op.getPositions(), builder.map(2, {1})}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
                              Integer end(b, v[1]);
                              Integer isOfSequence = tokens.sequence(b, b.place(1)) == b.place(0);
                              return choose(isOfSequence, larger(end, b.toIndex(v[0]) / tokens.page + 1), end);
                            });
  return builder.fold(op.getTail(), 1, {{op.getRows(), builder.map(5, {4, 1, 2})}, {ends, builder.map(5, {0})}},
                      [&](ScalarBuilder &b, ValueRange v) {
                        Integer token = b.place(4), position = tokens.position(b, token);
                        Integer isWritten = (tokens.sequence(b, token) == b.place(0)) &
                                            (position / tokens.page + 1 == Integer(b, v[1])) &
                                            (position % tokens.page == b.place(3));
                        return b.select(isWritten, store(b, v[0], type.getElementType()), v[2]);
                      });
}

//===-- Attention ----------------------------------------------------------------------------------------------===//

Value buildReference(ReferenceBuilder &builder, nn::CachedAttentionOp op) {
  AttendedCaches caches(builder, op);
  MixedSizes query = builder.sizesOf(op.getQuery());
  int64_t group = op.getQuery().getType().getDimSize(1) / op.getKeys().getType().getDimSize(1);
  // Columns of scores are the positions that the page table has room for; a sink is one more, which no token sees.
  OpFoldResult positions = builder.scaled(builder.sizesOf(op.getPageTable()).back(), 1, caches.page());
  OpFoldResult columns = op.getSinks() ? builder.scaled(positions, 1, 1, 1) : positions;
  MixedSizes scoreSizes = {query[0], query[1], columns};

  // Dimensions are token, head, column, feature.
  Value products = builder.reduce(scoreSizes, 1, 0.0f, {{op.getQuery(), builder.map(4, {0, 1, 3})}},
                                  [&](ScalarBuilder &b, ValueRange v) {
                                    Value key = caches.key(b, b.place(0), b.place(2), b.place(1) / group, b.place(3));
                                    Value sum = b.add(v[1], b.mul(b.widen(v[0]), key));
                                    return b.select(caches.isSeen(b, b.place(0), b.place(2)), sum, v[1]);
                                  });
  SmallVector<std::pair<Value, AffineMap>> inputs = {{products, builder.identity(3)}};
  if (op.getSinks())
    inputs.push_back({op.getSinks(), builder.map(3, {1})});
  Value scores = builder.parallel(scoreSizes, builder.getF32Type(), inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value score = b.mul(v[0], b.f32(op.getScale().convertToFloat()));
    if (op.getSoftCap()) {
      Value cap = b.f32(op.getSoftCap()->convertToFloat());
      score = b.mul(cap, math::TanhOp::create(b, b.div(score, cap)));
    }
    Value unseen = b.f32(-infinity);
    if (op.getSinks())
      unseen = b.select(b.place(2) == Integer(b, b.index(positions)), b.widen(v[1]), unseen);
    return b.select(caches.isSeen(b, b.place(0), b.place(2)), score, unseen);
  });
  Value weights = buildSoftmax(builder, scores, builder.getF32Type());

  // Dimensions are token, head, feature, column.
  Type element = op.getQuery().getType().getElementType();
  MixedSizes sizes = {query[0], query[1], builder.getIndexAttr(caches.valueFeatures())};
  Value sums =
      builder.reduce(sizes, 1, 0.0f, {{weights, builder.map(4, {0, 1, 3})}}, [&](ScalarBuilder &b, ValueRange v) {
        Value value = caches.value(b, b.place(0), b.place(3), b.place(1) / group, b.place(2));
        Value sum = b.add(v[1], b.mul(v[0], value));
        return b.select(caches.isSeen(b, b.place(0), b.place(3)), sum, v[1]);
      });
  return builder.parallel(sizes, element, {{sums, builder.identity(3)}},
                          [&](ScalarBuilder &b, ValueRange v) { return b.narrow(v[0], element); });
}

} // namespace intarsia::lower
