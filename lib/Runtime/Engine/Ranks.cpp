//===- Ranks.cpp - Engines of the ranks of a world ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0 decides what each step computes, and what becomes of sequences; the others do the same with theirs. All have
// as many pages, so that what fits there fits here.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/World.h"
#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Engine/Engine.h"

namespace intarsia::runtime {

Status Engine::tellRanks(RankMessage message) {
  Status status = ranks_->send(std::move(message));
  if (!status.ok()) {
    std::lock_guard lock(mutex_);
    failure_ = status;
  }
  return status;
}

Status Engine::follow() {
  if (!isFollower())
    return error(ITX_INVALID_ARGUMENT, "only ranks of a world but rank 0 follow it");
  {
    std::lock_guard lock(mutex_);
    if (isRunning_)
      return error(ITX_INVALID_ARGUMENT, "the engine follows rank 0 already");
    isRunning_ = onlyFollows_ = true;
  }
  run();
  std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::followUntilIdle() {
  RankMessage message;
  do {
    Status status = ranks_->receive(message);
    if (status.ok())
      status = followStep(message);
    if (!status.ok()) {
      failFollower(status);
      return;
    }
    deliverFollowed(message.events);
  } while (message.kind == RankMessage::Kind::Step || message.kind == RankMessage::Kind::Wait);
  hasClosed_ = message.kind == RankMessage::Kind::Close;
}

/// True if rank 0 has more to say: this rank does nothing else, or has submitted what that has not ended yet. `mutex_`
/// is held.
bool Engine::followsOn() const {
  return failure_.ok() && !hasClosed_ && (onlyFollows_ || !followed_.empty() || !commands_.kept.empty());
}

/// Takes a request that is submitted here too. `mutex_` is held.
void Engine::followRequest(const Request &request) {
  Followed followed = {request.samples, request.queue};
  if (auto early = early_.extract(request.number)) {
    for (StoredEvent &stored : early.mapped()) {
      stored.queue = request.queue;
      followed.open -= stored.event.kind == ITX_EVENT_FINISHED;
    }
    deliver(early.mapped());
  }
  if (followed.open == 0)
    return; // rank 0 may be idle since then
  followed_[request.number] = followed;
  startThread();
}

/// Hands the events of rank 0 to the queues of the requests that were submitted here too.
void Engine::deliverFollowed(std::vector<StoredEvent> &events) {
  std::lock_guard lock(mutex_);
  std::vector<StoredEvent> known;
  for (StoredEvent &stored : events) {
    auto request = followed_.find(stored.event.request);
    if (request != followed_.end()) {
      stored.queue = request->second.queue;
      if (stored.event.kind == ITX_EVENT_FINISHED && --request->second.open == 0)
        followed_.erase(request);
      known.push_back(std::move(stored));
    } else if (!onlyFollows_) { // rank 0 is ahead
      early_[stored.event.request].push_back(std::move(stored));
    }
  }
  deliver(known);
}

/// Ends the requests that were submitted here too.
void Engine::failFollower(const Status &status) {
  std::lock_guard lock(mutex_);
  std::vector<StoredEvent> events;
  for (const auto &[number, followed] : followed_)
    for (int64_t sample = 0; sample < followed.open; ++sample) {
      StoredEvent &stored = events.emplace_back();
      stored.event.kind = ITX_EVENT_FINISHED;
      stored.event.finish = ITX_FINISH_FAILED;
      stored.event.request = number;
      stored.event.sample = int32_t(sample);
      stored.event.token = -1;
      stored.event.status = status.code();
      stored.message = status.message();
      stored.queue = followed.queue;
    }
  followed_.clear();
  failure_ = status;
  deliver(events);
}

Status Engine::followStep(const RankMessage &message) {
  for (const RankMessage::Change &change : message.changes) {
    EngineModel *model = change.model == 0 ? &model_ : draft_.get();
    if (!model)
      return error(ITX_INTERNAL, "rank 0 has a draft model, this rank has none");
    if (change.operation == SequencePool::Operation::Adopt) {
      // The caller of this rank gives its own.
      std::unique_lock lock(mutex_);
      std::chrono::duration<double> most(ranks_->deadlineSeconds());
      bool hasCome = ended_.wait_for(lock, most, [this] { return !commands_.kept.empty(); });
      if (!hasCome)
        return error(ITX_INVALID_ARGUMENT, "rank 0 keeps a sequence, and this rank has none to keep");
      Sequence *sequence = commands_.kept.front().first;
      commands_.kept.erase(commands_.kept.begin());
      lock.unlock();
      model->pool.adopt(sequence);
      continue;
    }
    ITX_RETURN_IF_ERROR(model->pool.repeat(change.operation, change.sequence, change.argument));
  }
  if (message.kind == RankMessage::Kind::Wait) {
    if (late_.empty())
      return error(ITX_INTERNAL, "rank 0 waits for a step that this rank does not have");
    uint64_t call = late_.front();
    late_.pop_front();
    return finishLateResults(*cache()->module(), call);
  }
  if (message.kind != RankMessage::Kind::Step)
    return Status::success();
  EngineModel *model = message.model == 0 ? &model_ : draft_.get();
  if (!model)
    return error(ITX_INTERNAL, "rank 0 has a draft model, this rank has none");
  std::vector<PoolChunk> chunks;
  for (const RankMessage::Piece &piece : message.chunks)
    chunks.push_back({SequenceNumber(piece.sequence), piece.tokens, piece.outputs});
  StepResults results;
  Status status = model->pool.step(chunks, message.wanted, results);
  // An error of the arguments comes to rank 0 too, which goes on.
  if (status.code() == ITX_RANK_LOST)
    return status;
  if (status.ok() && message.wanted == LogitsWanted::Later)
    late_.push_back(results.call);
  return Status::success();
}

} // namespace intarsia::runtime
