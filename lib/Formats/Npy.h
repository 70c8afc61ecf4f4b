//===- Npy.h - NumPy array files ----------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1.0 to 3.0.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_NPY_H
#define INTARSIA_LIB_FORMATS_NPY_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia {

struct NpyHeader {
  itx_dtype dtype = ITX_F32;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
  uint64_t dataOffset = 0;
  uint64_t dataBytes = 0;
};

/// Reads the header and checks that the data is complete. `name` starts each message.
Status parseNpy(const uint8_t *data, uint64_t bytes, const std::string &name, NpyHeader &header);

/// Copies elements stored in Fortran order (first size fastest) to row-major order.
void fortranToRowMajor(const NpyHeader &header, const uint8_t *from, uint8_t *to);

/// The bytes before the data of a version 1.0 file, padded so that the data begins at a multiple of 64.
std::string npyHeaderText(itx_dtype dtype, const std::vector<int64_t> &shape);

} // namespace intarsia

#endif
