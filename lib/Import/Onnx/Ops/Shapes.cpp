//===- Shapes.cpp - Shapes of tensors, parts of them, constants ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {

std::optional<Shape> sizesOf(NodeContext &node, size_t input, llvm::StringRef name) {
  const Elements *elements = node.elements(input, name);
  if (!elements || !node.isOf(input, [](DataType type) { return !isSmall(type); }, "integers"))
    return std::nullopt;
  Shape shape;
  for (const Element &element : elements->values) {
    if (element.isReal()) {
      node.refuse("input '" + name + "' has elements that are no integers");
      return std::nullopt;
    }
    // The number that stands for a size of the call is no size.
    if (element.isInteger() && ShapedType::isDynamic(element.integer)) {
      node.refuse("input '" + name + "' has the element " + llvm::Twine(element.integer));
      return std::nullopt;
    }
    shape.push_back(element.asSize());
  }
  return shape;
}

namespace {

/// Returns the axes of a node, from an input or before `since` from an attribute; none if it has none.
std::optional<llvm::SmallVector<int64_t>> axesOf(NodeContext &node, size_t input, int64_t since) {
  if (node.version < since)
    return node.integers("axes");
  return node.has(input) ? node.integers(input, "axes") : std::nullopt;
}

//===-- Shapes ------------------------------------------------------------------------------------------------===//

/// Divides the product of sizes by others: equal ones cancel, so that a size of the call need not be divided.
Size divided(NodeContext &node, Shape sizes, Shape by) {
  for (Size &divisor : by)
    for (Size &size : sizes)
      if (divisor.isDynamic() && node.graph.areEqual(size, divisor)) {
        size = 1;
        divisor = 1;
        break;
      }
  auto tooLarge = [&]() -> Size {
    node.refuse("a shape has more elements than 64 bits count");
    return 1;
  };
  // Numbers apart from sizes of the call.
  int64_t number = 1, divisor = 1;
  Shape rest, restOfDivisors;
  for (const Size &size : sizes) {
    if (size.isDynamic())
      rest.push_back(size);
    else if (llvm::MulOverflow(number, size.value, number))
      return tooLarge();
  }
  for (const Size &size : by) {
    if (size.isDynamic())
      restOfDivisors.push_back(size);
    else if (llvm::MulOverflow(divisor, size.value, divisor))
      return tooLarge();
  }
  if (divisor == 0)
    return 0;
  if (restOfDivisors.empty() && number % divisor == 0) {
    rest.push_back(number / divisor);
    return node.product(rest);
  }
  if (rest.empty() && restOfDivisors.empty()) {
    node.refuse("a tensor of " + llvm::Twine(number) + " elements has no shape with the wanted dimensions");
    return 1;
  }
  rest.push_back(number);
  restOfDivisors.push_back(divisor);
  return node.compute(SizeOp::Divide, node.product(rest), node.product(restOfDivisors));
}

void reshape(NodeContext &node) {
  Value data = node.tensor(0);
  std::optional<Shape> shape;
  if (node.version >= 5)
    shape = sizesOf(node, 1, "shape");
  else if (auto sizes = node.integers("shape"))
    shape = Shape(sizes->begin(), sizes->end());
  if (node.isRefused() || !shape)
    return node.refuse("has no shape");
  Shape before = node.graph.shapeOf(node.at, data);
  bool keepsZeros = node.integer("allowzero", 0) != 0;
  std::optional<size_t> rest;
  if (keepsZeros && llvm::any_of(*shape, [](const Size &size) { return !size.isDynamic() && size.value == 0; }) &&
      llvm::any_of(*shape, [](const Size &size) { return !size.isDynamic() && size.value == -1; }))
    return node.refuse(
        "'shape' has dimensions of 0 and of -1, which do not go together with the attribute 'allowzero'");
  for (auto [number, size] : llvm::enumerate(*shape)) {
    if (!size.isDynamic() && size.value == 0 && !keepsZeros) {
      if (number >= before.size())
        return node.refuse("'shape' copies dimension " + llvm::Twine(number) + " of a tensor of " +
                           llvm::Twine(before.size()));
      size = before[number];
    }
    if (size.isDynamic() || size.value >= 0)
      continue;
    if (size.value != -1 || rest)
      return node.refuse("'shape' has " +
                         (size.value == -1 ? "two dimensions of -1" : "a dimension of " + std::to_string(size.value)));
    rest = number;
  }
  if (rest) {
    Shape others = *shape;
    others.erase(others.begin() + *rest);
    (*shape)[*rest] = divided(node, before, others);
    if (node.isRefused())
      return;
  }
  if (isStatic(before) && isStatic(*shape) && node.product(before).value != node.product(*shape).value)
    return node.refuse("a tensor of " + llvm::Twine(node.product(before).value) + " elements has no shape of " +
                       llvm::Twine(node.product(*shape).value));
  if (!node.isRefused())
    node.result(node.reshaped(data, *shape));
}

void flatten(NodeContext &node) {
  Value data = node.tensor(0);
  Shape shape = node.graph.shapeOf(node.at, data);
  int64_t rank = shape.size(), axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return node.refuse("'axis' is " + llvm::Twine(axis) + ", of a tensor of " + llvm::Twine(rank) + " dimensions");
  axis += axis < 0 ? rank : 0;
  llvm::ArrayRef<Size> sizes = shape;
  if (!node.isRefused())
    node.result(node.reshaped(data, {node.product(sizes.take_front(axis)), node.product(sizes.drop_front(axis))}));
}

void transpose(NodeContext &node) {
  Value data = node.tensor(0);
  int64_t rank = tensorType(data).getRank();
  auto permutation = node.integers("perm");
  if (!permutation)
    permutation = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, rank)));
  llvm::SmallVector<int64_t> sorted(*permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, rank)))
    return node.refuse("attribute 'perm' is no permutation of " + llvm::Twine(rank) + " dimensions");
  if (!node.isRefused())
    node.result(node.transposed(data, *permutation));
}

