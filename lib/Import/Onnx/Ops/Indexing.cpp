//===- Indexing.cpp - Elements by indices that are data -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Selection.h"
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Counts.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns an index of data as one from 0 on: indices below 0 count from the end.
Value fromFront(OpBuilder &b, Location at, Value index, OpFoldResult whole) {
  Value size = getValueOrCreateConstantIndexOp(b, at, whole);
  if (index.getType() != b.getIndexType())
    index = arith::IndexCastOp::create(b, at, b.getIndexType(), index);
  Value zero = arith::ConstantIndexOp::create(b, at, 0);
  Value isNegative = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, index, zero);
  return arith::SelectOp::create(b, at, isNegative, arith::AddIOp::create(b, at, index, size), index);
}

/// Returns indices as indices from the front: negative ones count from the end of the dimension. Indices that are known
/// and not negative are returned as they are.
Value withoutNegative(NodeContext &node, size_t input, const Size &size) {
  Value indices = node.tensor(input);
  DataType type = node.typeOf(input);
  const Elements *known = node.graph.elementsOf(node.input(input));
  if (known && llvm::all_of(known->values, [](const Element &e) { return !e.isNumber() || e.integer >= 0; }))
    return indices;
  OpFoldResult whole = node.ir().size(size);
  return node.broadcast({indices}, node.irType(type), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value limit = arith::IndexCastOp::create(b, at, v[0].getType(), getValueOrCreateConstantIndexOp(b, at, whole));
    Value zero = arith::ConstantOp::create(b, at, b.getIntegerAttr(v[0].getType(), 0));
    Value isNegative = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, v[0], zero);
    return arith::SelectOp::create(b, at, isNegative, arith::AddIOp::create(b, at, v[0], limit), v[0]);
  });
}

/// Refuses known indices that are not in a dimension of known size.
bool areInside(NodeContext &node, const Elements *indices, llvm::StringRef input, unsigned dimension,
               const Shape &shape) {
  const Size &size = shape[dimension];
  if (indices && !size.isDynamic())
    for (const Element &index : indices->values)
      if (index.isInteger() && (index.integer < -size.value || index.integer >= size.value))
        node.refuse("index " + llvm::Twine(index.integer) + " is not in dimension " + llvm::Twine(dimension) +
                    " of input '" + input + "', which has " + llvm::Twine(size.value) + " elements");
  return !node.isRefused();
}

void gather(NodeContext &node) {
  Value data = node.tensor(0), indices = node.tensor(1);
  DataType type = node.typeOf(0);
  Shape from = node.graph.shapeOf(node.at, data), which = node.graph.shapeOf(node.at, indices);
  int64_t axis = node.axis(node.integer("axis", 0), from.size());
  if (node.isRefused() || !node.isOf(1, isIndex, "int32 or int64"))
    return;
  const Elements *known = node.graph.elementsOf(node.input(1));
  if (!areInside(node, known, "data", axis, from))
    return;
  if (known && known->values.size() == 1 && known->values[0].isInteger() && !from[axis].isDynamic()) {
    // The result of one known index is a slice.
    int64_t index = known->values[0].integer;
    index += index < 0 ? from[axis].value : 0;
    Value part = node.sliced(data, axis, index, 1);
    Shape shape(from.begin(), from.begin() + axis);
    shape.append(which);
    shape.append(from.begin() + axis + 1, from.end());
    return node.result(node.reshaped(part, shape));
  }
  if (isComputedByNn(type) && axis == 0 && from.size() == 2 && isConstant(data) && !from[0].isDynamic()) {
    Value result = node.ir().embedding(node.at, data, withoutNegative(node, 1, from[0]), node.irType(type));
    which.push_back(from[1]);
    node.graph.setShape(result, which);
    return node.result(result);
  }
  Shape shape(from.begin(), from.begin() + axis);
  shape.append(which);
  shape.append(from.begin() + axis + 1, from.end());
  llvm::SmallVector<unsigned, 4> dims;
  for (unsigned dimension = 0; dimension < which.size(); ++dimension)
    dims.push_back(axis + dimension);
  OpFoldResult size = node.ir().size(from[axis]);
  Value result = node.ir().elementwise(node.at, node.irType(type), shape, {{indices, dims}},
                                       [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                         llvm::SmallVector<Value> position;
                                         for (unsigned dimension = 0; dimension < shape.size(); ++dimension) {
                                           if (int64_t(dimension) == axis)
                                             position.push_back(fromFront(b, at, v[0], size));
                                           if (int64_t(dimension) < axis || dimension >= axis + which.size())
                                             position.push_back(linalg::IndexOp::create(b, at, dimension));
                                         }
                                         if (position.size() < from.size())
                                           position.push_back(fromFront(b, at, v[0], size));
                                         return tensor::ExtractOp::create(b, at, data, position);
                                       });
  node.graph.setShape(result, shape);
  node.result(result);
}

