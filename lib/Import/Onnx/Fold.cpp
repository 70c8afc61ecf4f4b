//===- Fold.cpp - What shapes are computed by, followed as elements -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models compute shapes by ops on small tensors of integers: Shape, Gather, Concat, Reshape. Import follows the
// elements of such tensors, some of which are sizes of the call, so that the shapes of the IR are known.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"
#include "lib/Import/Onnx/SizeElements.h"

#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {
namespace {

int64_t countOf(llvm::ArrayRef<int64_t> shape) {
  // The others may be too many to be multiplied.
  if (llvm::is_contained(shape, 0))
    return 0;
  int64_t count = 1;
  for (int64_t size : shape)
    if (llvm::MulOverflow(count, size, count))
      return mostElements + 1;
  return count;
}

/// Calls `visit` with each index of a shape, row-major.
template <typename Visit> void forEachIndex(llvm::ArrayRef<int64_t> shape, Visit visit) {
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t number = 0, count = countOf(shape); number < count; ++number) {
    visit(index);
    for (size_t dimension = shape.size(); dimension-- > 0;) {
      if (++index[dimension] < shape[dimension])
        break;
      index[dimension] = 0;
    }
  }
}

int64_t positionOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    position = position * size + i;
  return position;
}

/// True for elements that an integer of 64 bits with a sign holds too.
bool areBelowSign(const Elements &elements) {
  auto isBelow = [](const Element &e) { return e.isSize() || (e.isReal() ? e.real < 0x1p63 : e.integer >= 0); };
  return llvm::all_of(elements.values, isBelow);
}

/// Folds one node. Functions return nullopt for what is not followed.
class Folder {
public:
  Folder(NodeContext &node) : node(node), op(node.node.op.data(), node.node.op.size()) {}
  bool run();

private:
  using Result = std::optional<Elements>;

  Result fold();
  Result foldElementwise();
  Result foldShape();
  Result constantOfShape();
  Result range();
  Result gather();
  Result concat();
  Result slice();
  Result reshape();
  Result unsqueeze();
  Result squeeze();
  Result transpose();
  Result expand();
  Result reduce();
  Result where();
  std::optional<Element> combine(const Element &left, const Element &right);
  std::optional<Element> change(const Element &element);
  /// True if two inputs have elements of one type; ops that are built refuse others.
  bool areOneType(size_t one, size_t other) { return node.typeOf(one) == node.typeOf(other); }
  /// Returns an input's elements if they are few and known.
  const Elements *known(size_t input);
  std::optional<llvm::SmallVector<int64_t>> numbers(size_t input);
  template <typename Compute> Result broadcast(llvm::ArrayRef<const Elements *> inputs, Compute compute);
  Result withShape(const Elements &elements, llvm::ArrayRef<int64_t> shape) {
    return Elements{llvm::SmallVector<int64_t>(shape), elements.values};
  }

  NodeContext &node;
  llvm::StringRef op;
  DataType type = DataType::Undefined; ///< of the result
};

const Elements *Folder::known(size_t number) {
  if (!node.has(number))
    return nullptr;
  const Elements *elements = node.graph.elementsOf(node.input(number));
  return elements && int64_t(elements->values.size()) <= mostElements ? elements : nullptr;
}

std::optional<llvm::SmallVector<int64_t>> Folder::numbers(size_t input) {
  const Elements *elements = known(input);
  if (!elements || isSmall(node.typeOf(input)))
    return std::nullopt;
  llvm::SmallVector<int64_t> result;
  for (const Element &element : elements->values) {
    if (!element.isInteger())
      return std::nullopt;
    result.push_back(element.integer);
  }
  return result;
}

