//===- Dtype.cpp - Element types by name --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Dtype.h"

#include "lib/Formats/DLPack.h"

#include <iterator>

namespace intarsia {

static const DtypeInfo table[] = {
    {ITX_F32, "f32", 4, "<f4", kDLFloat},
    {ITX_F16, "f16", 2, "<f2", kDLFloat},
    {ITX_BF16, "bf16", 2, "<u2", kDLBfloat},
    {ITX_F64, "f64", 8, "<f8", kDLFloat},
    {ITX_I64, "i64", 8, "<i8", kDLInt},
    {ITX_I32, "i32", 4, "<i4", kDLInt},
    {ITX_I16, "i16", 2, "<i2", kDLInt},
    {ITX_I8, "i8", 1, "|i1", kDLInt},
    {ITX_U8, "u8", 1, "|u1", kDLUInt},
    {ITX_BOOL, "bool", 1, "|b1", kDLBool},
    // NumPy has no bf16, so that files of "<u2" are those.
    {ITX_U16, "u16", 2, "<u2", kDLUInt},
    {ITX_U32, "u32", 4, "<u4", kDLUInt},
    {ITX_U64, "u64", 8, "<u8", kDLUInt},
};

const DtypeInfo *dtypeInfo(itx_dtype dtype) {
  return size_t(dtype) < std::size(table) ? &table[size_t(dtype)] : nullptr;
}

const DtypeInfo *dtypeInfo(std::string_view name) {
  for (const DtypeInfo &info : table)
    if (name == info.name)
      return &info;
  return nullptr;
}

const DtypeInfo *dtypeInfoOfNpy(std::string_view descr) {
  for (const DtypeInfo &info : table) {
    if (descr == info.npy)
      return &info;
    // One-byte types have no byte order: NumPy writes '|', other programs '<' or '='.
    if (info.bytes == 1 && descr.size() == 3 && descr.substr(1) == info.npy + 1)
      return &info;
  }
  return nullptr;
}

const DtypeInfo *dtypeInfoOfDlpack(uint8_t code, uint8_t bits, uint16_t lanes) {
  if (lanes != 1)
    return nullptr;
  for (const DtypeInfo &info : table)
    if (code == info.dlpackCode && bits == info.bytes * 8)
      return &info;
  return nullptr;
}

Status tensorBytes(itx_dtype dtype, const int64_t *shape, size_t rank, uint64_t &bytes) {
  const DtypeInfo *info = dtypeInfo(dtype);
  if (!info)
    return error(ITX_INVALID_ARGUMENT, "dtype %d does not exist", int(dtype));
  bytes = info->bytes;
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    if (shape[i] < 0)
      return error(ITX_INVALID_ARGUMENT, "size %zu of the shape is %lld: sizes are not negative", i,
                   (long long)shape[i]);
    empty |= shape[i] == 0;
    if (shape[i] != 0 && (__builtin_mul_overflow(bytes, uint64_t(shape[i]), &bytes) || bytes > (uint64_t(1) << 62)))
      return error(ITX_INVALID_ARGUMENT, "a tensor of this shape is larger than memory can be");
  }
  if (empty)
    bytes = 0;
  return Status::success();
}

} // namespace intarsia
