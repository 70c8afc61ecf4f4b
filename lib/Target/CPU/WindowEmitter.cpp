//===- WindowEmitter.cpp - What the windows of a convolution read -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/WindowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

/// Channels that are copied one by one: those of pictures.
static constexpr int64_t kFewChannels = 4;

/// Returns how many of the last spatial dimensions have one position, for windows of one: neighbours are then those of
/// the dimension before them.
static unsigned trailingDimensions(nn::ConvOp conv) {
  auto isOne = [&](unsigned d) {
    nn::WindowDimension window = conv.getWindowDimension(d);
    return window.window == 1 && window.padLow == 0 && window.padHigh == 0 && window.beyond == 0 &&
           conv.getInput().getType().getDimSize(d + 1) == 1;
  };
  unsigned count = 0;
  while (count + 1 < conv.getSpatialRank() && isOne(conv.getSpatialRank() - 1 - count))
    ++count;
  return count;
}

WindowEmitter::WindowEmitter(FunctionEmitter &function, TensorEmitter &tensors, nn::ConvOp root)
    : LoopEmitter(function), function(function), tensors(tensors), memory(function), root(root),
      spatial(root.getSpatialRank() - trailingDimensions(root)), trailing(root.getSpatialRank() - spatial),
      transposed(root.getTransposed()) {
  for (unsigned d = 0; d < spatial; ++d)
    windows.push_back(root.getWindowDimension(d));
  while (windows.size() < 3)
    windows.insert(windows.begin(), nn::WindowDimension{.window = 1});
}

AffineExpr WindowEmitter::resultSize(Dimension dimension) {
  ArrayRef<AffineExpr> sizes = function.sizes.of(root.getResult());
  return dimension + spatial < 3 ? b.getAffineConstantExpr(1) : sizes[dimension + spatial - 2];
}

std::optional<int64_t> WindowEmitter::knownSize(Dimension dimension) {
  auto size = dyn_cast<AffineConstantExpr>(resultSize(dimension));
  return size ? std::optional(size.getValue()) : std::nullopt;
}

Value WindowEmitter::inputSize(Dimension dimension) {
  return dimension + spatial < 3 ? constant(1)
                                 : function.size(function.sizes.of(root.getInput())[dimension + spatial - 2]);
}

bool WindowEmitter::hasPads() const {
  return llvm::any_of(windows, [](const nn::WindowDimension &w) { return w.padLow != 0 || w.padHigh != 0; });
}

SmallVector<Value> WindowEmitter::indicesOf(const ImageBlock &block, Value plane, Value row, Value column) {
  SmallVector<Value> at{block.image, plane, row, column};
  at.erase(at.begin() + 1, at.begin() + 1 + (3 - spatial));
  at.append(trailing, constant(0));
  return at;
}

//===-- Positions -------------------------------------------------------------------------------------------------===//

/// The most positions of a transposed window that meet one position of the result.
static int64_t mostTaps(const nn::WindowDimension &window) { return llvm::divideCeil(window.window, window.stride); }

int64_t WindowEmitter::reach(Dimension dimension, int64_t positions) const {
  const nn::WindowDimension &window = windows[dimension];
  if (transposed)
    return llvm::divideCeil(positions - 1, window.stride) + mostTaps(window);
  return (positions - 1) * window.stride + window.extent();
}

Value WindowEmitter::firstRead(Dimension dimension, Value position) {
  const nn::WindowDimension &window = windows[dimension];
  if (transposed)
    return sub(div(add(position, constant(window.padLow)), constant(window.stride)), constant(mostTaps(window) - 1));
  return sub(mul(position, constant(window.stride)), constant(window.padLow));
}

Value WindowEmitter::countReads(Dimension dimension, Value first, Value end) {
  Value last = firstRead(dimension, sub(end, constant(1)));
  int64_t ofOne = transposed ? mostTaps(windows[dimension]) : windows[dimension].extent();
  return add(sub(last, firstRead(dimension, first)), constant(ofOne));
}

