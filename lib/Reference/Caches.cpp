//===- Caches.cpp - Paged key/value caches as loops -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An append finds the token that writes to each slot, then gives every element of the cache its new value. Slots that
// were never written may hold NaN or anything, so sums go over the positions that a token sees.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Reference/OpReferences.h"

#include <limits>

using namespace mlir;

namespace intarsia::reference {
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
  Value low = builder.reduceF32(outer, 1, bits == 8 ? 0 : infinity, {{groups, all}},
                                [](ScalarBuilder &b, ValueRange v) { return b.min(b.widen(v[0]), v[1]); });
  Value high = builder.reduceF32(outer, 1, bits == 8 ? 0 : -infinity, {{groups, all}},
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

//===-- Tokens that write -------------------------------------------------------------------------------------===//

/// Finds the token that writes to each place of a tensor of these sizes, the last one if several do; -1 where none
/// does. The dimension behind those of the tensor is the token.
Value buildWriters(ReferenceBuilder &builder, const Tokens &tokens, ArrayRef<OpFoldResult> sizes,
                   llvm::function_ref<Integer(ScalarBuilder &, Integer token)> isWritten) {
  unsigned rank = sizes.size();
  return builder.fold(builder.filled(sizes, builder.getIndexAttr(-1)), 1,
                      {{tokens.positions, builder.map(rank + 1, {rank})}},
                      [&](ScalarBuilder &b, ValueRange v) -> Value {
                        Integer token = b.place(rank);
                        return choose(isWritten(b, token), token, Integer(b, v[1]));
                      });
}

/// Builds what a token writes, or `old` where no token does.
Value selectWritten(ScalarBuilder &b, Value writer, Value old, llvm::function_ref<Value(Integer token)> written) {
  Integer token(b, writer);
  return b.runIf(arith::CmpIOp::create(b, arith::CmpIPredicate::sge, token, b.index(0)), old,
                 [&] { return written(token); });
}

/// The keys of the page that each token is in, [tokens, heads, features, page], of the tail's type: the rows of this
/// call, and what the tail has of earlier calls.
Value buildOwnPages(ReferenceBuilder &builder, const Tokens &tokens, Value rows, Value tail) {
  MixedSizes sizes = builder.sizesOf(tail);
  sizes.front() = builder.sizesOf(rows).front();
  Type element = typeOf(tail).getElementType();
  Value writers = buildWriters(builder, tokens, {sizes[0], sizes[3]}, [&](ScalarBuilder &b, Integer other) {
    Integer token = b.place(0);
    Integer position = tokens.position(b, token) / tokens.page * tokens.page + b.place(1);
    return (tokens.sequence(b, other) == tokens.sequence(b, token)) & (tokens.position(b, other) == position);
  });
  return builder.parallel(sizes, element, {{writers, builder.map(4, {0, 3})}}, [&](ScalarBuilder &b, ValueRange v) {
    Integer head = b.place(1), feature = b.place(2);
    Value kept =
        tensor::ExtractOp::create(b, tail, ValueRange{tokens.sequence(b, b.place(0)), head, feature, b.place(3)});
    return selectWritten(b, v[0], kept, [&](Integer token) {
      return store(b, tensor::ExtractOp::create(b, rows, ValueRange{token, head, feature}), element);
    });
  });
}

//===-- Rows of caches -----------------------------------------------------------------------------------------===//

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

  /// The token sees the positions from `begin` on and before `end`.
  Integer begin(ScalarBuilder &b, Integer token) {
    if (!op.getWindow())
      return {b, b.index(0)};
    return larger(end(b, token), *op.getWindow()) - *op.getWindow();
  }
  Integer end(ScalarBuilder &b, Integer token) { return tokens.position(b, token) + 1; }

  /// Elements of the key and the value at a position that the token sees.
  Value key(ScalarBuilder &b, Integer token, Integer position, Integer head, Integer feature) {
    Integer page = tokens.pageOf(b, token, position), slot = position % layout.page;
    if (!ownPages)
      return decode(b, tensor::ExtractOp::create(b, op.getKeys(), ValueRange{page, head, feature, slot}));
    Value code = decodeElement(b, op.getKeys(), op.getKeyParameters(), {page, head, feature}, slot, layout.bits);
    Value row = b.widen(tensor::ExtractOp::create(b, ownPages, ValueRange{token, head, feature, slot}));
    Integer isOwn = position / layout.page == tokens.position(b, token) / layout.page;
    return b.select(isOwn, row, code);
  }
  Value value(ScalarBuilder &b, Integer token, Integer position, Integer head, Integer feature) {
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
  Type element = typeOf(op.getCache()).getElementType();
  unsigned slot = op.getTransposed() ? 3 : 2, feature = op.getTransposed() ? 2 : 3;
  Tokens tokens{op.getPositions(), op.getSequences(), op.getPageTable(), typeOf(op.getCache()).getDimSize(slot)};
  MixedSizes sizes = builder.sizesOf(op.getCache());
  Value writers = buildWriters(builder, tokens, {sizes[0], sizes[slot]}, [&](ScalarBuilder &b, Integer token) {
    return (tokens.pageOf(b, token) == b.place(0)) & (tokens.slot(b, token) == b.place(1));
  });
  return builder.parallel(
      sizes, element, {{op.getCache(), builder.identity(4)}, {writers, builder.map(4, {0, slot})}},
      [&](ScalarBuilder &b, ValueRange v) {
        Integer head = b.place(1), column = b.place(feature);
        return selectWritten(b, v[1], v[0], [&](Integer token) {
          return store(b, tensor::ExtractOp::create(b, op.getRows(), ValueRange{token, head, column}), element);
        });
      });
}

SmallVector<Value> buildReference(ReferenceBuilder &builder, nn::CacheAppendQuantizedOp op) {
  auto [page, bits] = nn::codeLayoutOf(op);
  Tokens tokens{op.getPositions(), op.getSequences(), op.getPageTable(), page};
  bool isKeys = static_cast<bool>(op.getTail());
  Value groups = isKeys ? buildOwnPages(builder, tokens, op.getRows(), op.getTail()) : Value(op.getRows());
  Codes codes = buildCodes(builder, groups, bits);
  // A group of keys is written with the last slot of its page, one of values with its own slot.
  MixedSizes sizes = builder.sizesOf(op.getCodes()), writerSizes = {sizes[0]};
  if (!isKeys)
    writerSizes.push_back(sizes[2]);
  Value writers = buildWriters(builder, tokens, writerSizes, [&, page = page](ScalarBuilder &b, Integer token) {
    Integer slot = tokens.slot(b, token);
    return (tokens.pageOf(b, token) == b.place(0)) & (isKeys ? slot == page - 1 : slot == b.place(1));
  });
  auto writersAt = [&](unsigned slotDimension) {
    return isKeys ? builder.map(4, {0}) : builder.map(4, {0, slotDimension});
  };
  auto extractNew = [&](ScalarBuilder &b, Value values, ArrayRef<Value> indices) -> Value {
    return tensor::ExtractOp::create(b, values, indices);
  };
  Value newCodes =
      builder.parallel(sizes, builder.getI8Type(), {{op.getCodes(), builder.identity(4)}, {writers, writersAt(2)}},
                       [&](ScalarBuilder &b, ValueRange v) {
                         Integer head = b.place(1), feature = b.place(2), byte = b.place(3);
                         return selectWritten(b, v[1], v[0], [&](Integer token) {
                           return isKeys ? extractNew(b, codes.bytes, {token, head, feature, byte})
                                         : extractNew(b, codes.bytes, {token, head, byte});
                         });
                       });
  Value newParameters = builder.parallel(
      builder.sizesOf(op.getParameters()), builder.getI8Type(),
      {{op.getParameters(), builder.identity(4)}, {writers, writersAt(3)}}, [&](ScalarBuilder &b, ValueRange v) {
        Integer head = b.place(1), isScale = b.place(2) == 0, feature = b.place(3);
        return selectWritten(b, v[1], v[0], [&](Integer token) {
          SmallVector<Value> indices = {token, head};
          if (isKeys)
            indices.push_back(feature);
          return b.select(isScale, extractNew(b, codes.scales, indices), extractNew(b, codes.zeros, indices));
        });
      });
  return {newCodes, newParameters};
}

Value buildReference(ReferenceBuilder &builder, nn::TailAppendOp op) {
  Type element = typeOf(op.getTail()).getElementType();
  Tokens tokens{op.getPositions(), op.getSequences(), /*pageTable=*/Value(), typeOf(op.getTail()).getDimSize(3)};
  MixedSizes sizes = builder.sizesOf(op.getTail());
  // One more than the number of the last page of each sequence, 0 without a token in the call.
  Value ends = builder.fold(builder.filled(sizes.front(), builder.getIndexAttr(0)), 1,
                            {{op.getPositions(), builder.map(2, {1})}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
                              Integer end(b, v[1]);
                              Integer isOfSequence = tokens.sequence(b, b.place(1)) == b.place(0);
                              return choose(isOfSequence, larger(end, b.toIndex(v[0]) / tokens.page + 1), end);
                            });
  Value writers = buildWriters(builder, tokens, {sizes[0], sizes[3]}, [&](ScalarBuilder &b, Integer token) {
    Integer sequence = b.place(0), position = tokens.position(b, token);
    Integer end(b, tensor::ExtractOp::create(b, ends, ValueRange{sequence}));
    return (tokens.sequence(b, token) == sequence) & (position / tokens.page + 1 == end) &
           (position % tokens.page == b.place(1));
  });
  return builder.parallel(
      sizes, element, {{op.getTail(), builder.identity(4)}, {writers, builder.map(4, {0, 3})}},
      [&](ScalarBuilder &b, ValueRange v) {
        Integer head = b.place(1), feature = b.place(2);
        return selectWritten(b, v[1], v[0], [&](Integer token) {
          return store(b, tensor::ExtractOp::create(b, op.getRows(), ValueRange{token, head, feature}), element);
        });
      });
}

//===-- Attention ----------------------------------------------------------------------------------------------===//

/// Builds scores [tokens, heads, columns]; a position that the token does not see has -inf. Columns are the positions
/// that the page table has room for; a sink is one more, which no token sees.
static Value buildScores(ReferenceBuilder &builder, nn::CachedAttentionOp op, AttendedCaches &caches) {
  MixedSizes query = builder.sizesOf(op.getQuery());
  int64_t group = op.getQuery().getType().getDimSize(1) / op.getKeys().getType().getDimSize(1);
  OpFoldResult positions = builder.scaled(builder.sizesOf(op.getPageTable()).back(), 1, caches.page());
  OpFoldResult columns = op.getSinks() ? builder.scaled(positions, 1, 1, 1) : positions;
  SmallVector<std::pair<Value, AffineMap>> inputs;
  if (op.getSinks())
    inputs.push_back({op.getSinks(), builder.map(3, {1})});
  return builder.parallel(
      {query[0], query[1], columns}, builder.getF64Type(), inputs, [&](ScalarBuilder &b, ValueRange v) {
        Integer token = b.place(0), head = b.place(1), column = b.place(2);
        Value unseen = b.f64(-infinity);
        if (op.getSinks())
          unseen = b.select(column == Integer(b, b.index(positions)), b.exact(v[0]), unseen);
        Integer isSeen = (caches.begin(b, token) <= column) & (column < caches.end(b, token));
        return b.runIf(isSeen, unseen, [&] {
          Value score = b.sum(Integer(b, b.index(0)), Integer(b, b.index(query[2])), [&](Integer feature) {
            Value element = tensor::ExtractOp::create(b, op.getQuery(), ValueRange{token, head, feature});
            return b.mul(b.exact(element), b.exact(caches.key(b, token, column, head / group, feature)));
          });
          score = b.mul(score, b.f64(op.getScale().convertToFloat()));
          if (!op.getSoftCap())
            return score;
          Value cap = b.f64(op.getSoftCap()->convertToFloat());
          return b.mul(cap, math::TanhOp::create(b, b.div(score, cap)));
        });
      });
}

Value buildReference(ReferenceBuilder &builder, nn::CachedAttentionOp op) {
  AttendedCaches caches(builder, op);
  MixedSizes query = builder.sizesOf(op.getQuery());
  int64_t group = op.getQuery().getType().getDimSize(1) / op.getKeys().getType().getDimSize(1);
  Value weights = buildSoftmax(builder, buildScores(builder, op, caches), builder.getF64Type());
  Type element = op.getQuery().getType().getElementType();
  return builder.parallel({query[0], query[1], builder.getIndexAttr(caches.valueFeatures())}, element, {},
                          [&](ScalarBuilder &b, ValueRange) {
                            Integer token = b.place(0), head = b.place(1), feature = b.place(2);
                            Value sum = b.sum(caches.begin(b, token), caches.end(b, token), [&](Integer position) {
                              Value weight = tensor::ExtractOp::create(b, weights, ValueRange{token, head, position});
                              return b.mul(weight, b.exact(caches.value(b, token, position, head / group, feature)));
                            });
                            return b.narrow(sum, element);
                          });
}

} // namespace intarsia::reference