template <typename Compute> Folder::Result Folder::broadcast(llvm::ArrayRef<const Elements *> inputs, Compute compute) {
  size_t rank = 0;
  for (const Elements *input : inputs)
    rank = std::max(rank, input->shape.size());
  Elements result{llvm::SmallVector<int64_t>(rank, 1), {}};
  for (const Elements *input : inputs)
    for (auto [number, size] : llvm::enumerate(input->shape)) {
      int64_t &whole = result.shape[rank - input->shape.size() + number];
      if (size != 1 && whole != 1 && size != whole)
        return std::nullopt;
      whole = size == 1 ? whole : size;
    }
  if (countOf(result.shape) > mostElements)
    return std::nullopt;
  bool isComplete = true;
  forEachIndex(result.shape, [&](llvm::ArrayRef<int64_t> index) {
    llvm::SmallVector<const Element *> operands;
    for (const Elements *input : inputs) {
      llvm::SmallVector<int64_t> own(index.take_back(input->shape.size()));
      for (auto [i, size] : llvm::zip_equal(own, input->shape))
        i = size == 1 ? 0 : i;
      operands.push_back(&input->values[positionOf(own, input->shape)]);
    }
    std::optional<Element> element = isComplete ? compute(operands) : std::nullopt;
    isComplete &= element.has_value();
    if (element)
      result.values.push_back(rounded(*element, type));
  });
  return isComplete ? Result(std::move(result)) : std::nullopt;
}

/// Returns what two elements that are numbers are combined to.
std::optional<double> combineReals(llvm::StringRef op, double left, double right) {
  if (op == "Add")
    return left + right;
  if (op == "Sub")
    return left - right;
  if (op == "Mul")
    return left * right;
  if (op == "Div")
    return left / right;
  if (op == "Pow")
    return std::pow(left, right);
  if (op == "Min" || op == "Max") {
    if (std::isnan(left) || std::isnan(right))
      return left + right;
    return op == "Min" ? std::min(left, right) : std::max(left, right);
  }
  return std::nullopt;
}

std::optional<bool> compare(llvm::StringRef op, const Element &left, const Element &right) {
  auto decide = [&](auto one, auto other) -> std::optional<bool> {
    if (op == "Equal")
      return one == other;
    if (op == "Less")
      return one < other;
    if (op == "Greater")
      return one > other;
    if (op == "LessOrEqual")
      return one <= other;
    if (op == "GreaterOrEqual")
      return one >= other;
    return std::nullopt;
  };
  if (left.isReal() || right.isReal())
    return decide(left.number(), right.number());
  return decide(left.integer, right.integer);
}

std::optional<Element> Folder::combine(const Element &left, const Element &right) {
  if (left.isNumber() && right.isNumber()) {
    if (std::optional<bool> answer = compare(op, left, right))
      return Element(int64_t(*answer));
    if (op == "And" || op == "Or" || op == "Xor") {
      bool one = left.integer != 0, other = right.integer != 0;
      return Element(int64_t(op == "And" ? one && other : op == "Or" ? one || other : one != other));
    }
    if (left.isReal() || right.isReal()) {
      std::optional<double> number = combineReals(op, left.number(), right.number());
      return number ? std::optional(Element::ofReal(*number)) : std::nullopt;
    }
    int64_t one = left.integer, other = right.integer;
    if (op == "Add")
      return Element(int64_t(uint64_t(one) + uint64_t(other)));
    if (op == "Sub")
      return Element(int64_t(uint64_t(one) - uint64_t(other)));
    if (op == "Mul")
      return Element(int64_t(uint64_t(one) * uint64_t(other)));
    if (op == "Min" || op == "Max")
      return Element((op == "Min") == (one < other) ? one : other);
    if ((op != "Div" && op != "Mod") || other == 0 || other == -1 || isUnsigned(type))
      return std::nullopt;
    if (op == "Div")
      return Element(one / other);
    int64_t rest = one % other;
    bool hasSignOfDividend = node.integer("fmod", 0) != 0;
    return Element(rest != 0 && !hasSignOfDividend && (rest < 0) != (other < 0) ? rest + other : rest);
  }
  return combineSizes(node, op, left, right);
}

