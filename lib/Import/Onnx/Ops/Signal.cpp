//===- Signal.cpp - Fourier transforms, windows and mel filters ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Selection.h"
#include "lib/Import/Builder/Signals.h"

#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Counts.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>
#include <numbers>

using namespace mlir;

namespace intarsia::onnx {
namespace {

using importer::SizeOp;

/// The most elements of a transform, as for nn.fft.
constexpr int64_t mostTransformed = 1 << 22;
/// The most elements of the filters, which are constants of the module.
constexpr int64_t mostFilters = 1 << 20;

/// Returns the size that an input of one integer gives; refuses one that is not known.
std::optional<Size> sizeOf(NodeContext &node, size_t input, llvm::StringRef name) {
  const Elements *known = node.elements(input, name);
  if (known && (known->values.size() != 1 || known->values[0].isReal()))
    node.refuse("input '" + name + "' is not one integer");
  else if (known && known->values[0].isInteger() && ShapedType::isDynamic(known->values[0].integer))
    node.refuse("input '" + name + "' is " + llvm::Twine(known->values[0].integer));
  return node.isRefused() ? std::nullopt : std::optional(known->values[0].asSize());
}

/// Returns a tensor with another size along an axis: cut at its end, or with zeros behind it.
Value withLength(NodeContext &node, Value tensor, int64_t axis, const Size &length) {
  Shape shape = node.graph.shapeOf(node.at, tensor);
  const Size before = shape[axis];
  if (node.graph.areEqual(before, length))
    return tensor;
  Type element = tensorType(tensor).getElementType();
  auto none = cast<TypedAttr>(node.ops().getZeroAttr(element));
  if (!before.isDynamic() && !length.isDynamic()) {
    if (length.value < before.value)
      return node.sliced(tensor, axis, 0, length);
    shape[axis] = length.value - before.value;
    return node.joined({tensor, node.filled(shape, none)}, axis).value_or(tensor);
  }
  shape[axis] = length;
  OpFoldResult given = node.ir().size(before);
  Value result =
      node.ir().elementwise(node.at, element, shape, {}, [&](OpBuilder &b, Location at, ValueRange) -> Value {
        llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
        Value end = getValueOrCreateConstantIndexOp(b, at, given);
        Value last = arith::SubIOp::create(b, at, end, arith::ConstantIndexOp::create(b, at, 1));
        Value isInside = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, position[axis], end);
        position[axis] = arith::MinSIOp::create(b, at, position[axis], last);
        Value read = tensor::ExtractOp::create(b, at, tensor, position);
        return arith::SelectOp::create(b, at, isInside, read, arith::ConstantOp::create(b, at, none));
      });
  node.graph.setShape(result, shape);
  return result;
}

void dft(NodeContext &node) {
  Value input = node.tensor(0);
  if (node.isRefused() || !node.isOf(0, isComputedByNn, "floats of 16 bits or more"))
    return;
  Shape shape = node.graph.shapeOf(node.at, input);
  auto rank = int64_t(shape.size());
  bool isInverse = node.integer("inverse", 0) != 0, isOnesided = node.integer("onesided", 0) != 0;
  int64_t axis = node.version < 20 ? node.integer("axis", 1) : -2;
  if (node.version >= 20 && node.has(2))
    if (auto given = node.integers(2, "axis"))
      axis = given->size() == 1 ? given->front() : rank;
  if (node.isRefused())
    return;
  axis = node.axis(axis, rank);
  if (rank < 2 || axis == rank - 1 || shape.back().isDynamic() || (shape.back().value != 1 && shape.back().value != 2))
    node.refuse("the last dimension is not of 1 or 2 elements, or it is the axis");
  if (node.isRefused())
    return;
  bool isReal = isInverse && isOnesided;
  if (isOnesided && shape.back().value != (isInverse ? 2 : 1))
    return node.refuse(isInverse ? "is onesided and inverse of a real input" : "is onesided of a complex input");
  std::optional<Size> given;
  if (node.has(1) && !(given = sizeOf(node, 1, "dft_length")))
    return;
  if (given && given->isDynamic() && isReal)
    return node.refuse("input 'dft_length' of a real result depends on sizes of the call");
  auto changed = [&](SizeOp op, const Size &left, int64_t right) { return node.compute(op, left, right); };
  // Without 'dft_length' a real result has an even number of elements: none from one number.
  if (isReal && !given && !requireAtLeast(node, dimensionOf("input", axis, shape), {2, "as 'dft_length' is not given"}))
    return;
  // The number of elements of a transform.
  Size length = given                     ? *given
                : !isReal                 ? shape[axis]
                : shape[axis].isDynamic() ? changed(SizeOp::Multiply, changed(SizeOp::Subtract, shape[axis], 1), 2)
                                          : Size(2 * (shape[axis].value - 1));
  if (!length.isDynamic() && (length.value < 1 || length.value > mostTransformed))
    return node.refuse("a transform has " + llvm::Twine(length.value) + " elements, possible are 1 to " +
                       llvm::Twine(mostTransformed));
  if (given) {
    Size read = isReal ? Size(length.value / 2 + 1) : length;
    shape[axis] = read;
    if (!node.isCounted(shape))
      return;
    input = withLength(node, input, axis, read);
    shape = node.graph.shapeOf(node.at, input);
  }
  if (isReal)
    shape[axis] = length;
  else if (isOnesided)
    shape[axis] = changed(SizeOp::Add, changed(SizeOp::Divide, length, 2), 1);
  shape.back() = isReal ? 1 : 2;
  OpBuilder &ops = node.ops();
  Value result =
      nn::FftOp::create(ops, node.at, node.ir().tensorType(shape, node.irType(node.typeOf(0))), input, axis, isInverse,
                        isOnesided, isReal && given ? ops.getI64IntegerAttr(length.value) : IntegerAttr());
  node.graph.setShape(result, shape);
  node.result(result);
}

void stft(NodeContext &node) {
  Value signal = node.tensor(0);
  auto step = sizeOf(node, 1, "frame_step");
  Value window = node.has(2) ? node.tensor(2) : Value();
  if (node.isRefused() || !node.isOf(0, isComputedByNn, "floats of 16 bits or more") || !node.areOneType({0, 2}))
    return;
  Shape shape = node.graph.shapeOf(node.at, signal);
  if (shape.size() == 2) { // as exporters write real signals
    shape.push_back(1);
    signal = node.reshaped(signal, shape);
  }
  if (shape.size() != 3 || shape[2].isDynamic() || (shape[2].value != 1 && shape[2].value != 2))
    return node.refuse("input 'signal' is not [batch, length, 1 or 2]");
  std::optional<Size> size = shape[1];
  if (window) {
    Shape ofWindow = node.graph.shapeOf(node.at, window);
    if (ofWindow.size() != 1)
      return node.refuse("input 'window' has " + llvm::Twine(ofWindow.size()) + " dimensions, must have 1");
    size = ofWindow[0];
  }
  if (node.has(3)) {
    std::optional<Size> given = sizeOf(node, 3, "frame_length");
    if (!given)
      return;
    if (window && !requireEqual(node, {*given, "input 'frame_length'"}, {*size, "the number of elements of 'window'"}))
      return;
    size = given;
  }
  if (size->isDynamic() || step->isDynamic())
    return node.refuse("the length of a frame or 'frame_step' depends on sizes of the call, and must be known to the "
                       "compiler");
  if (size->value < 1 || size->value > mostTransformed)
    return node.refuse("a frame has " + llvm::Twine(size->value) + " elements, possible are 1 to " +
                       llvm::Twine(mostTransformed));
  if (step->value < 1 || step->value > mostTransformed)
    return node.refuse("input 'frame_step' is " + llvm::Twine(step->value) + ", possible are 1 to " +
                       llvm::Twine(mostTransformed));
  if (!shape[1].isDynamic() && shape[1].value < size->value)
    return node.refuse("input 'signal' has " + llvm::Twine(shape[1].value) + " elements, a frame has " +
                       llvm::Twine(size->value));
  bool isOnesided = node.integer("onesided", 1) != 0;
  if (isOnesided && shape[2].value == 2)
    return node.refuse("is onesided of a complex signal");
  Shape whole{shape[0], importer::frameCount(node.ir(), node.at, shape[1], size->value, step->value), *size, 2};
  if (node.isRefused() || !node.isCounted(whole))
    return;
  Value result = importer::stft(node.ir(), node.at, signal, window, size->value, step->value, isOnesided);
  if (isOnesided)
    whole[2] = size->value / 2 + 1;
  node.graph.setShape(result, whole);
  node.result(result);
}

/// Returns the type that the attribute gives a generated tensor; refuses types that are no numbers.
DataType generatedType(NodeContext &node) {
  auto type = DataType(node.integer("output_datatype", int64_t(DataType::Float)));
  if (!node.irType(type) || isBool(type) || isSmall(type))
    node.refuse("attribute 'output_datatype' is " + nameOf(type));
  return type;
}

/// Builds a window `a - b * cos(2 pi i / n) + c * cos(4 pi i / n)` of as many elements as its input says, where n is
/// that number, or one less if it is not periodic.
void cosineWindow(NodeContext &node, double a, double b, double c) {
  DataType type = generatedType(node);
  int64_t less = node.integer("periodic", 1) != 0 ? 0 : 1;
  if (node.isRefused() || !node.isOf(0, isIndex, "int32 or int64"))
    return;
  Size size = 0;
  if (node.has(0) && node.graph.elementsOf(node.input(0))) {
    auto known = sizeOf(node, 0, "size");
    if (!known)
      return;
    size = *known;
  } else {
    Value tensor = node.tensor(0);
    if (node.isRefused())
      return;
    if (tensorType(tensor).getRank() > 1 ||
        (tensorType(tensor).getRank() == 1 && tensorType(tensor).getDimSize(0) != 1))
      return node.refuse("input 'size' is not one integer");
    if (!isOutsideOfBranches(node))
      return;
    Value count = node.cast(node.reshaped(tensor, {}), node.typeOf(0), DataType::Int64);
    size = importer::sizeOfCount(node.ir(), node.at, count);
  }
  if (!size.isDynamic() && size.value < 0)
    return node.refuse("input 'size' is " + llvm::Twine(size.value));
  if (!node.isCounted({size}))
    return;
  OpFoldResult whole = node.ir().size(size);
  Value result = node.ir().elementwise(
      node.at, node.ops().getF32Type(), {size}, {}, [&](OpBuilder &builder, Location at, ValueRange) -> Value {
        auto real = [&](Value index) -> Value {
          Value integer = arith::IndexCastOp::create(builder, at, builder.getI64Type(), index);
          return arith::SIToFPOp::create(builder, at, builder.getF32Type(), integer);
        };
        auto number = [&](double value) { return importer::floatConstant(builder, at, builder.getF32Type(), value); };
        auto multiply = [&](Value x, Value y) -> Value { return arith::MulFOp::create(builder, at, x, y); };
        Value period = getValueOrCreateConstantIndexOp(builder, at, whole),
              place = linalg::IndexOp::create(builder, at, 0);
        Value one = arith::ConstantIndexOp::create(builder, at, 1);
        if (less)
          period = arith::SubIOp::create(builder, at, period, one);
        period = arith::MaxSIOp::create(builder, at, period, one);
        // Windows are symmetric, so that only angles up to pi are needed, which are rounded less than larger ones.
        Value behind = arith::SubIOp::create(builder, at, period, place);
        Value ratio =
            arith::DivFOp::create(builder, at, real(arith::MinSIOp::create(builder, at, place, behind)), real(period));
        Value cosine = math::CosOp::create(builder, at, multiply(ratio, number(2 * std::numbers::pi)));
        // cos(2x) = 2 cos(x)^2 - 1
        Value sum = arith::SubFOp::create(builder, at, number(a - c), multiply(number(b), cosine));
        return c == 0 ? sum
                      : arith::AddFOp::create(builder, at, sum, multiply(number(2 * c), multiply(cosine, cosine)))
                            .getResult();
      });
  node.graph.setShape(result, {size});
  node.result(0, node.cast(result, DataType::Float, type), type);
}

// Factors: https://onnx.ai/onnx/operators, functions of the ops.
void hannWindow(NodeContext &node) { cosineWindow(node, 0.5, 0.5, 0); }
void hammingWindow(NodeContext &node) { cosineWindow(node, 25.0 / 46, 21.0 / 46, 0); }
void blackmanWindow(NodeContext &node) { cosineWindow(node, 0.42, 0.5, 0.08); }

/// Builds the filters that add up the elements of a spectrum. Their edges are frequencies at equal distances on the mel
/// scale, rounded down to elements. As ONNX defines it, the scale has one part more than these filters cover.
void melWeightMatrix(NodeContext &node) {
  DataType type = generatedType(node);
  static constexpr llvm::StringLiteral names[] = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
                                                  "upper_edge_hertz"};
  double given[5] = {};
  for (auto [input, name] : llvm::enumerate(names)) {
    const Elements *known = node.elements(input, name);
    if (!known)
      return;
    if (known->values.size() != 1 || !known->values[0].isNumber())
      return node.refuse("input '" + name + "' is not one number that the compiler knows");
    given[input] = known->values[0].number();
  }
  if (node.isRefused())
    return;
  auto [bands, length, rate, lower, upper] = given;
  if (!(bands >= 0 && bands <= mostFilters && length >= 1 && length <= mostTransformed && rate >= 1 && lower >= 0 &&
        upper >= lower && std::isfinite(upper)))
    return node.refuse("numbers of bands, elements and samples, or edges, are not possible");
  auto columns = int64_t(bands), rows = int64_t(length) / 2 + 1;
  if (rows * columns > mostFilters)
    return node.refuse("the filters have " + llvm::Twine(rows * columns) + " elements, possible are " +
                       llvm::Twine(mostFilters));
  auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
  double low = mel(lower), step = (mel(upper) - low) / (bands + 2);
  auto edge = [&](int64_t number) {
    double hertz = 700 * std::expm1((low + step * double(number)) / 2595 * std::log(10.0));
    return std::floor((length + 1) * hertz / rate);
  };
  if (columns > 0 && edge(columns + 1) >= double(rows))
    return node.refuse("input 'upper_edge_hertz' is above half of 'sample_rate'");
  std::vector<float> filters(rows * columns, 0);
  for (int64_t band = 0; band < columns; ++band) {
    auto first = int64_t(edge(band)), middle = int64_t(edge(band + 1)), last = int64_t(edge(band + 2));
    auto at = [&](int64_t row) -> float & { return filters[row * columns + band]; };
    for (int64_t row = first; row < middle; ++row)
      at(row) = float(double(row - first) / double(middle - first));
    at(middle) = 1;
    for (int64_t row = middle; row < last; ++row)
      at(row) = float(double(last - row) / double(last - middle));
  }
  auto matrix = RankedTensorType::get({rows, columns}, node.ops().getF32Type());
  Value constant =
      arith::ConstantOp::create(node.ops(), node.at, DenseElementsAttr::get(matrix, llvm::ArrayRef<float>(filters)));
  node.result(0, node.cast(constant, DataType::Float, type), type);
}

} // namespace

llvm::ArrayRef<OpRow> signalOps() {
  static const OpRow rows[] = {
      {"", "DFT", 17, dft, Takes::Numbers, /*inSingle=*/true},
      {"", "STFT", 17, stft, Takes::Numbers, /*inSingle=*/true},
      {"", "HannWindow", 17, hannWindow},
      {"", "HammingWindow", 17, hammingWindow},
      {"", "BlackmanWindow", 17, blackmanWindow},
      {"", "MelWeightMatrix", 17, melWeightMatrix},
  };
  return rows;
}

} // namespace intarsia::onnx
