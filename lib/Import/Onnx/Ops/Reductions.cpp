//===- Reductions.cpp - Reductions along axes, prefix sums, positions of the largest element ----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Reduce.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns what a reduction begins with.
TypedAttr neutral(OpBuilder &b, Reduction kind, DataType type, Type element) {
  if (auto real = dyn_cast<FloatType>(element)) {
    double infinity = std::numeric_limits<double>::infinity();
    double start = kind == Reduction::Max ? -infinity : kind == Reduction::Min ? infinity : kind == Reduction::Prod;
    return b.getFloatAttr(real, start);
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  if (kind == Reduction::Max)
    return b.getIntegerAttr(element,
                            isUnsigned(type) ? llvm::APInt::getMinValue(bits) : llvm::APInt::getSignedMinValue(bits));
  if (kind == Reduction::Min)
    return b.getIntegerAttr(element,
                            isUnsigned(type) ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  return b.getIntegerAttr(element, kind == Reduction::Prod);
}

/// Combines what was reduced so far with one more element.
Value step(Scalars &s, Reduction kind, Value x, Value so_far) {
  bool isReal = isFloat(s.type);
  auto sum = [&](Value value) -> Value {
    if (isReal)
      return arith::AddFOp::create(s.builder, s.at, value, so_far);
    return arith::AddIOp::create(s.builder, s.at, value, so_far);
  };
  switch (kind) {
  case Reduction::Max:
    return largest(s, x, so_far);
  case Reduction::Min:
    return smallest(s, x, so_far);
  case Reduction::Prod:
    if (isReal)
      return arith::MulFOp::create(s.builder, s.at, x, so_far);
    return arith::MulIOp::create(s.builder, s.at, x, so_far);
  case Reduction::SumSquare:
  case Reduction::L2:
    return sum(isReal ? Value(arith::MulFOp::create(s.builder, s.at, x, x))
                      : Value(arith::MulIOp::create(s.builder, s.at, x, x)));
  case Reduction::L1:
    if (isReal)
      return sum(math::AbsFOp::create(s.builder, s.at, x));
    return sum(isUnsigned(s.type) ? x : Value(math::AbsIOp::create(s.builder, s.at, x)));
  default:
    return sum(x);
  }
}

/// Returns the number of elements that are combined, as a tensor without dimensions.
Value countOf(NodeContext &node, llvm::ArrayRef<Size> sizes) {
  GraphValue count{DataType::Int64, {}, std::make_shared<Elements>(Elements{{}, {Element::of(node.product(sizes))}})};
  return node.graph.tensorOf(node.at, count);
}

} // namespace

Value reduced(NodeContext &node, Value tensor, DataType type, Reduction kind, llvm::ArrayRef<int64_t> axes,
              bool keepsDimensions) {
  Shape shape = node.graph.shapeOf(node.at, tensor), result, withOnes, combined;
  llvm::SmallVector<unsigned, 4> kept, all;
  for (unsigned dimension = 0; dimension < shape.size(); ++dimension) {
    all.push_back(dimension);
    bool isReduced = llvm::is_contained(axes, int64_t(dimension));
    withOnes.push_back(isReduced ? Size(1) : shape[dimension]);
    if (isReduced) {
      combined.push_back(shape[dimension]);
      continue;
    }
    kept.push_back(dimension);
    result.push_back(shape[dimension]);
  }
  OpBuilder &ops = node.ops();
  Type stored = node.irType(type);
  bool isNarrow = isa<FloatType>(stored) && stored.getIntOrFloatBitWidth() < 32;
  Type element = isNarrow ? Type(ops.getF32Type()) : stored;
  DataType computed = isNarrow ? DataType::Float : type;
  auto over = [&](Reduction what, llvm::ArrayRef<importer::Operand> operands, auto body) {
    Value value = node.ir().reduce(node.at, neutral(ops, what, type, element), shape, kept, operands, body);
    node.graph.setShape(value, result);
    return value;
  };
  auto plain = [&](Reduction what) {
    return over(what, {{tensor, all}}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
      Scalars s{b, at, type, element};
      return step(s, what, isNarrow ? importer::widened(b, at, v[0], element) : v[0], v[1]);
    });
  };
  Value value;
  if (kind == Reduction::LogSumExp) {
    // The largest is subtracted first, so that exp does not overflow.
    Value largest = plain(Reduction::Max);
    value =
        over(Reduction::Sum, {{tensor, all}, {largest, kept}}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
          Scalars s{b, at, type, element};
          Value wide = isNarrow ? importer::widened(b, at, v[0], element) : v[0];
          Value moved = arith::SubFOp::create(b, at, wide, v[1]);
          return arith::AddFOp::create(b, at, s.inSingle<math::ExpOp>(moved), v[2]);
        });
    value = combine(node, {value, largest}, computed, [](Scalars &s, Value x, Value y) -> Value {
      // If the largest is infinite, of either sign, it is the result.
      Value sum = arith::AddFOp::create(s.builder, s.at, s.inSingle<math::LogOp>(x), y);
      Value magnitude = math::AbsFOp::create(s.builder, s.at, y);
      Value infinity = s.number(std::numeric_limits<double>::infinity());
      Value isInfinite = arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::OEQ, magnitude, infinity);
      return arith::SelectOp::create(s.builder, s.at, isInfinite, y, sum);
    });
  } else {
    value = plain(kind);
  }
  if (kind == Reduction::Mean) {
    Value count = node.cast(countOf(node, combined), DataType::Int64, computed);
    value = combine(node, {value, count}, computed, [](Scalars &s, Value x, Value y) -> Value {
      if (isFloat(s.type))
        return arith::DivFOp::create(s.builder, s.at, x, y);
      if (isUnsigned(s.type))
        return arith::DivUIOp::create(s.builder, s.at, x, y);
      return arith::DivSIOp::create(s.builder, s.at, x, y);
    });
  } else if (kind == Reduction::L2 || kind == Reduction::LogSum) {
    DataType wide = isFloat(computed) ? computed : DataType::Float;
    value = unary(node, node.cast(value, computed, wide), wide, [&](Scalars &s, Value x) -> Value {
      if (kind == Reduction::L2)
        return math::SqrtOp::create(s.builder, s.at, x);
      return s.inSingle<math::LogOp>(x);
    });
    value = node.cast(value, wide, computed);
  }
  value = node.cast(value, computed, type);
  return keepsDimensions ? node.reshaped(value, withOnes) : value;
}

