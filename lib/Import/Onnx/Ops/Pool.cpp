//===- Pool.cpp - Pools of images ---------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns how many elements behind the pads are read where the number of windows is rounded up. A window that would
/// begin in the pads at the end is not counted.
int64_t reachOf(int64_t size, int64_t low, int64_t high, int64_t extent, int64_t stride) {
  int64_t rest = size + low + high - extent;
  int64_t count = llvm::divideCeil(std::max<int64_t>(rest, 0), stride) + 1;
  if ((count - 1) * stride >= size + low)
    --count;
  return std::max<int64_t>(0, (count - 1) * stride - rest);
}

template <nn::PoolKind kind> void pool(NodeContext &node) {
  Value images = node.tensor(0);
  DataType type = node.typeOf(0);
  auto window = node.integers("kernel_shape");
  if (node.isRefused())
    return;
  Shape shape = node.graph.shapeOf(node.at, images);
  if (!window || shape.size() < 3 || shape.size() > 5 || window->size() != shape.size() - 2)
    return node.refuse("attribute 'kernel_shape' does not go with images of " + llvm::Twine(shape.size()) +
                       " dimensions");
  Shape spatial(shape.begin() + 2, shape.end());
  std::optional<importer::Windows> windows = windowsOf(node, *window, spatial);
  if (!windows)
    return;
  bool roundsUp = node.integer("ceil_mode", 0) != 0, countsPads = node.integer("count_include_pad", 0) != 0;
  bool hasIndices = node.isWanted(1);
  bool isColumnMajor = node.integer("storage_order", 0) != 0;
  llvm::SmallVector<int64_t> beyond(spatial.size(), 0);
  Shape result{shape[0]};
  for (size_t dimension = 0; dimension < spatial.size(); ++dimension) {
    const Size &size = spatial[dimension];
    int64_t low = windows->padsLow[dimension], high = windows->padsHigh[dimension];
    int64_t stride = windows->strides[dimension];
    int64_t extent = ((*window)[dimension] - 1) * windows->dilations[dimension] + 1;
    if (low >= extent || high >= extent)
      return node.refuse("a pad is as large as the window");
    // A window that reaches behind the pads by less than a stride begins before them, unless it is short.
    if (roundsUp && size.isDynamic() && stride != 1 && high + stride > extent)
      return node.refuse("attribute 'ceil_mode' needs to know the size of dimension " + llvm::Twine(dimension + 2));
    if (roundsUp && stride != 1)
      beyond[dimension] = size.isDynamic() ? stride - 1 : reachOf(size.value, low, high, extent, stride);
    if (!size.isDynamic() && size.value + low + high + beyond[dimension] < extent)
      return node.refuse("images of size " + llvm::Twine(size.value) + " are smaller than a window");
    int64_t least = extent - low - high - beyond[dimension];
    if (size.isDynamic() && least > 1 &&
        !requireAtLeast(node, dimensionOf("X", dimension + 2, shape), {least, "the extent of a window"}))
      return;
  }
  // f32 holds integers of up to 16 bits.
  bool isShort = !isFloat(type) && bitsOf(type) <= 16;
  if (!isComputedByNn(type) && !isShort)
    return node.refuse("elements are of type " + nameOf(type));
  DataType computed = isShort ? DataType::Float : type;
  Value last = node.ir().channelsLast(node.at, node.cast(images, type, computed));
  OpBuilder &ops = node.ops();
  auto pooled = nn::PoolOp::create(
      ops, node.at, last, nn::PoolKindAttr::get(node.graph.context(), kind), ops.getDenseI64ArrayAttr(windows->window),
      ops.getDenseI64ArrayAttr(windows->strides), ops.getDenseI64ArrayAttr(windows->dilations),
      ops.getDenseI64ArrayAttr(windows->padsLow), ops.getDenseI64ArrayAttr(windows->padsHigh),
      ops.getDenseI64ArrayAttr(beyond), countsPads ? ops.getUnitAttr() : UnitAttr(),
      ops.getI64IntegerAttr(node.integer("p", 2)), hasIndices ? ops.getUnitAttr() : UnitAttr());
  node.result(0, node.cast(node.ir().channelsFirst(node.at, pooled.getResult()), computed, type), type);
  if (!hasIndices)
    return;
  // Indices count in the whole tensor: those of a channel begin behind the channels before it.
  Value indices = node.ir().channelsFirst(node.at, pooled.getIndices());
  Shape sizes = node.graph.shapeOf(node.at, indices);
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, sizes.size()));
  llvm::SmallVector<importer::Operand> operands{{indices, all}};
  for (const Size &size : llvm::ArrayRef(shape).drop_front()) {
    GraphValue scalar;
    scalar.type = DataType::Int64;
    scalar.elements = std::make_shared<Elements>(Elements{{}, {Element::of(size)}});
    operands.push_back({node.graph.tensorOf(node.at, scalar), {}});
  }
  Value whole = node.ir().elementwise(
      node.at, ops.getI64Type(), sizes, operands, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
        auto index = [&](unsigned dimension) -> Value {
          return arith::IndexCastOp::create(b, loc, b.getI64Type(), linalg::IndexOp::create(b, loc, dimension));
        };
        auto times = [&](Value x, Value y) -> Value { return arith::MulIOp::create(b, loc, x, y); };
        auto plus = [&](Value x, Value y) -> Value { return arith::AddIOp::create(b, loc, x, y); };
        Value channel = plus(times(index(0), v[1]), index(1)), position = v[0];
        ValueRange spatial = v.slice(2, sizes.size() - 2);
        for (Value size : spatial)
          channel = times(channel, size);
        if (!isColumnMajor)
          return plus(channel, position);
        // The coordinates, the last first; the first dimension is the one whose elements are neighbours.
        Value turned = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
        for (size_t dimension = spatial.size(); dimension-- > 0;) {
          Value stride = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(1));
          for (Value size : spatial.take_front(dimension))
            stride = times(stride, size);
          Value coordinate = arith::RemUIOp::create(b, loc, position, spatial[dimension]);
          turned = plus(turned, times(coordinate, stride));
          position = arith::DivUIOp::create(b, loc, position, spatial[dimension]);
        }
        return plus(channel, turned);
      });
  node.graph.setShape(whole, sizes);
  node.result(1, whole, DataType::Int64);
}

