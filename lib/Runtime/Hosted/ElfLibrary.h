//===- ElfLibrary.h - A shared object from memory, loaded ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_ELFLIBRARY_H
#define INTARSIA_RUNTIME_HOSTED_ELFLIBRARY_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <memory>

namespace intarsia::runtime {

/// An ELF shared object with code for the host, which has no path. Each load has functions and data of its own.
class ElfLibrary {
public:
  /// Finds the function of a name that an object imports; returns null if there is none.
  using FindFunction = void *(*)(const std::string &name);

  /// Loads a copy of the bytes. `where` starts each message. ITX_UNSUPPORTED if they are for another machine.
  static Status load(const void *data, uint64_t bytes, const std::string &where, std::unique_ptr<ElfLibrary> &library);
  ~ElfLibrary();
  ElfLibrary(const ElfLibrary &) = delete;
  ElfLibrary &operator=(const ElfLibrary &) = delete;

  /// Returns the address of an exported symbol; null if there is none.
  void *find(const std::string &symbol) const;
  /// Fills the array that the symbol `functions` names with the functions whose names the array `imports` lists up to a
  /// null pointer. ITX_CORRUPT names what the object lacks, or imports and `findFunction` does not find.
  Status bindImports(const char *imports, const char *functions, FindFunction findFunction) const;
  /// Returns the lowest address of the loaded object, and the bytes from there to its end.
  const void *begin(uint64_t &bytes) const;
  /// Returns true if the array of imports that was bound has this name.
  bool imports(const char *array, const std::string &name) const;

private:
  explicit ElfLibrary(const std::string &where) : where_(where) {}
  Status open(const void *data, uint64_t bytes);

  const std::string where_;
  int file_ = -1;
  void *library_ = nullptr;
};

} // namespace intarsia::runtime

#endif
