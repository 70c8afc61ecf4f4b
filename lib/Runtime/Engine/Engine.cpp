//===- Engine.cpp - Serve many requests with one model ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/Engine.h"

#include "lib/Runtime/Collectives/World.h"

#include <algorithm>
#include <exception>
#include <map>
#include <thread>

namespace intarsia::runtime {

/// Samples that run at a time, unless the user says how many: beyond them, steps on CPUs take as much longer as they
/// have more rows.
static constexpr int64_t usualSequences = 64;
/// Ended texts that an engine keeps, if sequences take no memory of their own.
static constexpr int64_t keptSequences = 1024;
/// The length of a text that is expected until some have ended.
static constexpr int64_t assumedLength = 128;

int64_t Engine::runningSequences(int64_t asked) { return asked > 0 ? asked : usualSequences; }

int64_t Engine::sequencesOfCache(int64_t running, bool hasSlots) {
  running = runningSequences(running);
  // Each sequence with a slot takes memory, and a row of the tables of each step.
  return hasSlots ? running + std::min<int64_t>(running, 16) : running + keptSequences;
}

Engine::Engine(std::shared_ptr<Cache> cache, std::shared_ptr<Cache> draft, const Options &options)
    : options_(options), model_(
                             cache,
                             [this](SequencePool::Operation operation, int64_t sequence, int64_t argument) {
                               if (ranks_)
                                 ranks_->tell(0, operation, sequence, argument);
                             },
                             options.keptTokens),
      expectedLength_(assumedLength) {
  makeDraft(std::move(draft));
  const StepLayout &layout = model_.layout();
  pages_ = stats_.pages = stats_.free_pages = cache->info().pages;
  mostTokens_ = std::min(layout.context, pages_ * layout.pageTokens);
  if (options_.sequences == 0)
    options_.sequences = usualSequences;
}

Status Engine::create(std::shared_ptr<Cache> cache, std::shared_ptr<Cache> draft, const Options &options,
                      std::shared_ptr<Engine> &engine) {
  if (options.sequences < 0 || options.waiting < 0 || options.stepTokens < 0)
    return error(ITX_INVALID_ARGUMENT,
                 "an engine of %lld samples, %lld that wait and steps of %lld tokens: none of "
                 "these can be negative",
                 (long long)options.sequences, (long long)options.waiting, (long long)options.stepTokens);
  if (!(options.tokenSeconds >= 0))
    return error(ITX_INVALID_ARGUMENT, "the target of %g seconds between two tokens; it must be positive, 0 means none",
                 options.tokenSeconds);
  std::shared_ptr<Module> module = cache->module();
  std::shared_ptr<Engine> made(new Engine(std::move(cache), std::move(draft), options));
  if (module && module->world() && module->world()->size() > 1)
    made->ranks_ = std::make_unique<RankLink>(*module->world());
  if (made->ranks_)
    ITX_RETURN_IF_ERROR(made->ranks_->open());
  engine = std::move(made);
  return Status::success();
}

// ---- Callers ----------------------------------------------------------------------------------------------

void Engine::makeDraft(std::shared_ptr<Cache> draft) {
  std::unique_ptr<EngineModel> made;
  if (draft) {
    // A draft that is no part of the world is rank 0's own affair.
    bool isOfWorld = draft->module() && draft->module()->world();
    auto tell = [this, isOfWorld](SequencePool::Operation operation, int64_t sequence, int64_t argument) {
      if (ranks_ && isOfWorld)
        ranks_->tell(1, operation, sequence, argument);
    };
    made = std::make_unique<EngineModel>(std::move(draft), tell, options_.keptTokens);
  }
  std::lock_guard lock(mutex_);
  std::swap(draft_, made);
}

Status Engine::submit(Request request, uint64_t &number) {
  const StepLayout &layout = model_.layout();
  auto prompt = int64_t(request.prompt.size());
  if (prompt == 0)
    return error(ITX_INVALID_ARGUMENT, "a prompt is empty");
  if (prompt > layout.context)
    return error(ITX_INVALID_ARGUMENT, "a prompt has %lld tokens, the model's context is %lld", (long long)prompt,
                 (long long)layout.context);
  for (int64_t i = 0; i < prompt; ++i)
    if (request.prompt[i] < 0 || request.prompt[i] >= layout.vocabulary)
      return error(ITX_INVALID_ARGUMENT, "token %lld of a prompt is %lld, tokens are in [0, %lld)", (long long)i,
                   (long long)request.prompt[i], (long long)layout.vocabulary);
  ITX_RETURN_IF_ERROR(request.rules.check(layout.vocabulary));
  constexpr int32_t mostSamples = 128, mostLogprobs = 1 + 20;
  if (request.samples < 1 || request.samples > mostSamples)
    return error(ITX_INVALID_ARGUMENT, "%d samples of a prompt, 1 to %d are possible", request.samples, mostSamples);
  if (request.logprobs < 0 || request.logprobs > mostLogprobs || request.promptLogprobs < 0 ||
      request.promptLogprobs > mostLogprobs)
    return error(ITX_INVALID_ARGUMENT, "the probabilities of %d and %d tokens, 0 to %d are possible", request.logprobs,
                 request.promptLogprobs, mostLogprobs);
  if (request.draftTokens < 0)
    return error(ITX_INVALID_ARGUMENT, "a draft of %lld tokens: it must be at least 0", (long long)request.draftTokens);
  if (request.hasMask && !options_.mask)
    return error(ITX_INVALID_ARGUMENT, "a request has masks, and the engine no function that makes them");
  int64_t asked = request.maxTokens;
  if (asked > 0) {
    int64_t tokens = std::min(layout.context, asked > layout.context - prompt ? layout.context : prompt + asked);
    int64_t pages = layout.pagesFor(tokens);
    if (pages > pages_)
      return error(ITX_CACHE_FULL,
                   "a prompt of %lld tokens and up to %lld more need %lld pages, the cache has %lld (of %lld tokens): "
                   "give fewer tokens, or the engine more memory",
                   (long long)prompt, (long long)asked, (long long)pages, (long long)pages_,
                   (long long)layout.pageTokens);
  } else if (layout.pagesFor(prompt) > pages_) {
    return error(ITX_CACHE_FULL,
                 "a prompt of %lld tokens needs %lld pages, the cache has %lld (of %lld tokens): give fewer tokens, or "
                 "the engine more memory",
                 (long long)prompt, (long long)layout.pagesFor(prompt), (long long)pages_,
                 (long long)layout.pageTokens);
  }
  // The last token of a text need not be in the cache.
  int64_t room = mostTokens_ - prompt + 1;
  request.maxTokens = asked < 0 ? 0 : asked == 0 ? room : std::min(asked, room);

  std::lock_guard lock(mutex_);
  if (!failure_.ok())
    return failure_;
  if (isClosing_)
    return error(ITX_INVALID_ARGUMENT, "the engine is being freed");
  if (request.draftTokens > 0 && !draft_)
    return error(ITX_INVALID_ARGUMENT, "a draft of %lld tokens: the engine has no draft model",
                 (long long)request.draftTokens);
  int64_t begin = std::max<int64_t>(0, options_.sequences - stats_.running);
  if (options_.waiting > 0 && waitingSamples_ + request.samples > options_.waiting + begin)
    return error(ITX_BUSY, "%lld samples wait, the engine lets %lld: submit the request again later",
                 (long long)waitingSamples_, (long long)options_.waiting);
  request.number = number = ++requests_;
  if (request.queue)
    request.queue->open(request.samples);
  if (isFollower()) {
    followRequest(request);
    return Status::success();
  }
  waitingSamples_ += request.samples;
  commands_.requests.push_back(std::make_shared<const Request>(std::move(request)));
  ended_.notify_all();
  startThread();
  return Status::success();
}

void Engine::cancel(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (isRunning_ && !isFollower())
    commands_.cancelled.push_back(number);
}

void Engine::endQueue(const std::shared_ptr<EventQueue> &queue) {
  {
    std::lock_guard lock(mutex_);
    if (isRunning_ && !isFollower())
      commands_.ended.push_back(queue);
  }
  // What a rank does next with the others must not come between messages about these requests.
  if (ranks_)
    queue->waitUntilEnded();
}

Status Engine::keep(Sequence *sequence, const std::string &salt) {
  std::lock_guard lock(mutex_);
  commands_.kept.push_back({sequence, salt});
  ended_.notify_all();
  startThread();
  return Status::success();
}

void Engine::onThread(const std::function<bool()> &call) {
  bool isDone = false;
  std::unique_lock lock(mutex_);
  commands_.calls.push_back([&] {
    if (!call())
      return false;
    std::lock_guard inner(mutex_);
    isDone = true;
    ended_.notify_all();
    return true;
  });
  ended_.notify_all();
  startThread();
  ended_.wait(lock, [&] { return isDone; });
}

Status Engine::fork(const std::vector<int64_t> &tokens, const std::string &salt, Sequence *&sequence) {
  if (ranks_)
    return error(ITX_UNSUPPORTED, "%s: ranks of a world have no sequences beside those of the engine",
                 cache()->module()->name().c_str());
  Status status;
  onThread([&] {
    PrefixCache::Found found = model_.prefixes.find(salt, tokens);
    SequenceNumber number = -1;
    if (found.from >= 0) {
      if (model_.pool.isMovedOut(found.from))
        makeRoom(model_.layout().pagesFor(model_.pool.length(found.from)), found.from);
      if (model_.pool.fork(found.from, number).ok() && !model_.pool.truncate(number, found.length).ok())
        model_.pool.release(number);
    }
    if (number < 0)
      status = model_.pool.create(number);
    if (status.ok())
      sequence = model_.pool.giveAway(number);
    return true;
  });
  return status;
}

void Engine::setDraft(std::shared_ptr<Cache> cache) {
  if (isFollower()) {
    // The thread, which needs the draft for what rank 0 says, ends when there is nothing to do.
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return !isRunning_ || onlyFollows_; });
    lock.unlock();
    makeDraft(std::move(cache));
    return;
  }
  onThread([&] {
    if (usesDraft())
      return false;
    makeDraft(std::move(cache));
    return true;
  });
}

