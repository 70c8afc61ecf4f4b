//===- Sizes.h - Sizes on a command line --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_SIZES_H
#define INTARSIA_TOOLS_SIZES_H

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>

namespace intarsia {

/// Parses "6GB", "1.5 GiB" or "100000000" as bytes; K, KB and MB are powers of 1000, KiB and MiB of 1024. Throws
/// CLI::ValidationError.
inline uint64_t parseSize(const std::string &option, const std::string &text) {
  static constexpr std::pair<const char *, double> units[] = {
      {"", 1},        {"b", 1},        {"k", 1e3},     {"kb", 1e3},     {"ki", 0x1p10}, {"kib", 0x1p10},
      {"m", 1e6},     {"mb", 1e6},     {"mi", 0x1p20}, {"mib", 0x1p20}, {"g", 1e9},     {"gb", 1e9},
      {"gi", 0x1p30}, {"gib", 0x1p30}, {"t", 1e12},    {"tb", 1e12},    {"ti", 0x1p40}, {"tib", 0x1p40}};
  double value = 0;
  auto [after, problem] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  std::string unit(after, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' '));
  for (char &letter : unit)
    letter = char(std::tolower(static_cast<unsigned char>(letter)));
  for (auto [name, factor] : units)
    // Sizes beyond 2^53 bytes would not be exact, and no machine has them.
    if (unit == name && problem == std::errc() && value * factor >= 1 && value * factor <= 0x1p53)
      return uint64_t(value * factor);
  throw CLI::ValidationError(option, "'" + text + "' is no size from 1 B to 8 PiB, such as 6GB, 512MiB or 100000000");
}

} // namespace intarsia

#endif
