//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/SymbolicSizes.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace mlir;
using namespace intarsia;

//===-- Normal form --------------------------------------------------------------------------------------------===//

namespace {
/// A total order of expressions that does not depend on addresses: symbols by position, then divisions by structure.
bool isBefore(AffineExpr a, AffineExpr b) {
  if (a == b)
    return false;
  auto rank = [](AffineExpr expression) {
    return expression.getKind() == AffineExprKind::SymbolId ? -1 : static_cast<int>(expression.getKind());
  };
  if (rank(a) != rank(b))
    return rank(a) < rank(b);
  if (auto symbol = dyn_cast<AffineSymbolExpr>(a))
    return symbol.getPosition() < cast<AffineSymbolExpr>(b).getPosition();
  if (auto dimension = dyn_cast<AffineDimExpr>(a))
    return dimension.getPosition() < cast<AffineDimExpr>(b).getPosition();
  if (auto constant = dyn_cast<AffineConstantExpr>(a))
    return constant.getValue() < cast<AffineConstantExpr>(b).getValue();
  auto left = cast<AffineBinaryOpExpr>(a), right = cast<AffineBinaryOpExpr>(b);
  if (left.getLHS() != right.getLHS())
    return isBefore(left.getLHS(), right.getLHS());
  return isBefore(left.getRHS(), right.getRHS());
}

/// Long products first, the constant last: a * b + a + b + 1.
struct ProductOrder {
  bool operator()(const std::vector<AffineExpr> &a, const std::vector<AffineExpr> &b) const {
    if (a.size() != b.size())
      return a.size() > b.size();
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), isBefore);
  }
};

/// Sorted factors (symbols and divisions) → coefficient, never 0.
using Polynomial = std::map<std::vector<AffineExpr>, int64_t, ProductOrder>;
} // namespace

static void add(Polynomial &sum, const std::vector<AffineExpr> &factors, int64_t coefficient) {
  if ((sum[factors] += coefficient) == 0)
    sum.erase(factors);
}

static AffineExpr toExpression(const Polynomial &polynomial, MLIRContext *context) {
  AffineExpr sum = getAffineConstantExpr(0, context);
  for (const auto &[factors, coefficient] : polynomial) {
    AffineExpr product;
    for (AffineExpr factor : factors)
      product = product ? product * factor : factor;
    AffineExpr constant = getAffineConstantExpr(coefficient, context);
    sum = sum + (!product ? constant : coefficient == 1 ? product : product * constant);
  }
  return sum;
}

/// `dividend / divisor` if the divisor is one product that divides each term.
static std::optional<Polynomial> divideExactly(const Polynomial &dividend, const Polynomial &divisor) {
  if (divisor.size() != 1)
    return std::nullopt;
  const auto &[factors, coefficient] = *divisor.begin();
  Polynomial quotient;
  for (const auto &[termFactors, termCoefficient] : dividend) {
    std::vector<AffineExpr> left = termFactors;
    for (AffineExpr factor : factors) {
      auto found = llvm::find(left, factor);
      if (found == left.end())
        return std::nullopt;
      left.erase(found);
    }
    if (termCoefficient % coefficient != 0)
      return std::nullopt;
    add(quotient, left, termCoefficient / coefficient);
  }
  return quotient;
}

static Polynomial toPolynomial(AffineExpr expression) {
  MLIRContext *context = expression.getContext();
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return constant.getValue() == 0 ? Polynomial() : Polynomial{{{}, constant.getValue()}};
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary)
    return Polynomial{{{expression}, 1}};
  Polynomial left = toPolynomial(binary.getLHS()), right = toPolynomial(binary.getRHS());
  if (expression.getKind() == AffineExprKind::Add) {
    for (const auto &[factors, coefficient] : right)
      add(left, factors, coefficient);
    return left;
  }
  if (expression.getKind() == AffineExprKind::Mul) {
    Polynomial product;
    for (const auto &[leftFactors, leftCoefficient] : left)
      for (const auto &[rightFactors, rightCoefficient] : right) {
        std::vector<AffineExpr> factors(leftFactors);
        factors.insert(factors.end(), rightFactors.begin(), rightFactors.end());
        llvm::sort(factors, isBefore);
        add(product, factors, leftCoefficient * rightCoefficient);
      }
    return product;
  }
  if (std::optional<Polynomial> quotient = divideExactly(left, right))
    return expression.getKind() == AffineExprKind::Mod ? Polynomial() : *quotient;
  AffineExpr division =
      getAffineBinaryOpExpr(expression.getKind(), toExpression(left, context), toExpression(right, context));
  // Building it may have simplified it to something else; one more round then ends.
  if (division != expression && !isa<AffineBinaryOpExpr>(division))
    return toPolynomial(division);
  return Polynomial{{{division}, 1}};
}