/// True if another draft would be another one for requests that there are.
bool Engine::usesDraft() const {
  // Other ranks change theirs where they have no requests.
  if (ranks_)
    return hasWork();
  return std::any_of(samples_.begin(), samples_.end(), [](const auto &item) {
    return std::any_of(item.second.begin(), item.second.end(),
                       [](const std::unique_ptr<Sample> &sample) { return sample->request->draftTokens > 0; });
  });
}

itx_engine_stats Engine::stats() const {
  std::lock_guard lock(mutex_);
  itx_engine_stats stats = stats_;
  stats.waiting = waitingSamples_;
  return stats;
}

void Engine::close() {
  std::unique_lock lock(mutex_);
  isClosing_ = true;
  ended_.notify_all();
  ended_.wait(lock, [this] { return !isRunning_; });
  if (!ranks_ || !ranks_->isFirst() || !options_.hasFollowers || !failure_.ok())
    return;
  lock.unlock();
  RankMessage message;
  message.kind = RankMessage::Kind::Close;
  (void)tellRanks(std::move(message));
}

// ---- The thread -------------------------------------------------------------------------------------------

void Engine::startThread() {
  if (isRunning_)
    return;
  isRunning_ = true;
  // It ends when there is nothing to do, so that a child of a fork has lost none.
  std::thread([self = shared_from_this()] { self->run(); }).detach();
}

