//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// An append finds the token that writes to each slot, then gives every element of the cache its new value. Slots that
// were never written may hold NaN or anything, so sums go over the positions that a token sees.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <limits>

using namespace mlir;

namespace intarsia::reference {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The slots of the tokens of a call.
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

/// A number as a cache of floats stores it.
Value store(ScalarBuilder &b, Value number, Type element) {
  if (!isa<Float8E4M3FNType>(element))
    return b.narrow(b.widen(number), element);
  const FloatFormat &format = *nn::getFloatElement(nn::BlockElement::E4M3);
  return arith::TruncIOp::create(b, b.getI8Type(), buildEncodeFloat(b, format, b.widen(number)));
}

/// The values of E4M3 by bit pattern.
Value buildE4M3Table(ReferenceBuilder &builder) {
  SmallVector<float> values;
  for (unsigned bits = 0; bits != 256; ++bits)
    values.push_back(nn::decodeElement(nn::BlockElement::E4M3, bits));
  return builder.table(values);
}

//===-- Quantized values ---------------------------------------------------------------------------------------===//

// A scale is bits 14 to 7 of an f16: at least 2^-17, at most the largest finite number.
constexpr int64_t scaleShift = 7, smallestScale = 1, largestScale = 0xf7;
// 16 bytes hold 32 values of 4 bits.
constexpr int64_t packedValues = 32, packedBytes = 16;

Value decodeScale(ScalarBuilder &b, Value byte) { return b.halfToFloat(b.toIndexUnsigned(byte) << scaleShift); }

/// A zero, or with 8 bits a quantized value: 4-bit zeros have a sign.
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

/// Groups of quantized values, a byte each; a zero and the byte of a scale for each group.
struct QuantizedGroups {
  Value values, scales, zeros;
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

/// Quantizes groups [..., elements] to 4 or 8 bits.
QuantizedGroups buildGroups(ReferenceBuilder &builder, Value groups, int64_t bits) {
  unsigned rank = typeOf(groups).getRank();
  MixedSizes sizes = builder.sizesOf(groups);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  AffineMap all = builder.identity(rank), group = builder.leading(rank, rank - 1);
  float lowestZero = bits == 4 ? -128 : 0, largest = (1 << bits) - 1;
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
  Value values = builder.parallel(sizes, builder.getI8Type(), {{groups, all}, {scales, group}, {zeros, group}},
                                  [&](ScalarBuilder &b, ValueRange v) {
                                    Value ratio = b.div(b.widen(v[0]), decodeScale(b, v[1]));
                                    ratio = math::RoundEvenOp::create(b, ratio);
                                    Value value = b.add(ratio, decodeZero(b, v[2], bits));
                                    return toByte(b, roundInto(b, value, 0, largest));
                                  });
  return {values, scales, zeros};
}

/// The byte of a row of quantized values that holds the element of a column.
Integer byteOf(Integer column, int64_t bits) {
  return bits == 4 ? column / packedValues * packedBytes + column % packedBytes : column;
}

/// The byte `byte` of a row of quantized values, which `valueAt` gives by their columns.
Value buildByte(Integer byte, int64_t bits, llvm::function_ref<Integer(Integer column)> valueAt) {
  if (bits == 8)
    return valueAt(byte);
  Integer column = byte / packedBytes * packedValues + byte % packedBytes;
  return valueAt(column) | valueAt(column + packedBytes) << 4;
}

//===-- Tokens that write -------------------------------------------------------------------------------------===//

/// Finds the token that writes to each slot of a tensor of these sizes, the last one if several do; -1 where none
/// does. The dimension behind those of the tensor is the token.
Value buildWriters(ReferenceBuilder &builder, const Tokens &tokens, ArrayRef<OpFoldResult> sizes,
                   llvm::function_ref<Integer(ScalarBuilder &, Integer token)> isWritten) {
  unsigned rank = sizes.size();
  return builder.fold(builder.filled(sizes, builder.getIndexAttr(-1)), 1,
                      {{tokens.positions, builder.map(rank + 1, {rank})}},
                      [&](ScalarBuilder &b, ValueRange v) -> Value {
                        Integer token = b.indexOf(rank);
                        return choose(isWritten(b, token), token, Integer(b, v[1]));
                      });
}

/// Builds what a token writes, or `old` where no token does.
Value selectWritten(ScalarBuilder &b, Value writer, Value old, llvm::function_ref<Value(Integer token)> written) {
  Integer token(b, writer);
  return b.runIf(arith::CmpIOp::create(b, arith::CmpIPredicate::sge, token, b.index(0)), old,
                 [&] { return written(token); });
}

/// The indices of an element of a page.
SmallVector<Value> indicesOf(nn::CacheFormatAttr format, Integer page, Integer head, Integer slot, Integer feature) {
  if (format.getTransposed())
    return {page, head, feature, slot};
  return {page, head, slot, feature};
}

/// The keys of the page that each token is in, [tokens, heads, features, page], of the tail's type: the rows of this
/// call, and what the tail has of earlier calls.
Value buildOwnPages(ReferenceBuilder &builder, const Tokens &tokens, nn::CacheFormatAttr format, Value rows,
                    Value tail) {
  MixedSizes sizes = builder.sizesOf(rows);
  sizes.push_back(builder.getIndexAttr(format.getPage()));
  Type element = typeOf(tail).getElementType();
  Value writers = buildWriters(builder, tokens, {sizes[0], sizes[3]}, [&](ScalarBuilder &b, Integer other) {
    Integer token = b.indexOf(0);
    Integer position = tokens.position(b, token) / tokens.page * tokens.page + b.indexOf(1);
    return (tokens.sequence(b, other) == tokens.sequence(b, token)) & (tokens.position(b, other) == position);
  });
  return builder.parallel(sizes, element, {{writers, builder.map(4, {0, 3})}}, [&](ScalarBuilder &b, ValueRange v) {
    Integer head = b.indexOf(1), feature = b.indexOf(2);
    Value kept = tensor::ExtractOp::create(
        b, tail, indicesOf(format, tokens.sequence(b, b.indexOf(0)), head, b.indexOf(3), feature));
    return selectWritten(b, v[0], kept, [&](Integer token) {
      return store(b, tensor::ExtractOp::create(b, rows, ValueRange{token, head, feature}), element);
    });
  });
}

//===-- Unrotated keys -------------------------------------------------------------------------------------------===//

/// How the features of keys are turned with their position.
struct Turn {
  Value frequencies; ///< [pairs]; null if keys are not turned
  bool interleaved = false;

