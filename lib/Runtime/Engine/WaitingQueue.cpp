//===- WaitingQueue.cpp - Samples that wait for their turn --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/WaitingQueue.h"

#include <algorithm>
#include <limits>

namespace intarsia::runtime {

/// What a generated token costs more than a token of a prompt (section 5.1 of the paper).
static constexpr double generatedWeight = 2;

void WaitingQueue::add(Sample &sample) {
  Key &key = keys_[sample.request->key];
  if (key.waiting.empty() && key.running == 0) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto &[name, other] : keys_)
      if (!other.waiting.empty() || other.running != 0)
        least = std::min(least, other.service);
    if (least != std::numeric_limits<double>::infinity())
      key.service = std::max(key.service, least);
  }
  size_ += key.waiting.insert(&sample).second;
}

void WaitingQueue::remove(Sample &sample) {
  auto key = keys_.find(sample.request->key);
  if (key == keys_.end())
    return;
  size_ -= key->second.waiting.erase(&sample);
  forget(key);
}

void WaitingQueue::end(const Sample &sample) {
  auto key = keys_.find(sample.request->key);
  if (key == keys_.end())
    return;
  --key->second.running;
  forget(key);
}

void WaitingQueue::forget(std::map<std::string, Key>::iterator key) {
  // Keys come from clients: there may be any number of them.
  constexpr size_t mostKeys = 1024;
  if (key->second.waiting.empty() && key->second.running == 0 && keys_.size() > mostKeys)
    keys_.erase(key);
}

void WaitingQueue::serve(const std::string &key, int64_t promptTokens, int64_t generatedTokens) {
  keys_[key].service += double(promptTokens) + generatedWeight * double(generatedTokens);
}

} // namespace intarsia::runtime
