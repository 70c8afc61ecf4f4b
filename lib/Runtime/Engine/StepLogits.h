//===- StepLogits.h - The logits of a step ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_STEPLOGITS_H
#define INTARSIA_RUNTIME_ENGINE_STEPLOGITS_H

#include "lib/Runtime/Cache/Cache.h"
#include "lib/Runtime/Engine/Sampling.h"

#include <unordered_map>

namespace intarsia::runtime {

/// The logits of a step's rows in memory of the host; or on a device, with the likeliest tokens by them on the host.
class StepLogits {
public:
  StepLogits(std::shared_ptr<Cache> cache, const Tensor &logits) : cache_(std::move(cache)), logits_(logits) {}

  int64_t vocabulary() const { return cache_->layout().vocabulary; }
  /// Finds the likeliest tokens of each row on the device, at the row's temperature.
  Status findCandidates(const std::vector<float> &temperatures);

  /// Gives the likeliest tokens of a row; null if only all logits are known.
  const Likeliest *likeliest(int64_t row) const {
    return size_t(row) < likeliest_.size() ? &likeliest_[size_t(row)] : nullptr;
  }
  /// Gives all logits of a row, which may be copied from a device.
  Status row(int64_t row, const float *&values);
  /// Returns the logarithm of a token's probability at the temperature 1, if the likeliest tokens say it.
  std::optional<double> logprobOf(int64_t row, int64_t token) const;

private:
  std::shared_ptr<Cache> cache_;
  const Tensor &logits_;
  std::vector<Likeliest> likeliest_;
  std::vector<double> totals_; // of each row, at the temperature 1
  std::unordered_map<int64_t, std::vector<float>> copies_;
};

} // namespace intarsia::runtime

#endif
