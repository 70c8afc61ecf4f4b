//===- NodeTensors.cpp - What functions of ops build tensors with -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/NodeContext.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {

/// Returns "[2, ?, 4]".
static std::string textOf(const Shape &shape) {
  std::string text = "[";
  for (const Size &size : shape)
    text += (text.size() > 1 ? ", " : "") + (size.isDynamic() ? "?" : std::to_string(size.value));
  return text + "]";
}

bool isConstant(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (isa<arith::ConstantOp, nn::WeightOp, nn::DequantizeOp>(op))
      return true;
    if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, linalg::TransposeOp>(op))
      return false;
    tensor = op->getOperand(0);
  }
  return false;
}

TypedAttr NodeContext::numberAttribute(DataType type, double value) {
  Type element = irType(type);
  if (isa<FloatType>(element))
    return ops().getFloatAttr(element, value);
  return ops().getIntegerAttr(element, integerOf(value));
}

Size NodeContext::product(llvm::ArrayRef<Size> sizes) {
  Size result = 1;
  for (const Size &size : sizes) {
    bool isOne = !result.isDynamic() && result.value == 1;
    result = isOne                                  ? size
             : !size.isDynamic() && size.value == 1 ? result
                                                    : compute(importer::SizeOp::Multiply, result, size);
  }
  return result;
}

std::optional<Shape> NodeContext::broadcastShape(llvm::ArrayRef<Shape> shapes) {
  size_t rank = 0;
  for (const Shape &shape : shapes)
    rank = std::max(rank, shape.size());
  Shape result(rank, 1);
  for (const Shape &shape : shapes)
    for (auto [number, size] : llvm::enumerate(shape)) {
      Size &whole = result[rank - shape.size() + number];
      bool isOne = !size.isDynamic() && size.value == 1;
      if (isOne || graph.areEqual(size, whole))
        continue;
      if (!whole.isDynamic() && !size.isDynamic() && whole.value != 1) {
        refuse("shapes " + textOf(shapes.front()) + " and " + textOf(shape) + " do not go together");
        return std::nullopt;
      }
      // Of a size of the call and a number, which the call is held to, the number says more.
      if (whole.isDynamic() ? !size.isDynamic() : whole.value == 1)
        whole = size;
    }
  return isCounted(result) ? std::optional(result) : std::nullopt;
}

bool NodeContext::isBroadcastTo(Value tensor, const Shape &shape, llvm::StringRef name) {
  Shape own = graph.shapeOf(at, tensor);
  bool fits = own.size() <= shape.size();
  for (const auto &[size, whole] : llvm::zip(llvm::reverse(own), llvm::reverse(shape))) {
    // A call is held to sizes of its own that meet others, but not to 1.
    bool isOne = !size.isDynamic() && size.value == 1;
    fits &= isOne || whole.isDynamic() || (size.isDynamic() ? whole.value != 1 : size.value == whole.value);
  }
  if (!fits)
    refuse("input '" + name + "' has the shape " + textOf(own) + ", which is not broadcast to " + textOf(shape));
  return !refused;
}

/// Returns a tensor without dimensions, all of one element.
static Value withoutDimensions(NodeContext &node, Value tensor, llvm::ArrayRef<bool> isDropped) {
  if (llvm::none_of(isDropped, [](bool dropped) { return dropped; }))
    return tensor;
  Shape shape = node.graph.shapeOf(node.at, tensor), kept;
  llvm::SmallVector<ReassociationIndices> groups;
  ReassociationIndices leading;
  for (auto [dimension, dropped] : llvm::enumerate(isDropped)) {
    if (dropped && groups.empty()) {
      leading.push_back(dimension);
    } else if (dropped) {
      groups.back().push_back(dimension);
    } else {
      groups.emplace_back(std::move(leading)).push_back(dimension);
      leading.clear();
      kept.push_back(shape[dimension]);
    }
  }
  Value result = node.ir().collapseShape(node.at, tensor, groups);
  node.graph.setShape(result, kept);
  return result;
}