void gatherElements(NodeContext &node) {
  Value data = node.tensor(0), indices = node.tensor(1);
  Shape from = node.graph.shapeOf(node.at, data), shape = node.graph.shapeOf(node.at, indices);
  int64_t axis = node.axis(node.integer("axis", 0), from.size());
  if (from.size() != shape.size())
    node.refuse("'data' and 'indices' have " + llvm::Twine(from.size()) + " and " + llvm::Twine(shape.size()) +
                " dimensions");
  if (node.isRefused() || !node.isOf(1, isIndex, "int32 or int64") ||
      !areInside(node, node.graph.elementsOf(node.input(1)), "data", axis, from))
    return;
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  OpFoldResult size = node.ir().size(from[axis]);
  Value result = node.ir().elementwise(node.at, tensorType(data).getElementType(), shape, {{indices, all}},
                                       [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                         llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
                                         position[axis] = fromFront(b, at, v[0], size);
                                         return tensor::ExtractOp::create(b, at, data, position);
                                       });
  node.graph.setShape(result, shape);
  node.result(result);
}

/// Returns the columns of an index tensor [positions…, depth], each [positions…].
llvm::SmallVector<Value> columnsOf(NodeContext &node, Value indices, int64_t depth) {
  llvm::SmallVector<Value> columns;
  Shape shape = node.graph.shapeOf(node.at, indices), without(shape.begin(), shape.end() - 1);
  for (int64_t column = 0; column < depth; ++column)
    columns.push_back(node.reshaped(node.sliced(indices, shape.size() - 1, column, 1), without));
  return columns;
}

void gatherNd(NodeContext &node) {
  Value data = node.tensor(0), indices = node.tensor(1);
  Shape from = node.graph.shapeOf(node.at, data), which = node.graph.shapeOf(node.at, indices);
  int64_t batch = node.integer("batch_dims", 0);
  if (which.empty() || which.back().isDynamic() || batch < 0 || batch >= int64_t(which.size()) ||
      which.back().value < 1 || batch + which.back().value > int64_t(from.size()))
    node.refuse("'indices' and 'batch_dims' do not go with the data");
  if (node.isRefused() || !node.isOf(1, isIndex, "int32 or int64"))
    return;
  for (unsigned dimension = 0; dimension < batch; ++dimension)
    if (!requireEqual(node, dimensionOf("indices", dimension, which), dimensionOf("data", dimension, from)))
      return;
  int64_t depth = which.back().value;
  Shape positions(which.begin(), which.end() - 1), shape = positions;
  shape.append(from.begin() + batch + depth, from.end());
  auto dims = llvm::to_vector<4>(llvm::seq<unsigned>(0, positions.size()));
  llvm::SmallVector<importer::Operand> operands;
  for (Value column : columnsOf(node, indices, depth))
    operands.push_back({column, dims});
  llvm::SmallVector<OpFoldResult> sizes;
  for (const Size &size : from)
    sizes.push_back(node.ir().size(size));
  Value result =
      node.ir().elementwise(node.at, tensorType(data).getElementType(), shape, operands,
                            [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                              llvm::SmallVector<Value> position;
                              for (int64_t dimension = 0; dimension < batch; ++dimension)
                                position.push_back(linalg::IndexOp::create(b, at, dimension));
                              for (int64_t column = 0; column < depth; ++column)
                                position.push_back(fromFront(b, at, v[column], sizes[batch + column]));
                              for (size_t dimension = positions.size(); dimension < shape.size(); ++dimension)
                                position.push_back(linalg::IndexOp::create(b, at, dimension));
                              return tensor::ExtractOp::create(b, at, data, position);
                            });
  node.graph.setShape(result, shape);
  node.result(result);
}

