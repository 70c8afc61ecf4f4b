//===- Engine.h - Serve many requests with one model --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_ENGINE_H
#define INTARSIA_RUNTIME_ENGINE_ENGINE_H

#include "lib/Runtime/Engine/EventQueue.h"
#include "lib/Runtime/Engine/PrefixCache.h"
#include "lib/Runtime/Engine/RankLink.h"
#include "lib/Runtime/Engine/StepTimes.h"
#include "lib/Runtime/Engine/WaitingQueue.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <unordered_map>

namespace intarsia::runtime {

class StepLogits;

/// The sequences of a model, and what they share.
struct EngineModel {
  EngineModel(std::shared_ptr<Cache> cache, SequencePool::Tell tell, int64_t keptTokens)
      : pool(std::move(cache), std::move(tell)), prefixes(pool, keptTokens) {}
  const StepLayout &layout() const { return pool.cache()->layout(); }
  SequencePool pool;
  PrefixCache prefixes;
};

/// Requests, and the thread that computes them. See itx_engine.
class Engine : public std::enable_shared_from_this<Engine> {
public:
  /// The same as itx_engine_options.
  struct Options {
    int64_t sequences = 0;
    int64_t waiting = 0;
    int64_t stepTokens = 0;
    double tokenSeconds = 0;
    int64_t keptTokens = -1;
    bool hasFollowers = false;
    itx_mask_function mask = nullptr;
    void *maskUser = nullptr;
  };

  /// `draft` may be null. `sequences` of the options is how many samples run at a time: the caches have more.
  static Status create(std::shared_ptr<Cache> cache, std::shared_ptr<Cache> draft, const Options &options,
                       std::shared_ptr<Engine> &engine);
  /// The samples that run at a time: so many as are asked for, or as are usual.
  static int64_t runningSequences(int64_t asked);
  /// Sequences that an engine's cache needs for so many that run: those of ended texts have places too.
  static int64_t sequencesOfCache(int64_t running, bool hasSlots);

  Status submit(Request request, uint64_t &number);
  void cancel(uint64_t number);
  EventQueue &events() { return events_; }
  /// Cancels the requests whose events go to a queue.
  void endQueue(const std::shared_ptr<EventQueue> &queue);
  itx_engine_stats stats() const;
  const std::shared_ptr<Cache> &cache() const { return model_.pool.cache(); }
  Status keep(Sequence *sequence, const std::string &salt);
  Status fork(const std::vector<int64_t> &tokens, const std::string &salt, Sequence *&sequence);
  void setDraft(std::shared_ptr<Cache> cache);
  Status follow();
  /// Ends all requests, and waits for the thread.
  void close();

private:
  /// What the caller's threads want, until the engine's thread takes it.
  struct Commands {
    std::vector<std::shared_ptr<const Request>> requests;
    std::vector<uint64_t> cancelled;
    std::vector<std::shared_ptr<EventQueue>> ended; // queues whose requests are cancelled
    std::vector<std::pair<Sequence *, std::string>> kept;
    std::vector<std::function<bool()>> calls; // of callers that wait for them; false: called again after the next step
    bool isEmpty() const {
      return requests.empty() && cancelled.empty() && ended.empty() && kept.empty() && calls.empty();
    }
  };
  /// A part of a step: new tokens of a sample.
  struct Row {
    Sample *sample;
    int64_t begin, count; // of the sample's tokens
    int64_t outputs;
    bool isPrompt;                                   // more than its next token
    std::optional<Random> before = {};               // of proposals, which may be taken back
    std::vector<int64_t> proposed = {};              // tokens of the draft behind them
    std::vector<std::vector<double>> drawnFrom = {}; // probabilities that each was drawn from
    std::vector<std::vector<uint32_t>> masks = {};   // before each proposed token, and after the last one
  };
  struct Step {
    std::vector<Row> rows;
    StepResults results;
    LogitsWanted wanted = LogitsWanted::OnHost;
    Clock::time_point started;
    double seconds = 0;
    uint64_t number = 0;
    int64_t promptTokens = 0, singles = 0;
  };
  Engine(std::shared_ptr<Cache> cache, std::shared_ptr<Cache> draft, const Options &options);

  /// Calls a function on the engine's thread, once a step until it returns true, and waits for that.
  void onThread(const std::function<bool()> &call);

  void makeDraft(std::shared_ptr<Cache> draft);

  // The thread.
  void startThread();
  void run();
  void runStep();
  void takeCommands();
  void endExpired();
  bool hasWork() const { return !running_.empty() || waiting_.size() != 0 || !inFlight_.empty(); }
  void endAll(itx_finish reason, const Status &status);
  /// Ends all requests after an exception.
  void giveUp(const Status &status);
  /// Frees samples that have ended, and that no step needs.
  void bury();
  void publish(bool isIdle);
  /// Hands events to the queues of their requests; takes them.
  void deliver(std::vector<StoredEvent> &events);
  bool usesDraft() const;
  void updateStats();
  std::chrono::duration<double> followerInterval() const;

  // Worlds (Ranks.cpp).
  Status tellRanks(RankMessage message);
  bool isFollower() const { return ranks_ && !ranks_->isFirst(); }
  void followRequest(const Request &request);
  bool followsOn() const;
  void followUntilIdle();
  Status followStep(const RankMessage &message);
  void deliverFollowed(std::vector<StoredEvent> &events);
  void failFollower(const Status &status);

