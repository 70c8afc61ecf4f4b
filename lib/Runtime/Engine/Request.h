//===- Request.h - What an engine is asked for --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_REQUEST_H
#define INTARSIA_RUNTIME_ENGINE_REQUEST_H

#include "lib/Runtime/Engine/Sampling.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace intarsia::runtime {

using Clock = std::chrono::steady_clock;

class EventQueue;

/// The same as itx_request.
struct Request {
  uint64_t number = 0;
  std::vector<int64_t> prompt;
  int64_t maxTokens = 0; // as many as may be generated
  int64_t minTokens = 0;
  std::vector<int64_t> stopTokens;
  SamplingRules rules;
  uint64_t seed = 0;
  uint32_t spawn = 0;
  int32_t samples = 1;
  int32_t logprobs = 0;
  int32_t promptLogprobs = 0;
  int64_t draftTokens = 0;
  bool hasMask = false;
  int32_t priority = 0;
  Clock::time_point deadline = Clock::time_point::max();
  std::string key, salt;
  std::shared_ptr<EventQueue> queue; // of its events; null: the engine's own
  Clock::time_point submitted;
};

/// A number of a sequence of a model's cache, the same on all ranks; -1: none.
using SequenceNumber = int32_t;

/// One text of a request.
struct Sample {
  Sample(std::shared_ptr<const Request> given, int32_t number)
      : request(std::move(given)), index(number), tokens(request->prompt),
        random(request->seed, request->spawn + uint32_t(number)) {}

  std::shared_ptr<const Request> request;
  int32_t index;
  std::vector<int64_t> tokens; // the prompt, and what was generated
  Random random;
  SeenTokens seen;            // of penalties
  std::vector<uint32_t> mask; // tokens that may come next, of a request with masks
  SequenceNumber sequence = -1, draft = -1;
  bool awaitsLogits = false; // of a step that is under way
  int32_t steps = 0;         // that are under way and have it
  bool isFinished = false;
  int64_t scored = 1;        // tokens of the prompt whose probabilities were given, if they are asked for
  int64_t cachedTokens = -1; // of the prompt, when it was first begun; -1: it was not
  Clock::time_point begun, first;

  int64_t generated() const { return int64_t(tokens.size() - request->prompt.size()); }
  /// True if this sample is served before another one.
  bool isBefore(const Sample &other) const {
    if (request->priority != other.request->priority)
      return request->priority > other.request->priority;
    if (request->deadline != other.request->deadline)
      return request->deadline < other.request->deadline;
    if (request->number != other.request->number)
      return request->number < other.request->number;
    return index < other.index;
  }
};

} // namespace intarsia::runtime

#endif
