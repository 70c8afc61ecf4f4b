//===- Selection.cpp - Results whose size a call computes ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Selection.h"

#include "dialects/Interfaces/ReferenceBuilder.h"
#include <numeric>

using namespace mlir;

namespace intarsia::importer {

using reference::Integer;
using reference::ReferenceBuilder;
using reference::ScalarBuilder;

static RankedTensorType typeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()); }

Size sizeOfCount(ModuleBuilder &graph, Location at, Value count) {
  OpBuilder &builder = graph.getBuilder();
  Value number = tensor::ExtractOp::create(builder, at, count, ValueRange());
  return Size(arith::IndexCastOp::create(builder, at, builder.getIndexType(), number).getResult());
}

/// The first `size` rows.
static Value firstRows(ModuleBuilder &graph, Location at, Value tensor, const Size &size) {
  Shape zeros(typeOf(tensor).getRank(), 0), shape = graph.shapeOf(at, tensor);
  shape[0] = size;
  return graph.part(at, tensor, zeros, shape, shape);
}

/// A column of a matrix.
static Value column(ModuleBuilder &graph, Location at, Value tensor, int64_t number) {
  Size rows = graph.sizeOf(at, tensor, 0);
  if (rows.value == 0)
    return graph.empty(at, {0}, typeOf(tensor).getElementType());
  return graph.part(at, tensor, {0, number}, {rows, 1}, {rows});
}

/// All elements as a row.
static Value flattened(ModuleBuilder &graph, Location at, Value tensor) {
  int64_t rank = typeOf(tensor).getRank();
  if (rank == 0)
    return graph.expandShape(at, tensor, {1}, {});
  if (rank == 1)
    return tensor;
  ReassociationIndices all(rank);
  std::iota(all.begin(), all.end(), 0);
  return graph.collapseShape(at, tensor, {all});
}

Value nonzero(ModuleBuilder &graph, Location at, Value input) {
  auto found = nn::NonzeroOp::create(graph.getBuilder(), at, input);
  if (typeOf(found.getIndices()).getDimSize(0) == 0) // all that there may be
    return found.getIndices();
  return firstRows(graph, at, found.getIndices(), sizeOfCount(graph, at, found.getCount()));
}

/// The slices along an axis at indices [count], which are inside.
static Value taken(ModuleBuilder &graph, Location at, Value input, Value indices, unsigned axis) {
  ReferenceBuilder builder(at, graph.getBuilder());
  auto sizes = builder.sizesOf(input);
  sizes[axis] = builder.sizesOf(indices)[0];
  unsigned rank = sizes.size();
  return builder.parallel(sizes, typeOf(input).getElementType(), {{indices, builder.map(rank, {axis})}},
                          [&](ScalarBuilder &b, ValueRange v) -> Value {
                            SmallVector<Value> place;
                            for (unsigned d = 0; d < rank; ++d)
                              place.push_back(d == axis ? b.toIndex(v[0]) : b.indexOf(d));
                            return tensor::ExtractOp::create(b, input, place);
                          });
}

Value compress(ModuleBuilder &graph, Location at, Value input, Value condition, std::optional<int64_t> axis) {
  if (!axis)
    input = flattened(graph, at, input);
  int64_t along = axis.value_or(0), size = typeOf(input).getDimSize(along);
  if (typeOf(condition).getRank() != 1) {
    graph.sink().report("a condition of rank " + llvm::Twine(typeOf(condition).getRank()) +
                        " selects slices, it must have rank 1");
    return input;
  }
  int64_t conditions = typeOf(condition).getDimSize(0);
  if (!ShapedType::isDynamic(size) && !ShapedType::isDynamic(conditions) && conditions > size) {
    graph.sink().report("a condition of " + llvm::Twine(conditions) + " elements selects slices, of which there are " +
                        llvm::Twine(size));
    return input;
  }
  if (size == 0) // there is nothing to choose from
    return input;
  if (ShapedType::isDynamic(size) || ShapedType::isDynamic(conditions)) {
    // Conditions behind the last slice, which sizes of the call may have, select nothing.
    ReferenceBuilder builder(at, graph.getBuilder());
    Value slices = getValueOrCreateConstantIndexOp(builder, at, builder.sizesOf(input)[along]);
    condition = builder.parallel(builder.sizesOf(condition), typeOf(condition).getElementType(),
                                 {{condition, builder.identity(1)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
                                   Value none = arith::ConstantOp::create(b, b.getZeroAttr(v[0].getType()));
                                   return b.select(b.indexOf(0) < Integer(b, slices), v[0], none);
                                 });
  }
  Value places = nonzero(graph, at, condition);
  return taken(graph, at, input, column(graph, at, places, 0), along);
}

namespace {
/// Slices in their order: how they were, and which of them differ from the one before.
struct Ordered {
  Value order, isNew;
};
} // namespace

/// True if two elements differ; NaN is equal to NaN.
static Value differ(ScalarBuilder &b, Value x, Value y) {
  if (!isa<FloatType>(x.getType()))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, x, y);
  Value bothNan = arith::AndIOp::create(b, b.isNan(x), b.isNan(y));
  Value areSame = arith::OrIOp::create(b, b.isEqual(x, y), bothNan);
  return arith::XOrIOp::create(b, areSame, arith::ConstantOp::create(b, b.getBoolAttr(true)));
}

