//===- PrefixCache.cpp - State that prompts share -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/PrefixCache.h"

#include <algorithm>

namespace intarsia::runtime {

/// Sequences that are looked at of all that have a beginning in common: the latest ones.
static constexpr size_t mostLooked = 16;
/// Pages that a kept sequence is shortened by at least, so that not every step of another one shortens it.
static constexpr int64_t leastPages = 8;
/// The bytes a second that memory takes, until they are measured: a tenth of a channel of DDR4 memory (25.6 GB/s).
static constexpr double assumedMoveRate = 2.5e9;

PrefixCache::PrefixCache(SequencePool &pool, int64_t mostTokens)
    : pool_(pool), mostTokens_(mostTokens), moveRate_(assumedMoveRate) {}

void PrefixCache::addRunning(SequenceNumber number, const std::string &salt, PrefixIndex::Tokens tokens) {
  index_.add(number, salt, tokens);
}

PrefixCache::Found PrefixCache::find(const std::string &salt, PrefixIndex::Tokens prompt) const {
  Found found;
  int64_t page = pool_.cache()->layout().pageTokens, promised = 0;
  for (const PrefixIndex::Match &match : index_.find(salt, prompt)) {
    if (match.common <= found.length)
      break;
    size_t count = std::min(match.entries->size(), mostLooked);
    for (size_t i = 0; i < count; ++i) {
      SequenceNumber number = match.entries->rbegin()[ptrdiff_t(i)];
      bool isKept = kept_.count(number) != 0;
      // One that runs writes to its last page, which would be copied for nothing.
      int64_t common = isKept ? match.common : match.common / page * page;
      int64_t length = std::min(common, pool_.length(number));
      if (!isKept) {
        length = length / page * page;
        promised = std::max(promised, common);
      }
      if (length > found.length) {
        found.from = number;
        found.length = length;
      }
    }
  }
  found.isPending = promised >= found.length + page;
  // Bringing a text back takes longer than computing a few tokens.
  if (found.length < page)
    found.from = -1, found.length = 0;
  return found;
}

void PrefixCache::keep(SequenceNumber number, const std::string &salt, Reason reason) {
  std::vector<int64_t> tokens = pool_.tokens(number);
  auto length = int64_t(tokens.size());
  if (pool_.isEvicted(number) || length == 0 || (mostTokens_ == 0 && reason == Reason::Ended)) {
    pool_.release(number);
    return;
  }
  if (PrefixIndex::Entry longer = index_.extension(salt, tokens, number); longer >= 0) {
    auto kept = kept_.find(longer);
    if (kept != kept_.end() && pool_.length(longer) >= length) {
      if (reason == Reason::Asked && kept->second.reason != Reason::Asked) {
        keptTokens_ -= kept->second.reason == Reason::Ended ? kept->second.tokens : 0;
        kept->second.reason = reason;
      }
      use(longer);
      pool_.release(number);
      return;
    }
  }
  for (PrefixIndex::Entry shorter : index_.beginnings(salt, tokens))
    if (auto kept = kept_.find(shorter); kept != kept_.end()) {
      if (kept->second.reason == Reason::Asked)
        reason = Reason::Asked;
      drop(shorter);
    }
  index_.add(number, salt, tokens);
  kept_[number] = {salt, length, reason, ++clock_};
  byUse_[clock_] = number;
  pool_.setEvictable(number, true);
  if (reason == Reason::Ended)
    keptTokens_ += length;
  while (mostTokens_ >= 0 && keptTokens_ > mostTokens_) {
    auto oldest = std::find_if(byUse_.begin(), byUse_.end(),
                               [&](const auto &item) { return kept_.at(item.second).reason == Reason::Ended; });
    drop(oldest->second);
  }
}

void PrefixCache::use(SequenceNumber number) {
  auto kept = kept_.find(number);
  if (kept == kept_.end())
    return;
  byUse_.erase(kept->second.use);
  kept->second.use = ++clock_;
  byUse_[clock_] = number;
}

void PrefixCache::forget(SequenceNumber number) {
  auto kept = kept_.find(number);
  if (kept->second.reason == Reason::Ended)
    keptTokens_ -= kept->second.tokens;
  byUse_.erase(kept->second.use);
  kept_.erase(kept);
  index_.remove(number);
}

void PrefixCache::drop(SequenceNumber number) {
  forget(number);
  pool_.release(number);
}

bool PrefixCache::takeBack(SequenceNumber number, int64_t length) {
  auto kept = kept_.find(number);
  if (kept == kept_.end() || kept->second.reason != Reason::Owed || pool_.length(number) != length)
    return false;
  forget(number);
  pool_.setEvictable(number, false);
  return true;
}

bool PrefixCache::moveOut(SequenceNumber number, int64_t tokens, double recomputeSeconds) {
  const Cache &cache = *pool_.cache();
  auto bytes = double(uint64_t(cache.layout().pagesFor(tokens)) * cache.layout().pageBytes);
  if (!cache.canMoveOut() || 2 * bytes / moveRate_ >= recomputeSeconds)
    return false;
  Clock::time_point started = Clock::now();
  if (!pool_.moveOut(number))
    return false;
  double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  if (seconds > 0)
    moveRate_ += 0.2 * (bytes / seconds - moveRate_); // of several, so that one that was interrupted does not count
  ++moved_;
  return true;
}

void PrefixCache::shorten(SequenceNumber number, int64_t length) {
  Kept &kept = kept_.at(number);
  if (length <= 0 || !pool_.truncate(number, length).ok()) {
    drop(number);
    return;
  }
  index_.remove(number);
  std::vector<int64_t> tokens = pool_.tokens(number);
  index_.add(number, kept.salt, tokens);
  if (kept.reason == Reason::Ended)
    keptTokens_ -= kept.tokens - int64_t(tokens.size());
  kept.tokens = int64_t(tokens.size());
}

bool PrefixCache::dropOldest(SequenceNumber needed) {
  for (auto [used, number] : byUse_)
    if (number != needed) {
      drop(number);
      return true;
    }
  return false;
}

bool PrefixCache::makeRoom(int64_t pages, SequenceNumber needed,
                           const std::function<double(int64_t)> &recomputeSeconds) {
  const Cache &cache = *pool_.cache();
  int64_t pageTokens = cache.layout().pageTokens;
  for (auto next = byUse_.begin(); next != byUse_.end() && cache.freePages() < pages;) {
    SequenceNumber number = next->second;
    if (number == needed || pool_.isMovedOut(number)) {
      ++next;
      continue;
    }
    int64_t length = pool_.length(number);
    if (length != 0 && moveOut(number, length, recomputeSeconds(length))) {
      ++next;
      continue;
    }
    // The tail first: the beginning is what other prompts have in common with it.
    int64_t missing = std::max(pages - cache.freePages(), leastPages);
    bool isWhole = pool_.pages(number) <= missing;
    ++next;
    shorten(number, isWhole ? 0 : (pool_.pages(number) - missing) * pageTokens);
    if (!isWhole && kept_.count(number))
      next = byUse_.find(kept_.at(number).use); // again, if that was not enough
  }
  return cache.freePages() >= pages;
}

int64_t PrefixCache::availablePages() const {
  std::vector<SequenceNumber> numbers;
  for (const auto &[number, kept] : kept_)
    numbers.push_back(number);
  return pool_.freePagesWithout(numbers);
}

} // namespace intarsia::runtime