std::optional<Element> Folder::change(const Element &element) {
  if (op == "Identity")
    return element;
  if (op == "Cast" || op == "CastLike")
    return castElement(element, node.typeOf(0), type, node.rounding());
  if (element.isSize() && op == "Not")
    return negated(node, element);
  if (element.isSize())
    return element.isCount() && (op == "Abs" || op == "Relu") ? std::optional(element) : std::nullopt;
  if (op == "Not")
    return Element(int64_t(element.integer == 0));
  if (op == "Relu")
    return element.number() < 0 ? rounded(Element(0), type) : element;
  if (element.isInteger()) {
    if (op == "Neg")
      return Element(int64_t(-uint64_t(element.integer)));
    bool isNegative = element.integer < 0 && !isUnsigned(type);
    if (op == "Abs")
      return isNegative ? Element(int64_t(-uint64_t(element.integer))) : element;
    return std::nullopt;
  }
  double number = element.real;
  if (op == "Neg")
    return Element::ofReal(-number);
  if (op == "Abs")
    return Element::ofReal(std::abs(number));
  if (op == "Floor")
    return Element::ofReal(std::floor(number));
  if (op == "Ceil")
    return Element::ofReal(std::ceil(number));
  if (op == "Sqrt" && number >= 0)
    return Element::ofReal(std::sqrt(number));
  return std::nullopt;
}

Folder::Result Folder::foldElementwise() {
  if (llvm::is_contained({"And", "Or", "Xor", "Not"}, op) && !isBool(type))
    return std::nullopt;
  llvm::SmallVector<const Elements *> inputs;
  for (size_t number = 0; number < (op == "CastLike" ? 1 : node.inputCount()); ++number) {
    inputs.push_back(known(number));
    if (!inputs.back())
      return std::nullopt;
  }
  if (inputs.size() == 1)
    return broadcast(inputs, [&](auto operands) { return change(*operands[0]); });
  if (inputs.size() != 2 || (op != "Pow" && !areOneType(0, 1)))
    return std::nullopt;
  return broadcast(inputs, [&](auto operands) { return combine(*operands[0], *operands[1]); });
}

Folder::Result Folder::foldShape() {
  if (!node.has(0))
    return std::nullopt;
  Shape shape = node.shapeOf(0);
  type = DataType::Int64;
  if (op == "Size")
    return Elements{{}, {Element::of(node.product(shape), /*isCount=*/true)}};
  auto rank = int64_t(shape.size());
  auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t begin = bound(node.integer("start", 0)), end = bound(node.integer("end", rank));
  Elements result{{std::max<int64_t>(0, end - begin)}, {}};
  for (int64_t dimension = begin; dimension < end; ++dimension)
    result.values.push_back(Element::of(shape[dimension], /*isCount=*/true));
  return result;
}

Folder::Result Folder::constantOfShape() {
  auto shape = numbers(0);
  if (!shape || llvm::any_of(*shape, [](int64_t size) { return size < 0; }))
    return std::nullopt;
  int64_t count = countOf(*shape);
  const Attribute *value = node.attribute("value");
  if (value && (value->type != AttributeType::Tensor || value->tensors.size() != 1))
    return std::nullopt;
  type = value ? value->tensors.front().type : DataType::Float;
  std::optional<Elements> one = value ? readElements(value->tensors.front()) : Elements{{1}, {Element::ofReal(0)}};
  if (count > mostElements || !one || one->values.size() != 1)
    return std::nullopt;
  return Elements{*shape, std::vector<Element>(count, one->values.front())};
}

Folder::Result Folder::range() {
  type = node.has(0) ? node.typeOf(0) : type;
  auto start = numbers(0), limit = numbers(1), step = numbers(2);
  if (!start || !limit || !step || start->size() != 1 || limit->size() != 1 || step->size() != 1 || (*step)[0] == 0)
    return std::nullopt;
  Elements result{{0}, {}};
  int64_t by = (*step)[0], end = (*limit)[0];
  for (int64_t value = (*start)[0]; by > 0 ? value < end : value > end;) {
    if (int64_t(result.values.size()) == mostElements)
      return std::nullopt;
    result.values.push_back(value);
    if (llvm::AddOverflow(value, by, value))
      break;
  }
  result.shape[0] = result.values.size();
  return result;
}

