//===- nesting.cpp - Fuzz the measures of how deeply text is nested ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Nesting.h"
#include "llvm/Support/JSON.h"

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view text(reinterpret_cast<const char *>(data), bytes);
  // Text that is not too deep is not too deep for a higher limit either, and positions are inside the text.
  for (auto *measure : {&deeperJson, &deeperMlir}) {
    std::optional<TextPosition> low = measure(text, 8), high = measure(text, 16);
    if (!low && high)
      __builtin_trap();
    for (auto &place : {low, high})
      if (place && (place->line > bytes || place->column > bytes || place->line < 1 || place->column < 1))
        __builtin_trap();
  }
  // Text that passes is parsed without a stack overflow.
  if (!deeperJson(text))
    consumeError(llvm::json::parse(llvm::StringRef(text)).takeError());
  return 0;
}