/// Says of each place whether it is the first, or `differs` from the place before.
static Value buildIsNew(ReferenceBuilder &builder, OpFoldResult size,
                        llvm::function_ref<Value(ScalarBuilder &, Integer, Integer)> differs) {
  return builder.parallel({size}, builder.getI1Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
    Integer here = b.indexOf(0), isFirst = here == Integer(0);
    Integer before = choose(isFirst, here, here - 1);
    return arith::OrIOp::create(b, isFirst, differs(b, before, here));
  });
}

static Ordered orderElements(ReferenceBuilder &builder, Value elements) {
  auto sort = nn::SortOp::create(builder, elements, /*axis=*/0, /*descending=*/false);
  Value sorted = sort.getValues();
  auto read = [&](ScalarBuilder &b, Integer place) -> Value {
    return tensor::ExtractOp::create(b, sorted, Value(place));
  };
  Value isNew = buildIsNew(builder, builder.sizesOf(elements)[0],
                           [&](ScalarBuilder &b, Integer x, Integer y) { return differ(b, read(b, x), read(b, y)); });
  return {sort.getIndices(), isNew};
}

/// Where a permutation has each of its indices.
static Value inverted(ReferenceBuilder &builder, Value order) {
  // Integers of 32 bits are sorted faster.
  Value narrow = builder.parallel(
      builder.sizesOf(order), builder.getI32Type(), {{order, builder.identity(1)}},
      [](ScalarBuilder &b, ValueRange v) -> Value { return arith::TruncIOp::create(b, b.getI32Type(), v[0]); });
  return nn::SortOp::create(builder, narrow, /*axis=*/0, /*descending=*/false).getIndices();
}

/// Orders the rows of a matrix, of which an element decides if those before are equal.
static Ordered orderRows(ReferenceBuilder &builder, Value rows) {
  OpFoldResult size = builder.sizesOf(rows)[0];
  Type i8 = builder.getI8Type(), i32 = builder.getI32Type();
  auto number = [](ScalarBuilder &b, Type type, int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
  };
  // -1, 0 or 1: the row of the first loop is less than that of the second one, equal, or greater.
  Value compared = builder.fold(
      builder.filled({size, size}, builder.getI8IntegerAttr(0)), 1,
      {{rows, builder.map(3, {0, 2})}, {rows, builder.map(3, {1, 2})}}, [&](ScalarBuilder &b, ValueRange v) {
        Value isLess;
        if (isa<FloatType>(v[0].getType())) {
          Value isNumber = arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, v[0], v[0]);
          Value isBelow = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, v[0], v[1]);
          isLess = arith::OrIOp::create(b, isBelow, arith::AndIOp::create(b, isNumber, b.isNan(v[1])));
        } else {
          bool isBool = v[0].getType().isInteger(1);
          isLess = arith::CmpIOp::create(b, isBool ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt, v[0], v[1]);
        }
        Value order = b.select(isLess, number(b, i8, -1), number(b, i8, 1));
        order = b.select(differ(b, v[0], v[1]), order, number(b, i8, 0));
        Value isOpen = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, v[2], number(b, i8, 0));
        return b.select(isOpen, order, v[2]);
      });
  Value ranks =
      builder.fold(builder.filled({size}, builder.getI32IntegerAttr(0)), 1, {{compared, builder.identity(2)}},
                   [&](ScalarBuilder &b, ValueRange v) -> Value {
                     Value isAbove = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, v[0], number(b, i8, 0));
                     Value isSame = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, v[0], number(b, i8, 0));
                     Value isLater = b.indexOf(1) < b.indexOf(0);
                     Value isBehind = arith::OrIOp::create(b, isAbove, arith::AndIOp::create(b, isSame, isLater));
                     return arith::AddIOp::create(b, v[1], arith::ExtUIOp::create(b, i32, isBehind));
                   });
  Value order = nn::SortOp::create(builder, ranks, /*axis=*/0, /*descending=*/false).getIndices();
  Value isNew = buildIsNew(builder, size, [&](ScalarBuilder &b, Integer x, Integer y) -> Value {
    SmallVector<Value> pair;
    for (Integer place : {x, y})
      pair.push_back(b.toIndex(tensor::ExtractOp::create(b, order, Value(place))));
    Value read = tensor::ExtractOp::create(b, compared, pair);
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, read, number(b, i8, 0));
  });
  return {order, isNew};
}

