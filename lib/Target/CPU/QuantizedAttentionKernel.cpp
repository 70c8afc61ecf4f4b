//===- QuantizedAttentionKernel.cpp - Attention whose products are of integers of 8 bits -------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Queries, keys and values have a scale for each row of a head, exponentials of a query have one: they are at most 1.
// What a row is rounded to so depends on nothing but that row, and a key that a mask hides changes nothing.
//
// The scale of a value's row belongs to what the values are multiplied by. Its logarithm is added to the scores of the
// key, so that the exponentials have it before they are rounded. The total is that of exponentials before they are
// rounded, with the scale taken out again: a key whose value is small may have most of the weight.
//
// The first tiles of the launch quantize a block of keys and values of a head into scratch that all threads see. The
// finishing tiles are 32 queries of a head, with a query in each lane from the scores to the sums.
//
//   block   for each key: where its sums begin (i32), minus the sum of its quantized values times the offset of
//           queries; its scale (f32); the logarithm of the scale of its value's row (f32), and 255 divided by that
//           scale (f32); [key][feature] quantized keys; [key / 4][feature][4] quantized values, four keys' beside each
//           other
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/AttentionEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/QuantizedWeightEmitter.h"
#include "lib/Target/CPU/RecordEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
/// Slots of the launch.
enum { kKeyBlocks = ITX_PLAN_PRIVATE };
/// What is added to quantized queries, so that they are unsigned.
constexpr int64_t kOffset = 128;
/// The largest exponential, quantized.
constexpr double kHighestPower = 255;
/// The least scale of a row of values. Beside scales up to 1e13 powers that are smaller by the quotient are normal
/// floats, so that the total of powers misses none.
constexpr double kLeastScale = 1e-24;
/// Products that the instruction adds to a sum, of as many neighbours.
constexpr int64_t kWord = 4;

class QuantizedAttentionKernel final : public AttentionEmitter {
public:
  QuantizedAttentionKernel(rt::KernelOp kernel, nn::AttentionOp root, const TileConfig &config)
      : AttentionEmitter(kernel, root, config), words(llvm::divideCeil(headDim, kWord)),
        keyBytes(llvm::divideCeil(headDim, config.lanes) * config.lanes) {
    bytes.elementBits = 8;
    bytes.integerOffset = kOffset;
  }

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;
  void startTile() override;
  void scoreKeys(Value firstKey, Value keyCount) override;
  void exponentiate(ArrayRef<Value> largest, Value keyCount) override;
  void addValues(Value firstKey, Value keyCount) override;
  void storeRows() override;

  void quantizeBlock(Value tile);
  void quantizeKey(Value block, Value key, Value j);
  void quantizeValues(Value block, Value firstKey, Value count, Value j);
  SmallVector<Value> loadRow(Value source, Type type, int64_t size);
  RecordScale scaleOf(ArrayRef<Value> row);
  void quantizeQueries();
  Value blockOf(Value keyBlock);
  /// Rows of a register tile: features of values are whole vectors.
  int64_t tileRows() const { return std::min(config.tokenRows, config.lanes); }
  Value join(ArrayRef<Value> integers);
  void multiplyBytes(Value left, int64_t leftRow, int64_t leftStep, Value right, Value steps, Value starts,
                     llvm::function_ref<void(int64_t r, Value column, Value sum)> use);
  Value field(Value block, int64_t number) {
    return memory.at(block, constant(number * config.keyBlock * 4), b.getI8Type());
  }
  Value keysOf(Value block) { return field(block, 4); }
  Value valuesOf(Value block) { return memory.at(block, constant(config.keyBlock * (16 + keyBytes)), b.getI8Type()); }
  int64_t blockBytes() const { return config.keyBlock * (16 + keyBytes + paddedDim); }

  TileEmitter registerTiles{function};
  QuantizedWeightEmitter quantizedWeights{function};
  RecordEmitter quantizer{function, tensors};
  BlockPanels bytes{};       ///< how integers of 8 bits with a scale for a row are stored
  int64_t words, keyBytes;   ///< of a row of the keys
  Value keyBlocks, keyHeads; ///< how many there are
  Value floats, panel, queryScales, powers, rows, buffer;
  Value currentBlock; ///< of the keys that are being handled
};
} // namespace

