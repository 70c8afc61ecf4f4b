//===- Cache.h - Sequences of a language model and their pages ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_CACHE_H
#define INTARSIA_RUNTIME_CACHE_CACHE_H

#include "lib/Runtime/Cache/Candidates.h"
#include "lib/Runtime/Cache/SpillStore.h"
#include "lib/Runtime/Cache/StateMemory.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Support/Hash.h"

#include <functional>
#include <mutex>

namespace intarsia::runtime {

/// The tokens of one user, and where the cache holds their state.
struct Sequence {
  std::vector<int64_t> tokens; // in the cache, or there before the eviction
  std::vector<int32_t> pages;  // of the tokens, in order
  int64_t slot = 0;            // index of its unit in the state that has one unit a sequence
  int64_t slotPage = -1;       // page of the sequence (from 0) whose tokens the unit belongs to; -1: none
  bool isEvicted = false;
  bool isEvictable = false;
  uint64_t lastUse = 0;
  std::unique_ptr<SpillStore::Entry> spilled; // its pages, which are then not in the cache
  size_t spilledPages = 0;

  int64_t length() const { return isEvicted ? 0 : int64_t(tokens.size()); }
};

/// New tokens of one sequence in a forward step.
struct Chunk {
  Sequence *sequence = nullptr;
  const int64_t *tokens = nullptr;
  int64_t count = 0;
  int64_t outputs = 0; // number of last tokens whose logits are wanted
  int64_t first = 0;   // of the step's tokens of the sequence: a step may be computed in parts
};

/// Where, or when, a caller takes the logits of a step.
enum class LogitsWanted : uint8_t { OnHost, OnDevice, Later };

/// The logits of a step, and the call that computes them.
struct StepResults {
  Tensor logits;     // [sum of outputs, vocabulary] in the order of the chunks; without memory if none are wanted
  uint64_t call = 0; // if they are wanted later: they are there after finishLateResults() of this call
};

/// The state of one step function, divided among sequences. Every function takes the lock.
class Cache {
public:
  /// The same as itx_cache_options.
  struct Options {
    int64_t sequences = 1;
    int64_t pages = 0;
    uint64_t bytes = 0;
    SpillStore::Limits spill;
    int64_t longSequences = 0; // as long as the context that there are pages for, where `pages` is 0; 0: all sequences
  };

  static Status create(std::shared_ptr<Module> module, size_t function, const Options &options,
                       std::shared_ptr<Cache> &cache);
  /// Says whether a step function has state for each sequence, not only in pages.
  static Status hasSlots(const Module &module, size_t function, bool &result);
  /// Computes the logits of a step of the chunks, [sum of outputs, vocabulary].
  using Compute = std::function<Status(const std::vector<Chunk> &chunks, Tensor &logits)>;
  /// Makes a cache of a model that is a function of this program, without state: for tests and measurements of what is
  /// around a model.
  static Status createSimulated(StepLayout layout, const Options &options, Compute compute,
                                std::shared_ptr<Cache> &cache);
  static Status bytesNeeded(const Module &module, size_t function, const Options &options, uint64_t &bytes);

  const StepLayout &layout() const { return layout_; }
  const std::shared_ptr<Module> &module() const { return module_; }
  itx_cache_info info() const;
  int64_t prefillTokens(int64_t promptTokens) const;

  Status createSequence(Sequence *&sequence);
  void freeSequence(Sequence &sequence);
  int64_t length(const Sequence &sequence) const;
  bool isEvicted(const Sequence &sequence) const;
  std::vector<int64_t> tokens(const Sequence &sequence) const;
  void setEvictable(Sequence &sequence, bool evictable);
  Status fork(Sequence &sequence, Sequence *&child);
  /// With a null `kept` it is an error if fewer than `length` tokens can be kept.
  Status truncate(Sequence &sequence, int64_t length, int64_t *kept);
  void evict(Sequence &sequence);
  /// Moves the pages of a sequence out of the cache, until a step or a fork needs them. `isMoved` is false if there is
  /// no room for them: the sequence is evicted then.
  void moveOut(Sequence &sequence, bool &isMoved);
  /// Moves them back before a step needs them, so that no other sequence of the step fails with this one.
  Status moveBack(Sequence &sequence);
  /// Returns the most pages that a step takes which appends so many tokens to a sequence, those of a sequence that was
  /// moved out among them.
  int64_t pagesToAppend(const Sequence &sequence, int64_t count) const;
  /// Returns the pages that are free when these sequences are gone.
  int64_t freePagesWithout(const std::vector<Sequence *> &sequences) const;
  int64_t freePages() const;
  bool canMoveOut() const { return spill_ != nullptr; }
  /// Returns the pages that a sequence has in the cache, and whether its state was moved out.
  int64_t pagesOf(const Sequence &sequence) const;
  bool isMovedOut(const Sequence &sequence) const;

