//===- Status.h - Errors of the runtime ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A status with a message. The compiler includes this header too: no exceptions, no dependencies.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_STATUS_H
#define INTARSIA_LIB_SUPPORT_STATUS_H

#include "intarsia/runtime.h"

#include <string>
#include <utility>

namespace intarsia {

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(itx_status code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status success() { return {}; }
  bool ok() const { return code_ == ITX_OK; }
  itx_status code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  itx_status code_ = ITX_OK;
  std::string message_;
};

/// Formats like printf into a std::string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Returns an error with a printf-style message.
Status error(itx_status code, const char *pattern, ...) __attribute__((format(printf, 2, 3)));

/// Returns "a, b, c" for any range of strings.
template <typename Range> std::string join(const Range &range) {
  std::string text;
  for (const auto &item : range) {
    if (!text.empty())
      text += ", ";
    text += item;
  }
  return text;
}

/// Returns "[2, 3, 4]" for any range of integers.
template <typename Range> std::string shapeText(const Range &shape) {
  std::string text = "[";
  for (const auto &size : shape) {
    if (text.size() > 1)
      text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

#define ITX_RETURN_IF_ERROR(expression)                                                                                \
  do {                                                                                                                 \
    if (::intarsia::Status status_ = (expression); !status_.ok())                                                      \
      return status_;                                                                                                  \
  } while (false)

} // namespace intarsia

#endif