/// Reduces all spatial dimensions, which stay with one element.
template <Reduction kind> void globalPool(NodeContext &node) {
  Value images = node.tensor(0);
  if (node.isRefused())
    return;
  int64_t rank = tensorType(images).getRank();
  if (rank < 3)
    return node.refuse("images have " + llvm::Twine(rank) + " dimensions");
  node.result(reduced(node, images, node.typeOf(0), kind, llvm::to_vector(llvm::seq<int64_t>(2, rank)),
                      /*keepsDimensions=*/true));
}

/// The p-norm of all positions of each channel.
void globalLpPool(NodeContext &node) {
  Value images = node.tensor(0);
  int64_t rank = tensorType(images).getRank(), power = node.integer("p", 2);
  if (!node.isOf(0, isFloat, "floats"))
    return;
  if (rank < 3 || power < 1)
    return node.refuse("attribute 'p' is " + llvm::Twine(power) + ", of images of " + llvm::Twine(rank) +
                       " dimensions");
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  DataType type = node.typeOf(0), computed = type == DataType::Double ? type : DataType::Float;
  if (power <= 2)
    return node.result(reduced(node, images, type, power == 1 ? Reduction::L1 : Reduction::L2, axes, true));
  auto raised = [&](Value tensor, double exponent) {
    return unary(node, tensor, computed, [&](Scalars &s, Value x) {
      return s.inSingle<math::PowFOp>(math::AbsFOp::create(s.builder, s.at, x).getResult(), s.number(exponent));
    });
  };
  Value sum =
      reduced(node, raised(node.cast(images, type, computed), double(power)), computed, Reduction::Sum, axes, true);
  node.result(node.cast(raised(sum, 1.0 / double(power)), computed, type));
}

} // namespace

llvm::ArrayRef<OpRow> poolOps() {
  static const OpRow rows[] = {
      {"", "MaxPool", 1, pool<nn::PoolKind::Max>, Takes::Numbers, /*inSingle=*/true},
      {"", "AveragePool", 1, pool<nn::PoolKind::Average>, Takes::Numbers, /*inSingle=*/true},
      {"", "LpPool", 2, pool<nn::PoolKind::Lp>, Takes::Numbers, /*inSingle=*/true},
      {"", "GlobalAveragePool", 1, globalPool<Reduction::Mean>},
      {"", "GlobalMaxPool", 1, globalPool<Reduction::Max>},
      {"", "GlobalLpPool", 2, globalLpPool},
  };
  return rows;
}

} // namespace intarsia::onnx
