//===- WaitingQueue.h - Samples that wait for their turn ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_WAITINGQUEUE_H
#define INTARSIA_RUNTIME_ENGINE_WAITINGQUEUE_H

#include "lib/Runtime/Engine/Request.h"

#include <map>
#include <set>

namespace intarsia::runtime {

/// Samples in the order in which they should begin: those of the highest priority first; of the keys that have some the
/// one that was served least (Sheng et al. 2024, "Fairness in Serving Large Language Models", arXiv 2401.00588,
/// algorithm 2); of a key the one with the nearest deadline, then the one that came first.
class WaitingQueue {
public:
  void add(Sample &sample);
  void remove(Sample &sample);
  size_t size() const { return size_; }

  /// Counts tokens that were computed for a key: a generated one costs twice as much as one of a prompt, as there.
  void serve(const std::string &key, int64_t promptTokens, int64_t generatedTokens);
  /// Counts samples of a key that run: a key that has none, running or waiting, saves nothing up.
  void begin(const Sample &sample) { ++keys_[sample.request->key].running; }
  void end(const Sample &sample);

  /// Calls `visit` with samples in their order, until it returns false or so many were visited.
  template <typename Visit> void visit(size_t most, Visit visit);

private:
  struct Order {
    bool operator()(const Sample *left, const Sample *right) const { return left->isBefore(*right); }
  };
  struct Key {
    double service = 0;
    int64_t running = 0;
    std::set<Sample *, Order> waiting;
  };
  void forget(std::map<std::string, Key>::iterator key);

  std::map<std::string, Key> keys_;
  size_t size_ = 0;
};

template <typename Visit> void WaitingQueue::visit(size_t most, Visit visit) {
  // Of each key the samples that were not visited yet.
  struct Rest {
    double service;
    std::set<Sample *, Order>::const_iterator next, end;
  };
  std::vector<Rest> rests;
  for (const auto &[name, key] : keys_)
    if (!key.waiting.empty())
      rests.push_back({key.service, key.waiting.begin(), key.waiting.end()});
  while (most-- > 0) {
    Rest *best = nullptr;
    for (Rest &rest : rests) {
      if (rest.next == rest.end)
        continue;
      if (!best) {
        best = &rest;
        continue;
      }
      int32_t priority = (*rest.next)->request->priority, highest = (*best->next)->request->priority;
      if (priority > highest || (priority == highest && rest.service < best->service))
        best = &rest;
    }
    if (!best)
      return;
    Sample &sample = **best->next++; // the visitor may remove it
    // A key that has got a turn comes behind those that were served as much.
    best->service += double(sample.tokens.size());
    if (!visit(sample))
      return;
  }
}

} // namespace intarsia::runtime

#endif