Value NodeContext::broadcast(llvm::ArrayRef<Value> tensors, Type element, Body body) {
  llvm::SmallVector<Shape> shapes;
  for (Value tensor : tensors)
    shapes.push_back(graph.shapeOf(at, tensor));
  std::optional<Shape> shape = broadcastShape(shapes);
  if (!shape)
    return tensors.front();
  llvm::SmallVector<importer::Operand> operands;
  for (auto [tensor, sizes] : llvm::zip_equal(tensors, shapes)) {
    llvm::SmallVector<bool> isDropped;
    importer::Operand operand;
    for (auto [number, size] : llvm::enumerate(sizes)) {
      unsigned dimension = shape->size() - sizes.size() + number;
      const Size &whole = (*shape)[dimension];
      bool isOne = !size.isDynamic() && size.value == 1, wholeIsOne = !whole.isDynamic() && whole.value == 1;
      isDropped.push_back(isOne && !wholeIsOne);
      if (!isDropped.back())
        operand.dims.push_back(dimension);
    }
    operand.value = withoutDimensions(*this, tensor, isDropped);
    operands.push_back(operand);
  }
  Value result = ir().elementwise(at, element, *shape, operands, body);
  graph.setShape(result, *shape);
  return result;
}

Value NodeContext::broadcastTo(Value tensor, const Shape &shape) {
  Shape from = graph.shapeOf(at, tensor);
  if (from.size() == shape.size() && llvm::all_of(llvm::zip_equal(from, shape), [&](auto pair) {
        return graph.areEqual(std::get<0>(pair), std::get<1>(pair));
      }))
    return tensor;
  llvm::SmallVector<bool> isDropped;
  importer::Operand operand;
  for (auto [number, size] : llvm::enumerate(from)) {
    isDropped.push_back(!size.isDynamic() && size.value == 1);
    if (!isDropped.back())
      operand.dims.push_back(shape.size() - from.size() + number);
  }
  operand.value = withoutDimensions(*this, tensor, isDropped);
  Value result = ir().elementwise(at, tensorType(tensor).getElementType(), shape, {operand},
                                  [](OpBuilder &, Location, ValueRange values) { return values[0]; });
  graph.setShape(result, shape);
  return result;
}

std::optional<Value> NodeContext::joined(llvm::ArrayRef<Value> tensors, int64_t axis) {
  Shape shape = graph.shapeOf(at, tensors.front());
  for (Value tensor : tensors.drop_front()) {
    Shape other = graph.shapeOf(at, tensor);
    if (other.size() != shape.size()) {
      refuse("inputs have " + llvm::Twine(shape.size()) + " and " + llvm::Twine(other.size()) + " dimensions");
      return std::nullopt;
    }
    for (auto [number, sizes] : llvm::enumerate(llvm::zip_equal(shape, other))) {
      auto &[one, second] = sizes;
      if (int64_t(number) == axis)
        continue;
      if (!one.isDynamic() && !second.isDynamic() && one.value != second.value) {
        refuse("inputs have sizes " + llvm::Twine(one.value) + " and " + llvm::Twine(second.value) + " in dimension " +
               llvm::Twine(number));
        return std::nullopt;
      }
      if (one.isDynamic() && !second.isDynamic())
        one = second;
    }
    shape[axis] = compute(importer::SizeOp::Add, shape[axis], other[axis]);
  }
  if (tensors.size() > 1)
    for (Value tensor : tensors)
      graph.allowEmpty(tensor, axis);
  Value result = ir().concat(at, tensors, axis);
  graph.setShape(result, shape);
  return result;
}

Value NodeContext::transposed(Value tensor, llvm::ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return tensor;
  Shape before = graph.shapeOf(at, tensor), shape;
  for (int64_t dimension : permutation)
    shape.push_back(before[dimension]);
  Value result = ir().transpose(at, tensor, shape, permutation);
  graph.setShape(result, shape);
  return result;
}

