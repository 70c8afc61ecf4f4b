//===- SizePolynomial.cpp - Sizes that can be compared without knowing them --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/SizePolynomial.h"

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::lower {

void SizePolynomial::add(const std::vector<unsigned> &factors, int64_t coefficient) {
  int64_t &sum = terms[factors];
  overflows |= llvm::AddOverflow(sum, coefficient, sum);
  if (sum == 0)
    terms.erase(factors);
}

SizePolynomial SizePolynomial::operator+(const SizePolynomial &other) const {
  SizePolynomial result = *this;
  result.overflows |= other.overflows;
  for (const auto &[factors, coefficient] : other.terms)
    result.add(factors, coefficient);
  return result;
}

SizePolynomial SizePolynomial::operator*(const SizePolynomial &other) const {
  SizePolynomial result;
  result.overflows = overflows || other.overflows;
  for (const auto &[leftFactors, left] : terms) {
    for (const auto &[rightFactors, right] : other.terms) {
      std::vector<unsigned> factors(leftFactors);
      factors.insert(factors.end(), rightFactors.begin(), rightFactors.end());
      llvm::sort(factors);
      int64_t product = 0;
      result.overflows |= llvm::MulOverflow(left, right, product);
      result.add(factors, product);
    }
  }
  return result;
}

bool SizePolynomial::isMultipleOf(int64_t divisor) const {
  return llvm::all_of(terms, [&](const auto &term) { return term.second % divisor == 0; });
}

double SizePolynomial::estimate(double factorValue) const {
  double sum = 0;
  for (const auto &[factors, coefficient] : terms) {
    double product = coefficient;
    for (size_t i = 0; i < factors.size(); ++i)
      product *= factorValue;
    sum += product;
  }
  return sum;
}

SizePolynomial SizeFactors::of(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return SizePolynomial(constant.getSExtValue());
  if (auto sum = value.getDefiningOp<arith::AddIOp>())
    return of(sum.getLhs()) + of(sum.getRhs());
  if (auto product = value.getDefiningOp<arith::MulIOp>())
    return of(product.getLhs()) * of(product.getRhs());
  unsigned next = factors.size(), number;
  if (auto symbol = value.getDefiningOp<rt::SymbolOp>())
    number = symbols.try_emplace(symbol.getName(), next).first->second;
  else
    number = indices.try_emplace(value, next).first->second;
  if (number == next) {
    factors.push_back(value);
    areNeverNegative.push_back(false); // the answer while the factor's own operands are looked at
    areNeverNegative[next] = isNeverNegative(value);
  }
  return SizePolynomial::factor(number);
}

bool SizeFactors::isNeverNegative(const SizePolynomial &size) const {
  return !size.hasOverflow() && llvm::all_of(size.getTerms(), [&](const auto &term) {
    return term.second > 0 && llvm::all_of(term.first, [&](unsigned number) { return areNeverNegative[number]; });
  });
}

bool SizeFactors::isNeverNegative(Value factor) {
  Operation *op = factor.getDefiningOp();
  if (isa_and_nonnull<rt::SymbolOp>(op))
    return true;
  return isa_and_nonnull<arith::FloorDivSIOp, arith::CeilDivSIOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp,
                         arith::RemUIOp, arith::MaxSIOp, arith::MinSIOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isNeverNegative(of(operand)); });
}

Value SizeFactors::constant(int64_t value, OpBuilder &builder, Location location) {
  Value &written = terms[{}][value];
  if (!written)
    written = arith::ConstantIndexOp::create(builder, location, value);
  return written;
}

Value SizeFactors::materialize(const SizePolynomial &size, OpBuilder &builder, Location location) {
  Value sum;
  for (const auto &[factorIndices, coefficient] : size.getTerms()) {
    Value term;
    if (factorIndices.empty()) {
      term = constant(coefficient, builder, location);
    } else if (Value &written = terms[factorIndices][coefficient]) {
      term = written;
    } else {
      Value &product = products[factorIndices];
      for (unsigned number : product ? std::vector<unsigned>() : factorIndices)
        product =
            product ? arith::MulIOp::create(builder, location, product, factors[number]).getResult() : factors[number];
      term = product;
      if (coefficient != 1)
        term = arith::MulIOp::create(builder, location, product, constant(coefficient, builder, location));
      written = term;
    }
    sum = sum ? arith::AddIOp::create(builder, location, sum, term).getResult() : term;
  }
  return sum ? sum : constant(0, builder, location);
}

} // namespace intarsia::lower