void unsqueeze(NodeContext &node) {
  Value data = node.tensor(0);
  auto axes = axesOf(node, 1, 13);
  if (node.isRefused() || !axes)
    return node.refuse("has no axes");
  Shape before = node.graph.shapeOf(node.at, data), shape;
  auto rank = int64_t(before.size() + axes->size());
  llvm::SmallVector<bool> isNew(rank, false);
  for (int64_t axis : node.axes(*axes, rank))
    isNew[axis] = true;
  if (node.isRefused())
    return;
  size_t next = 0;
  for (bool inserted : isNew)
    shape.push_back(inserted ? Size(1) : before[next++]);
  node.result(node.reshaped(data, shape));
}

void squeeze(NodeContext &node) {
  Value data = node.tensor(0);
  auto axes = axesOf(node, 1, 13);
  if (node.isRefused())
    return;
  Shape before = node.graph.shapeOf(node.at, data), shape;
  if (!axes && !isStatic(before))
    return node.refuse("'axes' must be given where sizes depend on the call");
  llvm::SmallVector<bool> isGone(before.size(), false);
  for (auto [number, size] : llvm::enumerate(before))
    isGone[number] = !axes && !size.isDynamic() && size.value == 1;
  if (axes)
    for (int64_t dimension : node.axes(*axes, before.size())) {
      if (!before[dimension].isDynamic() && before[dimension].value != 1)
        return node.refuse("dimension " + llvm::Twine(dimension) + " has " + llvm::Twine(before[dimension].value) +
                           " elements, not one");
      isGone[dimension] = true;
    }
  if (node.isRefused())
    return;
  for (auto [gone, size] : llvm::zip_equal(isGone, before))
    if (!gone)
      shape.push_back(size);
  node.result(node.reshaped(data, shape));
}

/// Expands: the wanted shape and the tensor's own are broadcast.
void expand(NodeContext &node) {
  Value data = node.tensor(0);
  std::optional<Shape> wanted = sizesOf(node, 1, "shape");
  if (node.isRefused() || !wanted)
    return;
  for (const Size &size : *wanted)
    if (!size.isDynamic() && size.value < 0)
      return node.refuse("'shape' has a dimension of " + llvm::Twine(size.value));
  if (std::optional<Shape> shape = node.broadcastShape({node.graph.shapeOf(node.at, data), *wanted}))
    node.result(node.broadcastTo(data, *shape));
}