AffineExpr SymbolicSizes::normalize(AffineExpr expression) {
  return expression ? toExpression(toPolynomial(expression), expression.getContext()) : expression;
}

int64_t SymbolicSizes::evaluate(AffineExpr expression, ArrayRef<int64_t> symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return constant.getValue();
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return symbols[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expression);
  int64_t left = evaluate(binary.getLHS(), symbols), right = evaluate(binary.getRHS(), symbols);
  switch (expression.getKind()) {
  case AffineExprKind::Add:
    return left + right;
  case AffineExprKind::Mul:
    return left * right;
  case AffineExprKind::Mod:
    return llvm::mod(left, right);
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(left, right);
  case AffineExprKind::CeilDiv:
    return llvm::divideCeilSigned(left, right);
  default:
    llvm_unreachable("sizes have no dimensions in them");
  }
}

static std::string print(AffineExpr expression, ArrayRef<std::string> names, bool isFactor) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return std::to_string(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return names[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expression);
  AffineExprKind kind = expression.getKind();
  bool isSum = kind == AffineExprKind::Add, isProduct = kind == AffineExprKind::Mul;
  StringRef sign = isSum                              ? " + "
                   : isProduct                        ? " * "
                   : kind == AffineExprKind::Mod      ? " mod "
                   : kind == AffineExprKind::FloorDiv ? " floordiv "
                                                      : " ceildiv ";
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (isSum && constant && constant.getValue() < 0) {
    std::string text = print(binary.getLHS(), names, false) + " - " + std::to_string(-constant.getValue());
    return isFactor ? "(" + text + ")" : text;
  }
  bool isLeftFactor = !isSum && !(isProduct && binary.getLHS().getKind() == AffineExprKind::Mul);
  std::string text = print(binary.getLHS(), names, isLeftFactor) + sign.str() + print(binary.getRHS(), names, !isSum);
  return isFactor ? "(" + text + ")" : text;
}

std::string SymbolicSizes::toString(AffineExpr expression) const { return print(expression, symbolNames, false); }

//===-- Values -------------------------------------------------------------------------------------------------===//

SymbolicSizes::SymbolicSizes(FunctionOpInterface function) : context(function->getContext()) {
  // A kernel is launched with the values of `sizes`, in that order.
  auto kernel = dyn_cast<rt::KernelOp>(function.getOperation());
  if (kernel)
    for (StringRef name : kernel.getSizes().getAsValueRange<StringAttr>())
      symbol(name);
  if (function.isExternal())
    return;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<ShapedType>(argument.getType());
    if (!type || !type.hasRank())
      continue;
    unsigned index = argument.getArgNumber();
    auto names = function.getArgAttrOfType<ArrayAttr>(index, "nn.sizes");
    Sizes expressions;
    for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(size)) {
        expressions.push_back(getAffineConstantExpr(size, context));
        continue;
      }
      StringRef name;
      if (names && dimension < names.size())
        name = cast<StringAttr>(names[dimension]).getValue();
      if (name.empty())
        expressions.push_back(symbol(llvm::formatv("arg{0}.{1}", index, dimension).str()));
      else
        expressions.push_back(kernel ? normalize(kernel.parseSize(name)) : symbol(name));
    }
    sizes[argument] = expressions;
  }
  for (Block &block : function.getFunctionBody())
    visitBlock(block);
}

AffineExpr SymbolicSizes::symbol(StringRef name) {
  auto [entry, inserted] = symbolIds.try_emplace(name, symbolNames.size());
  if (inserted)
    symbolNames.push_back(name.str());
  return getAffineSymbolExpr(entry->second, context);
}

ArrayRef<AffineExpr> SymbolicSizes::of(Value value) const {
  auto entry = sizes.find(value);
  return entry == sizes.end() ? ArrayRef<AffineExpr>() : ArrayRef<AffineExpr>(entry->second);
}

AffineExpr SymbolicSizes::ofIndex(Value value) const { return indices.lookup(value); }

bool SymbolicSizes::isKnown(AffineExpr expression) const {
  if (!expression)
    return false;
  bool known = true;
  expression.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
      known &= symbolNames[symbol.getPosition()].front() != '?';
  });
  return known;
}

AffineExpr SymbolicSizes::expressionOf(OpFoldResult size) const {
  if (std::optional<int64_t> constant = getConstantIntValue(size))
    return getAffineConstantExpr(*constant, context);
  return ofIndex(cast<Value>(size));
}