Emitter makeQuantizedAttentionKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<QuantizedAttentionKernel>(kernel, cast<nn::AttentionOp>(root), config);
}

void QuantizedAttentionKernel::chooseShape(KernelShape &shape) {
  chooseKeys(shape, config);
  shape.state("kernel", "quantized attention");
  shape.state("instruction", nameOf(config.byteDot));
  shape.state("tile_rows", tileRows());
  shape.state("key", "quantized by the first tiles");
  shape.state("value", "quantized by the first tiles");
}

void QuantizedAttentionKernel::launch() {
  countQueries();
  ArrayRef<AffineExpr> keySizes = function.sizes.of(root.getKey());
  Value blocks = ceilDiv(keys, constant(config.keyBlock));
  Value all = mul(mul(function.size(keySizes[0]), function.size(keySizes[2])), blocks);
  function.setSlot(ITX_PLAN_SHARED_BYTES, mul(all, constant(blockBytes())));
  function.setSlot(ITX_PLAN_TILES, all);
  function.setSlot(ITX_PLAN_FINISH_TILES, tileCount());
  function.setSlot(kKeyBlocks, blocks);
}

LogicalResult QuantizedAttentionKernel::run() {
  if (failed(prepare()))
    return failure();
  floats = function.scratch(words * kWord * kPanelWidth * 4);
  panel = function.scratch(words * kWord * kPanelWidth);
  queryScales = function.scratch(kPanelWidth * 4);
  powers = function.scratch(config.keyBlock * kPanelWidth);
  rows = function.scratch(kPanelWidth * paddedDim * 4);
  buffer = function.scratch(std::max(keyBytes, paddedDim) * 4);
  keyHeads = function.sizeOf(root.getKey(), 2);
  keyBlocks = function.slot(kKeyBlocks);
  Value quantizing = function.slot(ITX_PLAN_TILES);
  forLoop(function.tileBegin, min(function.tileEnd, quantizing), constant(1), [&](Value tile) { quantizeBlock(tile); });
  return forLoop(max(sub(function.tileBegin, quantizing), constant(0)), sub(function.tileEnd, quantizing), constant(1),
                 [&](Value tile) { return attendTile(tile); });
}

//===-- Keys and values ---------------------------------------------------------------------------------------===//

/// Returns a block of the current head of the keys.
Value QuantizedAttentionKernel::blockOf(Value keyBlock) {
  Value number = add(mul(add(mul(batch, keyHeads), keyHead), keyBlocks), keyBlock);
  return memory.at(function.sharedPointer, mul(number, constant(blockBytes())), b.getI8Type());
}

void QuantizedAttentionKernel::quantizeBlock(Value tile) {
  Value number = rem(tile, keyBlocks), rest = div(tile, keyBlocks);
  keyHead = rem(rest, keyHeads);
  batch = div(rest, keyHeads);
  Value firstKey = mul(number, constant(config.keyBlock)), block = blockOf(number);
  Value count = min(sub(keys, firstKey), constant(config.keyBlock));
  forLoop(constant(0), count, constant(1), [&](Value j) { quantizeKey(block, add(firstKey, j), j); });
  forLoop(constant(0), count, constant(kWord), [&](Value j) { quantizeValues(block, firstKey, count, j); });
  // The scales become logarithms and inverses. Lanes beyond the last key are not read, but for those of a word, which
  // have the last key's.
  Type f32 = b.getF32Type();
  forLoop(constant(0), count, constant(config.lanes), [&](Value j) {
    Value scale = memory.load(field(block, 3), j, f32, config.lanes);
    memory.store(emitLog(b, loc, scale), field(block, 2), j, f32, config.lanes);
    memory.store(make<arith::DivFOp>(floatConstant(kHighestPower, f32, config.lanes), scale), field(block, 3), j, f32,
                 config.lanes);
  });
}

/// Returns the elements of a row of a head as vectors, with zeros beyond the last one.
SmallVector<Value> QuantizedAttentionKernel::loadRow(Value source, Type type, int64_t size) {
  int64_t padded = llvm::divideCeil(size, config.lanes) * config.lanes;
  if (padded != size) {
    registerTiles.packRows(buffer, source, constant(0), type, constant(1), constant(size), padded);
    source = buffer;
    type = b.getF32Type();
  }
  SmallVector<Value> row;
  for (int64_t c = 0; c < padded; c += config.lanes)
    row.push_back(memory.load(source, constant(c), type, config.lanes));
  return row;
}

