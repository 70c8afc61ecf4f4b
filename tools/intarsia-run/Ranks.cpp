//===- Ranks.cpp - One run by several processes ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Ranks.h"

#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Collectives/WorldSettings.h"
#include "tools/intarsia-run/Handles.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <unistd.h>

namespace intarsia::run {

/// Refuses flags of several hosts that do not belong together.
static Status checkHosts(const Options &options) {
  bool hasAny = !options.ranks.empty() || !options.rendezvous.empty() || !options.token.empty();
  bool hasAll = options.world > 0 && !options.ranks.empty() && !options.rendezvous.empty() && !options.token.empty();
  if (hasAny && !hasAll)
    return error(ITX_INVALID_ARGUMENT,
                 "a world of several hosts has --world=N, and on each host --rank=R (which of them run there), "
                 "--rendezvous=HOST:PORT (where rank 0 listens) and --token=FILE (the same secret on all); these are: "
                 "--world=%d --rank=%s --rendezvous=%s --token=%s",
                 options.world, options.rankText.c_str(), options.rendezvous.c_str(), options.token.c_str());
  std::vector<int> ranks = options.ranks;
  std::sort(ranks.begin(), ranks.end());
  if (hasAny && (ranks.back() >= options.world || std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()))
    return error(ITX_INVALID_ARGUMENT,
                 "--rank=%s are no different ranks of --world=%d, which are numbered from 0 to %d",
                 options.rankText.c_str(), options.world, options.world - 1);
  return Status::success();
}

bool isLauncher(const Options &options, int &exitCode) {
  runtime::WorldSettings settings;
  Status status = checkHosts(options);
  if (status.ok() && options.world == 0)
    return false;
  if (status.ok())
    status = runtime::readWorldSettings(settings);
  if (status.ok() && settings.size == 0)
    return true;
  if (status.ok() && settings.size != options.world)
    status = error(ITX_INVALID_ARGUMENT,
                   "--world=%d, but this process was started as rank %d of a world of %d: give both the same size",
                   options.world, settings.rank, settings.size);
  if (status.ok())
    return false;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  exitCode = 2;
  return true;
}

int launch(const Options &options, int argc, char **argv) {
  // The path is that of the file, so that ranks have the program's name in lists of processes.
  char path[PATH_MAX] = {};
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  std::vector<std::string> command = {length > 0 && access(path, X_OK) == 0 ? path : "/proc/self/exe"};
  command.insert(command.end(), argv + 1, argv + argc);
  runtime::LaunchSettings settings = {options.world, options.ranks, "", options.token};
  if (!options.rendezvous.empty())
    settings.address = "tcp:" + options.rendezvous;
  return runtime::launchWorld(settings, command);
}

/// Returns the rank of this process; 0 if it is in no world.
static int32_t ownRank() {
  static const int32_t rank = [] {
    runtime::WorldSettings settings;
    check(runtime::readWorldSettings(settings));
    return settings.rank;
  }();
  return rank;
}

bool isFirstRank() { return ownRank() == 0; }

void beginRank() {
  if (!isFirstRank() && !std::freopen("/dev/null", "w", stdout))
    throw Failure{"cannot open /dev/null"};
}

void checkWorld(const itx_module *module, const Options &options) {
  Manifest manifest;
  // Cannot fail: it was parsed when the module was loaded.
  (void)parseManifest(itx_module_manifest(module), "manifest", manifest);
  if (options.world > 1 && manifest.world.size == 0)
    throw Failure{format("the model is compiled for one process: compile it with --world=%d, or leave --world out",
                         options.world)};
}

} // namespace intarsia::run
