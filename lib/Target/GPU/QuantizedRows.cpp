//===- QuantizedRows.cpp - Rows are quantized before they are multiplied ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/QuantizeRowsKernel.h"

#include "dialects/Nn/MixedBlocks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

static constexpr int64_t threadsOfBlock = 256;

/// Returns the instruction that multiplies E2M1 with such scales; null if an architecture has none.
static const MatrixInstruction *instructionOfBlocks(const Architecture &architecture, nn::BlockScale scale) {
  return findMatrixInstruction(architecture,
                               scale == nn::BlockScale::E8M0 ? MatrixElement::MXFP4 : MatrixElement::NVFP4);
}

std::optional<QuantizedRows> QuantizedRows::of(rt::KernelOp kernel, nn::LinearOp linear,
                                               const Architecture &architecture) {
  nn::QuantizeOp floats = kernel::quantizedToFloats(linear.getInput());
  nn::QuantizeOp quantize = floats ? floats : kernel::quantizedInput(linear.getInput());
  auto weight = dyn_cast<BlockArgument>(linear.getWeight());
  if (!quantize || !weight || weight.getOwner() != &kernel.getBody().front())
    return std::nullopt;
  auto layout = kernel.getArgAttrOfType<rt::PanelsAttr>(weight.getArgNumber(), "rt.layout");
  auto type = cast<RankedTensorType>(weight.getType());
  if (!layout || !layout.getFormat() || !type.hasStaticShape())
    return std::nullopt;
  std::optional<BlockPanels> panels = BlockPanels::of(layout.getFormat(), type.getShape().back());
  if (!panels)
    return std::nullopt;
  nn::BlockFormatAttr format = quantize.getFormat();
  bool isE2M1 = format.getElement() == nn::BlockElement::E2M1;
  // Blocks are steps, or halves of one, or whole ones together.
  bool areSteps = panels->block % stepDepth == 0 || (panels->block == stepDepth / 2 && !panels->hasMinima);
  bool isMultiplied = !floats ? !panels->isE4M3 && areSteps
                      : isE2M1
                          ? panels->isE2M1 && panels->scale == format.getScale() && panels->block == format.getBlock()
                          : panels->isE4M3 && panels->block == 0;
  if (!isMultiplied)
    return std::nullopt;
  SymbolicSizes sizes(kernel);
  QuantizedRows rows;
  rows.quantize = quantize;
  rows.depth = type.getShape().back();
  rows.values = !floats ? Values::Integers : Values::E4M3;
  rows.hasSums = panels->hasMinima;
  rows.hasRowScales = floats && (!isE2M1 || quantize.hasRowScales());
  rows.block = format.getBlock();
  rows.type = IntegerType::get(kernel.getContext(), 8);
  if (isE2M1 && instructionOfBlocks(architecture, format.getScale())) {
    rows.values = Values::E2M1;
    rows.type = format.getStorageType();
  } else if (isE2M1) {
    // Of elements and scales in E4M3 f16 holds each product, 2^-10 to 6 * 448. Powers of two need the range of bf16.
    rows.values = Values::Dequantized;
    bool arePowers = format.getScale() == nn::BlockScale::E8M0;
    rows.type = arePowers ? Type(BFloat16Type::get(kernel.getContext())) : Float16Type::get(kernel.getContext());
  }
  rows.rows = getAffineConstantExpr(1, kernel.getContext());
  for (AffineExpr size : sizes.of(linear.getResult()).drop_back())
    rows.rows = rows.rows * size;
  return rows;
}

Emitter makeQuantizeRowsKernel(rt::KernelOp kernel, const QuantizedRows &rows, const Architecture &architecture) {
  return std::make_unique<QuantizeRowsKernel>(kernel, rows, architecture);
}

