//===- EmitCodeProduct.cpp - Linear layers of quantized weights and activations -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights lie as codes in panels (include/intarsia/BlockPanels.h). Activations are rounded to 8 bits by blocks of 32 as
// they are read: the kernel's first tiles write them, with what precedes them in the kernel (a norm), as records into
// scratch that all threads see; the tiles of the product start when those are done.
//
//   record  of a row's step, 32 features: for each block of the weight in the step minus the sum of the codes times the
//           weight's offset (i32), where a sum of products begins; the scale (f32), with what codes are multiplied by;
//           32 codes (i8)
//
// A product of few rows unpacks codes in registers; it waits for memory. One of many rows unpacks a panel into scratch
// first and multiplies register tiles. Both add the same numbers in the same order.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"
#include "lib/Target/CPU/CodeNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
// Slots of the plan.
enum { kRowBlock = ITX_PLAN_PRIVATE, kPanelsPerTile, kPanelGroups };
constexpr int64_t kStep = BlockPanels::stepDepth, kRows = BlockPanels::rows;
/// Rows that a tile rounds: some microseconds of work.
constexpr int64_t kRoundedRows = 4;
/// Up to two passes over a panel that is in the second-level cache unpack it in registers: the second costs less than
/// writing the panel down.
constexpr int64_t kDecodePasses = 2;
/// Steps of a panel that are unpacked at a time: 2048 k's, 64 KB. 1024 cost 1 % on Zen 5, 512 10 %.
constexpr int64_t kUnpackedSteps = 64;
/// What a tile of few rows reads: 4 to 8 us of one core's memory bandwidth.
constexpr int64_t kDecodeTileBytes = 128 << 10;
/// Panels of a tile of many rows: as often are the activations of some steps read while they are in the second-level
/// cache. 1 costs 6 % where there are more steps than are unpacked at a time.
constexpr int64_t kPanelsOfTile = 4;
/// How far ahead few rows prefetch a panel's bytes. 1.1 to 4.6 KB do on Zen 5 (99 to 100 % of the bandwidth that plain
/// reading reaches), none 90 %.
constexpr int64_t kBytesAhead = 2304;

/// The least that is worth prefetching at a step of many rows: a cache line every eight steps.
constexpr int64_t kLeastAhead = 8;

int64_t recordBytes(const BlockPanels &panels) { return 4 * blocksOfStep(panels) + 4 + kStep; }
int64_t rowBytes(const BlockPanels &panels) { return panels.steps() * recordBytes(panels); }
} // namespace

nn::QuantizeOp KernelEmitter::quantizedInput(nn::LinearOp root) {
  auto dequantize = root.getInput().getDefiningOp<nn::DequantizeOp>();
  auto quantize = dequantize ? dequantize.getCodes().getDefiningOp<nn::QuantizeOp>() : nullptr;
  if (!quantize || dequantize.getScales() != quantize.getScales() || dequantize.getFormat() != quantize.getFormat())
    return nullptr;
  nn::BlockFormatAttr format = quantize.getFormat();
  bool known = format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
               format.getBlock() == kStep && !quantize.getZeroPoints() &&
               format.getAxis() == cast<RankedTensorType>(root.getInput().getType()).getRank() - 1;
  return known ? quantize : nullptr;
}

//===-- Activations -------------------------------------------------------------------------------------------===//

