//===- Einsum.cpp - Sums of products that an equation says --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Operands are multiplied one after the other, from the left. What one operand alone has and the result has not is
// summed before.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Einsum.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;

namespace intarsia::importer {
namespace {

/// A letter of an equation; -1, -2, … are the dimensions that "..." stands for, from the last one.
using Label = int;
using Labels = llvm::SmallVector<Label, 6>;

/// A tensor with a label for each dimension.
struct Term {
  Value value;
  Labels labels;
};

Type elementOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getElementType(); }

int64_t rankOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getRank(); }

class Einsum {
public:
  Einsum(ModuleBuilder &graph, Location at, llvm::StringRef equation) : graph(graph), at(at), equation(equation) {}

  /// Returns null for an equation that was reported.
  Value build(llvm::ArrayRef<Value> operands, llvm::ArrayRef<Shape> shapes);
  Shape resultShape() { return shapeOf(result); }

private:
  bool parse(llvm::ArrayRef<Value> operands, llvm::ArrayRef<Shape> shapes);
  /// Reads letters and "..." of one operand, whose rank is known, or of the result.
  std::optional<Labels> labelsOf(llvm::StringRef text, std::optional<int64_t> rank);
  bool findSizes(llvm::ArrayRef<Shape> shapes);
  void settle(Term &term, const Labels &kept);
  Term product(const Term &left, const Term &right, const Labels &kept);
  Term loops(const Term &left, const Term &right, const Labels &kept);
  Value narrowed(Value sums, Type element, const Labels &labels);
  Value ordered(const Term &term, const Labels &order);
  Value grouped(Value tensor, llvm::ArrayRef<size_t> counts);

  Shape shapeOf(const Labels &labels) {
    Shape shape;
    for (Label label : labels)
      shape.push_back(sizes.at(label));
    return shape;
  }
  std::nullopt_t report(const llvm::Twine &problem) {
    graph.sink().report("the equation '" + equation + "' of an einsum " + problem);
    return std::nullopt;
  }

  ModuleBuilder &graph;
  Location at;
  llvm::StringRef equation;
  llvm::SmallVector<Term> terms;
  Labels result;
  std::map<Label, Size> sizes;
};

bool has(const Labels &labels, Label label) { return llvm::is_contained(labels, label); }

std::string nameOf(Label label) { return label < 0 ? "..." : std::string(1, char(label)); }

} // namespace

std::optional<Labels> Einsum::labelsOf(llvm::StringRef text, std::optional<int64_t> rank) {
  Labels before, behind;
  bool hasEllipsis = false;
  while (!text.empty()) {
    if (text.consume_front("...")) {
      if (hasEllipsis)
        return report("has '...' twice in one term");
      hasEllipsis = true;
    } else if (llvm::isAlpha(text.front())) {
      (hasEllipsis ? behind : before).push_back(Label(text.front()));
      text = text.drop_front();
    } else {
      return report("has the character '" + text.take_front(1) + "', which is no letter");
    }
  }
  int64_t letters = before.size() + behind.size(), rest = 0;
  if (!rank) { // the result has as many dimensions as operands have
    for (auto [label, size] : sizes)
      rest = std::max<int64_t>(rest, -label);
  } else {
    rest = *rank - letters;
    if (rest < 0 || (rest > 0 && !hasEllipsis))
      return report("has " + llvm::Twine(letters) + " letters for an operand of rank " + llvm::Twine(*rank));
  }
  if (hasEllipsis)
    for (int64_t dimension = rest; dimension > 0; --dimension)
      before.push_back(Label(-dimension));
  before.append(behind);
  return before;
}

bool Einsum::findSizes(llvm::ArrayRef<Shape> shapes) {
  for (auto [number, term] : llvm::enumerate(terms))
    for (auto [dimension, label] : llvm::enumerate(term.labels)) {
      Size size = shapes.empty() ? graph.sizeOf(at, term.value, dimension) : shapes[number][dimension];
      auto [entry, isFirst] = sizes.try_emplace(label, size);
      Size &known = entry->second;
      if (isFirst || (known.isDynamic() && size.isDynamic()) || size.value == 1)
        continue;
      if (!known.isDynamic() && !size.isDynamic() && known.value != 1 && known.value != size.value) {
        report("gives '" + nameOf(label) + "' to dimensions of " + llvm::Twine(known.value) + " and " +
               llvm::Twine(size.value) + " elements");
        return false;
      }
      if (known.isDynamic() ? !size.isDynamic() : known.value == 1)
        known = size;
    }
  return true;
}