RecordScale QuantizedAttentionKernel::scaleOf(ArrayRef<Value> row) {
  Value largest;
  for (Value values : row) {
    Value each = quantizer.magnitudes(values);
    largest = largest ? make<arith::MaxSIOp>(largest, each).getResult() : each;
  }
  return quantizer.scaleOfRecord(bytes, largest);
}

void QuantizedAttentionKernel::quantizeKey(Value block, Value keyIndex, Value j) {
  int64_t lanes = config.lanes;
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  SmallVector<Value> row = loadRow(base(*key, keyIndex, keyHead), key->elementType, headDim);
  RecordScale scale = scaleOf(row);
  Value sum, values = memory.at(keysOf(block), mul(j, constant(keyBytes)), i8);
  for (auto [v, each] : llvm::enumerate(row)) {
    Value integers = quantizer.roundToIntegers(each, splat(scale.inverse, lanes));
    sum = sum ? make<arith::AddIOp>(sum, integers).getResult() : integers;
    memory.store(make<arith::TruncIOp>(vectorOf(i8, lanes), integers), values, constant(v * lanes), i8, lanes);
  }
  Value start = make<vector::ReductionOp>(vector::CombiningKind::ADD, sum);
  start = make<arith::MulIOp>(start, word(-kOffset));
  memory.store(start, field(block, 0), j, i32, 1);
  memory.store(scale.scale, field(block, 1), j, b.getF32Type(), 1);
}

/// Quantizes the values of four keys from the block's j-th on; beyond the last one those of the last.
void QuantizedAttentionKernel::quantizeValues(Value block, Value firstKey, Value count, Value j) {
  int64_t lanes = config.lanes;
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  SmallVector<SmallVector<Value>> integers(paddedDim / lanes);
  for (int64_t i = 0; i < kWord; ++i) {
    Value index = min(add(j, constant(i)), sub(count, constant(1)));
    SmallVector<Value> row = loadRow(base(*value, add(firstKey, index), keyHead), value->elementType, valueDim);
    RecordScale scale = scaleOf(row);
    // A row below the least scale is zero, and has that scale: with a larger one its power would be the largest, and
    // others would be rounded to less than they are.
    Value least = floatConstant(kLeastScale, f32, 1);
    Value isTiny = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, scale.scale, least);
    Value own = select(isTiny, least, scale.scale);
    Value inverse = select(isTiny, floatConstant(0.0, f32, 1), scale.inverse);
    for (auto [v, each] : llvm::enumerate(row))
      integers[v].push_back(quantizer.roundToIntegers(each, splat(inverse, lanes)));
    memory.store(own, field(block, 3), add(j, constant(i)), f32, 1);
  }
  Value target = memory.at(valuesOf(block), mul(j, constant(paddedDim)), i8);
  for (auto [v, ofVector] : llvm::enumerate(integers))
    memory.store(join(ofVector), target, constant(v * lanes), b.getI32Type(), lanes);
}

/// Returns words of the lowest bytes of four vectors of integers.
Value QuantizedAttentionKernel::join(ArrayRef<Value> integers) {
  auto splatOf = [&](int64_t value) { return splat(word(value), config.lanes); };
  Value word;
  for (auto [i, each] : llvm::enumerate(integers)) {
    Value byte = i + 1 == integers.size() ? each : make<arith::AndIOp>(each, splatOf(255)).getResult();
    if (i)
      byte = make<arith::ShLIOp>(byte, splatOf(8 * i));
    word = word ? make<arith::OrIOp>(word, byte).getResult() : byte;
  }
  return word;
}

//===-- A tile ------------------------------------------------------------------------------------------------===//

void QuantizedAttentionKernel::startTile() {
  registerTiles.packTransposed(floats, base(*query, firstQuery, head), query->strides[1], query->elementType,
                               constant(headDim), queryCount, /*scale=*/Value());
  for (int64_t at = headDim * kPanelWidth; at < words * kWord * kPanelWidth; at += config.lanes)
    memory.store(zero, floats, constant(at), b.getF32Type(), config.lanes);
  quantizeQueries();
  startSums();
}

