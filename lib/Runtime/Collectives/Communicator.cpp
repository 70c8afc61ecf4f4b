//===- Communicator.cpp - A group of ranks -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Communicator.h"

#include <algorithm>

namespace intarsia::runtime {

/// Returns the members of a group on a rank's host.
static std::vector<int32_t> membersBeside(const std::vector<int32_t> &ranks, const std::vector<int32_t> &hosts,
                                          int32_t rank) {
  std::vector<int32_t> beside;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(beside),
               [&](int32_t other) { return hosts[size_t(other)] == hosts[size_t(rank)]; });
  return beside;
}

uint64_t Communicator::bytesFor(const std::vector<int32_t> &ranks, const std::vector<int32_t> &hosts, int32_t ownRank) {
  size_t here = membersBeside(ranks, hosts, ownRank).size();
  return here < 2 && here != ranks.size() ? 0 : Rounds::bytesFor(here);
}

Status Communicator::open(WorldState &world, HostLinks &links, const std::vector<int32_t> &hosts,
                          const SharedFile &file, uint64_t offset, std::vector<int32_t> ranks) {
  world_ = &world;
  links_ = &links;
  ranks_ = std::move(ranks);
  std::vector<int32_t> numbers;
  for (size_t member = 0; member < ranks_.size(); ++member) {
    int32_t number = hosts[size_t(ranks_[member])];
    auto found = size_t(std::find(numbers.begin(), numbers.end(), number) - numbers.begin());
    if (found == numbers.size()) {
      numbers.push_back(number);
      hosts_.emplace_back();
    }
    hosts_[found].push_back(member);
    if (ranks_[member] == world.rank()) {
      index_ = int32_t(member);
      ownHost_ = found;
    }
  }
  if (index_ < 0 || bytesFor(ranks_, hosts, world.rank()) == 0)
    return Status::success();
  return here_.open(world, file, offset, membersBeside(ranks_, hosts, world.rank()));
}

} // namespace intarsia::runtime