bool Einsum::parse(llvm::ArrayRef<Value> operands, llvm::ArrayRef<Shape> shapes) {
  std::string compact;
  for (char c : equation)
    if (c != ' ')
      compact += c;
  auto [left, right] = llvm::StringRef(compact).split("->");
  bool isExplicit = llvm::StringRef(compact).contains("->");
  llvm::SmallVector<llvm::StringRef> texts;
  left.split(texts, ',');
  if (texts.size() != operands.size()) {
    report("is of " + llvm::Twine(texts.size()) + " operands, there are " + llvm::Twine(operands.size()));
    return false;
  }
  for (auto [text, operand] : llvm::zip_equal(texts, operands)) {
    std::optional<Labels> labels = labelsOf(text, rankOf(operand));
    if (!labels)
      return false;
    terms.push_back({operand, *labels});
  }
  if (!findSizes(shapes))
    return false;
  std::map<Label, unsigned> uses;
  for (const Term &term : terms)
    for (Label label : term.labels)
      ++uses[label];
  if (!isExplicit) {
    for (auto [label, count] : uses) // those of "..." are the first, in their order
      if (label < 0 || count == 1)
        result.push_back(label);
    return true;
  }
  std::optional<Labels> labels = labelsOf(right, std::nullopt);
  if (!labels)
    return false;
  for (Label label : *labels) {
    if (!uses.count(label))
      return report("has '" + nameOf(label) + "' in the result and in no operand"), false;
    if (has(result, label))
      return report("has '" + nameOf(label) + "' twice in the result"), false;
    result.push_back(label);
  }
  return true;
}

/// Takes the diagonal of labels that a term has twice, leaves out dimensions of 1 that others repeat, and sums what is
/// not in `kept`.
void Einsum::settle(Term &term, const Labels &kept) {
  // A size that another operand has is that of all.
  auto given = cast<RankedTensorType>(term.value.getType());
  llvm::SmallVector<int64_t> known(given.getShape());
  for (auto [size, label] : llvm::zip_equal(known, term.labels))
    if (ShapedType::isDynamic(size))
      size = sizes.at(label).value;
  if (auto type = RankedTensorType::get(known, given.getElementType()); type != given)
    term.value = tensor::CastOp::create(graph.getBuilder(), at, type, term.value);
  Labels unique;
  Shape shape, zeros, read, left;
  Labels leftLabels;
  for (auto [dimension, label] : llvm::enumerate(term.labels)) {
    Size size = graph.sizeOf(at, term.value, dimension);
    zeros.push_back(0);
    read.push_back(size);
    if (size.value == 1 && sizes.at(label).value != 1)
      continue;
    leftLabels.push_back(label);
    left.push_back(size);
  }
  if (left.size() != read.size())
    term = {graph.part(at, term.value, zeros, read, left), leftLabels};
  llvm::SmallVector<unsigned, 4> dims;
  for (Label label : term.labels) {
    if (!has(unique, label))
      unique.push_back(label);
    dims.push_back(llvm::find(unique, label) - unique.begin());
  }
  Type element = elementOf(term.value);
  auto same = [](OpBuilder &, Location, ValueRange values) { return values[0]; };
  if (unique.size() != term.labels.size())
    term = {graph.elementwise(at, element, shapeOf(unique), {{term.value, dims}}, same), unique};
  Labels remaining;
  llvm::SmallVector<unsigned, 4> positions;
  dims.clear();
  for (auto [position, label] : llvm::enumerate(term.labels)) {
    dims.push_back(position);
    if (has(kept, label)) {
      remaining.push_back(label);
      positions.push_back(position);
    }
  }
  if (remaining.size() == term.labels.size())
    return;
  bool isFloat = isa<FloatType>(element);
  Type sum = isFloat && element.getIntOrFloatBitWidth() < 32 ? graph.getBuilder().getF32Type() : element;
  Value total = graph.reduce(at, cast<TypedAttr>(graph.getBuilder().getZeroAttr(sum)), shapeOf(term.labels), positions,
                             {{term.value, dims}}, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                               if (isFloat)
                                 return arith::AddFOp::create(b, loc, v[1], widened(b, loc, v[0], sum));
                               return arith::AddIOp::create(b, loc, v[1], v[0]);
                             });
  term = {narrowed(total, element, remaining), remaining};
}