/// Quantizes the packed queries, a vector of them at a time.
void QuantizedAttentionKernel::quantizeQueries() {
  int64_t lanes = config.lanes;
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value offset = splat(word(kOffset), lanes);
  for (int64_t v = 0; v < vectors; ++v) {
    Value none = make<arith::ConstantOp>(b.getZeroAttr(VectorType::get({lanes}, i32)));
    SmallVector<Value> largest =
        forLoop(constant(0), constant(headDim), constant(1), none, [&](Value k, ValueRange running) {
          Value each = quantizer.magnitudes(memory.load(floats, add(mul(k, width), ofVector(v)), f32, lanes));
          return SmallVector<Value>{make<arith::MaxSIOp>(running[0], each)};
        });
    Value magnitude = make<vector::BitCastOp>(VectorType::get({lanes}, f32), largest[0]);
    // Below 1e-35 the quotient would overflow: such a query is zero.
    Value isTiny = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, magnitude, floatConstant(1e-35, f32, lanes));
    Value inverse = make<arith::DivFOp>(floatConstant(127.0, f32, lanes), magnitude);
    inverse = select(isTiny, zero, inverse);
    Value scale = make<arith::MulFOp>(select(isTiny, zero, magnitude),
                                      floatConstant(root.getScale().convertToDouble() / 127.0, f32, lanes));
    memory.store(scale, queryScales, ofVector(v), f32, lanes);
    forLoop(constant(0), constant(words), constant(1), [&](Value word) {
      SmallVector<Value> integers;
      for (int64_t i = 0; i < kWord; ++i) {
        Value k = add(mul(word, constant(kWord)), constant(i));
        Value each =
            quantizer.roundToIntegers(memory.load(floats, add(mul(k, width), ofVector(v)), f32, lanes), inverse);
        integers.push_back(make<arith::AddIOp>(each, offset));
      }
      memory.store(join(integers), panel, add(mul(word, width), ofVector(v)), i32, lanes);
    });
  }
}

/// Multiplies a register tile of rows of signed bytes, `leftRow` bytes apart and a step `leftStep`, by a panel of
/// unsigned ones, [step][32][4], and gives the sums of each row, which begin at `starts` or at zero.
void QuantizedAttentionKernel::multiplyBytes(Value left, int64_t leftRow, int64_t leftStep, Value right, Value steps,
                                             Value starts,
                                             llvm::function_ref<void(int64_t r, Value column, Value sum)> use) {
  int64_t lanes = config.lanes, count = tileRows(), together = config.quantizedVectors;
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  for (int64_t first = 0; first < kPanelWidth; first += together * lanes) {
    SmallVector<Value> initial;
    for (int64_t r = 0; r < count; ++r)
      initial.append(together, splat(starts ? memory.load(starts, constant(r), i32, 1) : Value(word(0)), lanes));
    SmallVector<Value> sums = forLoop(constant(0), steps, constant(1), initial, [&](Value step, ValueRange running) {
      SmallVector<Value> totals(running), columns;
      for (int64_t v = 0; v < together; ++v)
        columns.push_back(memory.load(right, mul(add(mul(step, width), constant(first + v * lanes)), constant(kWord)),
                                      i8, kWord * lanes));
      Value ofStep = memory.at(left, mul(step, constant(leftStep)), i8);
      for (int64_t r = 0; r < count; ++r) {
        Value word = memory.at(ofStep, constant(r * leftRow), i8);
        Value splatted = splat(make<LLVM::LoadOp>(i32, word, kWord), lanes);
        for (int64_t v = 0; v < together; ++v)
          totals[r * together + v] = quantizedWeights.addByteProducts(totals[r * together + v], columns[v], splatted,
                                                                      /*elementsAre8Bits=*/true);
      }
      return totals;
    });
    for (int64_t r = 0; r < count; ++r)
      for (int64_t v = 0; v < together; ++v)
        use(r, constant(first + v * lanes),
            make<arith::SIToFPOp>(vectorOf(b.getF32Type(), lanes), sums[r * together + v]));
  }
}