void tile(NodeContext &node) {
  Value data = node.tensor(0);
  auto repeats = node.integers(1, "repeats");
  if (node.isRefused() || !repeats)
    return;
  Shape before = node.graph.shapeOf(node.at, data);
  if (repeats->size() != before.size() || llvm::any_of(*repeats, [](int64_t count) { return count < 0; }))
    return node.refuse("'repeats' has " + llvm::Twine(repeats->size()) + " numbers, of a tensor of " +
                       llvm::Twine(before.size()) + " dimensions, or a negative one");
  // [a, b] becomes [r, a, s, b], all of a and b repeated, and these are two dimensions again.
  Shape split, whole;
  importer::Operand operand{data, {}};
  for (auto [size, count] : llvm::zip_equal(before, *repeats)) {
    if (count != 1)
      split.push_back(count);
    operand.dims.push_back(split.size());
    split.push_back(size);
    whole.push_back(node.product({Size(count), size}));
  }
  if (!node.isCounted(split))
    return;
  Value repeated = node.ir().elementwise(node.at, tensorType(data).getElementType(), split, {operand},
                                         [](OpBuilder &, Location, ValueRange v) { return v[0]; });
  node.graph.setShape(repeated, split);
  node.result(node.reshaped(repeated, whole));
}

//===-- Parts -------------------------------------------------------------------------------------------------===//

void concat(NodeContext &node) {
  llvm::SmallVector<Value> values;
  for (size_t number = 0; number < node.inputCount(); ++number)
    values.push_back(node.tensor(number));
  if (values.empty())
    return node.refuse("has no inputs");
  if (!node.areOneType(llvm::to_vector(llvm::seq<size_t>(0, node.inputCount()))))
    return;
  int64_t axis = node.axis(node.integer("axis", node.version < 4 ? 1 : 0), tensorType(values.front()).getRank());
  if (node.isRefused())
    return;
  if (std::optional<Value> result = node.joined(values, axis))
    node.result(*result);
}

/// Returns the sizes of parts of one size, the last of which is smaller where the whole is no multiple (version 18).
Shape equalParts(NodeContext &node, const Size &whole, int64_t count) {
  Shape sizes;
  Size part = node.compute(node.version < 18 ? SizeOp::Divide : SizeOp::DivideUp, whole, count);
  for (int64_t number = 0; number < count; ++number) {
    if (whole.isDynamic()) {
      bool isRest = node.version >= 18 && number + 1 == count && count > 1;
      Size others = isRest ? node.compute(SizeOp::Multiply, part, count - 1) : Size(0);
      sizes.push_back(isRest ? node.compute(SizeOp::Subtract, whole, others) : part);
    } else {
      part = int64_t(llvm::divideCeil(whole.value, count));
      sizes.push_back(std::max<int64_t>(0, std::min(part.value, whole.value - number * part.value)));
    }
  }
  return sizes;
}

void split(NodeContext &node) {
  Value data = node.tensor(0);
  Shape shape = node.graph.shapeOf(node.at, data);
  int64_t axis = node.axis(node.integer("axis", 0), shape.size());
  std::optional<Shape> sizes;
  if (node.version >= 13 && node.has(1))
    sizes = sizesOf(node, 1, "split");
  else if (auto given = node.version < 13 ? node.integers("split") : std::nullopt)
    sizes = Shape(given->begin(), given->end());
  if (node.isRefused())
    return;
  auto count = int64_t(node.outputCount());
  if (count == 0)
    return node.refuse("has no outputs");
  const Size &whole = shape[axis];
  bool areGiven = sizes.has_value();
  if (!sizes) {
    if (node.version >= 18 && node.integer("num_outputs", count) != count)
      return node.refuse("'num_outputs' is " + llvm::Twine(node.integer("num_outputs", count)) + ", there are " +
                         llvm::Twine(count));
    sizes = equalParts(node, whole, count);
  }
  int64_t sum = 0;
  bool isDivision = int64_t(sizes->size()) == count, isKnown = !whole.isDynamic();
  for (const Size &size : *sizes) {
    isKnown &= !size.isDynamic();
    isDivision &= size.isDynamic() || (size.value >= 0 && !llvm::AddOverflow(sum, size.value, sum));
  }
  if (!isDivision || (isKnown && sum != whole.value))
    return node.refuse("'split' is no division of dimension " + llvm::Twine(axis));
  Size total = 0;
  for (const Size &size : *sizes)
    total = node.compute(SizeOp::Add, total, size);
  if (areGiven && !requireEqual(node, dimensionOf("input", axis, shape), {total, "the sum of 'split'"}))
    return;
  // Parts of a list that is known, as of a shape, are known too.
  const Elements *known = node.graph.elementsOf(node.input(0));
  bool isFollowed = known && known->shape.size() == 1 && isStatic(*sizes);
  Size begin = 0;
  for (auto [number, size] : llvm::enumerate(*sizes)) {
    if (node.isWanted(number) && isFollowed) {
      auto first = known->values.begin() + begin.value;
      GraphValue part;
      part.type = node.typeOf(0);
      part.elements =
          std::make_shared<Elements>(Elements{{size.value}, std::vector<Element>(first, first + size.value)});
      node.result(number, std::move(part));
    } else if (node.isWanted(number)) {
      node.result(number, node.sliced(data, axis, begin, size), node.typeOf(0));
    }
    begin = node.compute(SizeOp::Add, begin, size);
  }
}