  /// Returns a feature of the key at a position, turned forwards (`sign` 1) or back (-1); `at` gives features before.
  Value apply(ScalarBuilder &b, Integer position, Integer feature, float sign,
              llvm::function_ref<Value(Integer feature)> at) const {
    int64_t pairs = typeOf(frequencies).getDimSize(0);
    return b.runIf(feature < Integer(b, b.index(2 * pairs)), at(feature), [&]() -> Value {
      Integer isFirst = interleaved ? feature % 2 == 0 : feature < Integer(b, b.index(pairs));
      Integer distance = interleaved ? Integer(b, b.index(1)) : Integer(b, b.index(pairs));
      Integer partner = choose(isFirst, feature + distance, feature - distance);
      Integer pair = interleaved ? feature / 2 : feature % pairs;
      Value frequency = b.widen(tensor::ExtractOp::create(b, frequencies, ValueRange{pair}));
      Value angle = b.mul(b.toFloat(position), frequency);
      Value cosine = math::CosOp::create(b, angle), sine = b.mul(b.f32(sign), math::SinOp::create(b, angle));
      sine = b.select(isFirst, b.sub(b.f32(0), sine), sine);
      return b.add(b.mul(at(feature), cosine), b.mul(at(partner), sine));
    });
  }
};

/// Returns pages [tokens, heads, features, slots] with keys as before their rotation, in f32.
Value buildUnrotated(ReferenceBuilder &builder, Value pages, const Tokens &tokens, const Turn &turn) {
  return builder.parallel(builder.sizesOf(pages), builder.getF32Type(), {}, [&](ScalarBuilder &b, ValueRange) {
    Integer token = b.indexOf(0), head = b.indexOf(1), slot = b.indexOf(3);
    Integer position = tokens.position(b, token) / tokens.page * tokens.page + slot;
    return turn.apply(b, position, b.indexOf(2), -1, [&](Integer feature) {
      return b.widen(tensor::ExtractOp::create(b, pages, ValueRange{token, head, feature, slot}));
    });
  });
}

//===-- Rows of caches -----------------------------------------------------------------------------------------===//

/// Reads elements of the pages of a cache as f32.
class PageReader {
public:
  PageReader(ReferenceBuilder &builder, nn::CacheFormatAttr format, ValueRange tensors)
      : format(format), tensors(tensors) {
    if (isa<Float8E4M3FNType>(format.getElement()))
      table = buildE4M3Table(builder);
  }

