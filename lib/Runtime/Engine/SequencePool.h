//===- SequencePool.h - Sequences of an engine's cache ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_SEQUENCEPOOL_H
#define INTARSIA_RUNTIME_ENGINE_SEQUENCEPOOL_H

#include "lib/Runtime/Cache/Cache.h"
#include "lib/Runtime/Engine/Request.h"

#include <functional>
#include <span>

namespace intarsia::runtime {

/// New tokens of a sequence in a step.
struct PoolChunk {
  SequenceNumber sequence = -1;
  std::span<const int64_t> tokens;
  int64_t outputs = 0;
};

/// The sequences of one model, by numbers that are the same on all ranks of a world: what is done to them here is told
/// to the other ranks, which do the same.
class SequencePool {
public:
  /// What was done, for the other ranks.
  enum class Operation : int64_t { Create, Fork, Truncate, Release, Adopt };
  using Tell = std::function<void(Operation operation, int64_t sequence, int64_t argument)>;

  explicit SequencePool(std::shared_ptr<Cache> cache, Tell tell = {})
      : cache_(std::move(cache)), tell_(std::move(tell)) {}
  ~SequencePool();
  SequencePool(const SequencePool &) = delete;

  const std::shared_ptr<Cache> &cache() const { return cache_; }

  Status create(SequenceNumber &made);
  Status fork(SequenceNumber from, SequenceNumber &made);
  /// Keeps at most `length` tokens; fewer if the model cannot go back to that one.
  Status truncate(SequenceNumber number, int64_t length);
  void release(SequenceNumber &number);
  bool moveOut(SequenceNumber number);
  Status moveBack(SequenceNumber number) { return cache_->moveBack(at(number)); }
  void setEvictable(SequenceNumber number, bool evictable);
  /// Gives a sequence to a user of the cache.
  Sequence *giveAway(SequenceNumber number);
  /// Takes over a sequence that a user of the cache has made.
  SequenceNumber adopt(Sequence *sequence);

  int64_t length(SequenceNumber number) const { return cache_->length(at(number)); }
  bool isEvicted(SequenceNumber number) const { return cache_->isEvicted(at(number)); }
  bool isMovedOut(SequenceNumber number) const { return cache_->isMovedOut(at(number)); }
  int64_t pages(SequenceNumber number) const { return cache_->pagesOf(at(number)); }
  int64_t pagesToAppend(SequenceNumber number, int64_t count) const { return cache_->pagesToAppend(at(number), count); }
  std::vector<int64_t> tokens(SequenceNumber number) const { return cache_->tokens(at(number)); }
  int64_t freePagesWithout(const std::vector<SequenceNumber> &numbers) const;

  Status step(const std::vector<PoolChunk> &chunks, LogitsWanted wanted, StepResults &results);

  /// Does what another rank has done.
  Status repeat(Operation operation, int64_t sequence, int64_t argument);

private:
  Sequence &at(SequenceNumber number) const { return *sequences_[size_t(number)]; }
  SequenceNumber place(Sequence *sequence);

  std::shared_ptr<Cache> cache_;
  Tell tell_;
  std::vector<Sequence *> sequences_; // by number; null: free
  std::vector<SequenceNumber> free_;
};

} // namespace intarsia::runtime

#endif