Folder::Result Folder::gather() {
  const Elements *data = known(0);
  auto indices = numbers(1);
  if (!data || !indices || data->shape.empty())
    return std::nullopt;
  int64_t axis = node.axis(node.integer("axis", 0), data->shape.size()), size = data->shape[axis];
  const Elements *at = known(1);
  Elements result;
  result.shape.append(data->shape.begin(), data->shape.begin() + axis);
  result.shape.append(at->shape.begin(), at->shape.end());
  result.shape.append(data->shape.begin() + axis + 1, data->shape.end());
  if (countOf(result.shape) > mostElements)
    return std::nullopt;
  for (int64_t &index : *indices) {
    if (index < -size || index >= size) {
      node.refuse("index " + llvm::Twine(index) + " is not in dimension " + llvm::Twine(axis) +
                  " of input 'data', which has " + llvm::Twine(size) + " elements");
      return std::nullopt;
    }
    index += index < 0 ? size : 0;
  }
  forEachIndex(result.shape, [&](llvm::ArrayRef<int64_t> index) {
    llvm::SmallVector<int64_t> from(index.take_front(axis));
    from.push_back((*indices)[positionOf(index.slice(axis, at->shape.size()), at->shape)]);
    from.append(index.begin() + axis + at->shape.size(), index.end());
    result.values.push_back(data->values[positionOf(from, data->shape)]);
  });
  return result;
}

Folder::Result Folder::concat() {
  llvm::SmallVector<const Elements *> inputs;
  for (size_t number = 0; number < node.inputCount(); ++number) {
    inputs.push_back(known(number));
    if (!inputs.back() || inputs.back()->shape.size() != 1)
      return std::nullopt;
  }
  Elements result{{0}, {}};
  for (const Elements *input : inputs) {
    if (int64_t(result.values.size() + input->values.size()) > mostElements)
      return std::nullopt;
    result.values.insert(result.values.end(), input->values.begin(), input->values.end());
  }
  result.shape[0] = result.values.size();
  return result;
}

/// Returns the indices that a slice of `size` elements has.
llvm::SmallVector<int64_t> indicesOf(int64_t begin, int64_t end, int64_t step, int64_t size) {
  begin = begin < 0 ? begin + size : begin;
  end = end < -size ? (step < 0 ? -1 : 0) : end < 0 ? end + size : end;
  if (size == 0)
    return {};
  begin = std::clamp<int64_t>(begin, 0, step > 0 ? size : size - 1);
  end = step > 0 ? std::clamp<int64_t>(end, 0, size) : std::clamp<int64_t>(end, -1, size - 1);
  llvm::SmallVector<int64_t> indices;
  for (int64_t at = begin; (step > 0 ? at < end : at > end) && at >= 0 && at < size;) {
    indices.push_back(at);
    if (llvm::AddOverflow(at, step, at))
      break;
  }
  return indices;
}

Folder::Result Folder::slice() {
  const Elements *data = known(0);
  bool hasInputs = node.version >= 10;
  auto starts = hasInputs ? numbers(1) : node.integers("starts"), ends = hasInputs ? numbers(2) : node.integers("ends");
  auto axes = hasInputs ? numbers(3) : node.integers("axes");
  auto steps = hasInputs ? numbers(4) : std::nullopt;
  if (!data || !starts || !ends || (hasInputs && ((node.has(3) && !axes) || (node.has(4) && !steps))) ||
      starts->size() != ends->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size()))
    return std::nullopt;
  std::vector<llvm::SmallVector<int64_t>> kept;
  for (int64_t size : data->shape)
    kept.push_back(llvm::to_vector(llvm::seq<int64_t>(0, size)));
  axes = node.axes(axes.value_or(llvm::to_vector(llvm::seq<int64_t>(0, starts->size()))), kept.size());
  if (node.isRefused() || (steps && llvm::is_contained(*steps, 0)))
    return std::nullopt;
  for (auto [number, axis, start, end] : llvm::enumerate(*axes, *starts, *ends))
    kept[axis] = indicesOf(start, end, steps ? (*steps)[number] : 1, data->shape[axis]);
  Elements result;
  for (const auto &indices : kept)
    result.shape.push_back(indices.size());
  forEachIndex(result.shape, [&](llvm::ArrayRef<int64_t> index) {
    llvm::SmallVector<int64_t> from;
    for (auto [indices, i] : llvm::zip_equal(kept, index))
      from.push_back(indices[i]);
    result.values.push_back(data->values[positionOf(from, data->shape)]);
  });
  return result;
}

