//===- PrefixCache.h - State that prompts share -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_PREFIXCACHE_H
#define INTARSIA_RUNTIME_ENGINE_PREFIXCACHE_H

#include "lib/Runtime/Engine/PrefixIndex.h"
#include "lib/Runtime/Engine/SequencePool.h"

#include <map>

namespace intarsia::runtime {

/// The sequences of a model that prompts may begin with: those that run, and those of ended texts, which are kept as
/// long as nothing else needs their pages.
class PrefixCache {
public:
  /// `mostTokens` of sequences are kept; negative: any number.
  PrefixCache(SequencePool &pool, int64_t mostTokens);

  /// Lets prompts begin like a sequence that runs; `tokens` need not be in the cache yet.
  void addRunning(SequenceNumber number, const std::string &salt, PrefixIndex::Tokens tokens);
  void removeRunning(SequenceNumber number) { index_.remove(number); }

  /// The sequence that has most of a prompt.
  struct Found {
    SequenceNumber from = -1;
    int64_t length = 0;     // tokens of the prompt that it has
    bool isPending = false; // another one that runs will have at least a page more
  };
  Found find(const std::string &salt, PrefixIndex::Tokens prompt) const;

  /// Why a sequence is kept: its text has ended; or goes on later; or the user has given it. The last two only give way
  /// to those that need pages.
  enum class Reason : uint8_t { Ended, Owed, Asked };
  /// Keeps a sequence, or lets it go if others have its tokens.
  void keep(SequenceNumber number, const std::string &salt, Reason reason);
  /// Gives a sequence back that was kept for a text that goes on, if all its tokens are a beginning of the text.
  bool takeBack(SequenceNumber number, int64_t length);
  /// Says that a kept sequence was used.
  void use(SequenceNumber number);

  /// Makes so many pages free, at the cost of the kept sequences that were used least recently, but `needed`; false if
  /// there are too few. They are moved out of the cache where that, and moving them back, takes less time than
  /// computing their tokens again; `recomputeSeconds(tokens)` is the time of that.
  bool makeRoom(int64_t pages, SequenceNumber needed, const std::function<double(int64_t)> &recomputeSeconds);
  /// Lets the sequence go that was used least recently, but `needed`; false if there is none.
  bool dropOldest(SequenceNumber needed);
  /// Returns the pages that are free, or would be without the kept sequences.
  int64_t availablePages() const;
  int64_t keptTokens() const { return keptTokens_; }
  int64_t movedOut() const { return moved_; }

private:
  struct Kept {
    std::string salt;
    int64_t tokens = 0;
    Reason reason = Reason::Ended;
    uint64_t use = 0;
  };
  void forget(SequenceNumber number);
  void drop(SequenceNumber number);
  bool moveOut(SequenceNumber number, int64_t tokens, double recomputeSeconds);
  void shorten(SequenceNumber number, int64_t length);

  SequencePool &pool_;
  int64_t mostTokens_;
  PrefixIndex index_;
  std::unordered_map<SequenceNumber, Kept> kept_;
  std::map<uint64_t, SequenceNumber> byUse_;
  uint64_t clock_ = 0;
  int64_t keptTokens_ = 0; // of ended texts
  double moveRate_;        // bytes a second that are moved out of the cache
  int64_t moved_ = 0;      // sequences that were moved out of the cache
};

} // namespace intarsia::runtime

#endif
