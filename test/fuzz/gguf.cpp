//===- gguf.cpp - Fuzz the reader of GGUF files -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/DecodeBlocks.h"
#include "lib/Formats/GgufFile.h"

#include <algorithm>
#include <cstdlib>

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::unique_ptr<gguf::File> file;
  if (!gguf::File::parse(data, bytes, "fuzz", file).ok())
    return 0;
  for (const auto &[key, value] : file->metadata()) {
    volatile uint64_t read = value.string().value_or("").size() + uint64_t(value.number().value_or(0) > 0) +
                             value.boolean().value_or(false) + value.integers().has_value();
    (void)read;
  }
  // Tensors of an accepted file must be readable and decodable, and must not overlap.
  uint64_t end = 0;
  for (const gguf::Tensor &tensor : file->tensors()) {
    if (tensor.raw.bytes() == 0)
      continue;
    if (tensor.raw.begin < end || tensor.raw.end > bytes || file->find(tensor.raw.name) == nullptr)
      std::abort();
    end = tensor.raw.end;
    uint64_t elements = tensor.raw.bytes() / tensor.type->bytes * tensor.type->elements;
    float values[1000];
    if (tensor.type->isDecoded)
      gguf::decodeElements(*tensor.type, tensor.raw.data, elements / 2,
                           std::min<uint64_t>(elements - elements / 2, 1000), values);
  }
  return 0;
}
