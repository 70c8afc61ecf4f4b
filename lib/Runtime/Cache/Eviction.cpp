//===- Eviction.cpp - Sequences that leave a cache, and come back ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/Cache.h"
#include "lib/Runtime/Tiers/WeightStream.h"

#include <algorithm>
#include <new>

namespace intarsia::runtime {

Status Cache::makeRoom(int64_t pages, const std::vector<const Sequence *> &busy) {
  if (pages <= memory_->freePages())
    return Status::success();
  std::vector<Sequence *> candidates;
  for (const std::unique_ptr<Sequence> &sequence : sequences_)
    if (sequence && sequence->isEvictable && !sequence->pages.empty() &&
        std::find(busy.begin(), busy.end(), sequence.get()) == busy.end())
      candidates.push_back(sequence.get());
  std::sort(candidates.begin(), candidates.end(),
            [](const Sequence *left, const Sequence *right) { return left->lastUse < right->lastUse; });
  // Counts the sequences to evict: a shared page is free when the last sequence that has it is gone.
  std::vector<int32_t> references(memory_->pages());
  for (int64_t page = 0; page < memory_->pages(); ++page)
    references[page] = memory_->references(int32_t(page));
  int64_t free = memory_->freePages();
  size_t count = 0;
  for (; count < candidates.size() && free < pages; ++count)
    for (int32_t page : candidates[count]->pages)
      free += --references[page] == 0;
  if (free < pages)
    return error(ITX_CACHE_FULL,
                 "%s: the cache is full: %lld more pages (of %lld tokens) are needed, %lld of %lld are free and %lld "
                 "could be evicted: free or evict sequences, or make a larger cache",
                 name(), (long long)pages, (long long)layout_.pageTokens, (long long)memory_->freePages(),
                 (long long)memory_->pages(), (long long)(free - memory_->freePages()));
  candidates.resize(count);
  // Those whose pages others hold too may have been taken for nothing.
  std::erase_if(candidates, [&](Sequence *candidate) {
    int64_t without = free;
    for (int32_t page : candidate->pages)
      without -= references[page]++ == 0;
    if (without >= pages) {
      free = without;
      return true;
    }
    for (int32_t page : candidate->pages)
      --references[page];
    return false;
  });
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (spill_)
      spill(*candidates[i], busy);
    dropPages(*candidates[i], 0);
    candidates[i]->isEvicted = !candidates[i]->spilled;
  }
  return Status::success();
}

void Cache::moveOut(Sequence &sequence, bool &isMoved) {
  std::lock_guard lock(mutex_);
  isMoved = false;
  if (sequence.isEvicted || sequence.tokens.empty())
    return;
  if (spill_ && !sequence.spilled)
    spill(sequence, {&sequence});
  dropPages(sequence, 0);
  isMoved = sequence.spilled != nullptr;
  sequence.isEvicted = !isMoved;
}

Status Cache::moveBack(Sequence &sequence) {
  std::lock_guard lock(mutex_);
  return bringBack(sequence, {});
}

int64_t Cache::pagesToAppend(const Sequence &sequence, int64_t count) const {
  std::lock_guard lock(mutex_);
  int64_t length = sequence.length();
  bool copies =
      length % layout_.pageTokens != 0 && !sequence.pages.empty() && memory_->references(sequence.pages.back()) > 1;
  return layout_.pagesFor(length + count) - int64_t(sequence.pages.size()) + copies;
}

int64_t Cache::freePages() const {
  std::lock_guard lock(mutex_);
  return memory_->freePages();
}

int64_t Cache::pagesOf(const Sequence &sequence) const {
  std::lock_guard lock(mutex_);
  return int64_t(sequence.pages.size());
}

bool Cache::isMovedOut(const Sequence &sequence) const {
  std::lock_guard lock(mutex_);
  return sequence.spilled != nullptr;
}

int64_t Cache::freePagesWithout(const std::vector<Sequence *> &sequences) const {
  std::lock_guard lock(mutex_);
  int64_t free = memory_->freePages();
  std::vector<int32_t> taken(memory_->pages());
  for (const Sequence *sequence : sequences)
    for (int32_t page : sequence->pages)
      free += ++taken[page] == memory_->references(page);
  return free;
}

Status Cache::spillStatus() const {
  std::lock_guard lock(mutex_);
  return spillStatus_;
}

void Cache::spill(Sequence &sequence, const std::vector<const Sequence *> &busy) {
  std::vector<std::vector<const uint8_t *>> units;
  std::vector<std::vector<uint8_t>> copies;
  std::vector<SpillStore::Piece> pieces;
  Status status;
  try {
    status = readUnits(sequence, /*paged=*/true, units, copies);
    for (size_t i = 0; i < units.size(); ++i)
      for (const uint8_t *unit : units[i])
        pieces.push_back({unit, layout_.states[i].unitBytes});
  } catch (const std::bad_alloc &) {
    status = error(ITX_OUT_OF_MEMORY, "%s: no memory to move a sequence out of the cache", name());
  }
  bool isFull = false;
  if (status.ok())
    status = spill_->put(pieces, sequence.spilled, isFull);
  while (!status.ok() && isFull) {
    Sequence *oldest = nullptr;
    for (const std::unique_ptr<Sequence> &other : sequences_)
      if (other && other->spilled && other->isEvictable && (!oldest || other->lastUse < oldest->lastUse) &&
          std::find(busy.begin(), busy.end(), other.get()) == busy.end())
        oldest = other.get();
    if (!oldest)
      break;
    oldest->spilled.reset();
    oldest->isEvicted = true;
    ++lost_;
    status = spill_->put(pieces, sequence.spilled, isFull);
  }
  sequence.spilledPages = sequence.pages.size();
  if (!status.ok()) {
    ++lost_;
    spillStatus_ = std::move(status);
  }
}

Status Cache::bringBack(Sequence &sequence, const std::vector<const Sequence *> &busy) {
  if (!sequence.spilled)
    return Status::success();
  size_t pages = size_t(layout_.pagesFor(sequence.length()));
  makeRoomForAllocation(pages * layout_.pageBytes);
  std::vector<std::vector<uint8_t>> contents; // of the states
  uint64_t offset = 0;
  for (const StateTensor &state : layout_.states) {
    contents.emplace_back(state.paged ? pages * state.unitBytes : 0);
    if (!state.paged)
      continue;
    ITX_RETURN_IF_ERROR(sequence.spilled->read(offset, contents.back().data(), contents.back().size()));
    offset += sequence.spilledPages * state.unitBytes;
  }
  sequence.pages.reserve(pages);
  std::vector<const Sequence *> needed = busy;
  needed.push_back(&sequence);
  ITX_RETURN_IF_ERROR(makeRoom(int64_t(pages), needed));
  Status status;
  while (sequence.pages.size() < pages && status.ok()) {
    sequence.pages.push_back(0);
    status = memory_->takePage(sequence.pages.back());
  }
  for (size_t i = 0; i < contents.size(); ++i)
    for (size_t page = 0; page < pages && layout_.states[i].paged && status.ok(); ++page)
      status = memory_->write(i, sequence.pages[page], &contents[i][page * layout_.states[i].unitBytes]);
  status = memory_->finish(std::move(status));
  if (status.ok())
    sequence.spilled.reset();
  else
    dropPages(sequence, 0);
  return status;
}

} // namespace intarsia::runtime