namespace {

/// The version in which axes became an input.
template <Reduction kind> void reduce(NodeContext &node) {
  Value tensor = node.tensor(0);
  int64_t rank = tensorType(tensor).getRank();
  int64_t since = kind == Reduction::Sum ? 13 : 18;
  std::optional<llvm::SmallVector<int64_t>> axes;
  if (node.version < since)
    axes = node.integers("axes");
  else if (node.has(1))
    axes = node.integers(1, "axes");
  bool keeps = node.integer("keepdims", 1) != 0, isNoop = node.integer("noop_with_empty_axes", 0) != 0;
  DataType type = node.typeOf(0);
  if (kind == Reduction::LogSumExp && !isFloat(type))
    return node.refuse("elements are of type " + nameOf(type));
  if (node.isRefused())
    return;
  bool hasAxes = axes && !axes->empty();
  if (!hasAxes && isNoop) {
    // Each element by itself.
    return node.result(reduced(node, tensor, type, kind, {}, keeps));
  }
  llvm::SmallVector<int64_t> reducedAxes;
  if (!hasAxes)
    reducedAxes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  else
    reducedAxes = node.axes(*axes, rank);
  if (type == DataType::Bool) {
    Value bytes = node.cast(tensor, type, DataType::Uint8);
    if (!node.isRefused())
      node.result(node.cast(reduced(node, bytes, DataType::Uint8, kind, reducedAxes, keeps), DataType::Uint8, type));
    return;
  }
  if (!node.isRefused())
    node.result(reduced(node, tensor, type, kind, reducedAxes, keeps));
}

/// The position of the largest or smallest element along an axis, of equal ones the first or last.
template <bool isLargest> void argument(NodeContext &node) {
  Value tensor = node.tensor(0);
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, tensor);
  int64_t axis = node.axis(node.integer("axis", 0), shape.size());
  bool keeps = node.integer("keepdims", 1) != 0, isLast = node.integer("select_last_index", 0) != 0;
  if (node.isRefused() || !requireAtLeast(node, dimensionOf("data", axis, shape), {1, ""}))
    return;
  Value best = reduced(node, tensor, type, isLargest ? Reduction::Max : Reduction::Min, {axis}, false);
  llvm::SmallVector<unsigned, 4> all, kept;
  for (unsigned dimension = 0; dimension < shape.size(); ++dimension) {
    all.push_back(dimension);
    if (dimension != axis)
      kept.push_back(dimension);
  }
  OpBuilder &ops = node.ops();
  int64_t none = isLast ? -1 : std::numeric_limits<int64_t>::max();
  Value index = node.ir().reduce(
      node.at, ops.getI64IntegerAttr(none), shape, kept, {{tensor, all}, {best, kept}},
      [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        Value isBest = isFloat(type) ? Value(arith::CmpFOp::create(b, at, arith::CmpFPredicate::UEQ, v[0], v[1]))
                                     : Value(arith::CmpIOp::create(b, at, arith::CmpIPredicate::eq, v[0], v[1]));
        Value position = arith::IndexCastOp::create(b, at, b.getI64Type(), linalg::IndexOp::create(b, at, axis));
        Value other = arith::ConstantOp::create(b, at, b.getI64IntegerAttr(none));
        Value candidate = arith::SelectOp::create(b, at, isBest, position, other);
        return isLast ? Value(arith::MaxSIOp::create(b, at, candidate, v[2]))
                      : Value(arith::MinSIOp::create(b, at, candidate, v[2]));
      });
  Shape result;
  for (unsigned dimension : kept)
    result.push_back(shape[dimension]);
  node.graph.setShape(index, result);
  shape[axis] = 1;
  node.result(0, keeps ? node.reshaped(index, shape) : index, DataType::Int64);
}

