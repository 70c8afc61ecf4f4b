//===- safetensors.cpp - Fuzz the reader of weight archives -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Safetensors.h"

#include <cstdlib>

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::unique_ptr<SafetensorsFile> file;
  if (!SafetensorsFile::parse(data, bytes, "fuzz", file).ok())
    return 0;
  // Tensors of an accepted file must be readable and cover the data exactly.
  uint64_t end = file->headerBytes();
  for (const ArchiveTensor &entry : file->tensors()) {
    if (entry.bytes() == 0)
      continue;
    if (entry.begin != end || entry.end > bytes)
      std::abort();
    end = entry.end;
    volatile uint8_t last = static_cast<const uint8_t *>(entry.data)[entry.bytes() - 1];
    (void)last;
    if (file->find(entry.name) == nullptr)
      std::abort();
  }
  if (end != bytes)
    std::abort();
  (void)file->metadata("format");
  return 0;
}