/// Rounds sums to the type of what was added up.
Value Einsum::narrowed(Value sums, Type element, const Labels &labels) {
  if (elementOf(sums) == element)
    return sums;
  llvm::SmallVector<unsigned, 4> all(llvm::to_vector<4>(llvm::seq<unsigned>(0, labels.size())));
  return graph.elementwise(at, element, shapeOf(labels), {{sums, all}},
                           [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                             return arith::TruncFOp::create(b, loc, element, v[0]);
                           });
}

Value Einsum::ordered(const Term &term, const Labels &order) {
  if (term.labels == order)
    return term.value;
  llvm::SmallVector<int64_t> permutation;
  for (Label label : order)
    permutation.push_back(llvm::find(term.labels, label) - term.labels.begin());
  return graph.transpose(at, term.value, shapeOf(order), permutation);
}

/// Makes one dimension of each group of so many; a group of none is a dimension of 1.
Value Einsum::grouped(Value tensor, llvm::ArrayRef<size_t> counts) {
  llvm::SmallVector<ReassociationIndices> groups;
  int64_t dimension = 0;
  for (size_t count : counts)
    if (count > 0) {
      groups.emplace_back();
      while (count-- > 0)
        groups.back().push_back(dimension++);
    }
  if (dimension != int64_t(groups.size()))
    tensor = graph.collapseShape(at, tensor, groups);
  if (groups.size() == counts.size())
    return tensor;
  Shape shape;
  groups.clear();
  dimension = 0;
  for (auto [position, count] : llvm::enumerate(counts)) {
    shape.push_back(count == 0 ? Size(1) : graph.sizeOf(at, tensor, dimension++));
    if (count > 0)
      groups.emplace_back();
  }
  if (!groups.empty()) { // a dimension of 1 belongs to the group before it, or else to the first
    size_t group = 0;
    bool isFirst = true;
    for (auto [position, count] : llvm::enumerate(counts)) {
      if (count > 0 && !isFirst)
        ++group;
      if (count > 0)
        isFirst = false;
      groups[group].push_back(position);
    }
  }
  return graph.expandShape(at, tensor, shape, groups);
}

/// A product that no product of matrices is: one loop for each label.
Term Einsum::loops(const Term &left, const Term &right, const Labels &kept) {
  Labels all = left.labels, remaining;
  for (Label label : right.labels)
    if (!has(all, label))
      all.push_back(label);
  llvm::SmallVector<unsigned, 4> positions, leftDims, rightDims;
  auto positionOf = [&](Label label) { return unsigned(llvm::find(all, label) - all.begin()); };
  for (Label label : all)
    if (has(kept, label)) {
      remaining.push_back(label);
      positions.push_back(positionOf(label));
    }
  llvm::transform(left.labels, std::back_inserter(leftDims), positionOf);
  llvm::transform(right.labels, std::back_inserter(rightDims), positionOf);
  Type element = elementOf(left.value);
  bool isFloat = isa<FloatType>(element);
  // Products are added up in f32 at least.
  bool isSummed = remaining.size() != all.size();
  Type sumType =
      isSummed && isFloat && element.getIntOrFloatBitWidth() < 32 ? graph.getBuilder().getF32Type() : element;
  auto multiply = [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
    if (isFloat)
      return arith::MulFOp::create(b, loc, widened(b, loc, v[0], sumType), widened(b, loc, v[1], sumType));
    return arith::MulIOp::create(b, loc, v[0], v[1]);
  };
  llvm::SmallVector<Operand> operands = {{left.value, leftDims}, {right.value, rightDims}};
  if (!isSummed)
    return {graph.elementwise(at, element, shapeOf(all), operands, multiply), remaining};
  Value sum = graph.reduce(at, cast<TypedAttr>(graph.getBuilder().getZeroAttr(sumType)), shapeOf(all), positions,
                           operands, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                             Value product = multiply(b, loc, v);
                             if (isFloat)
                               return arith::AddFOp::create(b, loc, v[2], product);
                             return arith::AddIOp::create(b, loc, v[2], product);
                           });
  return {narrowed(sum, element, remaining), remaining};
}

