//===- DeviceGroups.cpp - Ranks whose devices exchange data themselves -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/DeviceGroups.h"

#include "lib/Runtime/Collectives/Operations.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

namespace intarsia::runtime {

/// How often ranks are looked after while devices wait for them: as often as by a rank that waits itself.
static constexpr std::chrono::milliseconds lookInterval{50};

static constexpr const char *exchangesVariable = "ITX_WORLD_EXCHANGES";

/// Describes a rank's device to the other ranks. It is sent as bytes, so that texts have fixed sizes.
struct DeviceGroups::Peer {
  char kind[16], unit[48], library[48], problem[512];
  int32_t wantsHost;
};

/// Reads whether devices exchange data by way of the host's memory although they need not.
static Status readWantsHost(bool &wantsHost) {
  const char *text = std::getenv(exchangesVariable);
  std::string value = text ? text : "";
  wantsHost = value == "host";
  if (value.empty() || value == "devices" || value == "host")
    return Status::success();
  return error(
      ITX_INVALID_ARGUMENT,
      "the environment variable %s is '%s'; wanted is 'devices' (the default: GPUs of different ranks exchange "
      "data themselves) or 'host' (by way of the host's memory)",
      exchangesVariable, text);
}

template <size_t bytes> static void put(char (&to)[bytes], const std::string &text) { text.copy(to, bytes - 1); }

DeviceGroups::DeviceGroups(World &world, Device *device) : world_(world), device_(device) {}

Status DeviceGroups::open(World &world, Device *device, std::unique_ptr<DeviceGroups> &groups) {
  std::unique_ptr<DeviceGroups> made(new DeviceGroups(world, device));
  Peer own = {};
  bool wantsHost = false;
  if (Status read = readWantsHost(wantsHost); !read.ok())
    return world.state().fail(error(read.code(), "rank %d: %s", world.rank(), read.message().c_str()));
  own.wantsHost = wantsHost;
  if (device) {
    DeviceLinks links = device->links();
    put(own.kind, device->kind());
    put(own.unit, links.unit);
    put(own.library, links.library);
    put(own.problem, links.problem);
  }
  made->peers_.resize(size_t(world.size()));
  ITX_RETURN_IF_ERROR(world.late().finish());
  ITX_RETURN_IF_ERROR(allGather(world.all(), ITX_U8, made->peers_.data(), &own, sizeof(Peer)));
  groups = std::move(made);
  return Status::success();
}

DeviceGroups::~DeviceGroups() {
  // A rank's device may be done before another one's has read what it gave.
  bool isWhole = world_.state().failure().ok();
  if (!entries_.empty())
    world_.state().beginEnd();
  for (Entry &entry : entries_)
    isWhole = isWhole && (!entry.group || barrier(*entry.communicator).ok());
  if (!entries_.empty())
    world_.state().finishEnd();
  {
    std::lock_guard lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
  for (Entry &entry : entries_)
    if (entry.group && !isWhole)
      entry.group->abort();
}

/// Says whether the devices of a group can exchange data themselves; all of its ranks get the same answer.
Status DeviceGroups::decide(const Communicator &communicator, bool &areAble) const {
  areAble = communicator.size() > 1 &&
            std::none_of(peers_.begin(), peers_.end(), [](const Peer &peer) { return peer.wantsHost; });
  const std::vector<int32_t> &ranks = communicator.ranks();
  const Peer &first = peers_[size_t(ranks[0])];
  std::set<std::pair<int32_t, std::string>> units;
  for (int32_t rank : ranks) {
    const Peer &peer = peers_[size_t(rank)];
    bool isOwnUnit = units.insert({world_.hosts()[size_t(rank)], peer.unit}).second;
    if (!peer.unit[0] || !isOwnUnit || std::strcmp(peer.kind, first.kind) != 0)
      areAble = false;
  }
  if (!areAble)
    return Status::success();
  for (int32_t rank : ranks) {
    const Peer &peer = peers_[size_t(rank)];
    if (!peer.library[0])
      return error(
          ITX_NOT_FOUND,
          "rank %d: %s. GPUs of different ranks exchange data by this library: install it on each host, or set "
          "%s=host in the environment of all ranks, which takes longer",
          rank, peer.problem, exchangesVariable);
    if (std::strcmp(peer.library, first.library) != 0)
      return error(ITX_INVALID_ARGUMENT,
                   "rank %d has %s, rank %d %s: install one version on all hosts, or set %s=host in the environment of "
                   "all ranks, which takes longer",
                   ranks[0], first.library, rank, peer.library, exchangesVariable);
  }
  return Status::success();
}

Status DeviceGroups::join(Communicator &communicator, std::unique_ptr<DeviceGroup> &group) {
  bool areAble = false;
  ITX_RETURN_IF_ERROR(decide(communicator, areAble));
  if (!areAble)
    return Status::success();
  DeviceGroupId id = {};
  Status status = communicator.index() == 0 ? device_->makeGroupId(id) : Status::success();
  if (status.ok())
    status = broadcast(communicator, ITX_U8, 0, id.data(), id.data(), id.size());
  if (status.ok())
    status = device_->joinGroup(id, size_t(communicator.index()), communicator.size(), group);
  return status.ok() ? status : world_.state().fail(status);
}

Status DeviceGroups::find(Communicator &communicator, DeviceGroup *&group) {
  for (const Entry &entry : entries_) // only this thread adds some
    if (entry.communicator == &communicator) {
      group = entry.group.get();
      return Status::success();
    }
  std::unique_ptr<DeviceGroup> made;
  ITX_RETURN_IF_ERROR(join(communicator, made));
  group = made.get();
  std::lock_guard lock(mutex_);
  entries_.push_back({&communicator, std::move(made)});
  return Status::success();
}

void DeviceGroups::beginExchange(const Communicator &communicator) {
  std::lock_guard lock(mutex_);
  begin_ = std::chrono::steady_clock::now();
  isExchanging_ = true;
  bool wasIdle = watched_.empty();
  for (int32_t rank : communicator.ranks())
    if (rank != world_.rank() && std::find(watched_.begin(), watched_.end(), rank) == watched_.end())
      watched_.push_back(rank);
  if (!thread_.joinable())
    thread_ = std::thread([this] { watch(); });
  else if (wasIdle)
    changed_.notify_all();
}

Status DeviceGroups::endCall() {
  {
    std::lock_guard lock(mutex_);
    if (!isExchanging_)
      return Status::success();
    isExchanging_ = false;
    watched_.clear();
  }
  world_.state().endWaitOnDevice();
  return world_.state().failure();
}

/// Returns an error if an exchange that is running cannot end.
Status DeviceGroups::look() {
  for (const Entry &entry : entries_)
    if (Status status = entry.group ? entry.group->check() : Status::success(); !status.ok())
      return world_.state().fail(status);
  return world_.state().checkPeers(watched_, begin_);
}

void DeviceGroups::watch() {
  std::unique_lock lock(mutex_);
  while (!isEnding_) {
    if (watched_.empty())
      changed_.wait(lock, [&] { return isEnding_ || !watched_.empty(); });
    else
      changed_.wait_for(lock, lookInterval, [&] { return isEnding_; });
    if (isEnding_ || watched_.empty() || look().ok())
      continue;
    for (Entry &entry : entries_)
      if (entry.group)
        entry.group->abort();
    watched_.clear();
    changed_.wait(lock, [&] { return isEnding_; });
  }
}

} // namespace intarsia::runtime
