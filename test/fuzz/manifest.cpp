//===- manifest.cpp - Fuzz the reader of manifests ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Manifest.h"

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  Manifest manifest;
  (void)parseManifest(std::string_view(reinterpret_cast<const char *>(data), bytes), "fuzz", manifest);
  return 0;
}
