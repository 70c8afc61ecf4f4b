//===- Dtype.h - Element types by name ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_DTYPE_H
#define INTARSIA_LIB_FORMATS_DTYPE_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace intarsia {

struct DtypeInfo {
  itx_dtype dtype;
  const char *name; // in manifests and messages
  uint8_t bytes;
  const char *npy;    // as .npy headers write it
  uint8_t dlpackCode; // DLDataTypeCode
};

/// Returns the properties of a type, null if there is no such type.
const DtypeInfo *dtypeInfo(itx_dtype dtype);
const DtypeInfo *dtypeInfo(std::string_view name);
const DtypeInfo *dtypeInfoOfNpy(std::string_view descr);
const DtypeInfo *dtypeInfoOfDlpack(uint8_t code, uint8_t bits, uint16_t lanes);

/// Computes the bytes of a dense tensor; an error if a size is negative or the product exceeds 2^62.
Status tensorBytes(itx_dtype dtype, const int64_t *shape, size_t rank, uint64_t &bytes);

} // namespace intarsia

#endif
