//===- PermutedTensor.h - Rows whose elements are in another order ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_PERMUTEDTENSOR_H
#define INTARSIA_LIB_WEIGHTS_PERMUTEDTENSOR_H

#include "lib/Weights/TensorSource.h"

namespace intarsia::weights {

/// A tensor whose rows (elements along the last dimension) have those of another one in the order of `channels`: what
/// nn.quantize with channels quantizes of a weight.
class PermutedTensor : public TensorSource {
public:
  /// `channels` is a permutation of the elements of a row.
  PermutedTensor(SharedSource input, std::vector<int64_t> channels);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  Origin originOf(int64_t element) const override;
  int64_t granule() const override { return std::max<int64_t>(1, shape().back()); }
  void drop(int64_t first, int64_t count) const override { input->drop(first, count); }

private:
  SharedSource input;
  std::vector<int64_t> channels;
};

} // namespace intarsia::weights

#endif
