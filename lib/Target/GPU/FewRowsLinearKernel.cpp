//===- FewRowsLinearKernel.cpp - Linears of a few rows, whose time is that of reading weights --------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/LinearResults.h"
#include "lib/Target/GPU/QuantizedRows.h"

#include "dialects/Nn/BlockFormats.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
/// Threads of a block, and the most where blocks are few.
constexpr int64_t leastThreads = 256, mostThreads = 1024;
/// Registers that the threads of a multiprocessor share (NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities").
constexpr int64_t registersOfMultiprocessor = 65536;
/// Features of a block: those of a panel.
constexpr int64_t blockFeatures = BlockPanels::rows;
/// Rows that are multiplied while a weight is in registers.
constexpr int64_t rowsAtATime = 4;
/// Neighbouring rows of a line that a lane takes: 16 bytes.
constexpr int64_t laneFeatures = 4;
/// Elements of a word of panels, and half of the words of a step: a lane has one of each half.
constexpr int64_t wordDepth = 4, halfWords = BlockPanels::words / 2;

/// A linear of one row, or of a few: each weight is read once, by neighbouring lanes, and multiplied in f32 as it is;
/// so is an input that is quantized before. Lanes and warps add up parts of the depth.
class FewRowsLinearKernel final : public KernelEmitter {
public:
  FewRowsLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
                      const QuantizedRows *input)
      : KernelEmitter(kernel, architecture), root(root) {
    if (input)
      quantized = *input;
  }

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  LogicalResult emitFunction(int64_t rows, int64_t threads, AffineExpr isUsed);
  int64_t threadsFor(int64_t rows);
  int64_t mostThreadsFor(int64_t rows);
  /// Returns the registers of a thread, as ptxas (version 13.0) gives them, in units of eight.
  static int64_t registersFor(int64_t rows) { return rows == 1 ? 40 : 88; }
  /// Adds up this warp's part of the depth, of all features of the block. Stores the sums of each row.
  LogicalResult multiplyFloats(ArrayRef<Value> rows, Value partial);
  LogicalResult multiplyPanel(const BlockPanels &panels, ArrayRef<Value> rows, Value partial);
  LogicalResult storeBlock(int64_t rows, int64_t threads, Value partial, bool isSplit);
  Element input(Value row, Value k, int64_t width);
  Value blockInput(Value stored, Value row, Value k, int64_t width);
  Value elementsOfWord(const BlockPanels &panels, Value low, ArrayRef<Value> high, Value index, bool isUpper);
  /// Returns four elements of a feature as f32, but for a factor that is returned, too.
  std::pair<SmallVector<Value>, double> decodeWord(const BlockPanels &panels, Value bytes);

  nn::LinearOp root;
  LinearResults linear{function, tensors, root};
  PanelEmitter weights{function};
  std::optional<QuantizedRows> quantized;     ///< the input, if it is
  int64_t threadsOfOne = 0, threadsOfFew = 0; ///< of a block, for one row and for a few
  Value firstFeature;
};
} // namespace

bool multipliesFewRows(rt::KernelOp kernel, nn::LinearOp linear) {
  int64_t depth = cast<RankedTensorType>(linear.getWeight().getType()).getDimSize(1);
  auto argument = dyn_cast<BlockArgument>(linear.getWeight());
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return false;
  auto layout = kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout");
  return depth % (layout ? BlockPanels::stepDepth : laneFeatures) == 0;
}

Emitter makeFewRowsLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                                const QuantizedRows *input) {
  return std::make_unique<FewRowsLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, input);
}

