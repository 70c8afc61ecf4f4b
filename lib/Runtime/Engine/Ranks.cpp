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
  if (!ranks_ || ranks_->isFirst())
    return error(ITX_INVALID_ARGUMENT, "only ranks of a world but rank 0 follow it");
  {
    std::lock_guard lock(mutex_);
    if (isRunning_)
      return error(ITX_INVALID_ARGUMENT, "the engine follows rank 0 already");
    isRunning_ = true;
  }
  while (!hasClosed_ && failure_.ok())
    followUntilIdle();
  std::lock_guard lock(mutex_);
  isRunning_ = false;
  ended_.notify_all();
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
    for (const StoredEvent &stored : message.events)
      if (stored.event.kind == ITX_EVENT_FINISHED)
        --followed_[stored.event.request];
    std::erase_if(followed_, [](const auto &item) { return item.second <= 0; });
    events_->add(message.events);
  } while (message.kind == RankMessage::Kind::Step || message.kind == RankMessage::Kind::Wait);
  hasClosed_ = message.kind == RankMessage::Kind::Close;
}

/// Ends the requests that were submitted here too.
void Engine::failFollower(const Status &status) {
  takeFollowed();
  std::vector<StoredEvent> events;
  for (auto [number, samples] : followed_)
    for (int32_t sample = 0; sample < samples; ++sample) {
      StoredEvent &stored = events.emplace_back();
      stored.event.kind = ITX_EVENT_FINISHED;
      stored.event.finish = ITX_FINISH_FAILED;
      stored.event.request = number;
      stored.event.sample = sample;
      stored.event.token = -1;
      stored.event.status = status.code();
      stored.message = status.message();
    }
  followed_.clear();
  {
    std::lock_guard lock(mutex_);
    failure_ = status;
  }
  events_->add(events);
}

void Engine::takeFollowed() {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<const Request> &request : commands_.requests)
    followed_[request->number] += request->samples;
  commands_.requests.clear();
  commands_.cancelled.clear();
}

Status Engine::followStep(const RankMessage &message) {
  takeFollowed();
  for (const RankMessage::Change &change : message.changes) {
    EngineModel *model = change.model == 0 ? &model_ : draft_.get();
    if (!model)
      return error(ITX_INTERNAL, "rank 0 has a draft model, this rank has none");
    if (change.operation == SequencePool::Operation::Adopt) {
      // The caller of this rank gives its own.
      std::unique_lock lock(mutex_);
      bool hasCome = ended_.wait_for(lock, std::chrono::seconds(60), [this] { return !commands_.kept.empty(); });
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
