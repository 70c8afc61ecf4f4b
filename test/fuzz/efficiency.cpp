//===- efficiency.cpp - Fuzz the reader of fitted figures ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ServingCost.h"
#include <cmath>

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), bytes);
  llvm::Expected<ServingEfficiency> read = ServingEfficiency::parse(text, "fuzz");
  if (!read) {
    if (llvm::toString(read.takeError()).empty())
      __builtin_trap();
    return 0;
  }
  for (size_t index = 0; index < ServingFigures::names().size(); ++index)
    if (!std::isfinite(read->figures.at(index)) || read->figures.at(index) < 0)
      __builtin_trap();
  return 0;
}