/// Returns true if something of a row has to be known before its first element is.
bool QuantizeRowsKernel::hasRowStatistics() {
  SmallVector<Value> worklist = {input};
  DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    auto reduction = dyn_cast<linalg::LinalgOp>(op);
    if (isa<RowwiseOpInterface>(op) || (reduction && reduction.getNumReductionLoops() != 0))
      return true;
    llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

void QuantizeRowsKernel::chooseShape(KernelShape &shape) {
  static constexpr StringLiteral names[] = {"i8", "e4m3", "e2m1", "dequantized"};
  shape.state("kernel", "quantize rows");
  shape.state("values", names[int(quantized.values)]);
  shape.state("threads", threadsOfBlock);
}

LogicalResult QuantizeRowsKernel::run() {
  using Values = QuantizedRows::Values;
  bool takesRows = quantized.hasRowScales || hasRowStatistics();
  int64_t spans = llvm::divideCeil(quantized.paddedDepth(), span()), warps = threadsOfBlock / architecture.warpSize;
  AffineExpr items = takesRows ? quantized.rows : quantized.rows * spans;
  function.beginLaunch(threadsOfBlock, items.ceilDiv(warps));
  function.setLaunchScratch(quantized.bytes());
  Value item = add(mul(function.block, constant(warps)), function.warp);
  ArrayRef<AffineExpr> leading = ArrayRef<AffineExpr>(function.sizes.of(input)).drop_back();
  LogicalResult emitted = ifThen(less(item, function.size(items)), [&] {
    RowScope row = tensors.makeRow(takesRows ? item : div(item, constant(spans)), leading);
    RowGuard inRow(tensors, row);
    auto quantizePart = [&](Value begin) {
      return quantized.values == Values::Integers ? quantizeSpan(row, begin) : quantizeBlocks(row, begin, nullptr);
    };
    LogicalResult done = success();
    if (!takesRows)
      done = quantizePart(mul(rem(item, constant(spans)), constant(span())));
    else if (succeeded(done = rowEmitter.prepareRow(row, {input})))
      done = quantized.hasRowScales ? quantizeRow(row, spans)
                                    : forLoop(constant(0), constant(spans * span()), constant(span()), quantizePart);
    return done;
  });
  function.endLaunch();
  return emitted;
}

Element QuantizeRowsKernel::elementsAt(const RowScope &row, Value k) {
  Type f32 = b.getF32Type();
  auto readAsComputed = [&](Value at, int64_t count) -> Element {
    return tensors.evaluate(input, kernel::indicesOf(row.prefix, at), count);
  };
  Value channels = quantized.quantize.getChannels();
  auto read = [&](Value at, int64_t count) -> Element {
    if (!channels)
      return readAsComputed(at, count);
    SmallVector<Value> each;
    for (int64_t i = 0; i != count; ++i) {
      Value channel = memory.load(tensors.view(channels)->pointer, add(at, constant(i)), b.getI32Type(), 1);
      Element one = readAsComputed(make<arith::ExtSIOp>(b.getI64Type(), channel), 1);
      if (failed(one) || count == 1)
        return one;
      each.push_back(*one);
    }
    return make<vector::FromElementsOp>(VectorType::get({count}, f32), each).getResult();
  };
  auto readInside = [&](Value at, int64_t count) {
    return tensors.choose(
        less(at, constant(quantized.depth)), vectorOf(f32, count), [&] { return read(at, count); },
        [&] { return Element(floatConstant(0.0, f32, count)); });
  };
  if (quantized.depth % span() == 0)
    return read(k, width);
  if (quantized.depth % width == 0)
    return readInside(k, width);
  SmallVector<Value> each;
  for (int64_t i = 0; i != width; ++i) {
    Element one = readInside(add(k, constant(i)), 1);
    if (failed(one))
      return failure();
    each.push_back(*one);
  }
  return make<vector::FromElementsOp>(VectorType::get({width}, f32), each).getResult();
}

FailureOr<Value> QuantizeRowsKernel::loadSpan(const RowScope &row, Value k) {
  return function.alone([&] { return elementsAt(row, k); });
}

Value QuantizeRowsKernel::magnitudes(Value elements) {
  // NaN is larger than infinity, which is larger than all others: the largest, and a scale, get it.
  Value bits = make<vector::BitCastOp>(VectorType::get({width}, b.getI32Type()), elements);
  return make<arith::AndIOp>(bits, integers(0x7fffffff, width));
}

Value QuantizeRowsKernel::largestOf(Value bits, int64_t lanes) {
  Value largest = make<vector::ReductionOp>(vector::CombiningKind::MAXSI, bits);
  return make<arith::BitcastOp>(b.getF32Type(), function.combineLanes(largest, kernel::Combination::MAXSI, lanes));
}

LogicalResult QuantizeRowsKernel::quantizeSpan(const RowScope &row, Value begin) {
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  Value k = featureOf(begin);
  Element elements = loadSpan(row, k);
  if (failed(elements))
    return failure();
  Value largest = largestOf(magnitudes(*elements), quantized.quantize.getFormat().getBlock() / width);
  // Below 1e-35 the quotient would overflow: such a block is zero.
  Value isTiny = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, largest, floatConstant(1e-35, f32, 1));
  Value highest = floatConstant(nn::largestOfWideBlock, f32, 1), zero = floatConstant(0.0, f32, 1);
  if (std::optional<int64_t> firstNarrow = quantized.quantize.firstNarrowBlock())
    highest = select(less(k, constant(*firstNarrow * nn::mixedBlock)), highest,
                     floatConstant(nn::largestOfNarrowBlock, f32, 1));
  Value inverse = select(isTiny, zero, make<arith::DivFOp>(highest, largest));
  Value scale = select(isTiny, zero, make<arith::DivFOp>(largest, highest));
  // 1.5 * 2^23 has units in its last bit: what is added is rounded to an integer, ties to even, in the low bits.
  constexpr int64_t rounderBits = 0x4b400000;
  Value rounded = make<math::FmaOp>(*elements, splat(inverse, width), floatConstant(12582912.0, f32, width));
  Value values = make<arith::SubIOp>(make<vector::BitCastOp>(VectorType::get({width}, b.getI32Type()), rounded),
                                     integers(rounderBits, width));
  constexpr int64_t stepDepth = QuantizedRows::stepDepth;
  Value sum;
  if (quantized.hasSums) {
    sum = make<vector::ReductionOp>(vector::CombiningKind::ADD, values);
    sum = function.combineLanes(sum, kernel::Combination::ADD, stepDepth / width);
    sum = make<arith::MulFOp>(scale, make<arith::SIToFPOp>(f32, sum));
  }
  Value number = row.flat;
  ifThen(less(k, constant(quantized.paddedDepth())), [&] {
    Value to = add(mul(number, constant(quantized.paddedDepth())), k);
    memory.store(make<arith::TruncIOp>(vectorOf(i8, width), values), function.kernelScratch(b.getAffineConstantExpr(0)),
                 to, i8, width);
    Value isFirst = equal(rem(k, constant(stepDepth)), constant(0));
    ifThen(isFirst, [&] {
      Value step = add(mul(number, constant(quantized.steps())), div(k, constant(stepDepth)));
      memory.store(scale, function.kernelScratch(quantized.scalesBegin()), step, f32, 1);
      if (sum)
        memory.store(sum, function.kernelScratch(quantized.sumsBegin()), step, f32, 1);
    });
  });
  return success();
}

