//===- Launch.h - Start the ranks of a world on this host --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_LAUNCH_H
#define INTARSIA_RUNTIME_COLLECTIVES_LAUNCH_H

#include "lib/Support/Status.h"

#include <string>
#include <vector>

namespace intarsia::runtime {

/// Exit status of a rank that ends because another one did (ITX_RANK_LOST): its message is not the reason.
inline constexpr int rankLostExit = 3;

/// Which ranks of which world a process starts.
struct LaunchSettings {
  int size = 0;           ///< of the world
  std::vector<int> ranks; ///< that are started here; empty: all
  std::string address;    ///< of a world of several hosts: "tcp:HOST:PORT"; empty: a new one of this host
  std::string tokenFile;  ///< of such a world
};

/// Runs a command as ranks of a world, and waits for them. Each has its share of the processors and as many threads
/// (unless ITX_THREADS is set), and finds its rank in the environment. Rank 0 has this process's input and output, the
/// others have none.
///
/// If a rank fails or dies, or this process gets SIGINT, SIGTERM or SIGHUP, the others are ended and one message is
/// written to the standard error. If this process is killed, the system kills the ranks. Returns the exit status:
/// that of the rank that failed first, or 128 and the number of a signal.
int launchWorld(const LaunchSettings &settings, const std::vector<std::string> &command);

/// Returns the processors of a rank: its share of those that are allowed, at least one.
std::vector<int> processorsOfRank(int rank, int size, const std::vector<int> &allowed);

} // namespace intarsia::runtime

#endif
