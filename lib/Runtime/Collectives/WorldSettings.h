//===- WorldSettings.h - Which rank of which world this process is -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_WORLDSETTINGS_H
#define INTARSIA_RUNTIME_COLLECTIVES_WORLDSETTINGS_H

#include "lib/Support/Status.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace intarsia::runtime {

/// The most ranks of a world. Each rank reads a line of every other one in each round, which is slow long before that.
inline constexpr int32_t maximumRanks = 256;

struct WorldSettings {
  int32_t size = 0; ///< 0: this process is in no world
  int32_t rank = 0;
  std::string address;   ///< "local:NAME": a name of this host, "tcp:HOST:PORT": a port of one, that rank 0 listens at
  double deadlineS = -1; ///< how long one rank waits for another; 0: for ever; negative: see readDeadline
  std::string tokenFile; ///< file with the token of a world of several hosts
  std::string token;     ///< read from it if empty: see readToken

  bool isOfHosts() const { return address.rfind("tcp:", 0) == 0; }
  /// Returns HOST:PORT.
  std::string hostAddress() const { return address.substr(4); }
};

/// Reads the world that a launcher has put into the environment: ITX_WORLD_SIZE and ITX_WORLD_RANK, or what mpirun says
/// (OMPI_COMM_WORLD_*, or PMI_* with MPI_LOCALNRANKS); ITX_WORLD_ADDRESS, which mpirun's ranks of one host need not
/// have, and ITX_WORLD_TOKEN_FILE. `size` is 0 if there is none.
Status readWorldSettings(WorldSettings &settings);

/// Reads ITX_WORLD_DEADLINE_S if `deadlineS` is negative. Its default is 300 s: death of a rank is noticed at once
/// without it, and a prompt of thousands of tokens on one core, the longest work between two collectives, takes less.
Status readDeadline(double &deadlineS);

/// Reads the token of a world of several hosts.
Status readToken(WorldSettings &settings);

/// Checks a size, a rank and an address that belong together.
Status checkWorldSettings(const WorldSettings &settings);

/// Returns the address of a new world, which no one can guess.
std::string newWorldAddress();

} // namespace intarsia::runtime

#endif