template <bool isProduct> void cumulate(NodeContext &node) {
  Value tensor = node.tensor(0);
  DataType type = node.typeOf(0);
  auto axes = node.integers(1, "axis");
  if (node.isRefused() || axes->size() != 1)
    return node.refuse("'axis' is no scalar");
  int64_t rank = tensorType(tensor).getRank(), axis = node.axis(axes->front(), rank);
  bool isExclusive = node.integer("exclusive", 0) != 0, isReverse = node.integer("reverse", 0) != 0;
  if (node.isRefused())
    return;
  llvm::SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[axis], order[rank - 1]);
  Value turned = node.transposed(tensor, order);
  Shape shape = node.graph.shapeOf(node.at, turned);
  OpBuilder &ops = node.ops();
  Value result = nn::CumulateOp::create(
      ops, node.at, turned.getType(), turned,
      vector::CombiningKindAttr::get(node.graph.context(),
                                     isProduct ? vector::CombiningKind::MUL : vector::CombiningKind::ADD),
      isExclusive ? ops.getUnitAttr() : UnitAttr(), isReverse ? ops.getUnitAttr() : UnitAttr());
  node.graph.setShape(result, shape);
  node.result(0, node.transposed(result, order), type);
}

} // namespace

llvm::ArrayRef<OpRow> reductionOps() {
  static const OpRow rows[] = {
      {"", "ReduceSum", 1, reduce<Reduction::Sum>},
      {"", "ReduceMean", 1, reduce<Reduction::Mean>},
      {"", "ReduceMax", 1, reduce<Reduction::Max>},
      {"", "ReduceMin", 1, reduce<Reduction::Min>},
      {"", "ReduceProd", 1, reduce<Reduction::Prod>},
      {"", "ReduceSumSquare", 1, reduce<Reduction::SumSquare>},
      {"", "ReduceL1", 1, reduce<Reduction::L1>},
      {"", "ReduceL2", 1, reduce<Reduction::L2>},
      {"", "ReduceLogSum", 1, reduce<Reduction::LogSum>},
      {"", "ReduceLogSumExp", 1, reduce<Reduction::LogSumExp>},
      {"", "ArgMax", 1, argument<true>},
      {"", "ArgMin", 1, argument<false>},
      {"", "CumSum", 11, cumulate<false>},
      {"", "CumProd", 26, cumulate<true>},
  };
  return rows;
}

} // namespace intarsia::onnx
