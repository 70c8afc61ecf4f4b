//===- StepLogits.cpp - The logits of a step ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/StepLogits.h"

#include "lib/Runtime/Core/Copies.h"

#include <cmath>

namespace intarsia::runtime {

Status StepLogits::findCandidates(const std::vector<float> &temperatures) {
  if (temperatures.empty())
    return Status::success();
  Candidates found;
  ITX_RETURN_IF_ERROR(cache_->candidates(logits_, temperatures.data(), found));
  int64_t count = found[0].shape[1];
  auto *values = static_cast<const float *>(found[0].data.get());
  auto *tokens = static_cast<const int32_t *>(found[1].data.get());
  auto *sums = static_cast<const float *>(found[2].data.get());
  for (size_t row = 0; row < temperatures.size(); ++row) {
    Likeliest &likeliest = likeliest_.emplace_back();
    for (int64_t i = 0; i < count; ++i)
      likeliest.tokens.push_back({values[int64_t(row) * count + i], tokens[int64_t(row) * count + i]});
    totals_.push_back(sums[2 * row]);
    likeliest.total = sums[2 * row + 1];
    likeliest.error = deviceError;
    likeliest.vocabulary = vocabulary();
  }
  return Status::success();
}

Status StepLogits::row(int64_t row, const float *&values) {
  const float *all = static_cast<const float *>(logits_.data.get()) + row * vocabulary();
  if (!logits_.device) {
    values = all;
    return Status::success();
  }
  std::vector<float> &copy = copies_[row];
  if (copy.empty()) {
    copy.resize(size_t(vocabulary()));
    ITX_RETURN_IF_ERROR(
        copyMemory({nullptr, copy.data()}, {logits_.device, const_cast<float *>(all)}, copy.size() * sizeof(float)));
  }
  values = copy.data();
  return Status::success();
}

std::optional<double> StepLogits::logprobOf(int64_t row, int64_t token) const {
  const Likeliest *known = likeliest(row);
  if (known)
    for (const Scored &scored : known->tokens)
      if (scored.token == token)
        return scored.score - known->tokens[0].score - std::log(totals_[size_t(row)]);
  return std::nullopt;
}

} // namespace intarsia::runtime