  /// Runs the step function on new tokens. Logits are in memory of the host, or if they are wanted on the device where
  /// the function computes them. On an error no sequence has other tokens; some may have been spilled or evicted. A
  /// stage of a pipeline that fails in a step whose logits are not wanted, or later, ends its world.
  Status step(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results);

  /// Computes the likeliest tokens of rows of logits that a step has left on their device.
  Status candidates(const Tensor &logits, const float *temperatures, Candidates &candidates);

  /// Returns why the last sequence that could not be spilled could not; success if all could.
  Status spillStatus() const;

  Status save(Sequence &sequence, const std::string &path);
  Status restore(const std::string &path, Sequence *&sequence);

  /// Sends a sequence to another process, or takes one from there: from several that each have a part of it, such as
  /// the ranks of a world. The sockets are connected to them.
  Status send(Sequence &sequence, int socket, double timeoutSeconds);
  Status receive(const std::vector<int> &sockets, double timeoutSeconds, Sequence *&sequence);

private:
  class Transaction;
  Cache(std::shared_ptr<Module> module, size_t function) : module_(std::move(module)), function_(function) {}
  class StepRunner;
  const char *name() const { return module_ ? module_->name().c_str() : "the simulated model"; }
  /// Refuses what a simulated model cannot do.
  Status requireModule() const;
  /// Makes a sequence; the caller holds the lock.
  Status newSequence(Sequence *&sequence);
  void dropPages(Sequence &sequence, size_t kept);
  /// Gives the pages of a sequence back and ends it; the caller holds the lock.
  void discard(Sequence &sequence);
  /// Takes the pages of a restored sequence and starts to fill its state from a file, each state from its offset.
  Status readState(Sequence &sequence, size_t pages, const uint8_t *file, const std::vector<uint64_t> &offsets);
  /// Makes a sequence of tokens whose state lies in memory of the host; the caller holds the lock.
  Status takeOver(std::vector<int64_t> tokens, size_t pages, const uint8_t *units, const std::vector<uint64_t> &offsets,
                  Sequence *&sequence);
  Status checkChunks(const std::vector<Chunk> &chunks) const;
  /// Gives the state of a sequence, a unit for each page and slot, state by state; `paged` leaves the slots out. Units
  /// on devices are copied.
  Status readUnits(const Sequence &sequence, bool paged, std::vector<std::vector<const uint8_t *>> &units,
                   std::vector<std::vector<uint8_t>> &copies);
  /// Moves the pages of a sequence out of the cache. If the store is full, the least recently used spilled sequences
  /// that may be evicted are lost, except `busy` ones; if that is not enough, this one is.
  void spill(Sequence &sequence, const std::vector<const Sequence *> &busy);
  /// Moves them back, without evicting `busy` sequences.
  Status bringBack(Sequence &sequence, const std::vector<const Sequence *> &busy);
  /// Evicts the least recently used sequences until `pages` are free; evicts none if that is not enough.
  Status makeRoom(int64_t pages, const std::vector<const Sequence *> &busy);
  bool hasSlots() const { return layout_.hasSlots; }
  /// Runs a step of chunks that checkChunks has found right. `hasBegun` becomes true when other ranks may depend on it.
  Status runChecked(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results, bool &hasBegun);
  std::shared_ptr<Module> module_;
  size_t function_;               // that gives the logits
  std::vector<size_t> functions_; // of all stages of the rank: it is the last
  Compute compute_;               // of a simulated model, which has no module
  StepLayout layout_;
  CandidatesFunction candidates_;
  std::unique_ptr<StateMemory> memory_;
  std::unique_ptr<SpillStore> spill_; // null: sequences that are evicted lose their state
  int64_t lost_ = 0;                  // sequences that could not be spilled, or not be kept
  Status spillStatus_;
  uint64_t bytes_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Sequence>> sequences_; // by slot; null: free
  uint64_t clock_ = 0;
};

} // namespace intarsia::runtime

/// The C interface's handles. Each keeps the cache.
struct itx_cache {
  std::shared_ptr<intarsia::runtime::Cache> cache;
};
struct itx_sequence {
  std::shared_ptr<intarsia::runtime::Cache> cache;
  intarsia::runtime::Sequence *sequence = nullptr;
};
struct itx_step {
  std::shared_ptr<intarsia::runtime::Module> module;
  intarsia::runtime::StepResults results;
};

#endif
