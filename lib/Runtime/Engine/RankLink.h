//===- RankLink.h - What rank 0 decides for the others ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_RANKLINK_H
#define INTARSIA_RUNTIME_ENGINE_RANKLINK_H

#include "lib/Runtime/Engine/EventQueue.h"
#include "lib/Runtime/Engine/SequencePool.h"

namespace intarsia::runtime {

class Communicator;
class World;

/// A message of rank 0 to the ranks that follow it: what it has done to sequences since the last one, the events of
/// the last steps, and the next step.
struct RankMessage {
  enum class Kind : int64_t { Step, Wait, Idle, Close };
  struct Change {
    SequencePool::Operation operation;
    int64_t model; // 0: the model, 1: the draft
    int64_t sequence;
    int64_t argument;
  };
  struct Piece {
    int64_t sequence;
    int64_t outputs;
    std::vector<int64_t> tokens;
  };
  Kind kind = Kind::Idle;
  int64_t model = 0;
  LogitsWanted wanted = LogitsWanted::OnHost;
  std::vector<Change> changes;
  std::vector<Piece> chunks;
  std::vector<StoredEvent> events;
};

/// Sends such messages, or receives them. A world's ranks are one behind the other in what they do, never apart.
class RankLink {
public:
  explicit RankLink(World &world) : world_(world) {}
  /// All ranks open theirs.
  Status open();
  bool isFirst() const;
  /// How long a rank waits for another one.
  double deadlineSeconds() const;

  /// Remembers a change for the next message.
  void tell(int64_t model, SequencePool::Operation operation, int64_t sequence, int64_t argument) {
    changes_.push_back({operation, model, sequence, argument});
  }
  /// Sends a message with all changes since the last one.
  Status send(RankMessage message);
  Status receive(RankMessage &message);
  /// Gives the least of the ranks' numbers.
  Status least(int64_t &number);

private:
  Status exchange(std::vector<int64_t> &words);

  World &world_;
  std::vector<Communicator *> channels_; // from rank 0 to each of the others
  std::vector<RankMessage::Change> changes_;
};

} // namespace intarsia::runtime

#endif