WindowTaps WindowEmitter::tapsOf(Dimension dimension, Value position, Value firstOfBlock) {
  const nn::WindowDimension &window = windows[dimension];
  Value source = sub(firstRead(dimension, position), firstRead(dimension, firstOfBlock));
  if (!transposed)
    return {.count = constant(window.window),
            .first = constant(0),
            .source = source,
            .step = 1,
            .sourceStep = window.dilation};
  Value first = rem(add(position, constant(window.padLow)), constant(window.stride));
  Value rest = max(sub(constant(window.window + window.stride - 1), first), constant(0));
  return {.count = div(rest, constant(window.stride)),
          .first = first,
          .source = add(source, constant(mostTaps(window) - 1)),
          .step = window.stride,
          .sourceStep = -1};
}

//===-- Copies ----------------------------------------------------------------------------------------------------===//

void WindowEmitter::begin(bool copies, int64_t rows, int64_t columns, int64_t ofPosition) {
  input = tensors.view(root.getInput());
  channels = ofPosition;
  rowElements = reach(Column, columns) * channels;
  planeElements = reach(Row, rows) * rowElements;
  // Lanes beyond the last channel read what lies behind it.
  scratch = copies ? function.scratch((elements(rows, columns, channels) + kPanelWidth) * 4) : Value();
}

Value WindowEmitter::isInside(Value index, Dimension dimension) {
  Value isWithin = less(index, inputSize(dimension)), isFirstOrLater = less(constant(-1), index);
  return make<arith::AndIOp>(isWithin, isFirstOrLater);
}

LogicalResult WindowEmitter::copy(const ImageBlock &block, Value firstChannel) {
  Value firstPlane = firstRead(Plane, block.plane), firstRow = firstRead(Row, block.firstRow);
  Value rows = countReads(Row, block.firstRow, block.endRow);
  return forLoop(constant(0), constant(reach(Plane, 1)), constant(1), [&](Value plane) {
    return forLoop(constant(0), rows, constant(1), [&](Value row) {
      Value to = add(mul(plane, constant(planeElements)), mul(row, constant(rowElements)));
      return copyRow(block, memory.at(scratch, to, b.getF32Type()), add(firstPlane, plane), add(firstRow, row),
                     firstChannel);
    });
  });
}

/// Returns true if neighbouring positions of a channel lie side by side in memory, the input being a picture whose
/// planes are channels, and all of the channels are copied.
bool WindowEmitter::readsPlanes() {
  if (channels == 0 || channels != root.getInputChannels() || trailing != 0)
    return false;
  auto moved = root.getInput().getDefiningOp<linalg::LinalgOp>();
  if (!moved || moved.getNumDpsInputs() != 1 || moved.getNumParallelLoops() != moved.getNumLoops() ||
      !moved.getIndexingMapsArray().back().isIdentity())
    return false;
  AffineMap map = moved.getIndexingMapsArray().front();
  return map.isPermutation() && map.getDimPosition(spatial + 1) == spatial &&
         tensors.view(moved.getDpsInputOperand(0)->get());
}

/// Copies the channels of a vector of neighbouring positions, from `at` on.
LogicalResult WindowEmitter::copyPositions(Value to, Indices at) {
  int64_t lanes = function.config.lanes;
  at[spatial].lane = true;
  SmallVector<Value> planes;
  for (int64_t channel = 0; channel < channels; ++channel) {
    Indices of = at;
    of.back() = {add(at.back().base, constant(channel)), false};
    Element x = tensors.evaluate(root.getInput(), of, lanes);
    if (failed(x))
      return failure();
    planes.push_back(*x);
  }
  // All planes side by side, then the channels of each position.
  SmallVector<int64_t> both = llvm::to_vector(llvm::seq<int64_t>(0, 2 * lanes)), order;
  auto pair = [&](size_t first) -> Value {
    return make<vector::ShuffleOp>(planes[std::min(first, planes.size() - 1)],
                                   planes[std::min(first + 1, planes.size() - 1)], both);
  };
  for (int64_t lane = 0; lane < lanes; ++lane)
    for (int64_t channel = 0; channel < channels; ++channel)
      order.push_back(channel * lanes + lane);
  memory.store(make<vector::ShuffleOp>(pair(0), pair(2), order), to, constant(0), b.getF32Type(), channels * lanes);
  return success();
}