FailureOr<Value> QuantizeRowsKernel::largestOfRow(const RowScope &row, int64_t spans) {
  using Next = FailureOr<SmallVector<Value>>;
  Next largest = forLoop(constant(0), constant(spans * span()), constant(span()),
                         SmallVector<Value>{integers(0, width)}, [&](Value begin, ValueRange running) -> Next {
                           Element elements = loadSpan(row, featureOf(begin));
                           if (failed(elements))
                             return failure();
                           return SmallVector<Value>{make<arith::MaxSIOp>(magnitudes(*elements), running[0])};
                         });
  if (failed(largest))
    return failure();
  return largestOf((*largest)[0], architecture.warpSize);
}

LogicalResult QuantizeRowsKernel::quantizeRow(const RowScope &row, int64_t spans) {
  FailureOr<Value> largest = largestOfRow(row, spans);
  if (failed(largest))
    return failure();
  Value scale;
  auto loop = [&](auto quantizePart) {
    return forLoop(constant(0), constant(spans * span()), constant(span()), quantizePart);
  };
  LogicalResult stored = success();
  if (quantized.values == QuantizedRows::Values::E4M3) {
    scale = scaleE4M3(*largest);
    stored = loop([&](Value begin) { return quantizeToE4M3(row, begin, scale); });
  } else {
    scale = memory.rowScaleE2M1(*largest);
    stored = loop([&](Value begin) { return quantizeBlocks(row, begin, scale); });
  }
  if (failed(stored))
    return failure();
  Value isFirst = equal(function.lane, constant(0));
  ifThen(isFirst,
         [&] { memory.store(scale, function.kernelScratch(quantized.scalesBegin()), row.flat, b.getF32Type(), 1); });
  return success();
}

