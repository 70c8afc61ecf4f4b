//===- SizeExpression.cpp - Numbers computed from the sizes of a launch -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/SizeExpression.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace intarsia {

static constexpr std::pair<const char *, SizeStep::Kind> operators[] = {{"+", SizeStep::Kind::Add},
                                                                        {"*", SizeStep::Kind::Multiply},
                                                                        {"floordiv", SizeStep::Kind::FloorDivide},
                                                                        {"ceildiv", SizeStep::Kind::CeilDivide},
                                                                        {"mod", SizeStep::Kind::Modulo}};

SizeExpression parseSizeExpression(const std::string &text) {
  SizeExpression steps;
  std::istringstream words(text);
  size_t depth = 0;
  for (std::string word; words >> word;) {
    auto op = std::find_if(std::begin(operators), std::end(operators), [&](auto &one) { return word == one.first; });
    if (op != std::end(operators)) {
      if (depth < 2)
        return {};
      --depth;
      steps.push_back({op->second});
      continue;
    }
    bool isSize = word.front() == 's';
    char *end = nullptr;
    errno = 0;
    long long value = std::strtoll(word.c_str() + isSize, &end, 10);
    if (errno != 0 || *end != '\0' || end == word.c_str() + isSize || (isSize && (value < 0 || value > INT32_MAX)))
      return {};
    ++depth;
    steps.push_back({isSize ? SizeStep::Kind::Size : SizeStep::Kind::Number, value});
  }
  return depth == 1 ? steps : SizeExpression();
}

std::string sizeExpressionText(const SizeExpression &expression) {
  std::string text;
  for (const SizeStep &step : expression) {
    if (!text.empty())
      text += ' ';
    if (step.kind == SizeStep::Kind::Number)
      text += std::to_string(step.value);
    else if (step.kind == SizeStep::Kind::Size)
      text += 's' + std::to_string(step.value);
    else
      text += std::find_if(std::begin(operators), std::end(operators), [&](auto &one) {
                return step.kind == one.second;
              })->first;
  }
  return text;
}

/// Replaces the two last values of a stack by the result of an operation. Returns false if it is not defined, or if the
/// result needs more than 64 bits.
static bool apply(SizeStep::Kind operation, std::vector<int64_t> &stack) {
  using Kind = SizeStep::Kind;
  int64_t right = stack.back();
  stack.pop_back();
  int64_t &left = stack.back();
  if (operation == Kind::Add)
    return !__builtin_add_overflow(left, right, &left);
  if (operation == Kind::Multiply)
    return !__builtin_mul_overflow(left, right, &left);
  if (right <= 0)
    return false;
  int64_t quotient = left / right, remainder = left % right;
  if (remainder < 0) {
    remainder += right;
    --quotient;
  }
  left = operation == Kind::Modulo ? remainder : quotient + (operation == Kind::CeilDivide && remainder != 0);
  return true;
}

std::optional<int64_t> evaluate(const SizeExpression &expression, const int64_t *sizes, size_t count) {
  // Most expressions of launches are one number: they need no stack.
  if (expression.size() == 1 && expression.front().kind == SizeStep::Kind::Number)
    return expression.front().value;
  std::vector<int64_t> stack;
  for (const SizeStep &step : expression) {
    if (step.kind == SizeStep::Kind::Number)
      stack.push_back(step.value);
    else if (step.kind != SizeStep::Kind::Size) {
      if (!apply(step.kind, stack))
        return std::nullopt;
    } else if (size_t(step.value) < count) {
      stack.push_back(sizes[step.value]);
    } else {
      return std::nullopt;
    }
  }
  return stack.back();
}

size_t requiredSizes(const SizeExpression &expression) {
  size_t required = 0;
  for (const SizeStep &step : expression)
    if (step.kind == SizeStep::Kind::Size)
      required = std::max(required, size_t(step.value) + 1);
  return required;
}

} // namespace intarsia