LogicalResult WindowEmitter::copyRow(const ImageBlock &block, Value to, Value plane, Value row, Value firstChannel) {
  Type f32 = b.getF32Type();
  Value first = firstRead(Column, block.firstColumn);
  Value count = countReads(Column, block.firstColumn, block.endColumn);
  auto zeros = [&](Value begin, Value end) {
    Value from = mul(begin, constant(channels));
    vectorLoop(mul(sub(end, begin), constant(channels)), [&](Value i, int64_t width) {
      memory.store(floatConstant(0.0, f32, width), to, add(from, i), f32, width);
    });
  };
  auto copyElement = [&](Value column, Value i, int64_t width) -> LogicalResult {
    Indices at = kernel::indicesOf(indicesOf(block, plane, row, add(first, column)), add(firstChannel, i));
    Element x = tensors.evaluate(root.getInput(), at, width);
    if (succeeded(x))
      memory.store(*x, to, add(mul(column, constant(channels)), i), f32, width);
    return x;
  };
  auto copyElements = [&](Value column, Value size) {
    return vectorLoop(size, [&](Value i, int64_t width) { return copyElement(column, i, width); });
  };
  auto copyInside = [&]() -> LogicalResult {
    Value begin = min(max(sub(constant(0), first), constant(0)), count);
    Value end = max(min(sub(inputSize(Column), first), count), begin);
    zeros(constant(0), begin);
    // Neighbouring positions that lie side by side are one row. Lanes that are no channels are not copied.
    Value copied = min(sub(constant(root.getInputChannels()), firstChannel), constant(channels));
    LogicalResult isCopied = success();
    if (input && input->dense && channels == root.getInputChannels()) {
      isCopied = copyElements(begin, mul(sub(end, begin), constant(channels)));
    } else if (channels <= kFewChannels) {
      auto copyPosition = [&](Value column) -> LogicalResult {
        return forLoop(constant(0), copied, constant(1), [&](Value i) { return copyElement(column, i, 1); });
      };
      int64_t lanes = function.config.lanes;
      Value whole = readsPlanes() ? add(begin, mul(div(sub(end, begin), constant(lanes)), constant(lanes))) : begin;
      if (whole != begin)
        isCopied = forLoop(begin, whole, constant(lanes), [&](Value column) -> LogicalResult {
          Indices at = kernel::indicesOf(indicesOf(block, plane, row, add(first, column)), firstChannel);
          return copyPositions(memory.at(to, mul(column, constant(channels)), f32), at);
        });
      if (succeeded(isCopied))
        isCopied = forLoop(whole, end, constant(1), copyPosition);
    } else {
      isCopied = forLoop(begin, end, constant(1), [&](Value column) { return copyElements(column, copied); });
    }
    zeros(end, count);
    return isCopied;
  };
  Value isRow = make<arith::AndIOp>(isInside(plane, Plane), isInside(row, Row));
  return ifThen(isRow, copyInside, [&]() -> LogicalResult {
    zeros(constant(0), count);
    return success();
  });
}

WindowSource WindowEmitter::sourceOf(const ImageBlock &block) {
  if (scratch)
    return {scratch, constant(planeElements), constant(rowElements), constant(channels), b.getF32Type()};
  auto strideOf = [&](Dimension dimension) {
    return dimension + spatial < 3 ? constant(0) : input->strides[dimension + spatial - 2];
  };
  Value offset = mul(block.image, input->strides[0]);
  for (auto [dimension, first] :
       {std::pair(Plane, block.plane), std::pair(Row, block.firstRow), std::pair(Column, block.firstColumn)})
    offset = add(offset, mul(firstRead(dimension, first), strideOf(dimension)));
  return {memory.at(input->pointer, offset, input->elementType), strideOf(Plane), strideOf(Row), strideOf(Column),
          input->elementType};
}

} // namespace intarsia::cpu