void KernelEmitter::quantizeRow(nn::QuantizeOp activations, const BlockPanels &panels, const RowScope &row,
                                Value records) {
  int64_t lanes = config.lanes, vectors = kStep / lanes;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto sumType = VectorType::get({lanes}, i32);
  CodeNumbers numbers = numbersOf(panels, config.byteDot);
  auto integers = [&](int64_t value) {
    return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)), lanes);
  };

  currentRow = &row;
  auto savedBound = bound;
  prepareRow(row, {activations.getInput()});
  auto input = [&](Value k, int64_t width) {
    Indices at;
    for (Value prefix : row.prefix)
      at.push_back({prefix});
    at.push_back({k, true});
    return evaluate(activations.getInput(), at, width);
  };

  auto writeRecord = [&](Value step, ArrayRef<Value> values) {
    // NaN is larger than infinity, and that than all numbers, as patterns of integers: the scale gets it.
    Value largest;
    for (Value value : values) {
      Value bits = vector::BitCastOp::create(b, loc, sumType, value);
      bits = arith::AndIOp::create(b, loc, bits, integers(0x7FFFFFFF));
      largest = largest ? arith::MaxSIOp::create(b, loc, largest, bits).getResult() : bits;
    }
    Value pattern = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXSI, largest);
    Value magnitude = arith::BitcastOp::create(b, loc, f32, pattern);
    // Below 1e-35 the quotient would overflow: such a block is zero.
    Value isTiny = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, magnitude, floatConstant(1e-35, f32, 1));
    Value highest = floatConstant(127.0, f32, 1), zero = floatConstant(0.0, f32, 1);
    Value inverse = arith::SelectOp::create(b, loc, isTiny, zero, arith::DivFOp::create(b, loc, highest, magnitude));
    Value scale = arith::SelectOp::create(b, loc, isTiny, zero, arith::DivFOp::create(b, loc, magnitude, highest));
    scale = arith::MulFOp::create(b, loc, scale, floatConstant(scaleFactor(panels) / numbers.multiplier, f32, 1));
    // 1.5 * 2^23 has units in its last place: what is added is rounded to an integer, ties to even, in the low bits.
    constexpr int64_t rounderBits = 0x4B400000;
    SmallVector<Value> codes;
    for (Value value : values) {
      Value rounded =
          vector::FMAOp::create(b, loc, value, splat(inverse, lanes), floatConstant(12582912.0, f32, lanes));
      codes.push_back(
          arith::SubIOp::create(b, loc, vector::BitCastOp::create(b, loc, sumType, rounded), integers(rounderBits)));
    }
    Value record = offsetPointer(records, mul(step, constant(recordBytes(panels))), i8);
    int64_t blocks = blocksOfStep(panels);
    for (int64_t block = 0; block < blocks; ++block) {
      Value sum;
      for (int64_t v = block * vectors / blocks; v < (block + 1) * vectors / blocks; ++v)
        sum = sum ? arith::AddIOp::create(b, loc, sum, codes[v]).getResult() : codes[v];
      Value start = vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, sum);
      start =
          arith::MulIOp::create(b, loc, start, arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(-numbers.offset)));
      LLVM::StoreOp::create(b, loc, start, offsetPointer(record, constant(4 * block), i8), 4);
    }
    LLVM::StoreOp::create(b, loc, scale, offsetPointer(record, constant(4 * blocks), i8), 4);
    for (int64_t v = 0; v < vectors; ++v) {
      Value narrow = arith::TruncIOp::create(b, loc, vectorOf(i8, lanes), codes[v]);
      storeAt(narrow, record, constant(4 * blocks + 4 + v * lanes), i8, lanes);
    }
  };

  int64_t whole = panels.depth / kStep, rest = panels.depth % kStep;
  forLoop(constant(0), constant(whole), constant(1), [&](Value step) {
    SmallVector<Value> values;
    for (int64_t v = 0; v < vectors; ++v)
      values.push_back(input(add(mul(step, constant(kStep)), constant(v * lanes)), lanes));
    writeRecord(step, values);
  });
  if (whole < panels.steps()) {
    // What lies beyond the last feature is zero.
    Value last = scratch(kStep * 4);
    auto load = [&] {
      SmallVector<Value> values;
      for (int64_t v = 0; v < vectors; ++v)
        values.push_back(loadAt(last, constant(v * lanes), f32, lanes));
      return values;
    };
    for (int64_t v = 0; v < vectors; ++v)
      storeAt(floatConstant(0.0, f32, lanes), last, constant(v * lanes), f32, lanes);
    if (rest) {
      forLoop(constant(0), constant(rest), constant(1),
              [&](Value k) { storeAt(input(add(constant(whole * kStep), k), 1), last, k, f32, 1); });
      writeRecord(constant(whole), load());
      forLoop(constant(0), constant(rest), constant(1),
              [&](Value k) { storeAt(floatConstant(0.0, f32, 1), last, k, f32, 1); });
    }
    forLoop(constant(whole + (rest != 0)), constant(panels.steps()), constant(1),
            [&](Value step) { writeRecord(step, load()); });
  }
  bound = savedBound;
  currentRow = nullptr;
}

