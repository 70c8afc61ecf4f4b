//===- WorldSettings.cpp - Which rank of which world this process is ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/WorldSettings.h"

#include "lib/Runtime/Collectives/Connection.h"
#include "lib/Support/Hash.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sys/un.h>
#include <unistd.h>

namespace intarsia::runtime {

/// The deadline of waits, in seconds; readDeadline says why.
static constexpr double defaultDeadlineS = 300;
static constexpr const char localPrefix[] = "local:";
static constexpr size_t leastTokenBytes = 16, mostTokenBytes = 4096;

/// Returns the value of a variable; null if it is not set or empty.
static const char *variable(const char *name) {
  const char *text = std::getenv(name);
  return text && *text ? text : nullptr;
}

/// Reads a number of a variable that is set.
static Status readNumber(const char *name, int32_t low, int32_t high, int32_t &number) {
  const char *text = variable(name);
  char *end = nullptr;
  errno = 0;
  long value = text ? std::strtol(text, &end, 10) : 0;
  if (!text || *end != '\0' || errno != 0 || value < low || value > high)
    return error(ITX_INVALID_ARGUMENT, "the environment variable %s is '%s', a number from %d to %d is wanted", name,
                 text ? text : "", low, high);
  number = int32_t(value);
  return Status::success();
}

/// Reads size and rank from a launcher's variables.
static Status readRank(const char *sizeName, const char *rankName, WorldSettings &settings) {
  ITX_RETURN_IF_ERROR(readNumber(sizeName, 1, maximumRanks, settings.size));
  return readNumber(rankName, 0, settings.size - 1, settings.rank);
}

/// Refuses ranks on other hosts, which cannot find this one without an address.
static Status checkOneHost(const char *localName, const WorldSettings &settings) {
  int32_t local = settings.size;
  if (variable(localName))
    ITX_RETURN_IF_ERROR(readNumber(localName, 1, maximumRanks, local));
  if (local == settings.size)
    return Status::success();
  return error(ITX_UNSUPPORTED,
               "%d of the world's %d ranks are on this host: say where rank 0 listens (mpirun -x "
               "ITX_WORLD_ADDRESS=tcp:HOST:PORT -x ITX_WORLD_TOKEN_FILE=FILE), or start all ranks on one host",
               local, settings.size);
}

/// Returns an address that all ranks of one mpirun compute alike, and no other mpirun of this host.
static std::string addressOfLauncher() {
  std::string text = std::to_string(getuid());
  bool isKnown = false;
  for (const char *name : {"PMIX_NAMESPACE", "PMIX_SERVER_URI2"})
    if (const char *value = variable(name)) {
      text += std::string("\n") + value;
      isKnown = true;
    }
  // Without a name of the job, the ranks have their parent in common.
  if (!isKnown)
    text += "\n" + std::to_string(getppid());
  return localPrefix + hashTextOf(text.data(), text.size());
}

/// Reads the rank of a launcher of MPI; the address if all ranks are on this host.
static Status readLauncher(const char *sizeName, const char *rankName, const char *localName, WorldSettings &settings) {
  ITX_RETURN_IF_ERROR(readRank(sizeName, rankName, settings));
  if (const char *address = variable("ITX_WORLD_ADDRESS")) {
    settings.address = address;
    return Status::success();
  }
  ITX_RETURN_IF_ERROR(checkOneHost(localName, settings));
  settings.address = addressOfLauncher();
  return Status::success();
}

Status readWorldSettings(WorldSettings &settings) {
  settings = WorldSettings();
  if (variable("ITX_WORLD_SIZE") || variable("ITX_WORLD_RANK")) {
    ITX_RETURN_IF_ERROR(readRank("ITX_WORLD_SIZE", "ITX_WORLD_RANK", settings));
    const char *address = variable("ITX_WORLD_ADDRESS");
    if (!address)
      return error(ITX_INVALID_ARGUMENT,
                   "ITX_WORLD_SIZE and ITX_WORLD_RANK are set, ITX_WORLD_ADDRESS is missing: "
                   "give all ranks the same local:NAME, or tcp:HOST:PORT where they are on several hosts");
    settings.address = address;
  } else if (variable("OMPI_COMM_WORLD_SIZE")) {
    ITX_RETURN_IF_ERROR(
        readLauncher("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", settings));
  } else if (variable("PMI_SIZE")) {
    ITX_RETURN_IF_ERROR(readLauncher("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", settings));
  } else if (variable("ITX_WORLD_ADDRESS")) {
    return error(ITX_INVALID_ARGUMENT, "ITX_WORLD_ADDRESS is set, ITX_WORLD_SIZE and ITX_WORLD_RANK are missing");
  } else {
    return Status::success();
  }
  if (const char *file = variable("ITX_WORLD_TOKEN_FILE"))
    settings.tokenFile = file;
  ITX_RETURN_IF_ERROR(readDeadline(settings.deadlineS));
  return checkWorldSettings(settings);
}

Status readToken(WorldSettings &settings) {
  if (!settings.token.empty())
    return Status::success();
  const std::string advice =
      "a token keeps others out of a world of several hosts: make one by `openssl rand -hex 32 > "
      "token`, and give all ranks this file (--token, ITX_WORLD_TOKEN_FILE)";
  if (settings.tokenFile.empty())
    return error(ITX_INVALID_ARGUMENT, "the world at %s has no token; %s", settings.address.c_str(), advice.c_str());
  std::ifstream file(settings.tokenFile, std::ios::binary);
  std::string text(mostTokenBytes + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(std::max<std::streamsize>(file.gcount(), 0)));
  if (!file.is_open() || file.bad())
    return error(ITX_IO_ERROR, "the token file '%s' cannot be read; %s", settings.tokenFile.c_str(), advice.c_str());
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.pop_back();
  if (text.size() < leastTokenBytes || text.size() > mostTokenBytes)
    return error(ITX_INVALID_ARGUMENT, "the token in '%s' has %zu characters, %zu to %zu are possible; %s",
                 settings.tokenFile.c_str(), text.size(), leastTokenBytes, mostTokenBytes, advice.c_str());
  settings.token = std::move(text);
  return Status::success();
}

Status readDeadline(double &deadlineS) {
  if (deadlineS >= 0)
    return Status::success();
  deadlineS = defaultDeadlineS;
  const char *text = variable("ITX_WORLD_DEADLINE_S");
  if (!text)
    return Status::success();
  char *end = nullptr;
  double value = std::strtod(text, &end);
  if (*end != '\0' || !std::isfinite(value) || value < 0 || value > 1e6)
    return error(ITX_INVALID_ARGUMENT,
                 "the environment variable ITX_WORLD_DEADLINE_S is '%s', seconds from 0 (no deadline) to 1000000 are "
                 "wanted",
                 text);
  deadlineS = value;
  return Status::success();
}

Status checkWorldSettings(const WorldSettings &settings) {
  if (settings.size < 1 || settings.size > maximumRanks)
    return error(ITX_INVALID_ARGUMENT, "a world of %d ranks; 1 to %d are possible", settings.size, maximumRanks);
  if (settings.rank < 0 || settings.rank >= settings.size)
    return error(ITX_INVALID_ARGUMENT, "rank %d of a world of %d ranks, which are numbered from 0 to %d", settings.rank,
                 settings.size, settings.size - 1);
  if (!(settings.deadlineS <= 1e6))
    return error(ITX_INVALID_ARGUMENT, "a deadline of %g s; 0 (none) to 1000000 are possible", settings.deadlineS);
  const std::string &address = settings.address;
  if (settings.isOfHosts()) {
    std::string host, port;
    return splitAddress(settings.hostAddress(), host, port);
  }
  size_t prefix = sizeof(localPrefix) - 1;
  // The name stands in a socket's address behind a zero byte.
  size_t most = sizeof(sockaddr_un::sun_path) - 1 - std::string("intarsia-").size();
  if (settings.size > 1 &&
      (address.compare(0, prefix, localPrefix) != 0 || address.size() == prefix || address.size() - prefix > most))
    return error(
        ITX_INVALID_ARGUMENT,
        "the address '%s' of the world is neither tcp:HOST:PORT nor local:NAME with a name of at most %zu characters",
        address.c_str(), most);
  return Status::success();
}

std::string newWorldAddress() {
  std::random_device random;
  std::string text = localPrefix;
  for (int i = 0; i < 4; ++i)
    text += format("%08x", unsigned(random()));
  return text;
}

} // namespace intarsia::runtime