  Value element(ScalarBuilder &b, Integer page, Integer head, Integer slot, Integer feature) {
    SmallVector<Value> indices = indicesOf(format, page, head, slot, feature);
    if (!format.isQuantized()) {
      Value stored = tensor::ExtractOp::create(b, tensors[0], indices);
      return table ? b.lookUp(table, b.toIndexUnsigned(stored)) : b.widen(stored);
    }
    int64_t bits = format.getBits();
    Integer column(b, indices.back());
    indices.back() = byteOf(column, bits);
    Integer value = b.toIndexUnsigned(tensor::ExtractOp::create(b, tensors[0], indices));
    if (bits == 4)
      value = value >> (column % packedValues / packedBytes * 4) & 15;
    Integer group = format.getKind() == nn::CacheKind::Keys ? feature : slot;
    auto parameter = [&](int64_t row) -> Value {
      return tensor::ExtractOp::create(b, tensors[1], ValueRange{page, head, b.index(row), group});
    };
    return b.mul(decodeScale(b, parameter(0)), b.sub(b.toFloat(value), decodeZero(b, parameter(1), bits)));
  }

private:
  nn::CacheFormatAttr format;
  ValueRange tensors;
  Value table; ///< the values of E4M3
};

/// The rows of the caches that attention reads, as f32.
class AttendedCaches {
public:
  AttendedCaches(ReferenceBuilder &builder, nn::CachedAttentionOp op)
      : op(op), keys(builder, op.getKeyFormat(), op.getKeys()), values(builder, op.getValueFormat(), op.getValues()),
        tokens{op.getPositions(), op.getSequences(), op.getPageTable(), op.getKeyFormat().getPage()},
        turn{op.getFrequencies(), op.getInterleaved()} {
    if (op.getRows())
      ownPages = buildOwnPages(builder, tokens, op.getKeyFormat(), op.getRows(), op.getKeys().back());
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
    Integer slot = position % page();
    Integer itsPage = tokens.pageOf(b, token, position);
    auto storedAt = [&](Integer at) { return keys.element(b, itsPage, head, slot, at); };
    Value stored = turn.frequencies ? turn.apply(b, position, feature, 1, storedAt) : storedAt(feature);
    if (!ownPages)
      return stored;
    Value row = b.widen(tensor::ExtractOp::create(b, ownPages, ValueRange{token, head, feature, slot}));
    Integer isOwn = position / page() == tokens.position(b, token) / page();
    return b.select(isOwn, row, stored);
  }
  Value value(ScalarBuilder &b, Integer token, Integer position, Integer head, Integer feature) {
    return values.element(b, tokens.pageOf(b, token, position), head, position % page(), feature);
  }
  int64_t page() { return tokens.page; }

private:
  nn::CachedAttentionOp op;
  PageReader keys, values;
  Tokens tokens;
  Turn turn;
  Value ownPages; ///< null if pages hold all keys
};

} // namespace

//===-- Appends ------------------------------------------------------------------------------------------------===//

/// Rows into pages of floats.
static Value buildAppend(ReferenceBuilder &builder, nn::CacheAppendOp op, const Tokens &tokens) {
  nn::CacheFormatAttr format = op.getFormat();
  Value cache = op.getCache()[0];
  unsigned slot = format.getSlotDimension(), feature = format.getFeatureDimension();
  MixedSizes sizes = builder.sizesOf(cache);
  Value writers = buildWriters(builder, tokens, {sizes[0], sizes[slot]}, [&](ScalarBuilder &b, Integer token) {
    return (tokens.pageOf(b, token) == b.indexOf(0)) & (tokens.slot(b, token) == b.indexOf(1));
  });
  return builder.parallel(
      sizes, typeOf(cache).getElementType(), {{cache, builder.identity(4)}, {writers, builder.map(4, {0, slot})}},
      [&](ScalarBuilder &b, ValueRange v) {
        Integer head = b.indexOf(1), column = b.indexOf(feature);
        return selectWritten(b, v[1], v[0], [&](Integer token) {
          return store(b, tensor::ExtractOp::create(b, op.getRows(), ValueRange{token, head, column}),
                       format.getElement());
        });
      });
}

/// Rows into pages of quantized values: values, which never are transposed, and parameters.
static SmallVector<Value> buildQuantizedAppend(ReferenceBuilder &builder, nn::CacheAppendOp op, const Tokens &tokens) {
  nn::CacheFormatAttr format = op.getFormat();
  Value bytes = op.getCache()[0], parameters = op.getCache()[1];
  int64_t bits = format.getBits();
  bool isKeys = format.getKind() == nn::CacheKind::Keys;
  Value input = isKeys ? buildOwnPages(builder, tokens, format, op.getRows(), op.getCache()[2]) : Value(op.getRows());
  if (op.getFrequencies())
    input = buildUnrotated(builder, input, tokens, {op.getFrequencies(), op.getInterleaved()});
  QuantizedGroups groups = buildGroups(builder, input, bits);
  // A group of keys is written with the last slot of its page, one of values with its own slot.
  MixedSizes sizes = builder.sizesOf(bytes), writerSizes = {sizes[0]};
  if (!isKeys)
    writerSizes.push_back(sizes[2]);
  Value writers = buildWriters(builder, tokens, writerSizes, [&](ScalarBuilder &b, Integer token) {
    Integer slot = tokens.slot(b, token);
    return (tokens.pageOf(b, token) == b.indexOf(0)) & (isKeys ? slot == tokens.page - 1 : slot == b.indexOf(1));
  });
  auto writersAt = [&](unsigned slotDimension) {
    return isKeys ? builder.map(4, {0}) : builder.map(4, {0, slotDimension});
  };
  auto extractNew = [&](ScalarBuilder &b, Value values, ArrayRef<Value> indices) -> Value {
    return tensor::ExtractOp::create(b, values, indices);
  };
  Value newBytes = builder.parallel(sizes, builder.getI8Type(), {{bytes, builder.identity(4)}, {writers, writersAt(2)}},
                                    [&](ScalarBuilder &b, ValueRange v) {
                                      Integer head = b.indexOf(1), row = b.indexOf(2), byte = b.indexOf(3);
                                      return selectWritten(b, v[1], v[0], [&](Integer token) {
                                        return buildByte(byte, bits, [&](Integer column) -> Integer {
                                          if (!isKeys)
                                            return {b, extractNew(b, groups.values, {token, head, column})};
                                          return {b, format.getTransposed()
                                                         ? extractNew(b, groups.values, {token, head, row, column})
                                                         : extractNew(b, groups.values, {token, head, column, row})};
                                        });
                                      });
                                    });
  Value newParameters = builder.parallel(
      builder.sizesOf(parameters), builder.getI8Type(), {{parameters, builder.identity(4)}, {writers, writersAt(3)}},
      [&](ScalarBuilder &b, ValueRange v) {
        Integer head = b.indexOf(1), isScale = b.indexOf(2) == 0, feature = b.indexOf(3);
        return selectWritten(b, v[1], v[0], [&](Integer token) {
          SmallVector<Value> indices = {token, head};
          if (isKeys)
            indices.push_back(feature);
          return b.select(isScale, extractNew(b, groups.scales, indices), extractNew(b, groups.zeros, indices));
        });
      });
  return {newBytes, newParameters};
}

/// Rows into the tails of their sequences.
static Value buildTail(ReferenceBuilder &builder, nn::CacheAppendOp op, const Tokens &tokens) {
  Value tail = op.getCache()[0];
  Type element = typeOf(tail).getElementType();
  unsigned slot = op.getFormat().getSlotDimension(), feature = op.getFormat().getFeatureDimension();
  MixedSizes sizes = builder.sizesOf(tail);
  // One more than the number of the last page of each sequence, 0 without a token in the call.
  Value ends = builder.fold(builder.filled(sizes.front(), builder.getIndexAttr(0)), 1,
                            {{op.getPositions(), builder.map(2, {1})}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
                              Integer end(b, v[1]);
                              Integer isOfSequence = tokens.sequence(b, b.indexOf(1)) == b.indexOf(0);
                              return choose(isOfSequence, larger(end, b.toIndex(v[0]) / tokens.page + 1), end);
                            });
  Value writers = buildWriters(builder, tokens, {sizes[0], sizes[slot]}, [&](ScalarBuilder &b, Integer token) {
    Integer sequence = b.indexOf(0), position = tokens.position(b, token);
    Integer end(b, tensor::ExtractOp::create(b, ends, ValueRange{sequence}));
    return (tokens.sequence(b, token) == sequence) & (position / tokens.page + 1 == end) &
           (position % tokens.page == b.indexOf(1));
  });
  return builder.parallel(
      sizes, element, {{tail, builder.identity(4)}, {writers, builder.map(4, {0, slot})}},
      [&](ScalarBuilder &b, ValueRange v) {
        Integer head = b.indexOf(1), column = b.indexOf(feature);
        return selectWritten(b, v[1], v[0], [&](Integer token) {
          return store(b, tensor::ExtractOp::create(b, op.getRows(), ValueRange{token, head, column}), element);
        });
      });
}

//===-- Attention ----------------------------------------------------------------------------------------------===//

/// Builds scores [tokens, heads, columns]; a position that the token does not see has -inf. Columns are the positions
/// that the page table has room for; a sink is one more, which no token sees.
static Value buildScores(ReferenceBuilder &builder, nn::CachedAttentionOp op, AttendedCaches &caches) {
  MixedSizes query = builder.sizesOf(op.getQuery());
  int64_t group = op.getQuery().getType().getDimSize(1) / typeOf(op.getKeys()[0]).getDimSize(1);
  OpFoldResult positions = builder.scaled(builder.sizesOf(op.getPageTable()).back(), 1, caches.page());
  OpFoldResult columns = op.getSinks() ? builder.scaled(positions, 1, 1, 1) : positions;
  SmallVector<std::pair<Value, AffineMap>> inputs;
  if (op.getSinks())
    inputs.push_back({op.getSinks(), builder.map(3, {1})});
  return builder.parallel(
      {query[0], query[1], columns}, builder.getF64Type(), inputs, [&](ScalarBuilder &b, ValueRange v) {
        Integer token = b.indexOf(0), head = b.indexOf(1), column = b.indexOf(2);
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

static Value buildAttention(ReferenceBuilder &builder, nn::CachedAttentionOp op) {
  AttendedCaches caches(builder, op);
  MixedSizes query = builder.sizesOf(op.getQuery());
  int64_t group = op.getQuery().getType().getDimSize(1) / typeOf(op.getKeys()[0]).getDimSize(1);
  Value weights = buildSoftmax(builder, buildScores(builder, op, caches), builder.getF64Type());
  Type element = op.getQuery().getType().getElementType();
  OpFoldResult features = builder.getIndexAttr(op.getType().getDimSize(2));
  return builder.parallel({query[0], query[1], features}, element, {}, [&](ScalarBuilder &b, ValueRange) {
    Integer token = b.indexOf(0), head = b.indexOf(1), feature = b.indexOf(2);
    Value sum = b.sum(caches.begin(b, token), caches.end(b, token), [&](Integer position) {
      Value weight = tensor::ExtractOp::create(b, weights, ValueRange{token, head, position});
      return b.mul(weight, b.exact(caches.value(b, token, position, head / group, feature)));
    });
    return b.narrow(sum, element);
  });
}

} // namespace intarsia::reference

using namespace intarsia;

SmallVector<Value> nn::CacheAppendOp::buildReference(reference::ReferenceBuilder &builder) {
  reference::Tokens tokens{getPositions(), getSequences(), getPageTable(), getFormat().getPage()};
  if (getTail())
    return {reference::buildTail(builder, *this, tokens)};
  if (getFormat().isQuantized())
    return reference::buildQuantizedAppend(builder, *this, tokens);
  return {reference::buildAppend(builder, *this, tokens)};
}

SmallVector<Value> nn::CachedAttentionOp::buildReference(reference::ReferenceBuilder &builder) {
  return {reference::buildAttention(builder, *this)};
}
