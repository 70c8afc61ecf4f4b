//===- Errors.h - The first error of an import --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_BUILDER_ERRORS_H
#define INTARSIA_IMPORT_BUILDER_ERRORS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <functional>
#include <string>
#include <utility>

namespace intarsia::importer {

/// Keeps the first error. Builders continue after an error with values that keep the graph well-formed; their caller
/// asks any() before it uses the result. Later errors are often consequences of the first, so only that is reported.
class Errors {
public:
  void report(const llvm::Twine &message) {
    if (first.empty())
      first = inTermsOfModel ? inTermsOfModel(message.str()) : message.str();
  }
  /// Sets a function that rewrites messages, which use the names of the builders' settings, for models with other
  /// names.
  void setTerms(std::function<std::string(llvm::StringRef)> terms) { inTermsOfModel = std::move(terms); }
  bool any() const { return !first.empty(); }
  const std::string &message() const { return first; }
  /// Returns the first error and forgets it, for a caller that reports it in another way.
  std::string take() { return std::exchange(first, {}); }

private:
  std::string first;
  std::function<std::string(llvm::StringRef)> inTermsOfModel;
};

} // namespace intarsia::importer

#endif