Term Einsum::product(const Term &left, const Term &right, const Labels &kept) {
  Labels batch, summed, ofLeft, ofRight;
  for (Label label : left.labels)
    (!has(right.labels, label) ? ofLeft : has(kept, label) ? batch : summed).push_back(label);
  for (Label label : right.labels)
    if (!has(left.labels, label))
      ofRight.push_back(label);
  Type element = elementOf(left.value);
  if (summed.empty() || !(element.isF32() || element.isF16() || element.isBF16()))
    return loops(left, right, kept);
  auto joined = [](llvm::ArrayRef<Labels> parts) {
    Labels all;
    for (const Labels &part : parts)
      all.append(part);
    return all;
  };
  // Matrices are read as they lie where they can be.
  bool isLeftTurned = left.labels == joined({batch, summed, ofLeft}) && !ofLeft.empty();
  bool isRightTurned = right.labels == joined({batch, ofRight, summed}) && !ofRight.empty();
  auto matrices = [&](const Term &term, const Labels &rows, const Labels &columns) {
    llvm::SmallVector<size_t> counts(batch.size(), 1);
    counts.append({rows.size(), columns.size()});
    return grouped(ordered(term, joined({batch, rows, columns})), counts);
  };
  Value lhs = isLeftTurned ? matrices(left, summed, ofLeft) : matrices(left, ofLeft, summed);
  Value rhs = isRightTurned ? matrices(right, ofRight, summed) : matrices(right, summed, ofRight);
  auto matmul =
      nn::MatmulOp::create(graph.getBuilder(), at, lhs, rhs, isLeftTurned, isRightTurned, /*precision=*/TypeAttr());
  Value value = matmul.getResult();
  // Dimensions of rows and columns are those of the operands again.
  Labels labels = joined({batch, ofLeft, ofRight});
  llvm::SmallVector<ReassociationIndices> groups;
  int64_t dimension = 0;
  for (size_t i = 0; i != batch.size(); ++i)
    groups.push_back({dimension++});
  if (ofLeft.empty() || ofRight.empty()) {
    // Without dimensions of one side the matrix is a row or a column: it joins the other side, or the last batch.
    ReassociationIndices last;
    int64_t rows = batch.size();
    last = {rows, rows + 1};
    const Labels &side = ofLeft.empty() ? ofRight : ofLeft;
    if (side.empty()) {
      if (groups.empty())
        return {graph.collapseShape(at, value, {}), labels};
      groups.back().append(last);
    } else {
      groups.push_back(last);
    }
    value = graph.collapseShape(at, value, groups);
    if (side.size() > 1) {
      groups.clear();
      dimension = 0;
      for (size_t i = 0; i != batch.size(); ++i)
        groups.push_back({dimension++});
      groups.emplace_back();
      for (size_t i = 0; i != side.size(); ++i)
        groups.back().push_back(dimension++);
      value = graph.expandShape(at, value, shapeOf(labels), groups);
    }
    return {value, labels};
  }
  for (size_t count : {ofLeft.size(), ofRight.size()}) {
    groups.emplace_back();
    while (count-- > 0)
      groups.back().push_back(dimension++);
  }
  if (labels.size() != groups.size())
    value = graph.expandShape(at, value, shapeOf(labels), groups);
  return {value, labels};
}

Value Einsum::build(llvm::ArrayRef<Value> operands, llvm::ArrayRef<Shape> shapes) {
  if (operands.empty())
    return report("has no operands"), Value();
  for (Value operand : operands)
    if (elementOf(operand) != elementOf(operands[0]))
      return report("has operands of different types"), Value();
  if (!parse(operands, shapes))
    return {};
  auto neededBy = [&](size_t next) { // the result and the terms from `next` on
    Labels needed = result;
    for (const Term &term : llvm::ArrayRef(terms).drop_front(next))
      needed.append(term.labels);
    return needed;
  };
  for (size_t number = 0; number != terms.size(); ++number) {
    Labels needed = result;
    for (size_t other = 0; other != terms.size(); ++other)
      if (other != number)
        needed.append(terms[other].labels);
    settle(terms[number], needed);
  }
  Term total = terms[0];
  for (size_t number = 1; number != terms.size(); ++number)
    total = product(total, terms[number], neededBy(number + 1));
  settle(total, result); // what a dimension of 1 had hidden
  return ordered(total, result);
}

Value einsum(ModuleBuilder &graph, Location at, llvm::StringRef equation, llvm::ArrayRef<Value> operands,
             llvm::ArrayRef<Shape> shapes, Shape *result) {
  Einsum einsum(graph, at, equation);
  Value value = einsum.build(operands, shapes);
  if (!value)
    return operands.empty() ? Value() : operands.front();
  if (result)
    *result = einsum.resultShape();
  return value;
}

} // namespace intarsia::importer