void Engine::run() {
  while (true) {
    try {
      if (isFollower())
        followUntilIdle();
      else
        runStep();
    } catch (const std::bad_alloc &) {
      giveUp({ITX_OUT_OF_MEMORY, "out of memory"});
    } catch (const std::exception &exception) {
      giveUp({ITX_INTERNAL, exception.what()});
    }
    std::unique_lock lock(mutex_);
    bool isDone = isFollower() ? !followsOn() : !hasWork() && commands_.isEmpty();
    if (isDone && !isFollower() && options_.hasFollowers && !isClosing_ && failure_.ok()) {
      // Ranks that follow wait for a message, and no longer than their deadline: an idle step is one.
      ended_.wait_for(lock, followerInterval(), [this] { return !commands_.isEmpty() || isClosing_; });
      continue;
    }
    if (isDone) {
      isRunning_ = false;
      ended_.notify_all();
      return;
    }
  }
}

void Engine::runStep() {
  Clock::time_point started = Clock::now();
  double before = stepSeconds_;
  takeCommands();
  endExpired();
  admit();
  bool hasStarted = startStep();
  auto stages = size_t(std::max<int64_t>(model_.pool.cache()->info().stages, 1));
  if (!inFlight_.empty() && (!hasStarted || inFlight_.size() >= stages)) {
    std::unique_ptr<Step> step = std::move(inFlight_.front());
    inFlight_.pop_front();
    finishStep(*step);
  }
  bury();
  engineSeconds_ += std::chrono::duration<double>(Clock::now() - started).count() - (stepSeconds_ - before);
  {
    // Who has seen the last event of a request finds it counted.
    std::lock_guard lock(mutex_);
    updateStats();
  }
  publish(!hasWork());
}