Value NodeContext::reshaped(Value tensor, const Shape &shape) {
  Shape before = graph.shapeOf(at, tensor);
  auto build = [&](Value result, const Shape &sizes) {
    graph.setShape(result, sizes);
    return result;
  };
  if (isStatic(before) && isStatic(shape)) {
    llvm::SmallVector<int64_t> sizes;
    for (const Size &size : shape)
      sizes.push_back(size.value);
    return ir().reshape(at, tensor, sizes);
  }
  // Dimensions at both ends that stay do so by themselves; those between are made one, and divided.
  size_t front = 0, back = 0, most = std::min(before.size(), shape.size());
  while (front < most && graph.areEqual(before[front], shape[front]))
    ++front;
  while (back < most - front && graph.areEqual(before[before.size() - 1 - back], shape[shape.size() - 1 - back]))
    ++back;
  if (front == before.size() && front == shape.size())
    return tensor;
  // A group needs a dimension on both sides.
  if (before.size() == front + back || shape.size() == front + back) {
    if (back > 0)
      --back;
    else if (front > 0)
      --front;
  }
  auto groupsOf = [&](size_t rank) {
    llvm::SmallVector<ReassociationIndices> groups;
    for (size_t dimension = 0; dimension < rank; ++dimension) {
      if (dimension > front && dimension < rank - back)
        groups.back().push_back(dimension);
      else
        groups.push_back({int64_t(dimension)});
    }
    return groups;
  };
  Shape middle(before.begin(), before.begin() + front);
  if (before.size() > front + back)
    middle.push_back(product(llvm::ArrayRef(before).drop_front(front).drop_back(back)));
  middle.append(before.end() - back, before.end());
  Value flat = tensor;
  if (before.size() > front + back + 1)
    flat = build(ir().collapseShape(at, tensor, groupsOf(before.size())), middle);
  // The elements between may be known by their number on one side, and by a size of the call on the other.
  Shape wanted = middle;
  if (before.size() > front + back) {
    llvm::ArrayRef<Size> parts = llvm::ArrayRef(shape).drop_front(front).drop_back(back);
    wanted[front] = isStatic(parts) ? product(parts) : parts.size() == 1 ? parts.front() : middle[front];
    auto type = tensorType(flat);
    llvm::SmallVector<int64_t> sizes(type.getShape());
    sizes[front] = isStatic(parts) ? wanted[front].value : ShapedType::kDynamic;
    if (type.getShape() != llvm::ArrayRef(sizes))
      flat =
          build(tensor::CastOp::create(ops(), at, RankedTensorType::get(sizes, type.getElementType()), flat), wanted);
  }
  if (shape.size() == front + back + 1)
    return build(flat, shape);
  if (shape.empty())
    return build(ir().collapseShape(at, flat, {}), shape);
  if (middle.empty())
    return build(ir().expandShape(at, flat, shape, {}), shape);
  return build(ir().expandShape(at, flat, shape, groupsOf(shape.size())), shape);
}

Value NodeContext::sliced(Value tensor, int64_t axis, const Size &begin, const Size &count, int64_t step) {
  Shape shape = graph.shapeOf(at, tensor), result = shape;
  result[axis] = count;
  if (llvm::any_of(result, [](const Size &size) { return !size.isDynamic() && size.value == 0; }))
    return filled(result, cast<TypedAttr>(ops().getZeroAttr(tensorType(tensor).getElementType())));
  if (step > 0) {
    Shape offsets(shape.size(), 0);
    offsets[axis] = begin;
    llvm::SmallVector<OpFoldResult> steps(shape.size(), ops().getIndexAttr(1)), from, counts;
    steps[axis] = ops().getIndexAttr(step);
    for (auto [offset, size] : llvm::zip_equal(offsets, result)) {
      from.push_back(ir().size(offset));
      counts.push_back(ir().size(size));
    }
    auto type = ir().tensorType(result, tensorType(tensor).getElementType());
    Value slice = tensor::ExtractSliceOp::create(ops(), at, type, tensor, from, counts, steps);
    graph.setShape(slice, result);
    return slice;
  }
  // Backwards: each element reads the one that lies so many steps before the first.
  OpFoldResult first = ir().size(begin);
  Value slice = ir().elementwise(at, tensorType(tensor).getElementType(), result, {},
                                 [&](OpBuilder &inner, Location loc, ValueRange) -> Value {
                                   llvm::SmallVector<Value> indices;
                                   for (unsigned dimension = 0; dimension < result.size(); ++dimension)
                                     indices.push_back(linalg::IndexOp::create(inner, loc, dimension));
                                   Value start = getValueOrCreateConstantIndexOp(inner, loc, first);
                                   Value steps = arith::ConstantIndexOp::create(inner, loc, -step);
                                   Value back = arith::MulIOp::create(inner, loc, indices[axis], steps);
                                   indices[axis] = arith::SubIOp::create(inner, loc, start, back);
                                   return tensor::ExtractOp::create(inner, loc, tensor, indices);
                                 });
  graph.setShape(slice, result);
  return slice;
}