/// Static sizes are what the type says; others as inferred, or unknown where that is null.
void SymbolicSizes::setSizes(Value value, ArrayRef<AffineExpr> inferred) {
  auto type = dyn_cast<ShapedType>(value.getType());
  if (!type || !type.hasRank())
    return;
  Sizes expressions;
  for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
    AffineExpr expression = dimension < inferred.size() ? inferred[dimension] : AffineExpr();
    if (!ShapedType::isDynamic(size))
      expressions.push_back(getAffineConstantExpr(size, context));
    else if (expression)
      expressions.push_back(normalize(expression));
    else
      expressions.push_back(symbol("?" + std::to_string(unknowns++)));
  }
  sizes[value] = expressions;
}

void SymbolicSizes::visitBlock(Block &block) {
  for (Operation &op : block)
    visit(&op);
}

void SymbolicSizes::visit(Operation *op) {
  visitIndex(op);
  if (auto group = dyn_cast<nn::GroupOp>(op)) {
    Block &body = group.getBodyBlock();
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), group.getInputs())) {
      Sizes inputSizes(of(input));
      setSizes(argument, inputSizes);
    }
    visitBlock(body);
    for (auto [result, value] : llvm::zip_equal(group.getResults(), body.getTerminator()->getOperands())) {
      Sizes valueSizes(of(value));
      setSizes(result, valueSizes);
    }
    return;
  }
  if (visitShape(op))
    return;
  if (auto sized = dyn_cast<SizeOpInterface>(op)) {
    SmallVector<Sizes> operands;
    for (Value operand : op->getOperands())
      operands.emplace_back(of(operand));
    for (auto [result, inferred] : llvm::zip_equal(op->getResults(), sized.inferResultSizes(operands)))
      setSizes(result, inferred);
    return;
  }
  if (auto destination = dyn_cast<DestinationStyleOpInterface>(op)) {
    for (OpResult result : op->getResults()) {
      Sizes initSizes(of(destination.getTiedOpOperand(result)->get()));
      setSizes(result, initSizes);
    }
    return;
  }
  // Elementwise ops: every ranked operand has the sizes of the result.
  Sizes elementwise;
  if (op->hasTrait<OpTrait::Elementwise>())
    for (Value operand : op->getOperands())
      if (elementwise.empty())
        elementwise = Sizes(of(operand));
  for (Value result : op->getResults())
    setSizes(result, elementwise);
}

void SymbolicSizes::visitIndex(Operation *op) {
  if (op->getNumResults() != 1 || !op->getResult(0).getType().isIntOrIndex())
    return;
  Value result = op->getResult(0);
  AffineExpr expression;
  auto operand = [&](unsigned index) { return ofIndex(op->getOperand(index)); };
  auto isBinary = [&] { return op->getNumOperands() == 2 && operand(0) && operand(1); };
  auto isPositive = [](AffineExpr divisor) {
    auto constant = dyn_cast<AffineConstantExpr>(divisor);
    return !constant || constant.getValue() > 0;
  };
  if (std::optional<int64_t> constant = getConstantIntValue(result)) {
    expression = getAffineConstantExpr(*constant, context);
  } else if (auto dim = dyn_cast<tensor::DimOp>(op); dim && dim.getConstantIndex()) {
    ArrayRef<AffineExpr> source = of(dim.getSource());
    if (static_cast<size_t>(*dim.getConstantIndex()) < source.size())
      expression = source[*dim.getConstantIndex()];
  } else if (auto dim = dyn_cast<memref::DimOp>(op); dim && dim.getConstantIndex()) {
    ArrayRef<AffineExpr> source = of(dim.getSource());
    if (static_cast<size_t>(*dim.getConstantIndex()) < source.size())
      expression = source[*dim.getConstantIndex()];
  } else if (auto hostSymbol = dyn_cast<rt::SymbolOp>(op)) {
    expression = symbol(hostSymbol.getName());
  } else if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op)) {
    expression = operand(0);
  } else if (isBinary()) {
    if (isa<arith::AddIOp>(op))
      expression = operand(0) + operand(1);
    else if (isa<arith::SubIOp>(op))
      expression = operand(0) - operand(1);
    else if (isa<arith::MulIOp>(op))
      expression = operand(0) * operand(1);
    else if (isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op) && isPositive(operand(1)))
      expression = operand(0).floorDiv(operand(1));
    else if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op) && isPositive(operand(1)))
      expression = operand(0).ceilDiv(operand(1));
    else if (isa<arith::RemUIOp, arith::RemSIOp>(op) && isPositive(operand(1)))
      expression = operand(0) % operand(1);
    else if (isa<arith::MaxSIOp, arith::MaxUIOp, arith::MinSIOp, arith::MinUIOp>(op) && operand(0) == operand(1))
      expression = operand(0);
  }
  if (expression)
    indices[result] = normalize(expression);
}

