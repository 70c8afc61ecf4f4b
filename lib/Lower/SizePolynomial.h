//===- SizePolynomial.h - Sizes that can be compared without knowing them ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LOWER_SIZEPOLYNOMIAL_H
#define INTARSIA_LIB_LOWER_SIZEPOLYNOMIAL_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <vector>

namespace intarsia::lower {

/// A sum of products of factors. Terms are sorted, so equal sizes compare equal however they
/// were written. One whose coefficients do not fit in 64 bits has no terms to go by.
class SizePolynomial {
public:
  SizePolynomial() = default;
  explicit SizePolynomial(int64_t constant) {
    if (constant)
      terms[{}] = constant;
  }
  static SizePolynomial factor(unsigned number) {
    SizePolynomial result;
    result.terms[{number}] = 1;
    return result;
  }

  SizePolynomial operator+(const SizePolynomial &other) const;
  SizePolynomial operator*(const SizePolynomial &other) const;
  bool operator==(const SizePolynomial &other) const { return terms == other.terms && overflows == other.overflows; }
  bool hasOverflow() const { return overflows; }
  /// True if it is a multiple of `divisor` whatever the factors are.
  bool isMultipleOf(int64_t divisor) const;
  /// With every factor set to one value: for choices that do not need to be exact.
  double estimate(double factorValue) const;

  const std::map<std::vector<unsigned>, int64_t> &getTerms() const { return terms; }

private:
  void add(const std::vector<unsigned> &factors, int64_t coefficient);
  std::map<std::vector<unsigned>, int64_t> terms; // sorted factors → coefficient, never 0
  bool overflows = false;
};

/// Translates between index values of a host function and polynomials. Factors are symbols of the function and values
/// that are no sums or products.
class SizeFactors {
public:
  SizePolynomial of(mlir::Value value);
  /// True if `left` is at most `right` whatever the sizes of a call are. False means that it is not known.
  bool isAtMost(const SizePolynomial &left, const SizePolynomial &right) const {
    return isNeverNegative(right + left * SizePolynomial(-1));
  }
  /// Writes the size as index arithmetic before the builder's position, which only moves forward: what was written
  /// for an earlier size is used again.
  mlir::Value materialize(const SizePolynomial &size, mlir::OpBuilder &builder, mlir::Location location);
  mlir::Value constant(int64_t value, mlir::OpBuilder &builder, mlir::Location location);

private:
  bool isNeverNegative(const SizePolynomial &size) const;
  bool isNeverNegative(mlir::Value factor);

  llvm::StringMap<unsigned> symbols;
  llvm::DenseMap<mlir::Value, unsigned> indices;
  llvm::SmallVector<mlir::Value> factors;
  llvm::SmallVector<bool> areNeverNegative;              // for each factor
  std::map<std::vector<unsigned>, mlir::Value> products; // written, without their coefficient
  std::map<std::vector<unsigned>, std::map<int64_t, mlir::Value>> terms;
};

} // namespace intarsia::lower

#endif
