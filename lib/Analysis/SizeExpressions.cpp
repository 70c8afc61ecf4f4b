//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SymbolicSizes.h"

#include "llvm/Support/MathExtras.h"
#include <limits>
#include <map>

using namespace mlir;
using namespace intarsia;

//===-- Normal form --------------------------------------------------------------------------------------------===//

namespace {
/// Orders expressions totally and independently of addresses: symbols by position, then divisions by structure.
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

/// Orders long products first and the constant last: a * b + a + b + 1.
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

/// Returns `dividend / divisor` if the divisor is one product that divides each term.
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

/// Takes the largest multiple of a divisor that is a positive number from the constant of a dividend, so that a number
/// from 0 to the divisor is left. Returns how many times the divisor was taken.
static int64_t takeMultiple(Polynomial &dividend, const Polynomial &divisor) {
  if (divisor.size() != 1 || !divisor.begin()->first.empty() || divisor.begin()->second <= 0)
    return 0;
  auto constant = dividend.find({});
  if (constant == dividend.end())
    return 0;
  int64_t whole = llvm::divideFloorSigned(constant->second, divisor.begin()->second);
  if (whole != 0)
    add(dividend, {}, -whole * divisor.begin()->second);
  return whole;
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
  // (x - 1) floordiv 2 + 1 is (x + 1) floordiv 2: the constant of a dividend is made smaller than the divisor.
  int64_t whole = takeMultiple(left, right);
  AffineExpr division =
      getAffineBinaryOpExpr(expression.getKind(), toExpression(left, context), toExpression(right, context));
  // Building it may have simplified it, for example to a sum of divisions.
  Polynomial quotient =
      division.getKind() == expression.getKind() ? Polynomial{{{division}, 1}} : toPolynomial(division);
  if (whole != 0 && expression.getKind() != AffineExprKind::Mod)
    add(quotient, {}, whole);
  return quotient;
}

AffineExpr SymbolicSizes::normalize(AffineExpr expression) {
  if (isa_and_nonnull<AffineConstantExpr, AffineSymbolExpr>(expression)) // most of them
    return expression;
  return expression ? toExpression(toPolynomial(expression), expression.getContext()) : expression;
}

int64_t SymbolicSizes::evaluate(AffineExpr expression, ArrayRef<int64_t> symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return constant.getValue();
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return symbols[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expression);
  int64_t left = evaluate(binary.getLHS(), symbols), right = evaluate(binary.getRHS(), symbols);
  bool isDivision = expression.getKind() != AffineExprKind::Add && expression.getKind() != AffineExprKind::Mul;
  if (isDivision && right <= 0)
    return 0; // no call gets here: divisors are checked to be positive
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

//===-- Bounds -------------------------------------------------------------------------------------------------===//

namespace {
constexpr int64_t lowest = std::numeric_limits<int64_t>::min(), highest = std::numeric_limits<int64_t>::max();

int64_t saturatingSum(int64_t a, int64_t b) {
  int64_t sum;
  if (llvm::AddOverflow(a, b, sum))
    return a < 0 ? lowest : highest;
  return sum;
}

int64_t saturatingProduct(int64_t a, int64_t b) {
  int64_t product;
  if (llvm::MulOverflow(a, b, product))
    return (a < 0) == (b < 0) ? highest : lowest;
  return product;
}

/// Returns the range of a quotient that `divide` rounds down or up; the divisor is positive.
SizeRange quotient(SizeRange dividend, SizeRange divisor, int64_t (*divide)(int64_t, int64_t)) {
  auto farthest = [&](int64_t end, bool isLow) {
    if (end == lowest || end == highest)
      return end;
    return divide(end, (end < 0) == isLow ? divisor.low : divisor.high);
  };
  return {farthest(dividend.low, true), farthest(dividend.high, false)};
}
} // namespace

SizeRange SymbolicSizes::range(AffineExpr expression) const {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return {constant.getValue(), constant.getValue()};
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    // Sizes that a call gives are positive, unless the function says otherwise; unknown sizes may be zero.
    std::optional<int64_t> most = limit(symbol.getPosition());
    bool isZeroPossible = !isKnown(expression) || mayBeEmpty(symbol.getPosition());
    return {isZeroPossible ? 0 : leastKnown, most ? *most : highest};
  }
  auto binary = cast<AffineBinaryOpExpr>(expression);
  SizeRange left = range(binary.getLHS()), right = range(binary.getRHS());
  if (expression.getKind() == AffineExprKind::Add)
    return {saturatingSum(left.low, right.low), saturatingSum(left.high, right.high)};
  if (expression.getKind() == AffineExprKind::Mul) {
    int64_t ends[] = {saturatingProduct(left.low, right.low), saturatingProduct(left.low, right.high),
                      saturatingProduct(left.high, right.low), saturatingProduct(left.high, right.high)};
    return {*llvm::min_element(ends), *llvm::max_element(ends)};
  }
  if (right.low < 1)
    return {lowest, highest};
  if (expression.getKind() == AffineExprKind::FloorDiv)
    return quotient(left, right, [](int64_t a, int64_t b) { return llvm::divideFloorSigned(a, b); });
  if (expression.getKind() == AffineExprKind::CeilDiv)
    return quotient(left, right, [](int64_t a, int64_t b) { return llvm::divideCeilSigned(a, b); });
  int64_t most = right.high == highest ? highest : right.high - 1;
  return {0, left.low >= 0 ? std::min(left.high, most) : most};
}

std::optional<SymbolicSizes::Solution> SymbolicSizes::solve(AffineExpr difference) {
  Polynomial polynomial = toPolynomial(difference);
  if (polynomial.size() != 2)
    return std::nullopt;
  std::pair<std::vector<AffineExpr>, int64_t> first = *polynomial.begin(), second = *polynomial.rbegin();
  auto &[leftFactors, left] = first;
  auto &[rightFactors, right] = second;
  // Symbols are positive, so common factors cancel: a * b = a * c implies b = c.
  for (size_t i = 0; i < leftFactors.size();) {
    auto shared = llvm::find(rightFactors, leftFactors[i]);
    if (shared == rightFactors.end() || !isa<AffineSymbolExpr>(leftFactors[i])) {
      ++i;
      continue;
    }
    rightFactors.erase(shared);
    leftFactors.erase(leftFactors.begin() + i);
  }
  MLIRContext *context = difference.getContext();
  auto isSymbol = [](const std::vector<AffineExpr> &factors) {
    return factors.size() == 1 && isa<AffineSymbolExpr>(factors.front());
  };
  if (isSymbol(leftFactors) && isSymbol(rightFactors) && left == -right)
    return Solution{cast<AffineSymbolExpr>(leftFactors.front()), rightFactors.front()};
  if (leftFactors.empty() && isSymbol(rightFactors)) {
    std::swap(first, second);
  }
  if (!isSymbol(leftFactors) || !rightFactors.empty() || right % left != 0 || -right / left < 1)
    return std::nullopt;
  return Solution{cast<AffineSymbolExpr>(leftFactors.front()), getAffineConstantExpr(-right / left, context)};
}

/// Returns the symbol n of `constant - coefficient * n >= 0` and its largest value.
std::optional<std::pair<unsigned, int64_t>> SymbolicSizes::largest(AffineExpr difference) {
  Polynomial polynomial = toPolynomial(difference);
  if (polynomial.size() != 2)
    return std::nullopt;
  const auto &[factors, coefficient] = *polynomial.begin();
  const auto &[none, constant] = *polynomial.rbegin(); // the constant comes last
  if (!none.empty() || factors.size() != 1 || coefficient >= 0)
    return std::nullopt;
  auto symbol = dyn_cast<AffineSymbolExpr>(factors.front());
  if (!symbol)
    return std::nullopt;
  int64_t most = llvm::divideFloorSigned(constant, -coefficient);
  if (most < 1)
    return std::nullopt;
  return std::pair(symbol.getPosition(), most);
}
