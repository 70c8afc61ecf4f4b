//===- Rounds.cpp - How ranks of one host exchange data ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Rounds.h"

#include <algorithm>
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace intarsia::runtime {

/// How long a rank sleeps before it looks after the one that it waits for. The bar is that a death is noticed within
/// 2 s; looking costs a few microseconds.
static constexpr timespec sleepTime = {0, 50'000'000};

/// Looks at the clock after so many pauses of the processor, about 2 µs.
static constexpr int pausesBetweenLooks = 64;

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static void sleepWhile(std::atomic<uint32_t> &word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT, value, &sleepTime, nullptr, 0);
}

static void futexWakeAll(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t Rounds::bytesFor(size_t members) {
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  return (members * memberBytes() + page - 1) / page * page;
}

Status Rounds::open(WorldState &world, const SharedFile &file, uint64_t offset, std::vector<int32_t> ranks) {
  world_ = &world;
  ranks_ = std::move(ranks);
  auto found = std::find(ranks_.begin(), ranks_.end(), world.rank());
  index_ = found == ranks_.end() ? -1 : int32_t(found - ranks_.begin());
  return index_ < 0 ? Status::success() : mapping_.map(file, offset, bytesFor(ranks_.size()));
}

Status Rounds::prepare(uint64_t bytes, uint8_t *&data) {
  if (next_ > 2)
    ITX_RETURN_IF_ERROR(await(next_ - 2));
  Line &own = line(size_t(index_), next_);
  data = bytes <= inlineBytes ? own.data : buffer(size_t(index_), next_) + sizeof(Line);
  return Status::success();
}

void Rounds::publish() {
  Line &own = line(size_t(index_), next_);
  own.kind = operation_.kind;
  own.element = uint32_t(operation_.element);
  own.root = operation_.root;
  own.elements = operation_.elements;
  published_[next_ % buffers] = operation_;
  // Whoever is about to sleep has either counted itself among the sleepers before this, or sees the round.
  own.round.store(next_, std::memory_order_seq_cst);
  ++next_;
  Bell &ownBell = bell(size_t(index_));
  if (ownBell.sleepers.load(std::memory_order_seq_cst) != 0) {
    ownBell.rings.fetch_add(1, std::memory_order_release);
    futexWakeAll(ownBell.rings);
  }
}

const uint8_t *Rounds::published(size_t member, uint64_t round, uint64_t bytes) const {
  return bytes <= inlineBytes ? line(member, round).data : buffer(member, round) + sizeof(Line);
}

Status Rounds::await(uint64_t round) {
  for (; awaited_ < round; ++awaited_)
    for (size_t member = 0; member < ranks_.size(); ++member)
      if (int32_t(member) != index_) {
        if (line(member, awaited_ + 1).round.load(std::memory_order_acquire) < awaited_ + 1)
          ITX_RETURN_IF_ERROR(waitFor(member, awaited_ + 1));
        ITX_RETURN_IF_ERROR(compare(member, awaited_ + 1));
      }
  return Status::success();
}

Status Rounds::waitFor(size_t member, uint64_t round) {
  const std::atomic<uint64_t> &flag = line(member, round).round;
  auto begin = std::chrono::steady_clock::now();
  auto spin = std::chrono::microseconds(world_->spinMicroseconds());
  do {
    for (int i = 0; i < pausesBetweenLooks; ++i) {
      if (flag.load(std::memory_order_acquire) >= round)
        return Status::success();
      pause();
    }
  } while (std::chrono::steady_clock::now() - begin < spin);
  std::atomic<int32_t> &waitsFor = world_->state(world_->rank()).waitsFor;
  waitsFor.store(ranks_[member] + 1, std::memory_order_relaxed);
  bell(member).sleepers.fetch_add(1, std::memory_order_seq_cst);
  Status status = sleepUntil(member, round);
  bell(member).sleepers.fetch_sub(1, std::memory_order_relaxed);
  waitsFor.store(0, std::memory_order_relaxed);
  world_->endWait();
  return status;
}

Status Rounds::sleepUntil(size_t member, uint64_t round) {
  const std::atomic<uint64_t> &flag = line(member, round).round;
  std::atomic<uint32_t> &rings = bell(member).rings;
  auto begin = std::chrono::steady_clock::now();
  for (;;) {
    uint32_t rung = rings.load(std::memory_order_acquire);
    if (flag.load(std::memory_order_seq_cst) >= round)
      return Status::success();
    sleepWhile(rings, rung);
    if (flag.load(std::memory_order_acquire) >= round)
      return Status::success();
    ITX_RETURN_IF_ERROR(world_->checkPeer(ranks_[member], begin));
  }
}

/// Refuses a round in which a member does something else than this rank.
Status Rounds::compare(size_t member, uint64_t round) {
  const Line &other = line(member, round);
  return compareExchanges(*world_, ranks_[member],
                          {other.kind, itx_dtype(other.element), uint32_t(other.root), other.elements},
                          published_[round % buffers]);
}

} // namespace intarsia::runtime
