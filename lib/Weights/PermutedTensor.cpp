//===- PermutedTensor.cpp - Rows whose elements are in another order --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/PermutedTensor.h"

#include "lib/Weights/WeightItem.h"

using llvm::Expected;

namespace intarsia::weights {

PermutedTensor::PermutedTensor(SharedSource source, std::vector<int64_t> order)
    : TensorSource(source->shape(), source->dtype(), source->elementBytes()), input(std::move(source)),
      channels(std::move(order)) {}

Origin PermutedTensor::originOf(int64_t element) const {
  int64_t columns = granule();
  return input->originOf(element / columns * columns + (channels.empty() ? 0 : channels[element % columns]));
}

Expected<StoredRun> PermutedTensor::read(Run run, char *scratch) const {
  int64_t columns = granule(), bytes = elementBytes(), loaded = -1;
  llvm::SmallVector<char, 0> row;
  row.resize_for_overwrite(columns * bytes);
  for (int64_t done = 0; done < run.count; ++done) {
    int64_t element = run.first + done * run.stride, first = element / columns * columns;
    if (first != loaded) {
      Expected<StoredRun> stored = input->read({first, columns}, row.data());
      if (!stored)
        return stored.takeError();
      gatherElements(*stored, columns, elementBytes(), row.data());
      loaded = first;
    }
    std::memcpy(scratch + done * bytes, row.data() + channels[element - first] * bytes, bytes);
  }
  return StoredRun{scratch};
}

} // namespace intarsia::weights
