//===- WorldState.cpp - What the ranks of a world know of each other ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/WorldState.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace intarsia::runtime {

/// How long a waiting rank stays awake where each rank has a processor: as idle threads of a call do (ITX_SPIN_US),
/// since waking takes about 50 µs and the work between two collectives of a layer is a few hundred.
static constexpr int64_t spinWithProcessors = 1000;
/// The same where ranks share processors: the one that is waited for may need this one's. A few times the length of an
/// exchange of one cache line.
static constexpr int64_t spinWithoutProcessors = 5;
/// How long a rank that fails waits for another that writes why the world has failed: that takes microseconds, and more
/// where its process does not get a processor.
static constexpr std::chrono::seconds longestWriteOfFailure{1};

WorldState::~WorldState() {
  // A child of a fork has the memory too, but is no rank.
  if (mapping_.data() && processes_[rank_] == getpid()) {
    state(rank_).hasLeft.store(1, std::memory_order_release);
    if (Status failed = failure(); !failed.ok())
      remote_.tell(Note::Failure, 0, failed);
    remote_.tell(Note::Left, 0);
  }
  for (int descriptor : processDescriptors_)
    if (descriptor >= 0)
      close(descriptor);
}

Status WorldState::open(const SharedFile &file, int32_t rank, const std::vector<int32_t> &processes,
                        const std::vector<int32_t> &hosts, uint32_t processors, double deadlineS) {
  ITX_RETURN_IF_ERROR(mapping_.map(file, 0, bytesFor(int32_t(processes.size()))));
  rank_ = rank;
  size_ = int32_t(processes.size());
  deadlineS_ = deadlineS;
  auto here = std::count(hosts.begin(), hosts.end(), hosts[size_t(rank)]);
  spinMicroseconds_ = processors >= size_t(here) ? spinWithProcessors : spinWithoutProcessors;
  processes_ = processes;
  for (int32_t i = 0; i < size_; ++i)
    processDescriptors_.push_back(
        i == rank || hosts[size_t(i)] != hosts[size_t(rank)] ? -1 : int(syscall(SYS_pidfd_open, processes[i], 0)));
  return Status::success();
}

void WorldState::connect(std::vector<Socket> controls, const std::vector<std::string> &hostNames) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < size_; ++i)
    names.push_back(format("rank %d (process %d on %s)", i, processes_[i], hostNames[size_t(i)].c_str()));
  remote_.open(std::move(controls), std::move(names));
}

std::string WorldState::nameOf(int32_t rank) const {
  return remote_.isEmpty() ? format("rank %d (process %d)", rank, processes_[rank]) : remote_.nameOf(rank);
}

Status WorldState::failure() const {
  const WorldHeader &shared = header();
  if (shared.failure.load(std::memory_order_acquire) != 2)
    return Status::success();
  return {itx_status(shared.failureStatus), shared.message};
}

Status WorldState::fail(const Status &status) {
  WorldHeader &shared = header();
  uint32_t none = 0;
  if (shared.failure.compare_exchange_strong(none, 1)) {
    shared.failureStatus = status.code();
    std::strncpy(shared.message, status.message().c_str(), sizeof(shared.message) - 1);
    // Before ranks of this host can see it, and end.
    {
      std::lock_guard lock(remoteMutex_);
      remote_.tell(Note::Failure, 0, status);
    }
    shared.failure.store(2, std::memory_order_release);
  }
  // Another rank may be writing its reason, which all give; it may also be killed while it does.
  auto begin = std::chrono::steady_clock::now();
  while (shared.failure.load(std::memory_order_acquire) == 1 &&
         std::chrono::steady_clock::now() - begin < longestWriteOfFailure)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  Status written = failure();
  return written.ok() ? status : written;
}