Value toInteger(OpBuilder &b, Location at, Value real, Type integer, bool isUnsigned) {
  // A conversion of a number that the type does not have is undefined, so it is clamped before.
  unsigned bits = integer.getIntOrFloatBitWidth();
  auto type = cast<FloatType>(real.getType());
  llvm::APFloat end(type.getFloatSemantics()), least(type.getFloatSemantics());
  llvm::APInt power = llvm::APInt(bits + 1, 1) << (isUnsigned ? bits : bits - 1);
  end.convertFromAPInt(power, /*IsSigned=*/false, llvm::APFloat::rmTowardZero);
  llvm::APFloat most = end; // infinity of f16 is clamped to the largest one
  most.next(/*nextDown=*/true);
  if (!isUnsigned) {
    least = end;
    least.changeSign();
  }
  auto constant = [&](const llvm::APFloat &number) -> Value {
    return arith::ConstantOp::create(b, at, b.getFloatAttr(type, number));
  };
  Value clamped =
      arith::MinNumFOp::create(b, at, arith::MaxNumFOp::create(b, at, real, constant(least)), constant(most));
  Value whole = isUnsigned ? Value(arith::FPToUIOp::create(b, at, integer, clamped))
                           : Value(arith::FPToSIOp::create(b, at, integer, clamped));
  llvm::APInt largest = isUnsigned ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits);
  Value isLarge = arith::CmpFOp::create(b, at, arith::CmpFPredicate::OGT, real, constant(most));
  whole = arith::SelectOp::create(b, at, isLarge, arith::ConstantOp::create(b, at, b.getIntegerAttr(integer, largest)),
                                  whole);
  Value isNan = arith::CmpFOp::create(b, at, arith::CmpFPredicate::UNO, real, real);
  return arith::SelectOp::create(b, at, isNan, arith::ConstantOp::create(b, at, b.getIntegerAttr(integer, 0)), whole);
}

Value clampedInteger(OpBuilder &b, Location at, Value whole, DataType to, Type element) {
  unsigned bits = bitsOf(to);
  double low = isUnsigned(to) ? 0 : -double(1ll << (bits - 1));
  double high = isUnsigned(to) ? double((1ll << bits) - 1) : double((1ll << (bits - 1)) - 1);
  Value least = importer::floatConstant(b, at, whole.getType(), low);
  Value most = importer::floatConstant(b, at, whole.getType(), high);
  Value clamped = arith::MinNumFOp::create(b, at, arith::MaxNumFOp::create(b, at, whole, least), most);
  return arith::TruncIOp::create(b, at, element, arith::FPToSIOp::create(b, at, b.getI32Type(), clamped));
}

