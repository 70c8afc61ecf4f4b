//===- RankLink.cpp - What rank 0 decides for the others ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/RankLink.h"

#include "lib/Runtime/Collectives/Operations.h"
#include "lib/Runtime/Collectives/World.h"

#include <bit>
#include <numeric>

namespace intarsia::runtime {

/// Words that are sent at once: most messages are single tokens of a few samples.
static constexpr size_t firstWords = 256;

bool RankLink::isFirst() const { return world_.rank() == 0; }

double RankLink::deadlineSeconds() const {
  constexpr double usual = 300; // where ranks wait for ever, a message now and then does no harm
  double seconds = world_.state().deadlineSeconds();
  return seconds > 0 ? seconds : usual;
}

Status RankLink::open() {
  std::vector<int32_t> ranks(size_t(world_.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::lock_guard lock(world_.mutex());
  ITX_RETURN_IF_ERROR(world_.late().finish());
  return world_.group(ranks, group_);
}

Status RankLink::exchange(std::vector<int64_t> &words) {
  std::lock_guard lock(world_.mutex());
  // Ranks of one host have memory for these messages alone, so that results of stages that are still to come can wait.
  if (!group_->isOnOneHost())
    ITX_RETURN_IF_ERROR(world_.late().finish());
  auto count = int64_t(words.size());
  words.resize(std::max(words.size(), firstWords - 1));
  std::vector<int64_t> first = {count};
  first.insert(first.end(), words.begin(), words.begin() + firstWords - 1);
  ITX_RETURN_IF_ERROR(broadcast(*group_, ITX_I64, 0, first.data(), first.data(), first.size()));
  words.resize(size_t(first[0]));
  std::copy_n(first.begin() + 1, std::min(words.size(), firstWords - 1), words.begin());
  if (words.size() > firstWords - 1)
    ITX_RETURN_IF_ERROR(broadcast(*group_, ITX_I64, 0, words.data() + firstWords - 1, words.data() + firstWords - 1,
                                  words.size() - (firstWords - 1)));
  return Status::success();
}

Status RankLink::least(int64_t &number) {
  std::lock_guard lock(world_.mutex());
  ITX_RETURN_IF_ERROR(world_.late().finish());
  int64_t negated = -number;
  ITX_RETURN_IF_ERROR(allReduce(world_.all(), Reduction::Maximum, ITX_I64, &negated, &negated, 1));
  number = -negated;
  return Status::success();
}

// ---- Messages ---------------------------------------------------------------------------------------------

static int64_t wordOf(double value) { return std::bit_cast<int64_t>(value); }
static double numberOf(int64_t word) { return std::bit_cast<double>(word); }

Status RankLink::send(RankMessage message) {
  std::vector<int64_t> words = {int64_t(message.kind),          message.model,
                                int64_t(message.wanted),        int64_t(changes_.size()),
                                int64_t(message.chunks.size()), int64_t(message.events.size())};
  for (const RankMessage::Change &change : changes_)
    words.insert(words.end(), {int64_t(change.operation), change.model, change.sequence, change.argument});
  changes_.clear();
  for (const RankMessage::Piece &piece : message.chunks) {
    words.insert(words.end(), {piece.sequence, piece.outputs, int64_t(piece.tokens.size())});
    words.insert(words.end(), piece.tokens.begin(), piece.tokens.end());
  }
  for (const StoredEvent &stored : message.events) {
    const itx_engine_event &event = stored.event;
    words.insert(words.end(),
                 {int64_t(event.kind), int64_t(event.finish), int64_t(event.request), event.sample, event.token,
                  wordOf(event.logprob), int64_t(event.step), event.prompt_tokens, event.cached_tokens, event.tokens,
                  wordOf(event.waited_seconds), wordOf(event.prompt_seconds), int64_t(event.status),
                  int64_t(stored.top.size()), int64_t(stored.message.size())});
    for (const itx_logprob &top : stored.top)
      words.insert(words.end(), {top.token, wordOf(top.value)});
    for (unsigned char letter : stored.message)
      words.push_back(letter);
  }
  return exchange(words);
}

Status RankLink::receive(RankMessage &message) {
  std::vector<int64_t> words;
  ITX_RETURN_IF_ERROR(exchange(words));
  // Rank 0 is the same program: a message that ends too early is an error of its own.
  size_t at = 0;
  auto next = [&]() -> int64_t { return at < words.size() ? words[at++] : (++at, 0); };
  message = {};
  message.kind = RankMessage::Kind(next());
  message.model = next();
  message.wanted = LogitsWanted(next());
  int64_t changes = next(), chunks = next(), events = next();
  for (int64_t i = 0; i < changes && at < words.size(); ++i) {
    RankMessage::Change change = {};
    change.operation = SequencePool::Operation(next());
    change.model = next();
    change.sequence = next();
    change.argument = next();
    message.changes.push_back(change);
  }
  for (int64_t i = 0; i < chunks && at < words.size(); ++i) {
    RankMessage::Piece piece = {};
    piece.sequence = next();
    piece.outputs = next();
    for (int64_t count = next(); count > 0 && at < words.size(); --count)
      piece.tokens.push_back(next());
    message.chunks.push_back(std::move(piece));
  }
  for (int64_t i = 0; i < events && at < words.size(); ++i) {
    StoredEvent &stored = message.events.emplace_back();
    itx_engine_event &event = stored.event;
    event.kind = itx_engine_event_kind(next());
    event.finish = itx_finish(next());
    event.request = uint64_t(next());
    event.sample = int32_t(next());
    event.token = next();
    event.logprob = float(numberOf(next()));
    event.step = uint64_t(next());
    event.prompt_tokens = next();
    event.cached_tokens = next();
    event.tokens = next();
    event.waited_seconds = numberOf(next());
    event.prompt_seconds = numberOf(next());
    event.status = itx_status(next());
    int64_t top = next(), letters = next();
    for (; top > 0 && at < words.size(); --top) {
      itx_logprob logprob = {};
      logprob.token = next();
      logprob.value = float(numberOf(next()));
      stored.top.push_back(logprob);
    }
    for (; letters > 0 && at < words.size(); --letters)
      stored.message.push_back(char(next()));
  }
  if (at != words.size())
    return error(ITX_INTERNAL, "a message of rank 0 has %zu words, %zu are needed", words.size(), at);
  return Status::success();
}

} // namespace intarsia::runtime
