//===- ElfReader.h - Sections of an ELF file, checked -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ELFREADER_H
#define INTARSIA_LIB_FORMATS_ELFREADER_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace intarsia {

struct ElfSection {
  std::string_view name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// A reader of 64-bit little-endian ELF. Every read is checked to lie inside the given bytes.
class ElfReader {
public:
  /// `name` is for messages. The bytes must outlive the reader.
  static Status parse(const uint8_t *data, uint64_t bytes, const std::string &name, ElfReader &reader);

  uint16_t machine() const { return machine_; }
  /// Sections with contents in the file.
  const std::vector<ElfSection> &sections() const { return sections_; }
  /// Returns the section of a name, null if there is none.
  const ElfSection *find(std::string_view name) const;

private:
  uint16_t machine_ = 0;
  std::vector<ElfSection> sections_;
};

/// "x86-64", "aarch64" or "machine 123".
std::string elfMachineName(uint32_t machine);
/// The machine that this code runs on.
uint16_t hostElfMachine();

} // namespace intarsia

#endif