Unique unique(ModuleBuilder &graph, Location at, Value input, std::optional<int64_t> axis, bool isSorted) {
  Value slices = axis ? input : flattened(graph, at, input);
  unsigned along = axis.value_or(0);
  ReferenceBuilder builder(at, graph.getBuilder());
  Type i64 = builder.getI64Type();
  Ordered ordered;
  if (typeOf(slices).getRank() == 1) {
    ordered = orderElements(builder, slices);
  } else {
    // The axis first, the others as one.
    SmallVector<int64_t> permutation = {int64_t(along)};
    Shape shape = {graph.sizeOf(at, slices, along)};
    ReassociationIndices rest;
    for (int64_t d = 0; d < typeOf(slices).getRank(); ++d)
      if (d != along) {
        rest.push_back(int64_t(permutation.size()));
        permutation.push_back(d);
        shape.push_back(graph.sizeOf(at, slices, d));
      }
    Value rows = along == 0 ? slices : graph.transpose(at, slices, shape, permutation);
    if (rest.size() > 1)
      rows = graph.collapseShape(at, rows, {{0}, rest});
    ordered = orderRows(builder, rows);
  }
  OpFoldResult size = builder.sizesOf(ordered.order)[0];
  Value numbers =
      builder.parallel({size}, i64, {{ordered.isNew, builder.identity(1)}},
                       [&](ScalarBuilder &b, ValueRange v) -> Value { return arith::ExtUIOp::create(b, i64, v[0]); });
  numbers = nn::CumulateOp::create(builder, numbers.getType(), numbers, vector::CombiningKind::ADD,
                                   /*exclusive=*/false, /*reverse=*/false);
  Value inverse = taken(graph, at, numbers, inverted(builder, ordered.order), 0);
  inverse = builder.parallel({size}, i64, {{inverse, builder.identity(1)}},
                             [](ScalarBuilder &b, ValueRange v) -> Value { return Integer(b, v[0]) - 1; });

  Value starts = column(graph, at, nonzero(graph, at, ordered.isNew), 0);
  OpFoldResult count = builder.sizesOf(starts)[0];
  Value first = taken(graph, at, ordered.order, starts, 0);
  Value end = getValueOrCreateConstantIndexOp(builder, at, size),
        last = getValueOrCreateConstantIndexOp(builder, at, count);
  Value counts = builder.parallel({count}, i64, {{starts, builder.identity(1)}}, [&](ScalarBuilder &b, ValueRange v) {
    Integer next = b.indexOf(0) + 1, isThere = next < Integer(b, last);
    Value read = tensor::ExtractOp::create(b, starts, Value(choose(isThere, next, b.indexOf(0))));
    Value behind = choose(isThere, b.toIndex(read), Integer(b, end));
    return Value(Integer(b, arith::IndexCastOp::create(b, i64, behind)) - Integer(b, v[0]));
  });
  if (!isSorted) {
    auto sort = nn::SortOp::create(builder, first, /*axis=*/0, /*descending=*/false);
    first = sort.getValues();
    counts = taken(graph, at, counts, sort.getIndices(), 0);
    inverse = taken(graph, at, inverted(builder, sort.getIndices()), inverse, 0);
  }
  return {taken(graph, at, slices, first, along), first, inverse, counts};
}

} // namespace intarsia::importer
