//===- GpuLibrary.h - A vendor's library, found while the program runs ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_GPULIBRARY_H
#define INTARSIA_RUNTIME_GPU_GPULIBRARY_H

#include "lib/Support/Status.h"

#include <vector>

namespace intarsia::runtime {

/// A shared library that is opened by name, and stays open until the process ends: drivers do not withstand being
/// closed. Functions are bound one by one; what is missing is reported for all of them at once.
class GpuLibrary {
public:
  /// Opens the first library of the names that there is; ITX_NOT_FOUND tells the names and where they were looked for.
  /// `what` is what the library belongs to: "CUDA driver".
  static Status open(const std::vector<std::string> &names, const std::string &what, GpuLibrary &library);

  /// Finds a function. One that is missing is null, and an error of check() if it is required.
  template <typename Function> void bind(const char *symbol, Function *&function, bool isRequired) {
    function = reinterpret_cast<Function *>(find(symbol, isRequired));
  }
  /// Returns ITX_UNSUPPORTED, with the names, if required functions are missing.
  Status check() const;

  /// Returns the name by which the library was found.
  const std::string &name() const { return name_; }

private:
  void *find(const char *symbol, bool isRequired);

  void *handle_ = nullptr;
  std::string name_, what_;
  std::vector<std::string> missing_;
};

} // namespace intarsia::runtime

#endif