/// Returns neighbouring elements of a step of the input.
Element FewRowsLinearKernel::input(Value row, Value k, int64_t width) {
  if (!quantized)
    return tensors.evaluate(root.getInput(), linear.indicesAt(root.getInput(), row, k), width);
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  Value at = add(mul(row, constant(quantized->paddedDepth())), k), step = row;
  Value stored = function.kernelScratch(number(0)), values;
  switch (quantized->values) {
  case QuantizedRows::Values::Integers:
    values = make<arith::SIToFPOp>(vectorOf(f32, width), memory.load(stored, at, i8, width));
    step = add(mul(row, constant(quantized->steps())), div(k, constant(QuantizedRows::stepDepth)));
    break;
  case QuantizedRows::Values::E4M3:
    values = memory.widenE4M3(memory.load(stored, at, i8, width), width);
    break;
  case QuantizedRows::Values::E2M1:
    values = blockInput(stored, row, k, width);
    break;
  case QuantizedRows::Values::Dequantized:
    values = memory.load(stored, at, quantized->type, width);
    break;
  }
  if (quantized->steps() == 0)
    return values;
  Value scale = memory.load(function.kernelScratch(quantized->scalesBegin()), step, f32, 1);
  return make<arith::MulFOp>(values, splat(scale, width)).getResult();
}

/// Returns elements of E2M1, half of a word of the input or less, by the scale of their block.
Value FewRowsLinearKernel::blockInput(Value stored, Value row, Value k, int64_t width) {
  constexpr int64_t wordFeatures = 8;
  assert(width <= wordFeatures / 2 && "halves of words lie in different bits");
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  BlockPanels format =
      *BlockPanels::of(nn::QuantizeOp(quantized->quantize).getFormat().getRowFormat(linear.depth()), linear.depth());
  Value inWord = rem(k, constant(wordFeatures));
  Value byte = add(
      mul(row, constant(quantized->rowBytes())),
      add(mul(div(k, constant(wordFeatures)), constant(wordFeatures / 2)), rem(inWord, constant(wordFeatures / 2))));
  Value bytes = make<arith::ExtUIOp>(vectorOf(i32, width), memory.load(stored, byte, i8, width));
  // The upper half of a word's features lie in the high bits.
  Value shift = mul(div(inWord, constant(wordFeatures / 2)), constant(4));
  bytes = make<arith::ShRUIOp>(bytes, splat(make<arith::TruncIOp>(i32, shift), width));
  Value number = add(mul(row, constant(quantized->blocks())), div(k, constant(quantized->block)));
  Value scale = weights.loadScales(format, function.kernelScratch(quantized->blocksBegin()), number, 1);
  // Scales may be as large as an f32.
  double factor = kernel::scaleFactor(format) * kernel::elementFactor(format);
  Value elements = make<arith::MulFOp>(weights.decodeFloatElements(format, bytes, width),
                                       floatConstant(factor, b.getF32Type(), width));
  return make<arith::MulFOp>(elements, splat(scale, width));
}

void FewRowsLinearKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "few rows linear");
  threadsOfOne = threadsFor(1);
  threadsOfFew = threadsFor(rowsAtATime);
  shape.choose("threads_one_row", threadsOfOne, {leastThreads, mostThreadsFor(1), leastThreads});
  shape.choose("threads", threadsOfFew, {leastThreads, mostThreadsFor(rowsAtATime), leastThreads});
  shape.state("rows", rowsAtATime);
  shape.state("features", blockFeatures);
  shape.state("products", "f32");
}

LogicalResult FewRowsLinearKernel::run() {
  AffineExpr rows = linear.rowsOfLinear();
  if (auto known = dyn_cast<AffineConstantExpr>(rows))
    return known.getValue() == 1 ? emitFunction(1, threadsOfOne, number(1))
                                 : emitFunction(rowsAtATime, threadsOfFew, number(known.getValue() != 0));
  // Without rows there is none that a block could read.
  AffineExpr isNone = isAtMost(rows, 0), isOneOrNone = isAtMost(rows, 1), isFewOrNone = isAtMost(rows, mostOfFewRows);
  return failed(emitFunction(1, threadsOfOne, isOneOrNone - isNone))
             ? failure()
             : emitFunction(rowsAtATime, threadsOfFew, isFewOrNone - isOneOrNone);
}

