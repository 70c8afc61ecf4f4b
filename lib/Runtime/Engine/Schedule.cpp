//===- Schedule.cpp - Samples that begin, and leave ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/Engine.h"

#include <algorithm>

namespace intarsia::runtime {

/// Waiting samples that are looked at before a step: those behind them begin later.
static constexpr size_t mostVisited = 64;
/// Ended texts whose lengths say how long others become, and the share of them that are no longer than is expected.
/// A larger share admits fewer samples, a smaller one has to take more of them out of the cache again.
static constexpr size_t mostLengths = 256;
static constexpr double expectedShare = 0.8;
/// Tokens that are expected at least of a text that is longer than others.
static constexpr int64_t leastMore = 32;
/// Lengths that are known before they count.
static constexpr size_t leastLengths = 8;
/// The tokens of prompts that are computed in a second, until it is measured: a slow guess, so that state is rather
/// moved than computed again.
static constexpr double assumedPromptRate = 200;

int64_t Engine::expectedTokens(const Sample &sample) const {
  // A text that is longer than expected goes on for another while.
  int64_t generated = sample.generated(), longer = generated + std::max(leastMore, generated / 4);
  int64_t more = std::min(sample.request->maxTokens, generated < expectedLength_ ? expectedLength_ : longer);
  return std::min(int64_t(sample.request->prompt.size()) + more, mostTokens_);
}

int64_t Engine::reservedPages() const {
  int64_t pages = 0;
  for (const Sample *sample : running_)
    pages +=
        std::max<int64_t>(0, model_.layout().pagesFor(expectedTokens(*sample)) - model_.pool.pages(sample->sequence));
  return pages;
}

bool Engine::makeRoom(int64_t pages, SequenceNumber needed) {
  double rate = times_.promptRate() > 0 ? times_.promptRate() : assumedPromptRate;
  return model_.prefixes.makeRoom(pages, needed, [rate](int64_t tokens) { return double(tokens) / rate; });
}

void Engine::admit() {
  if (waiting_.size() == 0 || int64_t(running_.size()) >= options_.sequences)
    return;
  const StepLayout &layout = model_.layout();
  int64_t reserved = reservedPages(), available = model_.prefixes.availablePages();
  waiting_.visit(mostVisited, [&](Sample &sample) {
    PrefixIndex::Tokens prompt(sample.tokens.data(), sample.tokens.size() - 1);
    PrefixCache::Found found;
    bool isScored = sample.request->promptLogprobs != 0 && sample.scored < int64_t(sample.request->prompt.size());
    if (!isScored)
      found = model_.prefixes.find(sample.request->salt, prompt);
    if (found.isPending)
      return true; // what it has in common with a sample that runs is computed once
    int64_t shared = found.from >= 0 && !model_.pool.isMovedOut(found.from) ? found.length / layout.pageTokens : 0;
    int64_t pages = layout.pagesFor(expectedTokens(sample)) - shared;
    // A sample alone may have all pages, also if it needs more than was expected of it.
    if (pages + reserved > available && !running_.empty())
      return false;
    if (!begin(sample, found))
      return false;
    reserved += std::max<int64_t>(0, layout.pagesFor(expectedTokens(sample)) - model_.pool.pages(sample.sequence));
    available = model_.prefixes.availablePages();
    return int64_t(running_.size()) < options_.sequences;
  });
}

bool Engine::begin(Sample &sample, const PrefixCache::Found &found) {
  SequencePool &pool = model_.pool;
  SequenceNumber number = -1;
  if (found.from >= 0) {
    if (model_.prefixes.takeBack(found.from, found.length)) {
      number = found.from;
      if (pool.isMovedOut(number)) {
        makeRoom(model_.layout().pagesFor(found.length));
        // If it cannot be read back, its tokens are computed again.
        if (!pool.moveBack(number).ok())
          pool.release(number);
      }
    } else {
      model_.prefixes.use(found.from);
      if (pool.isMovedOut(found.from))
        makeRoom(model_.layout().pagesFor(pool.length(found.from)), found.from);
      Status forked = pool.fork(found.from, number);
      if (forked.code() == ITX_CACHE_FULL && model_.prefixes.dropOldest(found.from))
        forked = pool.fork(found.from, number);
      if (!forked.ok()) // likewise
        number = -1;
      else if (!pool.truncate(number, found.length).ok())
        pool.release(number);
    }
  }
  if (number < 0) {
    Status made = pool.create(number);
    if (made.code() == ITX_CACHE_FULL && model_.prefixes.dropOldest(-1))
      made = pool.create(number);
    if (made.code() == ITX_CACHE_FULL && !running_.empty())
      return false; // a place becomes free when another one ends
    if (!made.ok()) {
      fail(sample, made);
      return true;
    }
  }
  waiting_.begin(sample);
  waiting_.remove(sample);
  sample.sequence = number;
  model_.prefixes.addRunning(number, sample.request->salt, sample.tokens);
  auto isBefore = [](const Sample *left, const Sample *right) { return left->isBefore(*right); };
  running_.insert(std::lower_bound(running_.begin(), running_.end(), &sample, isBefore), &sample);
  if (sample.cachedTokens < 0) {
    sample.begun = Clock::now();
    sample.cachedTokens = pool.length(number);
    counters_.promptTokens += int64_t(sample.request->prompt.size());
    counters_.cachedTokens += sample.cachedTokens;
  } else if (pool.length(number) + 1 < int64_t(sample.tokens.size())) {
    ++counters_.recomputed;
  }
  return true;
}

/// Takes a sample out of those that run.
void Engine::leave(Sample &sample) {
  std::erase(running_, &sample);
  waiting_.end(sample);
  model_.prefixes.removeRunning(sample.sequence);
  // What a draft proposed behind the end of the text is no part of it.
  if (model_.pool.length(sample.sequence) > int64_t(sample.tokens.size()))
    (void)model_.pool.truncate(sample.sequence, int64_t(sample.tokens.size()));
  if (sample.draft >= 0) {
    draft_->prefixes.removeRunning(sample.draft);
    draft_->prefixes.keep(sample.draft, sample.request->salt, PrefixCache::Reason::Ended);
    sample.draft = -1;
  }
}

void Engine::preempt(Sample &sample) {
  ++counters_.preemptions;
  leave(sample);
  model_.prefixes.keep(sample.sequence, sample.request->salt, PrefixCache::Reason::Owed);
  sample.sequence = -1;
  waiting_.add(sample);
}

void Engine::finish(Sample &sample, itx_finish reason, int64_t token) { end(sample, reason, token, {}); }

void Engine::fail(Sample &sample, const Status &status) { end(sample, ITX_FINISH_FAILED, -1, status); }

void Engine::end(Sample &sample, itx_finish reason, int64_t token, const Status &status) {
  if (sample.isFinished)
    return;
  sample.isFinished = true;
  finished_.push_back(sample.request->number);
  ++counters_.finished[reason];
  if (sample.sequence >= 0) {
    leave(sample);
    model_.prefixes.keep(sample.sequence, sample.request->salt, PrefixCache::Reason::Ended);
    sample.sequence = -1;
  } else {
    waiting_.remove(sample);
  }
  if (reason == ITX_FINISH_END || reason == ITX_FINISH_LENGTH) {
    if (lengths_.size() < mostLengths)
      lengths_.push_back(sample.generated());
    else
      lengths_[nextLength_++ % mostLengths] = sample.generated();
    if (lengths_.size() >= leastLengths) {
      std::vector<int64_t> sorted = lengths_;
      auto at = sorted.begin() + ptrdiff_t(expectedShare * double(sorted.size() - 1));
      std::nth_element(sorted.begin(), at, sorted.end());
      expectedLength_ = std::max<int64_t>(1, *at);
    }
  }
  StoredEvent stored = eventOf(sample, ITX_EVENT_FINISHED, token);
  stored.event.finish = reason;
  stored.event.status = status.code();
  stored.message = status.message();
  // Who hears of it goes on, and a rank's other exchanges must not come between a step and its logits.
  if (sample.steps > 0)
    ends_[&sample] = std::move(stored);
  else
    news_.push_back(std::move(stored));
}

StoredEvent Engine::eventOf(const Sample &sample, itx_engine_event_kind kind, int64_t token) const {
  StoredEvent stored;
  itx_engine_event &event = stored.event;
  event.kind = kind;
  event.request = sample.request->number;
  event.sample = sample.index;
  event.token = token;
  event.step = steps_;
  event.prompt_tokens = int64_t(sample.request->prompt.size());
  event.cached_tokens = std::max<int64_t>(0, sample.cachedTokens);
  event.tokens = sample.generated();
  stored.queue = sample.request->queue;
  if (sample.cachedTokens < 0)
    return stored; // it has not begun
  event.waited_seconds = std::chrono::duration<double>(sample.begun - sample.request->submitted).count();
  if (sample.first != Clock::time_point())
    event.prompt_seconds = std::chrono::duration<double>(sample.first - sample.begun).count();
  return stored;
}

} // namespace intarsia::runtime
