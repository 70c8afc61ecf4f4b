//===- ScaledTensor.cpp - Rows whose elements are multiplied by factors -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/ScaledTensor.h"

#include "llvm/ADT/STLExtras.h"

using llvm::Expected;

namespace intarsia::weights {

ScaledTensor::ScaledTensor(SharedSource source, std::vector<float> numbers)
    : TensorSource(source->shape(), "F32", sizeof(float)), input(std::move(source)), factors(std::move(numbers)) {}

Expected<StoredRun> ScaledTensor::read(Run run, char *scratch) const {
  llvm::MutableArrayRef<float> values(reinterpret_cast<float *>(scratch), size_t(run.count));
  if (llvm::Error error = input->readFloats(run, values))
    return std::move(error);
  int64_t columns = shape().back();
  for (auto [number, value] : llvm::enumerate(values))
    value *= factors[size_t((run.first + int64_t(number) * run.stride) % columns)];
  return StoredRun{scratch};
}

} // namespace intarsia::weights