/// Which elements of an axis a slice has.
struct Range {
  Size begin, length;
};

/// Returns the range of a slice: elements counted from behind if they are negative, clamped. A dimension whose size
/// depends on the call has an element, and a call is held to having those that a slice forwards begins and ends at.
/// None is returned, and the node refused, for a slice backwards that would have to be clamped in the call.
std::optional<Range> rangeOf(NodeContext &node, const Element &first, const Element &last, const Size &size,
                             bool isForward) {
  // Exporters write it for what has no end; tf2onnx the least of them.
  constexpr int64_t far = 1'000'000'000;
  int64_t high = isForward ? 0 : -1;
  bool isBegun = first.isInteger() && (first.integer >= far || first.integer == -1);
  bool isEnded = last.isInteger() && (last.integer <= -far || last.integer == 0);
  if (!isForward && size.isDynamic() && !(isBegun && isEnded)) {
    node.refuse("a slice backwards begins or ends inside of a dimension whose size depends on the call");
    return std::nullopt;
  }
  auto bound = [&](const Element &given, int64_t low) -> Size {
    if (given.isSize())
      return given.size;
    int64_t at = given.integer;
    if (!size.isDynamic())
      return std::clamp(at < 0 ? std::max(at, -size.value - 1) + size.value : at, low, size.value + high);
    if (at >= far)
      return isForward ? size : node.compute(SizeOp::Add, size, high);
    if (at <= -far)
      return Size(low);
    return at >= 0 ? Size(at) : node.compute(SizeOp::Add, size, at);
  };
  Size begin = bound(first, 0), end = bound(last, isForward ? 0 : -1);
  bool areComparable = first.isInteger() && last.isInteger() && (first.integer < 0) == (last.integer < 0);
  if (isForward && size.isDynamic() && areComparable && last.integer <= first.integer)
    return Range{begin, 0};
  Size length = isForward ? node.compute(SizeOp::Subtract, end, begin) : node.compute(SizeOp::Subtract, begin, end);
  return Range{begin, length.isDynamic() ? length : Size(std::max<int64_t>(0, length.value))};
}

void slice(NodeContext &node) {
  Value data = node.tensor(0);
  bool hasInputs = node.version >= 10;
  auto elementsOf = [&](size_t input, llvm::StringRef name) -> std::optional<std::vector<Element>> {
    if (hasInputs) {
      const Elements *elements = node.elements(input, name);
      if (elements && llvm::any_of(elements->values, [](const Element &each) { return each.isReal(); }))
        node.refuse("input '" + name + "' has elements that are no integers");
      return elements ? std::optional(elements->values) : std::nullopt;
    }
    auto integers = node.integers(name);
    return integers ? std::optional(std::vector<Element>(integers->begin(), integers->end())) : std::nullopt;
  };
  auto starts = elementsOf(1, "starts"), ends = elementsOf(2, "ends");
  std::optional<llvm::SmallVector<int64_t>> axes, steps;
  if (!hasInputs)
    axes = node.integers("axes");
  else if (node.has(3))
    axes = node.integers(3, "axes");
  if (hasInputs && node.has(4))
    steps = node.integers(4, "steps");
  if (node.isRefused())
    return;
  if (!starts || !ends || starts->size() != ends->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size()))
    return node.refuse("'starts', 'ends', 'axes' and 'steps' have different numbers of elements");
  int64_t rank = tensorType(data).getRank();
  axes = node.axes(axes.value_or(llvm::to_vector(llvm::seq<int64_t>(0, starts->size()))), rank);
  if (node.isRefused())
    return;
  for (size_t number = 0; number < starts->size(); ++number) {
    int64_t axis = (*axes)[number];
    int64_t step = steps ? (*steps)[number] : 1;
    if (step == 0 || step < std::numeric_limits<int32_t>::min())
      return node.refuse("'steps' has a step of " + llvm::Twine(step));
    step = std::min<int64_t>(step, std::numeric_limits<int32_t>::max());
    Size size = node.graph.shapeOf(node.at, data)[axis];
    bool isForward = step > 0;
    if (!size.isDynamic() && size.value == 0)
      continue;
    std::optional<Range> range = rangeOf(node, (*starts)[number], (*ends)[number], size, isForward);
    if (!range)
      return;
    auto [begin, length] = *range;
    Size count = std::abs(step) == 1 ? length : node.compute(SizeOp::DivideUp, length, std::abs(step));
    if (!begin.isDynamic() && begin.value == 0 && step == 1 && node.graph.areEqual(count, size))
      continue;
    data = node.sliced(data, axis, begin, count, step);
  }
  node.result(data);
}

