//===- sequence.cpp - Fuzz the reader of saved sequences ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/SequenceFile.h"

using namespace intarsia;
using namespace intarsia::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  SequenceFileContents contents;
  if (!parseSequenceFile(data, bytes, "fuzz", contents).ok())
    return 0;
  (void)checkSequenceHash(data, bytes, "fuzz");
  // All units of an accepted file can be read.
  uint64_t pages = contents.tokens.size() / contents.pageTokens + (contents.tokens.size() % contents.pageTokens != 0);
  uint8_t sum = 0;
  for (size_t i = 0; i < contents.states.size(); ++i)
    for (uint64_t b = 0; b < (contents.states[i].paged ? pages : 1) * contents.states[i].unitBytes; ++b)
      sum += data[contents.stateOffsets[i] + b];
  volatile uint8_t used = sum;
  (void)used;
  return 0;
}