void QuantizedAttentionKernel::scoreKeys(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  Value block = currentBlock = blockOf(div(firstKey, constant(config.keyBlock)));
  forLoop(constant(0), keyCount, constant(tileRows()), [&](Value j) {
    auto ofKey = [&](int64_t number, int64_t r) {
      return splat(memory.load(field(block, number), add(j, constant(r)), f32, 1), lanes);
    };
    Value left = memory.at(keysOf(block), mul(j, constant(keyBytes)), b.getI8Type());
    multiplyBytes(left, keyBytes, kWord, panel, constant(words), memory.at(field(block, 0), j, b.getI32Type()),
                  [&](int64_t r, Value column, Value sum) {
                    Value score = make<arith::MulFOp>(sum, memory.load(queryScales, column, f32, lanes));
                    score = make<vector::FMAOp>(score, ofKey(1, r), ofKey(2, r));
                    memory.store(score, scores, add(mul(add(j, constant(r)), width), column), f32, lanes);
                  });
  });
}

void QuantizedAttentionKernel::exponentiate(ArrayRef<Value> largest, Value keyCount) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  Value inverses = field(currentBlock, 3);
  Value highest = floatConstant(kHighestPower, f32, lanes);
  SmallVector<Value> shifts = shiftsOf(largest), noSums(vectors, zero);
  // Keys are multiplied by fours.
  forLoop(keyCount, mul(ceilDiv(keyCount, constant(kWord)), constant(kWord)), constant(1), [&](Value j) {
    for (int64_t v = 0; v < vectors; ++v)
      memory.store(lowest, scores, add(mul(j, width), ofVector(v)), f32, lanes);
  });
  SmallVector<Value> blockTotals =
      forLoop(constant(0), keyCount, constant(kWord), noSums, [&](Value first, ValueRange running) {
        SmallVector<Value> next(running);
        SmallVector<SmallVector<Value>> integers(vectors);
        for (int64_t i = 0; i < kWord; ++i) {
          Value j = add(first, constant(i));
          Value inverse = splat(memory.load(inverses, j, f32, 1), lanes);
          for (int64_t v = 0; v < vectors; ++v) {
            Value score = memory.load(scores, add(mul(j, width), ofVector(v)), f32, lanes);
            Value power = emitExpNonPositive(b, loc, make<arith::SubFOp>(score, shifts[v]));
            integers[v].push_back(quantizer.roundToIntegers(power, highest));
            next[v] = make<vector::FMAOp>(power, inverse, next[v]);
          }
        }
        for (int64_t v = 0; v < vectors; ++v)
          memory.store(join(integers[v]), powers, add(mul(first, constant(kPanelWidth / kWord)), ofVector(v)),
                       b.getI32Type(), lanes);
        return next;
      });
  addTotals(blockTotals);
}

void QuantizedAttentionKernel::addValues(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  Value values = valuesOf(currentBlock);
  Value steps = ceilDiv(keyCount, constant(kWord));
  forLoop(constant(0), constant(paddedDim), constant(tileRows()), [&](Value c) {
    Value left = memory.at(values, mul(c, constant(kWord)), b.getI8Type());
    multiplyBytes(
        left, kWord, paddedDim * kWord, powers, steps, /*starts=*/Value(), [&](int64_t r, Value column, Value sum) {
          Value at = add(mul(add(c, constant(r)), width), column);
          Value earlier = memory.load(sums, at, f32, lanes), factor = memory.load(factors, column, f32, lanes);
          memory.store(make<vector::FMAOp>(earlier, factor, sum), sums, at, f32, lanes);
        });
  });
}

void QuantizedAttentionKernel::storeRows() {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  for (int64_t v = 0; v < vectors; ++v) {
    Value inverse = inverseOfTotal(ofVector(v), lanes);
    forLoop(constant(0), constant(paddedDim), constant(lanes), [&](Value c) {
      SmallVector<Value> features;
      for (int64_t i = 0; i < lanes; ++i) {
        Value sum = memory.load(sums, add(mul(add(c, constant(i)), width), ofVector(v)), f32, lanes);
        features.push_back(make<arith::MulFOp>(sum, inverse));
      }
      for (auto [i, row] : llvm::enumerate(registerTiles.transpose(features)))
        memory.store(row, rows, add(constant((v * lanes + i) * paddedDim), c), f32, lanes);
    });
  }
  forLoop(constant(0), queryCount, constant(1),
          [&](Value q) { storeRow(q, memory.at(rows, mul(q, constant(paddedDim)), f32), /*inverse=*/Value()); });
}

} // namespace intarsia::cpu