Folder::Result Folder::reshape() {
  const Elements *data = known(0);
  auto shape = numbers(1);
  if (!data || !shape)
    return std::nullopt;
  int64_t count = 1, rest = -1;
  for (auto [number, size] : llvm::enumerate(*shape)) {
    if (size == 0 && !node.integer("allowzero", 0) && number < data->shape.size())
      size = data->shape[number];
    if (size == -1 && rest < 0)
      rest = number;
    else if (size < 0 || llvm::MulOverflow(count, size, count))
      return std::nullopt;
  }
  if (rest >= 0 && count == 0 && node.integer("allowzero", 0))
    return std::nullopt;
  if (rest >= 0)
    (*shape)[rest] = count == 0 ? 0 : int64_t(data->values.size()) / count;
  return countOf(*shape) == int64_t(data->values.size()) ? withShape(*data, *shape) : std::nullopt;
}

Folder::Result Folder::unsqueeze() {
  const Elements *data = known(0);
  auto axes = node.version >= 13 ? numbers(1) : node.integers("axes");
  if (!data || !axes)
    return std::nullopt;
  auto rank = int64_t(data->shape.size() + axes->size());
  llvm::SmallVector<bool> isNew(rank, false);
  for (int64_t axis : node.axes(*axes, rank))
    isNew[axis] = true;
  if (node.isRefused())
    return std::nullopt;
  llvm::SmallVector<int64_t> shape;
  for (auto [number, inserted] : llvm::enumerate(isNew))
    shape.push_back(inserted ? 1 : data->shape[number - llvm::count(llvm::ArrayRef(isNew).take_front(number), true)]);
  return withShape(*data, shape);
}

Folder::Result Folder::squeeze() {
  const Elements *data = known(0);
  bool hasInput = node.version >= 13;
  auto axes = hasInput ? numbers(1) : node.integers("axes");
  if (!data || (hasInput && node.has(1) && !axes))
    return std::nullopt;
  llvm::SmallVector<int64_t> shape;
  auto rank = int64_t(data->shape.size());
  llvm::SmallVector<bool> isGone(rank, false);
  for (int64_t dimension = 0; dimension < rank && !axes; ++dimension)
    isGone[dimension] = data->shape[dimension] == 1;
  for (int64_t dimension : node.axes(axes.value_or(llvm::SmallVector<int64_t>()), rank))
    isGone[dimension] = true;
  if (node.isRefused())
    return std::nullopt;
  for (int64_t dimension = 0; dimension < rank; ++dimension)
    if (!isGone[dimension])
      shape.push_back(data->shape[dimension]);
  return countOf(shape) != int64_t(data->values.size()) ? std::nullopt : withShape(*data, shape);
}

Folder::Result Folder::transpose() {
  const Elements *data = known(0);
  if (!data)
    return std::nullopt;
  auto permutation = node.integers("perm");
  if (!permutation)
    permutation = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, data->shape.size())));
  llvm::SmallVector<int64_t> sorted(*permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, data->shape.size())))
    return std::nullopt;
  Elements result;
  for (int64_t dimension : *permutation)
    result.shape.push_back(data->shape[dimension]);
  forEachIndex(result.shape, [&](llvm::ArrayRef<int64_t> index) {
    llvm::SmallVector<int64_t> from(index.size(), 0);
    for (auto [i, dimension] : llvm::zip_equal(index, *permutation))
      from[dimension] = i;
    result.values.push_back(data->values[positionOf(from, data->shape)]);
  });
  return result;
}

Folder::Result Folder::expand() {
  const Elements *data = known(0);
  auto shape = numbers(1);
  if (!data || !shape || llvm::any_of(*shape, [](int64_t size) { return size < 0; }) || countOf(*shape) > mostElements)
    return std::nullopt;
  Elements ones{*shape, std::vector<Element>(countOf(*shape))};
  return broadcast({data, &ones}, [](auto operands) { return std::optional(*operands[0]); });
}