/// Ops that make, view or join tensors and buffers. False if it is none of them.
bool SymbolicSizes::visitShape(Operation *op) {
  auto setFrom = [&](Value value, ArrayRef<OpFoldResult> mixed) {
    Sizes expressions;
    for (OpFoldResult size : mixed)
      expressions.push_back(expressionOf(size));
    setSizes(value, expressions);
  };
  auto setDynamic = [&](Value value, ValueRange dynamic) {
    Sizes expressions;
    for (int64_t size : cast<ShapedType>(value.getType()).getShape()) {
      bool isDynamic = ShapedType::isDynamic(size) && !dynamic.empty();
      expressions.push_back(isDynamic ? ofIndex(dynamic.front()) : AffineExpr());
      if (isDynamic)
        dynamic = dynamic.drop_front();
    }
    setSizes(value, expressions);
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tensor::EmptyOp empty) {
        setFrom(empty, empty.getMixedSizes());
        return true;
      })
      .Case<tensor::SplatOp>([&](auto splat) {
        setDynamic(splat, splat.getDynamicSizes());
        return true;
      })
      .Case([&](tensor::GenerateOp generate) {
        setDynamic(generate, generate.getDynamicExtents());
        return true;
      })
      .Case<rt::AllocOp, rt::OutputOp>([&](auto buffer) {
        setDynamic(buffer.getResult(), buffer.getSizes());
        return true;
      })
      .Case<memref::AllocOp, memref::AllocaOp>([&](auto buffer) {
        setDynamic(buffer, buffer.getDynamicSizes());
        return true;
      })
      .Case([&](memref::ViewOp view) {
        setDynamic(view, view.getSizes());
        return true;
      })
      .Case<tensor::CastOp, memref::CastOp>([&](auto cast) {
        Sizes source(of(cast.getSource()));
        setSizes(cast, source);
        return true;
      })
      .Case([&](tensor::ExpandShapeOp expand) {
        ArrayRef<AffineExpr> source = of(expand.getSrc());
        Sizes expressions;
        for (OpFoldResult size : expand.getMixedOutputShape())
          expressions.push_back(expressionOf(size));
        // One size of a group that is not written down follows from the others.
        for (auto [dimension, group] : llvm::enumerate(expand.getReassociationIndices())) {
          AffineExpr others = getAffineConstantExpr(1, context);
          SmallVector<int64_t> missing;
          for (int64_t part : group) {
            if (expressions[part])
              others = others * expressions[part];
            else
              missing.push_back(part);
          }
          if (missing.size() == 1)
            expressions[missing[0]] = source[dimension].floorDiv(others);
        }
        setSizes(expand, expressions);
        return true;
      })
      .Case([&](tensor::CollapseShapeOp collapse) {
        ArrayRef<AffineExpr> source = of(collapse.getSrc());
        Sizes expressions;
        for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
          AffineExpr product = getAffineConstantExpr(1, context);
          for (int64_t part : group)
            product = product * source[part];
          expressions.push_back(product);
        }
        setSizes(collapse, expressions);
        return true;
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        llvm::SmallBitVector dropped = slice.getDroppedDims();
        SmallVector<OpFoldResult> kept;
        for (auto [dimension, size] : llvm::enumerate(slice.getMixedSizes()))
          if (!dropped.test(dimension))
            kept.push_back(size);
        setFrom(slice, kept);
        return true;
      })
      .Case([&](tensor::PadOp pad) {
        ArrayRef<AffineExpr> source = of(pad.getSource());
        Sizes expressions;
        for (auto [size, low, high] : llvm::zip_equal(source, pad.getMixedLowPad(), pad.getMixedHighPad())) {
          AffineExpr before = expressionOf(low), after = expressionOf(high);
          expressions.push_back(before && after ? size + before + after : AffineExpr());
        }
        setSizes(pad, expressions);
        return true;
      })
      .Case([&](tensor::ConcatOp concat) {
        Sizes expressions(of(concat.getInputs().front()));
        AffineExpr &joined = expressions[concat.getDim()];
        for (Value input : concat.getInputs().drop_front())
          joined = joined + of(input)[concat.getDim()];
        setSizes(concat, expressions);
        return true;
      })
      .Default([](Operation *) { return false; });
}
