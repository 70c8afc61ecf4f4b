//===- ScaledTensor.h - Rows whose elements are multiplied by factors -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_SCALEDTENSOR_H
#define INTARSIA_LIB_WEIGHTS_SCALEDTENSOR_H

#include "lib/Weights/TensorSource.h"

namespace intarsia::weights {

/// A tensor whose rows (elements along the last dimension) are those of another one, of floats, times a factor for each
/// element, in f32: what nn.quantize with factors quantizes of a weight.
class ScaledTensor : public TensorSource {
public:
  ScaledTensor(SharedSource input, std::vector<float> factors);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  Origin originOf(int64_t element) const override { return input->originOf(element); }
  int64_t granule() const override { return input->granule(); }
  void drop(int64_t first, int64_t count) const override { input->drop(first, count); }

private:
  SharedSource input;
  std::vector<float> factors;
};

} // namespace intarsia::weights

#endif
