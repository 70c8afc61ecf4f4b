//===- CheckFinite.cpp - Whether weights are finite ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/WeightItem.h"

#include "mlir/IR/BuiltinTypes.h"
#include <cstring>

using namespace mlir;

namespace intarsia::weights {

/// Returns the mask of a float's exponent bits, which are all set in NaN and infinity; 0 for types that have neither.
static uint64_t exponentBits(StringRef dtype) {
  return dtype == "F32" ? 0x7f800000 : dtype == "F16" ? 0x7c00 : dtype == "BF16" ? 0x7f80 : 0;
}

/// Returns the number of elements before the first NaN or infinity; all if there is none.
template <typename T> static uint64_t finiteBefore(StringRef bytes, T exponent) {
  // A block has no branch between elements, so it becomes vector instructions.
  constexpr uint64_t block = 256;
  uint64_t count = bytes.size() / sizeof(T);
  T values[block];
  for (uint64_t begin = 0; begin < count; begin += block) {
    uint64_t size = std::min(block, count - begin);
    std::memcpy(values, bytes.data() + begin * sizeof(T), size * sizeof(T));
    bool isFinite = true;
    for (uint64_t i = 0; i < size; ++i)
      isFinite &= (values[i] & exponent) != exponent;
    if (!isFinite)
      return begin + (std::find_if(values, values + size, [&](T x) { return (x & exponent) == exponent; }) - values);
  }
  return count;
}

static uint64_t finiteBefore(StringRef dtype, StringRef bytes) {
  uint64_t exponent = exponentBits(dtype);
  if (!exponent)
    return UINT64_MAX;
  return dtype == "F32" ? finiteBefore<uint32_t>(bytes, exponent) : finiteBefore<uint16_t>(bytes, exponent);
}

bool areFinite(StringRef dtype, StringRef bytes) {
  uint64_t size = dtype == "F32" ? 4 : 2;
  return finiteBefore(dtype, bytes) >= bytes.size() / size;
}

std::string describeNonFinite(const Item &item) {
  for (const ArchiveTensor *part : item.tensors) {
    const auto *data = static_cast<const char *>(part->data);
    uint64_t size = part->dtype == "F32" ? 4 : 2, at = finiteBefore(part->dtype, StringRef(data, part->bytes()));
    if (at >= part->bytes() / size)
      continue;
    uint64_t bits = 0, exponent = exponentBits(part->dtype);
    std::memcpy(&bits, data + at * size, size);
    bool isNan = bits & ((exponent & -exponent) - 1);
    SmallVector<int64_t> index(part->shape.size());
    for (size_t dimension = index.size(); dimension-- > 0; at /= part->shape[dimension])
      index[dimension] = at % part->shape[dimension];
    return "tensor '" + part->name + "' has " + (isNan ? "NaN" : "an infinite value") + " at " + shapeText(index);
  }
  return "tensor '" + item.name + "' has values that are NaN or infinite"; // decoded from blocks
}

} // namespace intarsia::weights
