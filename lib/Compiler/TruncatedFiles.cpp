//===- TruncatedFiles.cpp - A message where a mapped file is shortened -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Weights are read through mappings. If another process shortens the file, the kernel raises SIGBUS at the first read
// behind its new end; no check before the read can exclude that. All code here is safe in a signal handler.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Compiler/Compiler.h"
#include "llvm/Support/Signals.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace intarsia {

namespace {

/// Reads lines of /proc/self/maps ("begin-end rwxp offset device inode    path") until one holds an address.
class MappingFinder {
public:
  explicit MappingFinder(uintptr_t address) : address(address) {}

  /// Returns the path of the file that is mapped at the address, or a null pointer.
  const char *find() {
    int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
      return nullptr;
    char block[512];
    bool found = false;
    for (ssize_t bytes; !found && (bytes = read(descriptor, block, sizeof(block))) > 0;)
      for (ssize_t i = 0; i < bytes && !found; ++i)
        found = take(block[i]);
    close(descriptor);
    return found ? strchr(line, '/') : nullptr;
  }

private:
  /// Takes the next character; true at the end of the line that holds the address.
  bool take(char c) {
    if (c != '\n') {
      if (length + 1 < sizeof(line))
        line[length++] = c;
      return false;
    }
    line[length] = 0;
    length = 0;
    char *end;
    uintptr_t first = number(line, &end), last = *end == '-' ? number(end + 1, &end) : 0;
    return address >= first && address < last;
  }

  static uintptr_t number(char *text, char **end) {
    uintptr_t value = 0;
    for (;; ++text) {
      if (*text >= '0' && *text <= '9')
        value = value * 16 + uintptr_t(*text - '0');
      else if (*text >= 'a' && *text <= 'f')
        value = value * 16 + uintptr_t(*text - 'a' + 10);
      else
        break;
    }
    *end = text;
    return value;
  }

  uintptr_t address;
  char line[4096 + 128]; // PATH_MAX and the fields before a path
  size_t length = 0;
};

void print(const char *text) { (void)!write(STDERR_FILENO, text, strlen(text)); }

struct sigaction previous;

void explain(int signal, siginfo_t *info, void *) {
  static std::atomic_flag isExplained;
  while (isExplained.test_and_set())
    pause(); // another thread is handling it and ends the process
  const char *path = nullptr;
  MappingFinder finder(reinterpret_cast<uintptr_t>(info->si_addr));
  if (info->si_code == BUS_ADRERR)
    path = finder.find();
  if (!path) { // no mapped file: the instruction faults again, in LLVM's handler
    sigaction(signal, &previous, nullptr);
    return;
  }
  print("error: ");
  print(path);
  print(": was shortened while it was read: compile again when nothing writes to it\n");
  llvm::sys::RunInterruptHandlers(); // removes files that are not complete
  _exit(1);
}

} // namespace

void explainTruncatedFiles() {
  struct sigaction action = {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous);
}

} // namespace intarsia