/// Converts the operands of a scatter of the IR, which has neither bools nor integers without a sign: integers with a
/// sign stand for them.
class Scattered {
public:
  Scattered(NodeContext &node, nn::ScatterKind kind)
      : node(node), type(node.typeOf(0)), hasOtherSign(isUnsigned(type) && !isBool(type) &&
                                                       (kind == nn::ScatterKind::Min || kind == nn::ScatterKind::Max)) {
  }

  Value encode(Value tensor) {
    return isBool(type)   ? node.cast(tensor, type, DataType::Int32)
           : hasOtherSign ? withOtherSign(node, tensor)
                          : tensor;
  }
  Value decode(Value tensor) {
    return isBool(type)   ? node.cast(tensor, DataType::Int32, type)
           : hasOtherSign ? withOtherSign(node, tensor)
                          : tensor;
  }

private:
  NodeContext &node;
  DataType type;
  bool hasOtherSign;
};

std::optional<nn::ScatterKind> scatterKind(NodeContext &node) {
  llvm::StringRef text = node.text("reduction", "none");
  std::optional<nn::ScatterKind> kind = nn::symbolizeScatterKind(text == "none" ? "set" : text);
  if (!kind)
    node.refuse("attribute 'reduction' is '" + text + "', must be none, add, mul, min or max");
  return kind;
}

void scatterElements(NodeContext &node) {
  Value data = node.tensor(0), updates = node.tensor(2);
  Shape from = node.graph.shapeOf(node.at, data), which = node.shapeOf(1);
  int64_t axis = node.axis(node.integer("axis", 0), from.size());
  auto kind = scatterKind(node);
  if (node.isRefused() || !node.isOf(1, isIndex, "int32 or int64") || !node.areOneType({0, 2}))
    return;
  if (which.size() != from.size() || tensorType(updates).getRank() != int64_t(from.size()))
    return node.refuse("'data', 'indices' and 'updates' have different numbers of dimensions");
  Shape ofUpdates = node.graph.shapeOf(node.at, updates);
  for (unsigned dimension = 0; dimension < which.size(); ++dimension)
    if (!requireEqual(node, dimensionOf("updates", dimension, ofUpdates), dimensionOf("indices", dimension, which)))
      return;
  // The op is over the part of the data that updates reach; the rest of the other dimensions stays as it is.
  Value indices = withoutNegative(node, 1, from[axis]), part = data;
  for (auto [dimension, size] : llvm::enumerate(from)) {
    if (int64_t(dimension) == axis || node.graph.areEqual(size, which[dimension]))
      continue;
    if (!size.isDynamic() && !which[dimension].isDynamic() && which[dimension].value > size.value)
      return node.refuse("'indices' are larger than 'data' in dimension " + llvm::Twine(dimension));
    part = node.sliced(part, dimension, 0, which[dimension]);
  }
  Shape shape = node.graph.shapeOf(node.at, part);
  Scattered scattered(node, *kind);
  Value encoded = scattered.encode(part);
  Value result = nn::ScatterOp::create(node.ops(), node.at, encoded.getType(), encoded, indices,
                                       scattered.encode(updates), *kind, axis);
  node.graph.setShape(result, shape);
  result = scattered.decode(result);
  if (part != data) {
    llvm::SmallVector<OpFoldResult> zeros(from.size(), node.ops().getIndexAttr(0)), sizes,
        ones(from.size(), node.ops().getIndexAttr(1));
    for (const Size &size : shape)
      sizes.push_back(node.ir().size(size));
    result = tensor::InsertSliceOp::create(node.ops(), node.at, result, data, zeros, sizes, ones);
    node.graph.setShape(result, from);
  }
  node.result(result);
}