/// Returns the most threads that a block may have, as its registers allow. Warps share the depth of panels; of floats
/// they share the features of a block.
int64_t FewRowsLinearKernel::mostThreadsFor(int64_t rows) {
  if (architecture.vendor != Vendor::Nvidia || !weights.panelsOf(root.getWeight()))
    return leastThreads;
  return std::min(mostThreads, registersOfMultiprocessor / registersFor(rows) / leastThreads * leastThreads);
}

/// Returns the threads of a block. Reading panels takes the time: as long as all blocks run at once, more warps have
/// more loads on their way. An H200 takes 12 us for one row of 4096 x 4096 in INT4 with eight warps, two for each
/// scheduler, which issue an instruction every sixth cycle.
int64_t FewRowsLinearKernel::threadsFor(int64_t rows) {
  int64_t registers = registersFor(rows), blocks = llvm::divideCeil(linear.features(), blockFeatures);
  int64_t threads = leastThreads;
  while (2 * threads <= mostThreadsFor(rows) &&
         blocks <= registersOfMultiprocessor / (2 * threads * registers) * architecture.multiprocessors &&
         2 * threads / architecture.warpSize * BlockPanels::stepDepth <= linear.depth())
    threads *= 2;
  return threads;
}

LogicalResult FewRowsLinearKernel::emitFunction(int64_t rowCount, int64_t threads, AffineExpr isUsed) {
  static_assert(mostOfFewRows == rowsAtATime);
  function.beginLaunch(threads, number(llvm::divideCeil(linear.features(), blockFeatures)) * isUsed);
  firstFeature = mul(function.block, constant(blockFeatures));
  std::optional<BlockPanels> panels = weights.panelsOf(root.getWeight());
  int64_t parts = panels ? function.warpsOfBlock : 1;
  Value partial = function.sharedMemory(number(parts * rowCount * blockFeatures * 4));
  // Rows behind the last one are computed as that one, and not stored.
  Value last = sub(linear.rows(), constant(1));
  SmallVector<Value> rows;
  for (int64_t row = 0; row != rowCount; ++row)
    rows.push_back(rowCount == 1 ? constant(0) : min(constant(row), last));
  if (failed(panels ? multiplyPanel(*panels, rows, partial) : multiplyFloats(rows, partial)))
    return failure();
  function.emitBlockBarrier();
  if (failed(function.alone([&] { return storeBlock(rowCount, threads, partial, panels.has_value()); })))
    return failure();
  function.endLaunch();
  return success();
}

LogicalResult FewRowsLinearKernel::multiplyFloats(ArrayRef<Value> rows, Value partial) {
  // Each warp has features of its own, several at a time, which share the input.
  int64_t together = std::min<int64_t>(laneFeatures, blockFeatures / function.warpsOfBlock);
  int64_t bytes = std::max<int64_t>(2, getElementTypeOrSelf(root.getWeight()).getIntOrFloatBitWidth() / 8);
  int64_t width = linear.depth() % (16 / bytes) == 0 ? 16 / bytes : laneFeatures;
  Type f32 = b.getF32Type();
  Value ofWarp = mul(function.warp, constant(blockFeatures / function.warpsOfBlock));
  for (int64_t first = 0; first != blockFeatures / function.warpsOfBlock; first += together) {
    SmallVector<Value> weightRows, zeros(together * rows.size(), floatConstant(0.0, f32, width));
    for (int64_t i = 0; i != together; ++i)
      weightRows.push_back(min(add(firstFeature, add(ofWarp, constant(first + i))), constant(linear.features() - 1)));
    using Next = FailureOr<SmallVector<Value>>;
    Next sums = function.alone([&] {
      return forLoop(mul(function.lane, constant(width)), constant(linear.depth()),
                     constant(architecture.warpSize * width), zeros, [&](Value k, ValueRange running) -> Next {
                       SmallVector<Value> next(running), inputs;
                       for (Value row : rows) {
                         Element x = input(row, k, width);
                         if (failed(x))
                           return failure();
                         inputs.push_back(*x);
                       }
                       for (int64_t i = 0; i != together; ++i) {
                         Element weight = tensors.evaluate(root.getWeight(), {Index{weightRows[i]}, {k, true}}, width);
                         if (failed(weight))
                           return failure();
                         for (auto [row, x] : llvm::enumerate(inputs)) {
                           Value &sum = next[i * rows.size() + row];
                           sum = make<math::FmaOp>(*weight, x, sum);
                         }
                       }
                       return next;
                     });
    });
    if (failed(sums))
      return failure();
    for (Value &sum : *sums) {
      sum = make<vector::ReductionOp>(vector::CombiningKind::ADD, sum);
      sum = function.combineLanes(sum, kernel::Combination::ADD);
    }
    Value isFirst = equal(function.lane, constant(0));
    ifThen(isFirst, [&] {
      for (int64_t i = 0; i != together; ++i)
        for (size_t row = 0; row != rows.size(); ++row)
          memory.store((*sums)[i * rows.size() + row], partial,
                       add(ofWarp, constant(first + i + int64_t(row) * blockFeatures)), f32, 1);
    });
  }
  return success();
}

