//===- onnx.cpp - Fuzz the reader of ONNX files -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/OnnxFile.h"

#include <cstdlib>

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::unique_ptr<onnx::File> file;
  if (!onnx::File::parse(data, bytes, "fuzz", file).ok())
    return 0;
  // Tensors of an accepted file must be readable, and as large as their shapes say.
  uint64_t sum = 0;
  for (const auto &[key, tensor] : file->archived()) {
    uint64_t elements = 1;
    for (int64_t size : tensor.shape)
      elements *= uint64_t(size);
    if (tensor.name != key || (elements == 0) != (tensor.bytes() == 0))
      std::abort();
    for (uint64_t i = 0; i < tensor.bytes(); ++i)
      sum += static_cast<const uint8_t *>(tensor.data)[i];
  }
  volatile uint64_t read = sum;
  (void)read;
  return 0;
}