Folder::Result Folder::reduce() {
  const Elements *data = known(0);
  if (!data || data->shape.size() > 1 || data->values.empty() || node.inputCount() > 2 || (node.has(1) && !numbers(1)))
    return std::nullopt;
  // The one dimension is reduced, whatever axes say.
  if (node.has(1) && numbers(1)->empty() && node.integer("noop_with_empty_axes", 0))
    return std::nullopt;
  op = op == "ReduceProd" ? "Mul" : op == "ReduceSum" ? "Add" : op == "ReduceMax" ? "Max" : "Min";
  Element result = data->values.front();
  for (const Element &element : llvm::ArrayRef(data->values).drop_front()) {
    std::optional<Element> next = combine(result, element);
    if (!next)
      return std::nullopt;
    result = rounded(*next, type);
  }
  Elements elements{{}, {result}};
  if (node.integer("keepdims", 1) && data->shape.size() == 1)
    elements.shape.push_back(1);
  return elements;
}

Folder::Result Folder::where() {
  const Elements *condition = known(0), *yes = known(1), *no = known(2);
  if (!condition || !yes || !no || !isBool(node.typeOf(0)) || !areOneType(1, 2))
    return std::nullopt;
  type = node.typeOf(1);
  return broadcast({condition, yes, no}, [&](auto operands) -> std::optional<Element> {
    if (operands[0]->isInteger())
      return operands[0]->integer ? *operands[1] : *operands[2];
    return chosen(node, *operands[0], *operands[1], *operands[2]);
  });
}

Folder::Result Folder::fold() {
  using Function = Result (Folder::*)();
  Function function =
      llvm::StringSwitch<Function>(op)
          .Cases({"Add", "Sub", "Mul", "Div", "Mod", "Pow"}, &Folder::foldElementwise)
          .Cases({"Min", "Max", "And", "Or", "Xor", "Not"}, &Folder::foldElementwise)
          .Cases({"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}, &Folder::foldElementwise)
          .Cases({"Identity", "Cast", "CastLike", "Neg", "Abs", "Floor", "Ceil", "Sqrt", "Relu"},
                 &Folder::foldElementwise)
          .Cases({"Shape", "Size"}, &Folder::foldShape)
          .Case("ConstantOfShape", &Folder::constantOfShape)
          .Case("Range", &Folder::range)
          .Case("Gather", &Folder::gather)
          .Case("Concat", &Folder::concat)
          .Case("Slice", &Folder::slice)
          .Case("Reshape", &Folder::reshape)
          .Case("Unsqueeze", &Folder::unsqueeze)
          .Case("Squeeze", &Folder::squeeze)
          .Case("Transpose", &Folder::transpose)
          .Case("Expand", &Folder::expand)
          .Cases({"ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"}, &Folder::reduce)
          .Case("Where", &Folder::where)
          .Default(nullptr);
  return function ? (this->*function)() : std::nullopt;
}

bool Folder::run() {
  if (!node.node.domain.empty() || node.outputCount() != 1)
    return false;
  type = node.has(0) ? node.typeOf(0) : type;
  if (llvm::is_contained({"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}, op))
    type = DataType::Bool;
  if (op == "Cast")
    type = DataType(node.integer("to", 0));
  if (op == "CastLike")
    type = node.typeOf(1);
  // Elements of other types are not numbers here.
  if (type != DataType::Undefined && !node.irType(type))
    return false;
  Result result = fold();
  if (!result || node.isRefused())
    return node.isRefused();
  // Integers from 2^63 on are negative as elements, and a file must not take many times its memory.
  for (size_t number = 0; number < node.inputCount(); ++number) {
    bool hasNoSign = node.has(number) && node.typeOf(number) == DataType::Uint64;
    if (const Elements *given = hasNoSign ? known(number) : nullptr; given && !areBelowSign(*given))
      return false;
  }
  if ((type == DataType::Uint64 && !areBelowSign(*result)) || !node.graph.mayFold(result->values.size()))
    return false;
  node.result(type, std::move(*result));
  return true;
}

} // namespace

bool foldNode(NodeContext &node) {
  // Ops of versions before 7 that have it broadcast in a way of their own.
  return !node.hasAttribute("broadcast") && Folder(node).run();
}

} // namespace intarsia::onnx