void scatterNd(NodeContext &node) {
  Value data = node.tensor(0), indices = node.tensor(1), updates = node.tensor(2);
  Shape from = node.graph.shapeOf(node.at, data), which = node.graph.shapeOf(node.at, indices);
  auto kind = scatterKind(node);
  // The number of coordinates of an index follows from the dimensions of the updates; calls with another one end with
  // an error.
  if (!which.empty() && which.back().isDynamic()) {
    which.back() = int64_t(which.size() + from.size()) - 1 - tensorType(updates).getRank();
    if (which.back().value >= 1)
      indices = node.reshaped(indices, which);
  }
  if (which.empty() || which.back().isDynamic() || which.back().value < 1 || which.back().value > int64_t(from.size()))
    node.refuse("'indices' do not go with the data");
  if (node.isRefused() || !node.isOf(1, isIndex, "int32 or int64") || !node.areOneType({0, 2}))
    return;
  int64_t depth = which.back().value;
  Size count = node.product(llvm::ArrayRef(which).drop_back());
  Shape slices{count};
  slices.append(from.begin() + depth, from.end());
  Value rows = node.reshaped(updates, slices), flat = node.reshaped(indices, {count, Size(depth)});
  llvm::SmallVector<Value> columns;
  for (auto [number, column] : llvm::enumerate(columnsOf(node, flat, depth))) {
    OpFoldResult size = node.ir().size(from[number]);
    columns.push_back(node.broadcast(
        {column}, tensorType(column).getElementType(), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
          return arith::IndexCastOp::create(b, at, v[0].getType(), fromFront(b, at, v[0], size));
        }));
  }
  Scattered scattered(node, *kind);
  Value encoded = scattered.encode(data);
  Value result =
      nn::ScatterNdOp::create(node.ops(), node.at, encoded.getType(), encoded, columns, scattered.encode(rows), *kind);
  node.graph.setShape(result, from);
  node.result(scattered.decode(result));
}

void oneHot(NodeContext &node) {
  Value indices = node.tensor(0), values = node.tensor(2);
  DataType type = node.typeOf(2), from = node.typeOf(0);
  const Elements *depth = node.elements(1, "depth");
  Shape shape = node.graph.shapeOf(node.at, indices);
  int64_t axis = node.axis(node.integer("axis", -1), shape.size() + 1);
  if (node.isRefused() || depth->values.size() != 1 || tensorType(values).getRank() != 1)
    return node.refuse("'depth' is no number, or 'values' are not two");
  auto count = Size(depth->values[0].isReal() ? Size(integerOf(depth->values[0].real)) : depth->values[0].asSize());
  if (!depth->values[0].isSize() && (count.isDynamic() || count.value < 1))
    return node.refuse("'depth' is not positive");
  if (!tensorType(values).hasStaticShape() || tensorType(values).getDimSize(0) != 2)
    return node.refuse("'values' are not two");
  llvm::SmallVector<unsigned, 4> dims;
  for (unsigned dimension = 0; dimension <= shape.size(); ++dimension)
    if (dimension != axis)
      dims.push_back(dimension);
  shape.insert(shape.begin() + axis, count);
  if (!node.isCounted(shape))
    return;
  OpFoldResult size = node.ir().size(count);
  Value off = node.reshaped(node.sliced(values, 0, 0, 1), {}), on = node.reshaped(node.sliced(values, 0, 1, 1), {});
  Value whole = node.cast(indices, from, DataType::Int64);
  Value result = node.ir().elementwise(node.at, node.irType(type), shape, {{whole, dims}, {off, {}}, {on, {}}},
                                       [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                         Value index = fromFront(b, at, v[0], size);
                                         Value isIt = arith::CmpIOp::create(b, at, arith::CmpIPredicate::eq, index,
                                                                            linalg::IndexOp::create(b, at, axis));
                                         return arith::SelectOp::create(b, at, isIt, v[2], v[1]);
                                       });
  node.graph.setShape(result, shape);
  node.result(0, result, type);
}