std::chrono::duration<double> Engine::followerInterval() const {
  return std::chrono::duration<double>(ranks_ ? ranks_->deadlineSeconds() / 4 : 1.0);
}

void Engine::takeCommands() {
  Commands commands;
  bool isClosing = false;
  {
    std::lock_guard lock(mutex_);
    std::swap(commands, commands_);
    isClosing = isClosing_;
  }
  ranksListen_ |= !commands.requests.empty() || !commands.kept.empty();
  for (const auto &[sequence, salt] : commands.kept)
    model_.prefixes.keep(model_.pool.adopt(sequence), salt, PrefixCache::Reason::Asked);
  for (std::shared_ptr<const Request> &request : commands.requests) {
    std::vector<std::unique_ptr<Sample>> &samples = samples_[request->number];
    for (int32_t i = 0; i < request->samples; ++i) {
      samples.push_back(std::make_unique<Sample>(request, i));
      Sample &sample = *samples.back();
      if (request->rules.penalises())
        for (int64_t token : request->prompt)
          sample.seen.counts[token];
      waiting_.add(sample);
    }
    nextDeadline_ = std::min(nextDeadline_, request->deadline);
  }
  for (uint64_t number : commands.cancelled)
    if (auto found = samples_.find(number); found != samples_.end())
      for (const std::unique_ptr<Sample> &sample : found->second)
        finish(*sample, ITX_FINISH_CANCELLED);
  if (!commands.ended.empty())
    for (const auto &[number, samples] : samples_)
      for (const std::unique_ptr<Sample> &sample : samples)
        if (std::find(commands.ended.begin(), commands.ended.end(), sample->request->queue) != commands.ended.end())
          finish(*sample, ITX_FINISH_CANCELLED);
  for (std::function<bool()> &call : commands.calls)
    if (!call()) {
      std::lock_guard lock(mutex_);
      commands_.calls.push_back(std::move(call));
    }
  if (isClosing)
    endAll(ITX_FINISH_CANCELLED, {});
}