/// Returns true if the process of a rank has ended, also while its parent has not waited for it.
bool WorldState::hasEnded(int32_t rank) const {
  if (processDescriptors_[rank] >= 0) {
    pollfd event = {processDescriptors_[rank], POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }
  return kill(processes_[rank], 0) != 0 && errno == ESRCH;
}

/// Returns an error if a rank of this host will not come any more.
Status WorldState::checkLocal(int32_t rank) {
  RankState &peer = state(rank);
  if (hasEnded(rank))
    return fail(
        error(ITX_RANK_LOST, "%s of the world of %d has ended: no other rank can go on", nameOf(rank).c_str(), size_));
  if (peer.hasLeft.load(std::memory_order_acquire))
    return fail(error(ITX_RANK_LOST, "%s has left the world of %d while rank %d waits for it", nameOf(rank).c_str(),
                      size_, rank_));
  if (isInCall_ && peer.abandonedCall.load(std::memory_order_acquire) == calls_)
    return fail(error(ITX_RANK_LOST, "%s could not finish its call: %s", nameOf(rank).c_str(), peer.reason));
  return checkEnd(rank, peer.endsAfter.load(std::memory_order_acquire));
}

/// Returns an error if this rank is in a call that another one, which is about to free a module, will not make.
Status WorldState::checkEnd(int32_t rank, uint64_t endsAfter) {
  if (!isInCall_ || endsAfter == 0 || endsAfter > calls_)
    return Status::success();
  return fail(error(ITX_RANK_LOST, "%s of the world of %d frees a module while rank %d waits for it in a call",
                    nameOf(rank).c_str(), size_, rank_));
}

void WorldState::beginEnd() {
  state(rank_).endsAfter.store(calls_ + 1, std::memory_order_release);
  std::lock_guard lock(remoteMutex_);
  remote_.tell(Note::EndsAfter, calls_ + 1);
}

void WorldState::finishEnd() {
  state(rank_).endsAfter.store(0, std::memory_order_release);
  std::lock_guard lock(remoteMutex_);
  remote_.tell(Note::EndsAfter, 0);
}

/// The same of a rank of another host.
Status WorldState::checkRemote(int32_t rank) {
  const RemoteRanks::State &peer = remote_.state(rank);
  if (peer.hasLeft)
    return fail(error(ITX_RANK_LOST, "%s has left the world of %d while rank %d waits for it", nameOf(rank).c_str(),
                      size_, rank_));
  if (isInCall_ && peer.abandonedCall == calls_)
    return fail(error(ITX_RANK_LOST, "%s could not finish its call: %s", nameOf(rank).c_str(), peer.reason.c_str()));
  return checkEnd(rank, peer.endsAfter);
}

void WorldState::tellWait(int32_t rank) {
  std::lock_guard lock(remoteMutex_);
  if (toldWait_ == rank + 1)
    return;
  toldWait_ = rank + 1;
  remote_.tell(Note::WaitsFor, uint64_t(rank + 1));
}

int32_t WorldState::waitOf(int32_t rank) const {
  bool isRemote = !remote_.isEmpty() && remote_.state(rank).isRemote;
  return isRemote ? remote_.state(rank).waitsFor : state(rank).waitsFor.load(std::memory_order_relaxed);
}

int32_t WorldState::lastInChain(int32_t rank) const {
  int32_t last = rank;
  for (int32_t i = 0; i < size_; ++i)
    if (int32_t next = waitOf(last); next > 0 && next - 1 != rank_)
      last = next - 1;
  return last;
}

Status WorldState::checkPeer(int32_t rank, std::chrono::steady_clock::time_point begin) {
  ITX_RETURN_IF_ERROR(failure());
  std::lock_guard lock(remoteMutex_);
  bool isRemote = !remote_.isEmpty() && remote_.state(rank).isRemote;
  if (Status read = remote_.read(); !read.ok())
    return fail(read);
  ITX_RETURN_IF_ERROR(isRemote ? checkRemote(rank) : checkLocal(rank));
  double waitedS = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (deadlineS_ == 0)
    return Status::success();
  if (waitedS >= deadlineS_ / 2)
    tellWait(rank);
  if (waitedS < deadlineS_)
    return Status::success();
  return fail(error(ITX_RANK_LOST,
                    "%s of the world of %d has not come to the next exchange within %g s: it hangs or is too slow; the "
                    "environment variable ITX_WORLD_DEADLINE_S sets another time",
                    nameOf(lastInChain(rank)).c_str(), size_, deadlineS_));
}

Status WorldState::checkPeers(const std::vector<int32_t> &ranks, std::chrono::steady_clock::time_point begin) {
  std::lock_guard lock(remoteMutex_);
  for (int32_t rank : ranks)
    ITX_RETURN_IF_ERROR(checkPeer(rank, std::chrono::steady_clock::now()));
  // A rank that waits for none is the one that the others wait for.
  auto last = std::find_if(ranks.begin(), ranks.end(), [&](int32_t rank) { return waitOf(rank) <= 0; });
  if (last == ranks.end())
    last = ranks.begin();
  if (last == ranks.end())
    return Status::success();
  state(rank_).waitsFor.store(*last + 1, std::memory_order_relaxed);
  return checkPeer(*last, begin);
}

uint64_t WorldState::beginCall() {
  isInCall_ = true;
  return ++calls_;
}

void WorldState::endCall(const Status &status) {
  isInCall_ = false;
  if (status.ok())
    return;
  RankState &own = state(rank_);
  std::strncpy(own.reason, status.message().c_str(), sizeof(own.reason) - 1);
  own.abandonedCall.store(calls_, std::memory_order_release);
  std::lock_guard lock(remoteMutex_);
  remote_.tell(Note::Abandoned, calls_, status);
}

} // namespace intarsia::runtime