//===-- Products ----------------------------------------------------------------------------------------------===//

namespace {
/// A splat of the 32-bit word at a record's byte.
Value splatWord(OpBuilder &b, Location loc, Value pointer, Type type, int64_t lanes) {
  Value word = LLVM::LoadOp::create(b, loc, type, pointer, 4);
  return vector::BroadcastOp::create(b, loc, VectorType::get({lanes}, type), word);
}
} // namespace

/// `rows` rows by a panel, its codes unpacked in registers: sums [rows][32] f32.
void KernelEmitter::emitDecodeTile(const BlockPanels &panels, int64_t rows, Value panel, Value records, Value sums) {
  int64_t lanes = config.lanes, vectors = kRows / lanes, blocks = blocksOfStep(panels);
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  int64_t stepsOfUnit = panels.unitDepth / kStep;
  SmallVector<Value> initial(rows * vectors, floatConstant(0.0, f32, lanes));
  SmallVector<Value> result =
      forLoop(constant(0), constant(panels.units), constant(1), initial, [&](Value unit, ValueRange running) {
        SmallVector<Value> next(running);
        Value unitPointer =
            offsetPointer(panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
        for (int64_t line = 0; line < panels.unitBytes; line += 64)
          LLVM::Prefetch::create(b, loc, offsetPointer(unitPointer, constant(kBytesAhead + line), i8), /*rw=*/0,
                                 /*hint=*/3,
                                 /*cache=*/1);
        for (int64_t s = 0; s < stepsOfUnit; ++s) {
          Value codes = offsetPointer(unitPointer, constant(panels.stepBegin(s) - panels.headBytes), i8);
          Value record = offsetPointer(
              records, mul(add(mul(unit, constant(stepsOfUnit)), constant(s)), constant(recordBytes(panels))), i8);
          auto field = [&](int64_t r, int64_t byte) {
            return offsetPointer(record, constant(r * rowBytes(panels) + byte), i8);
          };
          for (int64_t v = 0; v < vectors; ++v) {
            Value vectorCodes =
                offsetPointer(codes, constant(v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4), i8);
            // Two sums hide the latency of a sum where few rows give few of them. The two halves of bytes are 16 k's
            // each.
            bool apart = blocks == 2 || rows < 4;
            SmallVector<Value> low, high;
            for (int64_t r = 0; r < rows; ++r) {
              low.push_back(splatWord(b, loc, field(r, 0), i32, lanes));
              high.push_back(blocks == 2
                                 ? splatWord(b, loc, field(r, 4), i32, lanes)
                                 : arith::ConstantOp::create(b, loc, b.getZeroAttr(low.front().getType())).getResult());
            }
            auto addProducts = [&](Value unpacked, int64_t k, SmallVector<Value> &into) {
              for (int64_t r = 0; r < rows; ++r)
                into[r] =
                    addByteProducts(into[r], unpacked, splatWord(b, loc, field(r, 4 * blocks + 4 + k), i32, lanes),
                                    panels.codeBits == 8);
            };
            int64_t lines = panels.codeBits == 4 ? 4 : 8;
            for (int64_t line = 0; line < lines; ++line) {
              Value raw = loadAt(vectorCodes, constant(64 * line), i8, 4 * lanes);
              addProducts(unpackCodes(panels, raw, false), 4 * line, apart && line >= 4 ? high : low);
              if (panels.codeBits == 4)
                addProducts(unpackCodes(panels, raw, true), 16 + 4 * line, apart ? high : low);
            }
            for (int64_t block = 0; block < blocks; ++block) {
              Value scales;
              if (panels.block)
                scales = loadScales(
                    panels,
                    offsetPointer(
                        unitPointer,
                        constant(panels.scalesBegin(s) - panels.headBytes + block * kRows * panels.scaleBytes), i8),
                    constant(v * lanes), lanes);
              for (int64_t r = 0; r < rows; ++r) {
                Value sum = block == 0 ? low[r] : high[r];
                if (apart && blocks == 1)
                  sum = arith::AddIOp::create(b, loc, low[r], high[r]);
                Value number = arith::SIToFPOp::create(b, loc, VectorType::get({lanes}, f32), sum);
                if (scales)
                  number = arith::MulFOp::create(b, loc, number, scales);
                Value &total = next[r * vectors + v];
                total =
                    vector::FMAOp::create(b, loc, number, splatWord(b, loc, field(r, 4 * blocks), f32, lanes), total);
              }
            }
          }
        }
        return next;
      });
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      storeAt(result[r * vectors + v], sums, constant(r * kRows + v * lanes), f32, lanes);
}

/// Steps begin … end - 1 of a panel: codes [step][8][32 rows][4], scales f32 [block][32].
void KernelEmitter::unpackPanel(const BlockPanels &panels, Value panel, Value begin, Value end, Value codes,
                                Value scales) {
  int64_t lanes = config.lanes, blocks = blocksOfStep(panels), stepsOfUnit = panels.unitDepth / kStep;
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  forLoop(begin, end, constant(1), [&](Value step) {
    Value number = sub(step, begin), unit = div(step, constant(stepsOfUnit)), ofUnit = rem(step, constant(stepsOfUnit));
    Value unitPointer =
        offsetPointer(panel, add(constant(panels.headBytes), mul(unit, constant(panels.unitBytes))), i8);
    Value from =
        offsetPointer(unitPointer, add(constant(panels.unitScaleBytes), mul(ofUnit, constant(panels.stepBytes()))), i8);
    Value to = offsetPointer(codes, mul(number, constant(kStep * kRows)), i8);
    int64_t lines = panels.codeBits == 4 ? 4 : 8;
    for (int64_t v = 0; v < kRows / lanes; ++v)
      for (int64_t line = 0; line < lines; ++line) {
        int64_t offset = v * lanes / 16 * (panels.stepBytes() / 2) + v * lanes % 16 * 4 + 64 * line;
        Value raw = loadAt(from, constant(offset), i8, 4 * lanes);
        int64_t place = line * 4 * kRows + v * lanes * 4;
        storeAt(unpackCodes(panels, raw, false), to, constant(place), i8, 4 * lanes);
        if (panels.codeBits == 4)
          storeAt(unpackCodes(panels, raw, true), to, constant(4 * 4 * kRows + place), i8, 4 * lanes);
      }
    if (!panels.block)
      return;
    Value firstBlock =
        panels.block < kStep ? mul(ofUnit, constant(blocks)) : div(ofUnit, constant(panels.block / kStep));
    for (int64_t block = 0; block < blocks; ++block) {
      Value source =
          offsetPointer(unitPointer, mul(add(firstBlock, constant(block)), constant(kRows * panels.scaleBytes)), i8);
      for (int64_t v = 0; v < kRows / lanes; ++v)
        storeAt(loadScales(panels, source, constant(v * lanes), lanes), scales,
                add(mul(add(mul(number, constant(blocks)), constant(block)), constant(kRows)), constant(v * lanes)),
                f32, lanes);
    }
  });
}

/// config.codeRows rows by an unpacked panel, added to sums [rows][32] f32. Meanwhile what lies at `ahead` comes into
/// the second-level cache, `bytesAhead` for each step.
void KernelEmitter::emitCodeTile(const BlockPanels &panels, Value codes, Value scales, Value records, Value steps,
                                 Value sums, Value ahead, Value bytesAhead) {
  int64_t lanes = config.lanes, rows = config.codeRows, vectors = config.codeVectors, blocks = blocksOfStep(panels);
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  for (int64_t first = 0; first < kRows; first += vectors * lanes) {
    SmallVector<Value> initial;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        initial.push_back(loadAt(sums, constant(r * kRows + first + v * lanes), f32, lanes));
    SmallVector<Value> result = forLoop(constant(0), steps, constant(1), initial, [&](Value step, ValueRange running) {
      SmallVector<Value> next(running);
      if (first == 0)
        LLVM::Prefetch::create(b, loc, offsetPointer(ahead, mul(step, bytesAhead), i8), /*rw=*/0, /*hint=*/2,
                               /*cache=*/1);
      Value record = offsetPointer(records, mul(step, constant(recordBytes(panels))), i8);
      Value stepCodes = offsetPointer(codes, add(mul(step, constant(kStep * kRows)), constant(first * 4)), i8);
      auto field = [&](int64_t r, int64_t byte) {
        return offsetPointer(record, constant(r * rowBytes(panels) + byte), i8);
      };
      for (int64_t block = 0; block < blocks; ++block) {
        SmallVector<Value> products;
        for (int64_t r = 0; r < rows; ++r)
          products.append(vectors, splatWord(b, loc, field(r, 4 * block), i32, lanes));
        for (int64_t k = 8 / blocks * block; k < 8 / blocks * (block + 1); ++k) {
          SmallVector<Value> right;
          for (int64_t v = 0; v < vectors; ++v)
            right.push_back(loadAt(stepCodes, constant(k * 4 * kRows + v * lanes * 4), i8, 4 * lanes));
          for (int64_t r = 0; r < rows; ++r) {
            Value left = splatWord(b, loc, field(r, 4 * blocks + 4 + 4 * k), i32, lanes);
            for (int64_t v = 0; v < vectors; ++v)
              products[r * vectors + v] =
                  addByteProducts(products[r * vectors + v], right[v], left, panels.codeBits == 8);
          }
        }
        SmallVector<Value> blockScales;
        for (int64_t v = 0; panels.block && v < vectors; ++v)
          blockScales.push_back(loadAt(
              scales,
              add(mul(add(mul(step, constant(blocks)), constant(block)), constant(kRows)), constant(first + v * lanes)),
              f32, lanes));
        for (int64_t r = 0; r < rows; ++r) {
          Value scale = splatWord(b, loc, field(r, 4 * blocks), f32, lanes);
          for (int64_t v = 0; v < vectors; ++v) {
            Value &total = next[r * vectors + v];
            Value number = arith::SIToFPOp::create(b, loc, total.getType(), products[r * vectors + v]);
            if (panels.block)
              number = arith::MulFOp::create(b, loc, number, blockScales[v]);
            total = vector::FMAOp::create(b, loc, number, scale, total);
          }
        }
      }
      return next;
    });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        storeAt(result[r * vectors + v], sums, constant(r * kRows + first + v * lanes), f32, lanes);
  }
}

void KernelEmitter::emitCodeLinear(nn::LinearOp root, const BlockPanels &panels, nn::QuantizeOp activations) {
  auto weightType = cast<RankedTensorType>(root.getWeight().getType());
  ArrayRef<AffineExpr> extents = sizes.of(root.getResult());
  ArrayRef<AffineExpr> leading = extents.drop_back();
  int64_t panelCount = llvm::divideCeil(weightType.getDimSize(0), kRows), decodeRows = config.decodeRows;
  SmallVector<unsigned> all;
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
    if (sizes.of(yielded(i)) != extents)
      unsupported(root, "a result of its kernel is of another shape");
    all.push_back(i);
  }
  if (failedAny)
    return;
  Value rows = product(leading);
  Value few = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, rows, constant(kDecodePasses * decodeRows));
  auto choose = [&](Value yes, Value no) -> Value { return arith::SelectOp::create(b, loc, few, yes, no); };
  int64_t chunk = std::min(kUnpackedSteps, panels.steps());
  int64_t tileRows = config.codeRows;
  int64_t maximalRows = std::max<int64_t>(config.blockBytes / (chunk * recordBytes(panels)) / tileRows, 2) * tileRows;

  int64_t decodePanels =
      std::clamp<int64_t>(kDecodeTileBytes / panels.panelBytes(), 1, std::max<int64_t>(panelCount, 1));
  // Sums of a tile [panel][row][32]; register tiles write whole ones.
  int64_t sumRows = maximalRows + tileRows, decodeSumRows = kDecodePasses * decodeRows;
  int64_t sumsOfTile = std::max(kPanelsOfTile * sumRows, decodePanels * decodeSumRows) * kRows;

  if (planning) {
    Value blocks = max(ceilDiv(rows, constant(maximalRows)), constant(1));
    Value rowBlock = mul(ceilDiv(ceilDiv(rows, blocks), constant(tileRows)), constant(tileRows));
    rowBlock = max(choose(constant(kDecodePasses * decodeRows), rowBlock), constant(tileRows));
    blocks = ceilDiv(rows, rowBlock);
    Value evenly = max(ceilDiv(constant(panelCount), threads), constant(1));
    Value perTile = min(choose(constant(decodePanels), constant(kPanelsOfTile)), evenly);
    Value groups = ceilDiv(constant(panelCount), perTile);
    // Tiles of rows read as many as they are made for: beyond the last row lies room for them.
    Value room = add(rows, constant(std::max(tileRows, decodeRows)));
    setPlan(ITX_PLAN_SHARED_BYTES, mul(room, constant(rowBytes(panels))));
    setPlan(ITX_PLAN_TILES, ceilDiv(rows, constant(kRoundedRows)));
    setPlan(ITX_PLAN_FINISH_TILES, mul(blocks, groups));
    setPlan(kRowBlock, rowBlock);
    setPlan(kPanelsPerTile, perTile);
    setPlan(kPanelGroups, groups);
    return;
  }

  std::optional<Storage> weight = view(root.getWeight());
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  Value rounding = planValue(ITX_PLAN_TILES);
  Value rowBlock = planValue(kRowBlock), panelsPerTile = planValue(kPanelsPerTile), groups = planValue(kPanelGroups);
  Value bytesOfRow = constant(rowBytes(panels));
  Value sums = scratch(sumsOfTile * 4);
  Value codes = scratch(chunk * kStep * kRows), scales = scratch(chunk * blocksOfStep(panels) * kRows * 4);

  ifThen(less(tileBegin, rounding), [&] {
    Value end = min(mul(tileEnd, constant(kRoundedRows)), rows);
    forLoop(mul(tileBegin, constant(kRoundedRows)), end, constant(1), [&](Value flat) {
      quantizeRow(activations, panels, makeRow(flat, leading), offsetPointer(sharedPointer, mul(flat, bytesOfRow), i8));
    });
  });

  forLoop(max(sub(tileBegin, rounding), constant(0)), sub(tileEnd, rounding), constant(1), [&](Value tile) {
    Value block = div(tile, groups), group = rem(tile, groups);
    Value firstRow = mul(block, rowBlock), endRow = min(add(firstRow, rowBlock), rows);
    Value firstPanel = mul(group, panelsPerTile), endPanel = min(add(firstPanel, panelsPerTile), constant(panelCount));
    auto recordsOf = [&](Value row) { return offsetPointer(sharedPointer, mul(row, bytesOfRow), i8); };
    Value sumsOfPanel = mul(choose(constant(decodeSumRows), constant(sumRows)), constant(kRows));
    auto panelOf = [&](Value number) {
      return offsetPointer(weight->pointer, mul(number, constant(panels.panelBytes())), i8);
    };
    auto sumsOf = [&](Value number, Value row) {
      Value place = add(mul(sub(number, firstPanel), sumsOfPanel), mul(sub(row, firstRow), constant(kRows)));
      return offsetPointer(sums, place, f32);
    };
    ifThen(
        few,
        [&] {
          forLoop(firstPanel, endPanel, constant(1), [&](Value number) {
            forLoop(firstRow, endRow, constant(decodeRows), [&](Value m) {
              Value count = sub(endRow, m), panel = panelOf(number);
              std::function<void(int64_t)> emitRows = [&](int64_t most) {
                if (most == 1) {
                  emitDecodeTile(panels, 1, panel, recordsOf(m), sumsOf(number, m));
                  return;
                }
                ifThen(
                    less(constant(most / 2), count),
                    [&] { emitDecodeTile(panels, most, panel, recordsOf(m), sumsOf(number, m)); },
                    [&] { emitRows(most / 2); });
              };
              emitRows(decodeRows);
            });
          });
        },
        [&] {
          Value width = constant(config.lanes), zero = floatConstant(0.0, f32, config.lanes);
          forLoop(constant(0), mul(sub(endPanel, firstPanel), sumsOfPanel), width,
                  [&](Value i) { storeAt(zero, sums, i, f32, config.lanes); });
          Value stepsOfUnit = constant(panels.unitDepth / kStep), allSteps = constant(panels.steps());
          forLoop(constant(0), allSteps, constant(chunk), [&](Value step) {
            Value end = min(add(step, constant(chunk)), allSteps), steps = sub(end, step);
            forLoop(firstPanel, endPanel, constant(1), [&](Value number) {
              unpackPanel(panels, panelOf(number), step, end, codes, scales);
              // What is unpacked next comes from far away: these steps of the next panel, or the next ones of the
              // first.
              Value isLast =
                  arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, add(number, constant(1)), endPanel);
              Value nextNumber = arith::SelectOp::create(b, loc, isLast, firstPanel, add(number, constant(1)));
              Value nextStep = arith::SelectOp::create(b, loc, isLast, end, step);
              Value next = add(constant(panels.headBytes), mul(div(nextStep, stepsOfUnit), constant(panels.unitBytes)));
              next = offsetPointer(panelOf(nextNumber), next, i8);
              Value tiles = ceilDiv(sub(endRow, firstRow), constant(tileRows));
              Value bytes =
                  max(ceilDiv(constant(panels.unitBytes * kStep / panels.unitDepth), tiles), constant(kLeastAhead));
              forLoop(firstRow, endRow, constant(tileRows), [&](Value m) {
                Value records = offsetPointer(recordsOf(m), mul(step, constant(recordBytes(panels))), i8);
                Value part = mul(mul(div(sub(m, firstRow), constant(tileRows)), steps), bytes);
                emitCodeTile(panels, codes, scales, records, steps, sumsOf(number, m), offsetPointer(next, part, i8),
                             bytes);
              });
            });
          });
        });
    forLoop(firstPanel, endPanel, constant(1), [&](Value number) {
      Value panel = panelOf(number), column = mul(number, constant(kRows));
      forLoop(firstRow, endRow, constant(1), [&](Value m) {
        storeLinearRow(root, makeRow(m, leading), column, all, [&](Value c, int64_t width) -> Value {
          Value x = loadAt(sumsOf(number, m), c, f32, width);
          if (!panels.headBytes)
            return x;
          // The scale of the whole row of the weight.
          Type type = panels.block ? Type(f32) : panels.format.getScaleType();
          return arith::MulFOp::create(b, loc, x, loadAt(panel, c, type, width));
        });
      });
    });
  });
}

} // namespace intarsia::cpu