void Engine::endExpired() {
  Clock::time_point now = Clock::now();
  if (now < nextDeadline_)
    return;
  nextDeadline_ = Clock::time_point::max();
  for (const auto &[number, samples] : samples_)
    for (const std::unique_ptr<Sample> &sample : samples) {
      if (sample->isFinished)
        continue;
      if (sample->request->deadline <= now)
        finish(*sample, ITX_FINISH_DEADLINE);
      else
        nextDeadline_ = std::min(nextDeadline_, sample->request->deadline);
    }
}

void Engine::endAll(itx_finish reason, const Status &status) {
  for (const auto &[number, samples] : samples_)
    for (const std::unique_ptr<Sample> &sample : samples)
      end(*sample, reason, -1, status);
}

void Engine::giveUp(const Status &status) {
  if (isFollower()) { // it does not know any more what rank 0 does
    failFollower(status);
    return;
  }
  endAll(ITX_FINISH_FAILED, status);
  publish(/*isIdle=*/true);
}

void Engine::bury() {
  for (uint64_t number : finished_) {
    auto found = samples_.find(number);
    if (found == samples_.end())
      continue;
    std::erase_if(found->second,
                  [](const std::unique_ptr<Sample> &sample) { return sample->isFinished && sample->steps == 0; });
    if (found->second.empty())
      samples_.erase(found);
  }
  std::erase_if(finished_, [this](uint64_t number) { return samples_.count(number) == 0; });
}

void Engine::publish(bool isIdle) {
  if (ranks_ && !isIdle)
    return; // with the next step
  // Ranks that were not told of anything to do do not listen.
  if (ranks_ && (ranksListen_ || options_.hasFollowers)) {
    ranksListen_ = false;
    RankMessage message;
    message.kind = RankMessage::Kind::Idle;
    message.events = news_;
    (void)tellRanks(std::move(message)); // the next request says what failed
  }
  deliver(news_);
}

void Engine::deliver(std::vector<StoredEvent> &events) {
  if (std::none_of(events.begin(), events.end(), [](const StoredEvent &stored) { return stored.queue; })) {
    events_.add(events);
    return;
  }
  std::map<std::shared_ptr<EventQueue>, std::vector<StoredEvent>> parts;
  for (StoredEvent &stored : events) {
    std::shared_ptr<EventQueue> queue = std::move(stored.queue);
    parts[queue].push_back(std::move(stored));
  }
  events.clear();
  for (auto &[queue, part] : parts)
    (queue ? *queue : events_).add(part);
}

void Engine::updateStats() {
  itx_engine_stats &stats = stats_;
  waitingSamples_ = int64_t(waiting_.size());
  for (const std::shared_ptr<const Request> &request : commands_.requests)
    waitingSamples_ += request->samples;
  stats.running = int64_t(running_.size());
  stats.pages = pages_;
  if (isFollower())
    return;
  stats.free_pages = model_.prefixes.availablePages();
  stats.kept_tokens = model_.prefixes.keptTokens();
  stats.moved_sequences = model_.prefixes.movedOut();
  stats.lost_sequences = model_.pool.cache()->info().lost_sequences;
  stats.preemptions = counters_.preemptions;
  stats.steps = int64_t(steps_);
  stats.step_seconds = stepSeconds_;
  stats.engine_seconds = engineSeconds_;
  stats.token_seconds = times_.rowsSeconds(std::max<int64_t>(1, int64_t(running_.size())));
  stats.prompt_rate = times_.promptRate();
  stats.prompt_tokens = counters_.promptTokens;
  stats.cached_tokens = counters_.cachedTokens;
  stats.generated_tokens = counters_.generatedTokens;
  stats.draft_tokens = counters_.draftTokens;
  stats.accepted_tokens = counters_.acceptedTokens;
  stats.recomputed_sequences = counters_.recomputed;
  std::copy(std::begin(counters_.finished), std::end(counters_.finished), std::begin(stats.finished));
}

} // namespace intarsia::runtime
