//===- SequencePool.cpp - Sequences of an engine's cache ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/SequencePool.h"

namespace intarsia::runtime {

SequencePool::~SequencePool() {
  for (Sequence *sequence : sequences_)
    if (sequence)
      cache_->freeSequence(*sequence);
}

SequenceNumber SequencePool::place(Sequence *sequence) {
  if (free_.empty()) {
    free_.push_back(SequenceNumber(sequences_.size()));
    sequences_.push_back(nullptr);
  }
  SequenceNumber number = free_.back();
  free_.pop_back();
  sequences_[size_t(number)] = sequence;
  return number;
}

SequenceNumber SequencePool::adopt(Sequence *sequence) {
  SequenceNumber number = place(sequence);
  if (tell_)
    tell_(Operation::Adopt, number, 0);
  return number;
}

Sequence *SequencePool::giveAway(SequenceNumber number) {
  free_.push_back(number);
  return std::exchange(sequences_[size_t(number)], nullptr);
}

Status SequencePool::create(SequenceNumber &made) {
  Sequence *sequence = nullptr;
  ITX_RETURN_IF_ERROR(cache_->createSequence(sequence));
  made = place(sequence);
  if (tell_)
    tell_(Operation::Create, made, 0);
  return Status::success();
}

Status SequencePool::fork(SequenceNumber from, SequenceNumber &made) {
  Sequence *sequence = nullptr;
  ITX_RETURN_IF_ERROR(cache_->fork(at(from), sequence));
  made = place(sequence);
  if (tell_)
    tell_(Operation::Fork, from, 0);
  return Status::success();
}

Status SequencePool::truncate(SequenceNumber number, int64_t length) {
  if (length >= this->length(number))
    return Status::success();
  int64_t kept = 0;
  ITX_RETURN_IF_ERROR(cache_->truncate(at(number), length, &kept));
  if (tell_)
    tell_(Operation::Truncate, number, length);
  return Status::success();
}

void SequencePool::release(SequenceNumber &number) {
  if (number < 0)
    return;
  cache_->freeSequence(at(number));
  sequences_[size_t(number)] = nullptr;
  free_.push_back(number);
  if (tell_)
    tell_(Operation::Release, number, 0);
  number = -1;
}

bool SequencePool::moveOut(SequenceNumber number) {
  bool isMoved = false;
  cache_->moveOut(at(number), isMoved);
  return isMoved;
}

void SequencePool::setEvictable(SequenceNumber number, bool evictable) { cache_->setEvictable(at(number), evictable); }

int64_t SequencePool::freePagesWithout(const std::vector<SequenceNumber> &numbers) const {
  std::vector<Sequence *> sequences;
  for (SequenceNumber number : numbers)
    sequences.push_back(&at(number));
  return cache_->freePagesWithout(sequences);
}

Status SequencePool::step(const std::vector<PoolChunk> &chunks, LogitsWanted wanted, StepResults &results) {
  std::vector<Chunk> given;
  given.reserve(chunks.size());
  for (const PoolChunk &chunk : chunks)
    given.push_back({&at(chunk.sequence), chunk.tokens.data(), int64_t(chunk.tokens.size()), chunk.outputs});
  return cache_->step(given, wanted, results);
}

Status SequencePool::repeat(Operation operation, int64_t sequence, int64_t argument) {
  bool isKnown = sequence >= 0 && sequence < int64_t(sequences_.size()) && sequences_[size_t(sequence)];
  if (operation != Operation::Create && !isKnown)
    return error(ITX_INTERNAL, "rank 0 uses sequence %lld, which this rank does not have", (long long)sequence);
  auto number = SequenceNumber(sequence);
  SequenceNumber made = -1;
  switch (operation) {
  case Operation::Create:
    ITX_RETURN_IF_ERROR(create(made));
    return made == number ? Status::success()
                          : error(ITX_INTERNAL, "a sequence has number %d here and %d on rank 0", made, number);
  case Operation::Fork:
    return fork(number, made);
  case Operation::Truncate:
    return truncate(number, argument);
  case Operation::Release:
    release(number);
    return Status::success();
  case Operation::Adopt:
    break;
  }
  return error(ITX_INTERNAL, "rank 0 asks for the unknown operation %lld", (long long)operation);
}

} // namespace intarsia::runtime
