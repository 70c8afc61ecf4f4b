//===- Limits.h - Messages where the system has no more memory, threads or room for files ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_LIMITS_H
#define INTARSIA_TOOLS_LIMITS_H

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <typeinfo>
#include <unistd.h>

namespace intarsia {

/// Ends this program with a message. Nothing can be allocated.
[[noreturn]] inline void endAtLimit(const char *what) {
  static std::atomic_flag isEnding;
  while (isEnding.test_and_set())
    pause(); // another thread ends the process
  for (const char *text :
       {"error: ", what, ": this process may not take more (ulimit -v, ulimit -u, or the machine)\n"})
    (void)!write(STDERR_FILENO, text, strlen(text));
  llvm::sys::RunInterruptHandlers(); // removes files that are not complete
  _exit(1);
}

/// Ends this program with a message, not as a crash of LLVM, where memory or threads are out or a result cannot be
/// written. For `main`, after LLVM's handlers are installed.
inline void explainLimits() {
  // Writes behind the limit of `ulimit -f` then fail, with a message of whoever writes.
  std::signal(SIGXFSZ, SIG_IGN);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { endAtLimit("out of memory"); });
  // The standard library throws where no thread can be started.
  std::set_terminate([] {
    const std::type_info *thrown = abi::__cxa_current_exception_type();
    if (thrown && strcmp(thrown->name(), "St12system_error") == 0)
      endAtLimit("no thread can be started");
    if (thrown && strcmp(thrown->name(), "St9bad_alloc") == 0)
      endAtLimit("out of memory");
    std::abort();
  });
  // LLVM ends the program where it cannot start a thread, or write to a stream that it owns.
  llvm::install_fatal_error_handler([](void *, const char *reason, bool isFault) {
    if (strncmp(reason, "pthread_", 8) == 0)
      endAtLimit("no thread can be started");
    for (const char *text : {isFault ? "LLVM ERROR: " : "error: ", reason, "\n"})
      (void)!write(STDERR_FILENO, text, strlen(text));
  });
}

} // namespace intarsia

#endif