  // Samples that begin and leave (Schedule.cpp).
  void admit();
  bool begin(Sample &sample, const PrefixCache::Found &found);
  int64_t expectedTokens(const Sample &sample) const;
  int64_t reservedPages() const;
  bool makeRoom(int64_t pages, SequenceNumber needed = -1);
  void preempt(Sample &sample);
  void finish(Sample &sample, itx_finish reason, int64_t token = -1);
  void fail(Sample &sample, const Status &status);
  void end(Sample &sample, itx_finish reason, int64_t token, const Status &status);
  void leave(Sample &sample);

  /// Makes an event with what is known of a sample.
  StoredEvent eventOf(const Sample &sample, itx_engine_event_kind kind, int64_t token) const;

  // Steps (Steps.cpp).
  bool startStep();
  void compose(Step &step);
  bool fit(Step &step);
  bool findMasks(Step &step);
  void callMask(std::vector<itx_mask_row> &rows);
  Status asksIfComplete(Sample &sample, bool &isComplete);
  bool needsAllLogits(const Row &row) const;
  void finishStep(Step &step);
  void failStep(Step &step, const Status &status);
  Status takeRow(Row &row, StepLogits &logits, int64_t first);
  Status takePrompt(Row &row, StepLogits &logits, int64_t first);
  /// Chooses the next token by a row of logits, and appends it.
  Status take(Sample &sample, StepLogits &logits, int64_t row, const std::vector<uint32_t> *mask, bool &goesOn);
  Status append(Sample &sample, int64_t token, StepLogits &logits, int64_t row, bool &goesOn);
  /// Returns the bits of tokens that may come next, null if all may; `memory` is for them.
  const uint32_t *allowed(const Sample &sample, const std::vector<uint32_t> *mask, std::vector<uint32_t> &memory) const;

  // Drafts (Drafts.cpp).
  struct Proposal;
  void propose(Step &step);
  bool beginDraft(Sample &sample);
  bool draftIsOfWorld() const;
  void maskProposals(std::vector<Proposal *> &proposals);
  void forget(Row &row);
  Status readByDraft(const std::vector<Proposal *> &proposals, Tensor &logits);
  Status stepDraft(const std::vector<PoolChunk> &chunks, StepResults &results);
  Status addProposal(Proposal &proposal, const float *logits);
  Status judge(Row &row, StepLogits &logits, int64_t first);

  Options options_;
  EngineModel model_;
  std::unique_ptr<EngineModel> draft_;
  std::unique_ptr<RankLink> ranks_; // null: there is one process
  EventQueue events_;
  int64_t pages_;      // of the cache, which cannot be asked while a step is computed
  int64_t mostTokens_; // of a text: the context, or what all pages hold

  // Of the engine's thread.
  std::unordered_map<uint64_t, std::vector<std::unique_ptr<Sample>>> samples_; // by the number of their request
  WaitingQueue waiting_;
  std::vector<Sample *> running_; // in the order of isBefore()
  std::deque<std::unique_ptr<Step>> inFlight_;
  std::vector<StoredEvent> news_;
  std::unordered_map<const Sample *, StoredEvent> ends_; // of samples that have ended while a step has them
  StepTimes times_;
  std::vector<int64_t> lengths_; // of ended texts, the latest ones
  size_t nextLength_ = 0;
  int64_t expectedLength_;
  std::vector<uint64_t> finished_; // requests with samples that have ended
  uint64_t steps_ = 0;
  double stepSeconds_ = 0, engineSeconds_ = 0;
  struct Counters {
    int64_t promptTokens = 0, cachedTokens = 0, generatedTokens = 0, draftTokens = 0, acceptedTokens = 0,
            recomputed = 0, preemptions = 0;
    int64_t finished[6] = {};
  } counters_;
  Clock::time_point nextDeadline_ = Clock::time_point::max();

  bool ranksListen_ = false; // until they hear that there is nothing to do

  // Of a rank that follows another one.
  std::deque<uint64_t> late_; // calls of steps whose logits come later
  std::atomic<bool> hasClosed_ = false;

  mutable std::mutex mutex_;      // of what follows
  std::condition_variable ended_; // the thread ends, or there are new commands
  Commands commands_;
  bool isRunning_ = false; // the thread
  bool isClosing_ = false;
  uint64_t requests_ = 0;
  int64_t waitingSamples_ = 0; // as the callers see it
  Status failure_;             // of a world, which cannot be used any more
  itx_engine_stats stats_ = {};
  // Of a rank that follows another one.
  struct Followed {
    int64_t open; // samples
    std::shared_ptr<EventQueue> queue;
  };
  std::unordered_map<uint64_t, Followed> followed_;              // requests that were submitted here too
  std::unordered_map<uint64_t, std::vector<StoredEvent>> early_; // of requests that will be
  bool onlyFollows_ = false;                                     // no requests are submitted here
};

} // namespace intarsia::runtime

/// The C interface's handles.
struct itx_engine {
  std::shared_ptr<intarsia::runtime::Engine> engine;
  intarsia::runtime::Cache::Options draftOptions;
};
struct itx_event_queue {
  std::shared_ptr<intarsia::runtime::Engine> engine;
  std::shared_ptr<intarsia::runtime::EventQueue> queue;
};

#endif
