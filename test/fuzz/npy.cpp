//===- npy.cpp - Fuzz the reader of NumPy files -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Npy.h"

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  NpyHeader header;
  if (!parseNpy(data, bytes, "fuzz", header).ok())
    return 0;
  std::vector<uint8_t> copy(header.dataBytes + 1);
  if (header.fortranOrder && header.dataBytes != 0)
    fortranToRowMajor(header, data + header.dataOffset, copy.data());
  NpyHeader again;
  std::string text = npyHeaderText(header.dtype, header.shape) + std::string(header.dataBytes, 'x');
  if (!parseNpy(reinterpret_cast<const uint8_t *>(text.data()), text.size(), "again", again).ok() ||
      again.shape != header.shape)
    __builtin_trap();
  return 0;
}
