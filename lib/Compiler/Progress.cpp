//===- Progress.cpp - What the compiler is doing -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/Progress.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

namespace intarsia::compiler {

Progress::Progress(bool enabled)
    : enabled(enabled), isTerminal(llvm::sys::Process::StandardErrIsDisplayed()), start(Clock::now()),
      stepStart(start) {}

void Progress::begin(llvm::StringRef step) {
  end();
  current = step.str();
  stepStart = Clock::now();
  if (enabled && isTerminal)
    llvm::errs() << llvm::format("  %-10s …", current.c_str());
}

void Progress::end() {
  if (enabled && !current.empty()) {
    std::chrono::duration<double> time = Clock::now() - stepStart;
    llvm::errs() << (isTerminal ? "\r" : "") << llvm::format("  %-10s %7.3f s\n", current.c_str(), time.count());
  }
  current.clear();
}

void Progress::note(const llvm::Twine &text) {
  end();
  if (enabled)
    llvm::errs() << text << '\n';
}

double Progress::secondsSinceStart() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

} // namespace intarsia::compiler