Value QuantizeRowsKernel::scaleE4M3(Value largest) {
  Type f32 = b.getF32Type();
  // A row with infinity is NaN as a whole, as is one with NaN: the scale says so.
  Value infinity = floatConstant(std::numeric_limits<double>::infinity(), f32, 1);
  Value isFinite = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, largest, infinity);
  Value scale = make<arith::DivFOp>(largest, floatConstant(floatE4M3.largest, f32, 1));
  Value nan = floatConstant(std::numeric_limits<double>::quiet_NaN(), f32, 1);
  return select(isFinite, scale, nan);
}

LogicalResult QuantizeRowsKernel::quantizeToE4M3(const RowScope &row, Value begin, Value scale) {
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  Value isZero = make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, scale, floatConstant(0.0, f32, 1));
  // Zeros by 1 are zeros too.
  Value divisor = select(isZero, floatConstant(1.0, f32, 1), scale);
  bool hasNegativeZero = !findMatrixInstruction(architecture, MatrixElement::E4M3FNUZ);
  Value k = featureOf(begin);
  Element elements = loadSpan(row, k);
  if (failed(elements))
    return failure();
  Value bytes = memory.narrowE4M3(make<arith::DivFOp>(*elements, splat(divisor, width)), width);
  if (!hasNegativeZero) {
    auto byte = [&](int64_t value) { return splat(make<arith::ConstantOp>(b.getI8IntegerAttr(int8_t(value))), width); };
    Value isNegativeZero = equal(bytes, byte(0x80));
    bytes = select(isNegativeZero, byte(0), bytes);
  }
  return ifThen(less(k, constant(quantized.paddedDepth())), [&] {
    memory.store(bytes, function.kernelScratch(number(0)), add(mul(row.flat, constant(quantized.paddedDepth())), k), i8,
                 width);
    return success();
  });
}

LogicalResult QuantizeRowsKernel::quantizeBlocks(const RowScope &row, Value begin, Value ofRow) {
  Type i8 = b.getI8Type();
  Value k = featureOf(begin);
  Element elements = loadSpan(row, k);
  if (failed(elements))
    return failure();
  MemoryEmitter::BlockScale scale = memory.scaleE2M1(largestOf(magnitudes(*elements), quantized.block / width), ofRow);
  Value ratios = memory.quotient(*elements, scale.whole, width);
  Value values = function.kernelScratch(number(0));
  Value first = add(mul(row.flat, constant(quantized.paddedDepth())), k);
  if (quantized.values == QuantizedRows::Values::Dequantized) {
    Value exact = make<arith::MulFOp>(memory.roundE2M1(ratios, width), splat(scale.stored, width));
    return ifThen(less(k, constant(quantized.paddedDepth())),
                  [&] { return memory.store(exact, values, first, quantized.type, width), success(); });
  }
  // Two features of a word share a byte.
  Value patterns = memory.narrowE2M1(ratios, width);
  auto half = [&](int64_t from) -> Value {
    return vector::ExtractStridedSliceOp::create(b, loc, patterns, ArrayRef<int64_t>{from}, {width / 2}, {1});
  };
  Value bytes = make<arith::OrIOp>(half(0), make<arith::ShLIOp>(half(width / 2), integers(4, width / 2)));
  bytes = make<arith::TruncIOp>(vectorOf(i8, width / 2), bytes);
  return ifThen(less(k, constant(quantized.paddedDepth())), [&] {
    memory.store(bytes, values, div(first, constant(2)), i8, width / 2);
    Value inBlock = rem(k, constant(quantized.block));
    return ifThen(equal(inBlock, constant(0)), [&] {
      Value number = add(mul(row.flat, constant(quantized.blocks())), div(k, constant(quantized.block)));
      memory.store(scale.pattern, function.kernelScratch(quantized.blocksBegin()), number, i8, 1);
      return success();
    });
  });
}

} // namespace intarsia::gpu
