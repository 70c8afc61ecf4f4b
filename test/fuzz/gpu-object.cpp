//===- gpu-object.cpp - Fuzz the reader of objects of GPUs --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/GpuObject.h"

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  GpuObject object;
  if (!parseGpuObject(data, bytes, "fuzz", object).ok())
    return 0;
  std::vector<std::string> code;
  for (const GpuCode &piece : object.code) {
    // Larger pieces take the fuzzer's memory and show nothing else.
    if (piece.bytes > (1 << 20) || !unpackGpuCode(piece, "fuzz", code.emplace_back()).ok())
      return 0;
  }
  const int64_t sizes[] = {0, -1, 7, INT64_MAX};
  for (const GpuKernel &kernel : object.kernels)
    for (const GpuLaunch &launch : kernel.launches)
      for (const SizeExpression &blocks : launch.grid)
        (void)evaluate(blocks, sizes, 4);
  std::string again;
  GpuObject other;
  if (!writeGpuObject(object, {code.begin(), code.end()}, again).ok() ||
      !parseGpuObject(again.data(), again.size(), "again", other).ok() || other.kernels.size() != object.kernels.size())
    __builtin_trap();
  return 0;
}
