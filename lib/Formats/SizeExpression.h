//===- SizeExpression.h - Numbers computed from the sizes of a launch ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_SIZEEXPRESSION_H
#define INTARSIA_LIB_FORMATS_SIZEEXPRESSION_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace intarsia {

/// One step of an expression in postfix notation: pushes a value, or replaces the two last ones by a result.
struct SizeStep {
  enum class Kind { Number, Size, Add, Multiply, FloorDivide, CeilDivide, Modulo } kind;
  int64_t value = 0; // the number, or the position of a size

  bool operator==(const SizeStep &) const = default;
};

/// A number that is computed from the sizes of a launch. An expression without steps is not valid.
using SizeExpression = std::vector<SizeStep>;

/// Reads an expression in postfix notation, "s0 3 + s1 floordiv". Returns no steps if it is not valid.
SizeExpression parseSizeExpression(const std::string &text);

/// Returns the text that parseSizeExpression reads as this expression.
std::string sizeExpressionText(const SizeExpression &expression);

/// Returns the value of a valid expression; none if a size is missing, a divisor is not positive, or a result needs
/// more than 64 bits.
std::optional<int64_t> evaluate(const SizeExpression &expression, const int64_t *sizes, size_t count);

/// Returns the number of sizes that a launch must have for the expression to be computed.
size_t requiredSizes(const SizeExpression &expression);

} // namespace intarsia

#endif
