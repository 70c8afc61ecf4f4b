//===- RankLink.cpp - What rank 0 decides for the others ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/RankLink.h"

#include "lib/Runtime/Collectives/Operations.h"
#include "lib/Runtime/Collectives/World.h"

#include <algorithm>
#include <bit>

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
  std::lock_guard lock(world_.mutex());
  for (int32_t rank = 1; rank < world_.size(); ++rank)
    ITX_RETURN_IF_ERROR(world_.makeChannel(0, rank, channels_.emplace_back()));
  return Status::success();
}

/// Sends words to the other rank of a channel, or receives them. A channel is used in one direction alone, so that rank
/// 0 need not wait for the others: a last stage may wait for it to take results of an earlier step.
static Status transfer(Communicator &channel, bool sends, int64_t *words, size_t count) {
  return sends ? intarsia::runtime::send(channel, ITX_I64, words, count)
               : intarsia::runtime::receive(channel, ITX_I64, words, count);
}

Status RankLink::exchange(std::vector<int64_t> &words) {
  std::lock_guard lock(world_.mutex());
  // Ranks of one host have memory for these messages alone, so that results of stages that are still to come can wait.
  if (std::any_of(channels_.begin(), channels_.end(), [](Communicator *channel) { return !channel->isOnOneHost(); }))
    ITX_RETURN_IF_ERROR(world_.late().finish());
  for (size_t i = 0; i < channels_.size(); ++i) {
    bool sends = isFirst();
    if (!sends && world_.rank() != int32_t(i) + 1)
      continue;
    std::vector<int64_t> first(firstWords);
    if (sends) {
      first[0] = int64_t(words.size());
      std::copy_n(words.begin(), std::min(words.size(), firstWords - 1), first.begin() + 1);
    }
    ITX_RETURN_IF_ERROR(transfer(*channels_[i], sends, first.data(), first.size()));
    if (!sends) {
      words.resize(size_t(first[0]));
      std::copy_n(first.begin() + 1, std::min(words.size(), firstWords - 1), words.begin());
    }
    if (words.size() > firstWords - 1)
      ITX_RETURN_IF_ERROR(
          transfer(*channels_[i], sends, words.data() + firstWords - 1, words.size() - (firstWords - 1)));
  }
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