/// Returns an element as an attribute of a type. Integers of 64 bits are not numbers of f64 on the way.
TypedAttr attributeOf(NodeContext &node, const Element &element, DataType type) {
  Type stored = node.irType(type);
  if (element.isReal() || isa<FloatType>(stored))
    return node.numberAttribute(type, element.number());
  return node.ops().getIntegerAttr(stored,
                                   llvm::APInt(64, uint64_t(element.integer)).trunc(stored.getIntOrFloatBitWidth()));
}

/// Pad, by a number, or by elements of the tensor.
void pad(NodeContext &node) {
  Value data = node.tensor(0);
  int64_t rank = tensorType(data).getRank();
  DataType type = node.typeOf(0);
  std::optional<Shape> pads;
  if (node.version >= 11)
    pads = sizesOf(node, 1, "pads");
  else if (auto given = node.integers("pads"))
    pads = Shape(given->begin(), given->end());
  llvm::StringRef mode = node.text("mode", "constant");
  auto kind = nn::symbolizePadKind(mode);
  if (!kind)
    return node.refuse("attribute 'mode' is '" + mode + "', must be constant, reflect, edge or wrap");
  Element value = node.version >= 11 ? Element(0) : Element::ofReal(node.number("value", 0));
  if (node.version >= 11 && node.has(2)) {
    const Elements *known = node.areOneType({0, 2}) ? node.elements(2, "constant_value") : nullptr;
    if (known && (known->values.size() != 1 || known->values[0].isSize()))
      return node.refuse("input 'constant_value' is not one number that is known to the compiler");
    value = known ? known->values[0] : value;
  }
  llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (node.version >= 18 && node.has(3))
    if (auto given = node.integers(3, "axes"))
      axes = node.axes(*given, rank);
  if (node.isRefused())
    return;
  if (!pads || pads->size() != 2 * axes.size())
    return node.refuse("'pads' has " + llvm::Twine(pads ? pads->size() : 0) + " numbers, must have two for each axis");
  if (llvm::any_of(*pads, [](const Size &pad) { return !pad.isDynamic() && isLong(pad.value); }))
    return node.refuse("'pads' has a number of more than 32 bits");
  Shape low(rank, 0), high(rank, 0);
  for (auto [number, axis] : llvm::enumerate(axes)) {
    low[axis] = (*pads)[number];
    high[axis] = (*pads)[axes.size() + number];
  }
  Shape shape = node.graph.shapeOf(node.at, data);
  bool isInCall = !isStatic(low) || !isStatic(high);
  if (isInCall && (*kind == nn::PadKind::Reflect || *kind == nn::PadKind::Wrap))
    return node.refuse("input 'pads' depends on sizes of the call, and must be known to the compiler");
  for (auto [number, size] : llvm::enumerate(shape)) {
    auto isNegative = [](const Size &pad) { return !pad.isDynamic() && pad.value < 0; };
    if (*kind != nn::PadKind::Constant && (isNegative(low[number]) || isNegative(high[number])))
      return node.refuse("'pads' has a negative number, which goes with the mode constant only");
    auto isZero = [](const Size &size) { return !size.isDynamic() && size.value == 0; };
    if (*kind != nn::PadKind::Constant && isZero(size) && !(isZero(low[number]) && isZero(high[number])))
      return node.refuse("dimension " + llvm::Twine(number) + " has no elements to pad with");
    size = node.compute(SizeOp::Add, size, node.compute(SizeOp::Add, low[number], high[number]));
    if (!size.isDynamic() && size.value < 0)
      return node.refuse("'pads' leave less than nothing of dimension " + llvm::Twine(number));
  }
  if (node.isRefused() || !node.isCounted(shape))
    return;
  bool isConstant = *kind == nn::PadKind::Constant, isZero = value.isReal() ? value.real == 0 : value.integer == 0;
  if (isInCall)
    return node.result(paddedInCall(node, data, low, high, *kind, attributeOf(node, value, type)));
  llvm::SmallVector<int64_t> numbersLow, numbersHigh;
  for (auto [before, after] : llvm::zip_equal(low, high)) {
    numbersLow.push_back(before.value);
    numbersHigh.push_back(after.value);
  }
  if (type == DataType::Bool && isConstant) {
    // Bits are bytes while they are moved.
    data = node.cast(data, type, DataType::Uint8);
    type = DataType::Uint8;
  }
  Value result = nn::PadOp::create(node.ops(), node.at, node.ir().tensorType(shape, tensorType(data).getElementType()),
                                   data, *kind, numbersLow, numbersHigh,
                                   isConstant && !isZero ? attributeOf(node, value, type) : TypedAttr());
  node.graph.setShape(result, shape);
  node.result(0, node.cast(result, type, node.typeOf(0)), node.typeOf(0));
}