/// Returns the elements of four features, a word of four k's each, as bytes of i32. `low` has the lower four bits of
/// two words, null if elements have fewer, `high` those above of all words of the step.
Value FewRowsLinearKernel::elementsOfWord(const BlockPanels &panels, Value low, ArrayRef<Value> high, Value index,
                                          bool isUpper) {
  Type i32 = b.getI32Type();
  auto number = [&](uint32_t value) -> Value { return splat(word(value), laneFeatures); };
  if (panels.elementBits == 8)
    return low;
  auto bytes = [&](int64_t count) { return number(uint32_t((1 << count) - 1) * 0x01010101u); };
  Value elements;
  if (low)
    elements = make<arith::AndIOp>(isUpper ? make<arith::ShRUIOp>(low, number(4)).getResult() : low, bytes(4));
  int64_t highBits = panels.highBits();
  if (highBits == 0)
    return elements;
  int64_t wordsOfLine = 8 / highBits;
  Value first = make<arith::TruncIOp>(i32, mul(rem(index, constant(wordsOfLine)), constant(highBits)));
  Value above = make<arith::ShRUIOp>(high[isUpper && high.size() > 1], splat(first, laneFeatures));
  above = make<arith::AndIOp>(above, bytes(highBits));
  if (!elements)
    return above;
  above = make<arith::ShLIOp>(above, number(uint32_t(panels.highBegin())));
  return make<arith::OrIOp>(elements, above);
}

std::pair<SmallVector<Value>, double> FewRowsLinearKernel::decodeWord(const BlockPanels &panels, Value bytes) {
  Type f32 = b.getF32Type();
  SmallVector<Value> values;
  for (int64_t i = 0; i != wordDepth; ++i) {
    Value byte = make<arith::AndIOp>(make<arith::ShRUIOp>(bytes, word(8 * i)), word(255));
    if (panels.floatFormat()) {
      values.push_back(weights.decodeFloatElements(panels, byte, 1));
      continue;
    }
    // The bits of 2^23 + byte: exact, and cheaper than a conversion, which few units of a multiprocessor do.
    constexpr int64_t bits = 0x4b000000;
    Value shifted = make<LLVM::BitcastOp>(f32, make<arith::OrIOp>(byte, word(bits)));
    values.push_back(
        make<arith::SubFOp>(shifted, floatConstant(double(1 << 23) + double(panels.integerOffset), f32, 1)));
  }
  return {values, kernel::elementFactor(panels)};
}

