//===- Progress.h - What the compiler is doing -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_PROGRESS_H
#define INTARSIA_LIB_COMPILER_PROGRESS_H

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <string>

namespace intarsia::compiler {

/// Prints each step and its time to standard error, if enabled.
class Progress {
public:
  explicit Progress(bool enabled);
  ~Progress() { end(); }
  /// Ends the previous step and begins another.
  void begin(llvm::StringRef step);
  void end();
  void note(const llvm::Twine &text);
  double secondsSinceStart() const;

private:
  using Clock = std::chrono::steady_clock;
  bool enabled, isTerminal;
  std::string current;
  Clock::time_point start, stepStart;
};

} // namespace intarsia::compiler

#endif