//===-- Blocks of images --------------------------------------------------------------------------------------===//

/// The square of a block is a number of channels.
constexpr int64_t largestBlock = std::numeric_limits<int32_t>::max();

void depthToSpace(NodeContext &node) {
  Value data = node.tensor(0);
  int64_t block = node.integer("blocksize", 0);
  llvm::StringRef mode = node.text("mode", "DCR");
  Shape shape = node.graph.shapeOf(node.at, data);
  if (node.isRefused() || shape.size() != 4 || block < 1 || block > largestBlock ||
      (!shape[1].isDynamic() && shape[1].value % (block * block) != 0) || (mode != "DCR" && mode != "CRD"))
    return node.refuse("'blocksize' and 'mode' do not go with the input");
  Size channels = node.compute(SizeOp::Divide, shape[1], block * block);
  bool isDepthFirst = mode == "DCR";
  Shape split = isDepthFirst ? Shape{shape[0], block, block, channels, shape[2], shape[3]}
                             : Shape{shape[0], channels, block, block, shape[2], shape[3]};
  Value blocks = node.reshaped(data, split);
  Value turned = node.transposed(blocks, isDepthFirst ? llvm::ArrayRef<int64_t>{0, 3, 4, 1, 5, 2}
                                                      : llvm::ArrayRef<int64_t>{0, 1, 4, 2, 5, 3});
  node.result(
      node.reshaped(turned, {shape[0], channels, node.product({shape[2], block}), node.product({shape[3], block})}));
}

void spaceToDepth(NodeContext &node) {
  Value data = node.tensor(0);
  int64_t block = node.integer("blocksize", 0);
  llvm::StringRef mode = node.text("mode", "DCR");
  Shape shape = node.graph.shapeOf(node.at, data);
  auto isDivided = [&](const Size &size) { return size.isDynamic() || size.value % block == 0; };
  if (node.isRefused() || shape.size() != 4 || block < 1 || block > largestBlock || !isDivided(shape[2]) ||
      !isDivided(shape[3]) || (mode != "DCR" && mode != "CRD"))
    return node.refuse("'blocksize' and 'mode' do not go with the input");
  Size height = node.compute(SizeOp::Divide, shape[2], block), width = node.compute(SizeOp::Divide, shape[3], block);
  Value blocks = node.reshaped(data, {shape[0], shape[1], height, block, width, block});
  Value turned = node.transposed(blocks, mode == "DCR" ? llvm::ArrayRef<int64_t>{0, 3, 5, 1, 2, 4}
                                                       : llvm::ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  node.result(node.reshaped(turned, {shape[0], node.product({shape[1], Size(block * block)}), height, width}));
}

/// Shape and Size: always folded.
void shapeOp(NodeContext &node) { node.refuse("has no input"); }

} // namespace

llvm::ArrayRef<OpRow> shapeOps() {
  static const OpRow rows[] = {
      {"", "Reshape", 1, reshape, Takes::Elements},
      {"", "Flatten", 1, flatten, Takes::Elements},
      {"", "Transpose", 1, transpose, Takes::Elements},
      {"", "Unsqueeze", 1, unsqueeze, Takes::Elements},
      {"", "Squeeze", 1, squeeze, Takes::Elements},
      {"", "Expand", 8, expand},
      {"", "Tile", 6, tile},
      {"", "Concat", 1, concat},
      {"", "Split", 2, split},
      {"", "Slice", 1, slice},
      {"", "Pad", 2, pad, Takes::Elements},
      {"", "DepthToSpace", 1, depthToSpace},
      {"", "SpaceToDepth", 1, spaceToDepth},
      {"", "Shape", 1, shapeOp, Takes::Elements},
      {"", "Size", 1, shapeOp, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