/// Returns how many elements a TopK gives, which may be a size of the call, or a number that it computes.
std::optional<Size> numberOfTop(NodeContext &node) {
  if (!node.has(1) || node.graph.elementsOf(node.input(1))) {
    std::optional<Shape> known = sizesOf(node, 1, "K");
    if (known && known->size() != 1)
      node.refuse("input 'K' is not one number");
    return node.isRefused() ? std::nullopt : std::optional(known->front());
  }
  Value count = node.tensor(1);
  auto type = tensorType(count);
  if (node.typeOf(1) != DataType::Int64 || type.getRank() > 1 || (type.getRank() == 1 && type.getDimSize(0) != 1))
    node.refuse("input 'K' is not one number of type int64");
  if (node.isRefused() || !isOutsideOfBranches(node))
    return std::nullopt;
  return importer::sizeOfCount(node.ir(), node.at, node.reshaped(count, {}));
}

void topK(NodeContext &node) {
  Value data = node.tensor(0);
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, data);
  int64_t axis = node.axis(node.integer("axis", -1), shape.size());
  std::optional<Size> wanted = node.version >= 10 ? numberOfTop(node) : Size(node.integer("k", -1));
  bool isLargest = node.integer("largest", 1) != 0;
  if (!wanted || node.isRefused())
    return;
  if (!wanted->isDynamic() && (wanted->value < 0 || (!shape[axis].isDynamic() && wanted->value > shape[axis].value)))
    return node.refuse("'K' is " + llvm::Twine(wanted->value) + ", of a dimension of " +
                       llvm::Twine(shape[axis].isDynamic() ? 0 : shape[axis].value));
  if (!node.isOf(0, isNumber, "numbers"))
    return;
  const Size before = shape[axis];
  shape[axis] = *wanted;
  OpBuilder &ops = node.ops();
  if (isUnsigned(type))
    data = withOtherSign(node, data);
  Value values, indices;
  if (wanted->isDynamic()) {
    // All elements are sorted, and the first ones are taken. A call that has fewer ends with an error.
    auto sorted = nn::SortOp::create(ops, node.at, data, axis, isLargest);
    Shape all = shape;
    all[axis] = before;
    node.graph.setShape(sorted.getValues(), all);
    node.graph.setShape(sorted.getIndices(), all);
    values = node.sliced(sorted.getValues(), axis, 0, *wanted);
    indices = node.sliced(sorted.getIndices(), axis, 0, *wanted);
  } else {
    auto top = nn::TopKOp::create(ops, node.at, node.ir().tensorType(shape, node.irType(type)),
                                  node.ir().tensorType(shape, ops.getI64Type()), data, ops.getI64IntegerAttr(axis),
                                  ops.getI64IntegerAttr(wanted->value), isLargest ? UnitAttr() : ops.getUnitAttr());
    values = top.getValues();
    indices = top.getIndices();
    node.graph.setShape(values, shape);
    node.graph.setShape(indices, shape);
  }
  node.result(0, isUnsigned(type) ? withOtherSign(node, values) : values, type);
  node.result(1, indices, DataType::Int64);
}

} // namespace

llvm::ArrayRef<OpRow> indexingOps() {
  static const OpRow rows[] = {
      {"", "Gather", 1, gather},
      {"", "GatherElements", 11, gatherElements},
      {"", "GatherND", 11, gatherNd},
      {"", "Scatter", 9, scatterElements},
      {"", "ScatterElements", 11, scatterElements},
      {"", "ScatterND", 11, scatterNd},
      {"", "OneHot", 9, oneHot},
      {"", "TopK", 1, topK},
  };
  return rows;
}

} // namespace intarsia::onnx
