//===- World.cpp - Processes that run one model together ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/World.h"

#include "lib/Runtime/Collectives/HostRendezvous.h"
#include "lib/Runtime/Collectives/Operations.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unistd.h>

namespace intarsia::runtime {

/// Returns bytes rounded up to whole pages, at which mappings begin.
static uint64_t wholePages(uint64_t bytes) {
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

static std::vector<int32_t> allRanks(size_t size) {
  std::vector<int32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Returns where the memory of the first communicator begins, behind the state.
static uint64_t stateBytes(size_t size) { return wholePages(WorldState::bytesFor(int32_t(size))); }

/// Returns the bytes that a new world needs in the memory of a rank's host.
static uint64_t worldBytes(const std::vector<int32_t> &hosts, int32_t rank) {
  return stateBytes(hosts.size()) + Communicator::bytesFor(allRanks(hosts.size()), hosts, rank);
}

Status World::make(const WorldSettings &settings, std::shared_ptr<World> &world) {
  std::shared_ptr<World> made(new World);
  made->settings_ = settings;
  size_t size = size_t(settings.size);
  Meeting meeting;
  ITX_RETURN_IF_ERROR(settings.isOfHosts()
                          ? meetHosts(settings, worldBytes, meeting)
                          : meet(settings, worldBytes(std::vector<int32_t>(size), settings.rank), meeting));
  made->hosts_ = std::move(meeting.hosts);
  made->fileBytes_ = worldBytes(made->hosts_, settings.rank);
  made->file_ = std::move(meeting.file);
  ITX_RETURN_IF_ERROR(made->state_.open(made->file_, settings.rank, meeting.processes, made->hosts_, meeting.processors,
                                        settings.deadlineS));
  if (!meeting.controls.empty())
    made->state_.connect(std::move(meeting.controls), meeting.hostNames);
  made->links_.open(made->state_, std::move(meeting.links));
  std::vector<int32_t> ranks = allRanks(size);
  auto all = std::make_unique<Communicator>();
  ITX_RETURN_IF_ERROR(all->open(made->state_, made->links_, made->hosts_, made->file_, stateBytes(size), ranks));
  made->all_ = all.get();
  made->groups_.emplace(ranks, std::move(all));
  // Rank 0 notices by this that one has died between its greeting and now.
  ITX_RETURN_IF_ERROR(barrier(*made->all_));
  world = std::move(made);
  return Status::success();
}

namespace {

/// The world that this process is in.
struct Current {
  std::mutex mutex;
  std::weak_ptr<World> world;
  pid_t process = 0;
};

} // namespace

/// Returns it. A child of a fork is in no world, and may find its parent's lock taken.
static Current &current() {
  static Current *instance = new Current;
  if (instance->process != getpid()) {
    if (instance->process != 0)
      instance = new Current;
    instance->process = getpid();
  }
  return *instance;
}

Status World::join(const WorldSettings &given, std::shared_ptr<World> &world) {
  WorldSettings settings = given;
  ITX_RETURN_IF_ERROR(readDeadline(settings.deadlineS));
  ITX_RETURN_IF_ERROR(checkWorldSettings(settings));
  Current &own = current();
  std::lock_guard lock(own.mutex);
  if (std::shared_ptr<World> present = own.world.lock()) {
    if (present->size() != settings.size || present->rank() != settings.rank ||
        present->settings_.address != settings.address)
      return error(ITX_INVALID_ARGUMENT,
                   "this process is rank %d of a world of %d, it cannot join another one as rank %d of %d before that "
                   "is freed",
                   present->rank(), present->size(), settings.rank, settings.size);
    world = std::move(present);
    return Status::success();
  }
  if (settings.isOfHosts())
    ITX_RETURN_IF_ERROR(readToken(settings));
  ITX_RETURN_IF_ERROR(make(settings, world));
  own.world = world;
  return Status::success();
}

Status World::ofProcess(std::shared_ptr<World> &world) {
  {
    Current &own = current();
    std::lock_guard lock(own.mutex);
    world = own.world.lock();
  }
  if (world)
    return Status::success();
  WorldSettings settings;
  ITX_RETURN_IF_ERROR(readWorldSettings(settings));
  return settings.size == 0 ? Status::success() : join(settings, world);
}

size_t World::rankOnHost() const {
  return size_t(std::count(hosts_.begin(), hosts_.begin() + rank(), hosts_[size_t(rank())]));
}

/// Checks the ranks of a group.
static Status checkRanks(const std::vector<int32_t> &ranks, int32_t size) {
  std::vector<int32_t> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  if (ranks.empty() || sorted.front() < 0 || sorted.back() >= size ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return error(ITX_INVALID_ARGUMENT, "%s is no group of ranks of a world of %d: each may occur once",
                 shapeText(ranks).c_str(), size);
  return Status::success();
}

Status World::group(const std::vector<int32_t> &ranks, Communicator *&communicator) {
  ITX_RETURN_IF_ERROR(checkRanks(ranks, size()));
  ITX_RETURN_IF_ERROR(agree(hashBytes(ranks.data(), ranks.size() * sizeof(int32_t)), "group of ranks",
                            "all ranks of the world make the same groups in the same order"));
  if (auto found = groups_.find(ranks); found != groups_.end()) {
    communicator = found->second.get();
    return Status::success();
  }
  std::unique_ptr<Communicator> made;
  ITX_RETURN_IF_ERROR(makeCommunicator(ranks, made));
  communicator = made.get();
  groups_.emplace(ranks, std::move(made));
  return Status::success();
}

Status World::makeChannel(int32_t first, int32_t second, Communicator *&communicator) {
  ITX_RETURN_IF_ERROR(agree(Hash128{}, "exchange", "all ranks of the world make the same engines in the same order"));
  ITX_RETURN_IF_ERROR(makeCommunicator({first, second}, channels_.emplace_back()));
  communicator = channels_.back().get();
  return Status::success();
}

Status World::makeCommunicator(const std::vector<int32_t> &ranks, std::unique_ptr<Communicator> &made) {
  made = std::make_unique<Communicator>();
  uint64_t offset = fileBytes_, bytes = Communicator::bytesFor(ranks, hosts_, rank());
  // A rank that has too little memory must not leave the others waiting.
  Status status = file_.reserve(offset + bytes);
  if (status.ok())
    status = made->open(state_, links_, hosts_, file_, offset, ranks);
  if (!status.ok())
    return state_.fail(error(status.code(), "rank %d: %s", rank(), status.message().c_str()));
  fileBytes_ += bytes;
  return Status::success();
}

Status World::agree(const Hash128 &hash, const std::string &what, const std::string &advice) {
  ITX_RETURN_IF_ERROR(late_.finish());
  std::vector<Hash128> hashes;
  hashes.resize(size_t(size()));
  ITX_RETURN_IF_ERROR(allGather(*all_, ITX_U8, hashes.data(), hash.data(), hash.size()));
  for (size_t i = 1; i < hashes.size(); ++i)
    if (hashes[i] != hashes[0])
      return state_.fail(error(ITX_INVALID_ARGUMENT, "rank %zu has another %s (%s) than rank 0 (%s): %s", i,
                               what.c_str(), hashText(hashes[i]).c_str(), hashText(hashes[0]).c_str(), advice.c_str()));
  return Status::success();
}

} // namespace intarsia::runtime
