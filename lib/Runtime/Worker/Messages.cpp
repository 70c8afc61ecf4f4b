//===- Messages.cpp - What a worker and its front end tell each other ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/Messages.h"

#include <algorithm>
#include <cmath>

namespace intarsia::runtime {

Status check(const Hello &hello) {
  if (hello.magic != workerMagic)
    return error(ITX_CORRUPT, "the first message is none of a front end");
  if (hello.version != workerVersion)
    return error(ITX_VERSION_MISMATCH,
                 "the front end speaks version %u of the protocol, this worker version %u: use both of one release",
                 hello.version, workerVersion);
  return Status::success();
}

Status check(const Submit &submit) {
  // What values mean is the engine's to refuse, with the names of its options.
  if (submit.flags & ~(Submit::hasSeed | Submit::hasMask))
    return error(ITX_CORRUPT, "'flags' is %u: only %u and %u have a meaning", submit.flags, Submit::hasSeed,
                 Submit::hasMask);
  if (submit.biasTokens.size() != submit.biasValues.size())
    return error(ITX_CORRUPT, "'bias_tokens' has %zu elements, 'bias_values' %zu", submit.biasTokens.size(),
                 submit.biasValues.size());
  for (auto [name, text] : {std::pair("key", &submit.key), std::pair("salt", &submit.salt)})
    if (text->find('\0') != std::string::npos)
      return error(ITX_CORRUPT, "'%s' has a zero byte", name);
  return Status::success();
}

Status check(const Masks &masks) {
  auto isFlag = [](uint8_t value) { return value <= 1; };
  if (!std::all_of(masks.complete.begin(), masks.complete.end(), isFlag))
    return error(ITX_CORRUPT, "'complete' has a value other than 0 and 1");
  return Status::success();
}

Status check(const Events &events) {
  uint64_t top = 0, bytes = 0;
  for (const EventRecord &event : events.events) {
    top += event.topCount;
    bytes += event.messageBytes;
  }
  if (top != events.top.size() || bytes != events.messages.size())
    return error(ITX_CORRUPT, "events have %llu likeliest tokens and %llu bytes of messages, there are %zu and %zu",
                 static_cast<unsigned long long>(top), static_cast<unsigned long long>(bytes), events.top.size(),
                 events.messages.size());
  return Status::success();
}

itx_request requestOf(const Submit &submit) {
  itx_request request = {};
  request.struct_bytes = sizeof(request);
  request.prompt = submit.prompt.data();
  request.prompt_count = submit.prompt.size();
  request.max_tokens = submit.maxTokens;
  request.min_tokens = submit.minTokens;
  request.stop_tokens = submit.stopTokens.data();
  request.stop_count = submit.stopTokens.size();
  request.temperature = submit.temperature;
  request.top_k = submit.topK;
  request.top_p = submit.topP;
  request.min_p = submit.minP;
  request.repetition_penalty = submit.repetitionPenalty;
  request.presence_penalty = submit.presencePenalty;
  request.frequency_penalty = submit.frequencyPenalty;
  request.bias_tokens = submit.biasTokens.data();
  request.bias_values = submit.biasValues.data();
  request.bias_count = submit.biasTokens.size();
  request.seed = submit.seed;
  request.has_seed = (submit.flags & Submit::hasSeed) != 0;
  request.seed_spawn = submit.seedSpawn;
  request.samples = submit.samples;
  request.logprobs = submit.logprobs;
  request.prompt_logprobs = submit.promptLogprobs;
  request.draft_tokens = submit.draftTokens;
  request.has_mask = (submit.flags & Submit::hasMask) != 0;
  request.priority = submit.priority;
  request.deadline_seconds = submit.deadlineSeconds;
  request.key = submit.key.c_str();
  request.salt = submit.salt.c_str();
  return request;
}

Status readHeader(const uint8_t *data, uint32_t mostBytes, MessageHeader &header) {
  std::memcpy(&header.bodyBytes, data, sizeof(header.bodyBytes));
  std::memcpy(&header.kind, data + sizeof(header.bodyBytes), sizeof(header.kind));
  if (header.bodyBytes > mostBytes)
    return error(ITX_CORRUPT, "a message of kind %u with %u bytes; at most %u are possible", header.kind,
                 header.bodyBytes, mostBytes);
  return Status::success();
}

} // namespace intarsia::runtime