/// Converts an element; integers wrap, floats that an integer type does not have are clamped to 32 or 64 bits first.
static Value convert(OpBuilder &b, Location loc, Value value, DataType from, DataType to, Type type) {
  Type source = value.getType();
  if (to == DataType::Bool) {
    if (isFloat(from)) {
      Value zero = importer::floatConstant(b, loc, source, 0);
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, value, zero);
    }
    Value zero = arith::ConstantOp::create(b, loc, b.getIntegerAttr(source, 0));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  unsigned before = source.getIntOrFloatBitWidth(), after = type.getIntOrFloatBitWidth();
  if (isFloat(from) && isFloat(to)) {
    if (before < after)
      return arith::ExtFOp::create(b, loc, type, value);
    // The two halves have as many bits.
    if (before == after && source != type)
      value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
    if (before == 64 && after < 32)
      value = narrowToOdd(b, loc, value);
    return value.getType() == type ? value : Value(arith::TruncFOp::create(b, loc, type, value));
  }
  if (isFloat(to))
    return isUnsigned(from) ? Value(arith::UIToFPOp::create(b, loc, type, value))
                            : Value(arith::SIToFPOp::create(b, loc, type, value));
  if (isFloat(from)) {
    if (isUnsigned(to) && after == 64)
      return toInteger(b, loc, value, type, /*isUnsigned=*/true);
    // Of integers with a sign that are wide enough, so that what is below 0 wraps.
    Type wide = after < 32 ? b.getI32Type() : b.getI64Type();
    Value integer = toInteger(b, loc, value, wide, /*isUnsigned=*/false);
    return wide == type ? integer : Value(arith::TruncIOp::create(b, loc, type, integer));
  }
  if (before == after)
    return value;
  if (before > after)
    return arith::TruncIOp::create(b, loc, type, value);
  return isUnsigned(from) ? Value(arith::ExtUIOp::create(b, loc, type, value))
                          : Value(arith::ExtSIOp::create(b, loc, type, value));
}

/// Returns a number as f32; one that f32 does not hold so that rounding it again gives what rounding the number gives.
static Value toSingle(OpBuilder &b, Location loc, Value value, DataType from) {
  bool isWide = isNumber(from) && !isComputedByNn(from) && bitsOf(from) > 16;
  if (!isWide)
    return from == DataType::Float ? value : convert(b, loc, value, from, DataType::Float, b.getF32Type());
  if (from != DataType::Double)
    value = convert(b, loc, value, from, DataType::Double, b.getF64Type());
  return narrowToOdd(b, loc, value);
}

Value NodeContext::cast(Value tensor, DataType from, DataType to, const SmallRounding &rounding) {
  Type type = irType(to);
  if (!type) {
    refuse("elements of type " + nameOf(to) + " are not computed");
    return tensor;
  }
  bool areSmall = isSmall(from) || isSmall(to);
  if (from == to || (!areSmall && irType(from) == type && !isFloat(from) && to != DataType::Bool))
    return tensor;
  return broadcast({tensor}, type, [&](OpBuilder &b, Location loc, ValueRange values) -> Value {
    Value value = values[0];
    DataType held = from;
    auto byteOf = [](DataType small) { return isUnsigned(small) ? DataType::Uint8 : DataType::Int8; };
    if (isSmallFloat(from)) {
      value = decodeSmallFloat(b, loc, value, from);
      held = DataType::Float;
    } else if (isSmallInteger(from)) {
      value = wrapSmallInteger(b, loc, value, from);
      held = byteOf(from);
    }
    if (isSmallFloat(to))
      return encodeSmallFloat(b, loc, toSingle(b, loc, value, held), to, rounding);
    if (!isSmallInteger(to))
      return convert(b, loc, value, held, to, type);
    return wrapSmallInteger(b, loc, convert(b, loc, value, held, byteOf(to), type), to);
  });
}

Value NodeContext::filled(const Shape &wanted, TypedAttr value) {
  // A node that is refused goes on with what has the right type.
  Shape shape = isTooLarge(wanted) ? Shape() : wanted;
  isCounted(wanted);
  auto type = ir().tensorType(shape, value.getType());
  if (type.hasStaticShape())
    return arith::ConstantOp::create(ops(), at, DenseElementsAttr::get(type, mlir::Attribute(value)));
  Value constant = arith::ConstantOp::create(ops(), at, value);
  Value result = linalg::FillOp::create(ops(), at, constant, ir().empty(at, shape, value.getType())).getResult(0);
  graph.setShape(result, shape);
  return result;
}

} // namespace intarsia::onnx