LogicalResult FewRowsLinearKernel::multiplyPanel(const BlockPanels &panels, ArrayRef<Value> rows, Value partial) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type(), i8 = b.getI8Type();
  constexpr int64_t lanesOfStep = 32, lanesOfLine = BlockPanels::lineRows / laneFeatures;
  int64_t stepsOfWarp = architecture.warpSize / lanesOfStep, stepsOfUnit = panels.unitDepth / BlockPanels::stepDepth;
  Value laneOfStep = rem(function.lane, constant(lanesOfStep));
  Value line = div(rem(laneOfStep, constant(lanesOfStep / 2)), constant(lanesOfLine));
  Value rowsOfLine = mul(rem(function.lane, constant(lanesOfLine)), constant(laneFeatures));
  Value half = div(laneOfStep, constant(lanesOfStep / 2));
  Value firstRow = add(mul(half, constant(BlockPanels::lineRows)), rowsOfLine);
  Value panel =
      memory.at(function.storage[root.getWeight()].pointer, mul(function.block, constant(panels.panelBytes())), i8);
  Value inHalf = add(mul(half, constant(panels.stepBytes() / 2)), mul(rowsOfLine, constant(wordDepth)));
  // Steps behind the depth are zeros of the format, but the input has no elements for them.
  int64_t steps = linear.depth() / BlockPanels::stepDepth;
  Value begin = add(mul(function.warp, constant(stepsOfWarp)), div(function.lane, constant(lanesOfStep)));
  SmallVector<Value> zeros(rows.size(), floatConstant(0.0, f32, laneFeatures));
  using Next = FailureOr<SmallVector<Value>>;
  Next sums = function.alone([&] {
    return forLoop(
        begin, constant(steps), constant(function.warpsOfBlock * stepsOfWarp), zeros,
        [&](Value step, ValueRange running) -> Next {
          Value unit = memory.at(
              panel, add(constant(panels.headBytes), mul(div(step, constant(stepsOfUnit)), constant(panels.unitBytes))),
              i8);
          Value stepOfUnit = rem(step, constant(stepsOfUnit));
          Value values = memory.at(
              unit, add(add(constant(panels.unitScaleBytes), mul(stepOfUnit, constant(panels.stepBytes()))), inHalf),
              i8);
          auto lineAt = [&](Value index) -> Value {
            Value at = memory.at(values, mul(index, constant(wordDepth * BlockPanels::lineRows)), i8);
            return make<LLVM::LoadOp>(VectorType::get({laneFeatures}, i32), at, 16);
          };
          bool areWhole = panels.elementBits == 8, haveLow = areWhole || panels.lowLines();
          SmallVector<Value> low = {haveLow ? lineAt(line) : Value()}, high;
          if (areWhole)
            low.push_back(lineAt(add(line, constant(halfWords))));
          for (int64_t i = 0; !areWhole && i < panels.highBits(); ++i)
            high.push_back(lineAt(constant(panels.lowLines() + i)));
          // The two words of a lane may be in blocks of their own.
          bool areApart = panels.block && panels.block < BlockPanels::stepDepth;
          SmallVector<Value> next(running);
          Value scale, minimum;
          for (int64_t upper = 0; upper != 2; ++upper) {
            Value word = add(line, constant(upper * halfWords));
            Value k = add(mul(step, constant(BlockPanels::stepDepth)), mul(word, constant(wordDepth)));
            if (panels.block && (upper == 0 || areApart)) {
              Value inUnit =
                  add(mul(stepOfUnit, constant(BlockPanels::stepDepth)), constant(upper * BlockPanels::stepDepth / 2));
              std::tie(scale, minimum) =
                  weights.scalesOfBlock(panels, unit, div(inUnit, constant(panels.block)), firstRow, laneFeatures);
            }
            Value elements = elementsOfWord(panels, low[upper % low.size()], high, word, upper);
            SmallVector<Value> inputs;
            for (Value row : rows) {
              Element x = input(row, k, wordDepth);
              if (failed(x))
                return failure();
              inputs.push_back(*x);
            }
            SmallVector<SmallVector<Value>> products(rows.size());
            double factor = 1.0;
            for (int64_t feature = 0; feature != laneFeatures; ++feature) {
              auto [decoded, its] = decodeWord(panels, make<vector::ExtractOp>(elements, feature));
              factor = its;
              for (auto [row, x] : llvm::enumerate(inputs)) {
                Value sum;
                for (int64_t i = 0; i != wordDepth; ++i) {
                  Value each = make<vector::ExtractOp>(x, i);
                  sum = sum ? make<math::FmaOp>(decoded[i], each, sum).getResult()
                            : make<arith::MulFOp>(decoded[i], each).getResult();
                }
                products[row].push_back(sum);
              }
            }
            factor *= kernel::scaleFactor(panels);
            for (auto [row, x] : llvm::enumerate(inputs)) {
              Value product = make<vector::FromElementsOp>(VectorType::get({laneFeatures}, f32), products[row]);
              Value by = scale;
              if (factor != 1.0)
                by = by ? make<arith::MulFOp>(by, floatConstant(factor, f32, laneFeatures)).getResult()
                        : floatConstant(factor, f32, laneFeatures);
              next[row] = by ? make<math::FmaOp>(product, by, next[row]).getResult()
                             : make<arith::AddFOp>(next[row], product).getResult();
              if (minimum) {
                Value sum = make<vector::ReductionOp>(vector::CombiningKind::ADD, x);
                next[row] = make<math::FmaOp>(minimum, splat(sum, laneFeatures), next[row]);
              }
            }
          }
          return next;
        });
  });
  if (failed(sums))
    return failure();
  // A scale of the whole row holds for all of the depth.
  Value ofRow;
  if (panels.headBytes)
    ofRow =
        memory.load(panel, firstRow, panels.block ? f32 : nn::scaleType(panels.scale, b.getContext()), laneFeatures);
  Value isFirst = less(rem(function.lane, constant(lanesOfStep / 2)), constant(lanesOfLine));
  isFirst = make<arith::AndIOp>(isFirst, less(function.lane, constant(lanesOfStep)));
  for (auto [row, sum] : llvm::enumerate(*sums)) {
    SmallVector<Value> ofFeature;
    for (int64_t feature = 0; feature != laneFeatures; ++feature) {
      Value one = make<vector::ExtractOp>(sum, feature);
      for (int64_t distance = lanesOfLine; distance != lanesOfStep / 2; distance *= 2)
        one = make<arith::AddFOp>(one, function.exchanged(one, distance));
      for (int64_t distance = lanesOfStep; distance < architecture.warpSize; distance *= 2)
        one = make<arith::AddFOp>(one, function.exchanged(one, distance));
      ofFeature.push_back(one);
    }
    Value all = make<vector::FromElementsOp>(VectorType::get({laneFeatures}, f32), ofFeature);
    if (ofRow)
      all = make<arith::MulFOp>(all, ofRow);
    Value at = add(
        mul(add(mul(function.warp, constant(int64_t(rows.size()))), constant(int64_t(row))), constant(blockFeatures)),
        firstRow);
    ifThen(isFirst, [&] { memory.store(all, partial, at, f32, laneFeatures); });
  }
  return success();
}

/// Adds up what warps have, if these split the depth, and stores the results of the block's features.
LogicalResult FewRowsLinearKernel::storeBlock(int64_t rowCount, int64_t threads, Value partial, bool isSplit) {
  Type f32 = b.getF32Type();
  Value rows = linear.rows();
  return forLoop(function.thread, constant(rowCount * blockFeatures), constant(threads), [&](Value number) {
    Value row = div(number, constant(blockFeatures)), feature = add(firstFeature, rem(number, constant(blockFeatures)));
    Value isInside = make<arith::AndIOp>(less(row, rows), less(feature, constant(linear.features())));
    return ifThen(isInside, [&] {
      Value sum = memory.load(partial, number, f32, 1);
      for (int64_t other = 1; isSplit && other != function.warpsOfBlock; ++other)
        sum = make<arith::AddFOp>(
            sum, memory.load(partial, add(number, constant(other * rowCount * blockFeatures)), f32, 1));
      return linear.storeResults(row, feature, 1, [sum](Value, int64_t) { return sum; });
    });
  });
}

} // namespace intarsia::gpu
