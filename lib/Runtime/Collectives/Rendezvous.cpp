//===- Rendezvous.cpp - How the processes of a world meet --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The address is the name of a socket that exists only while a process has it, so that a killed process leaves nothing.
// Each rank sends a Greeting; rank 0 answers when all have come, or when one cannot be waited for.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Rendezvous.h"

#include "intarsia/module_abi.h"
#include "lib/Support/MachineLimits.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <type_traits>
#include <unistd.h>

namespace intarsia::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// Distinguishes a rank from another program that has found the address. It is "itxworld" in ASCII.
constexpr uint64_t greetingMagic = 0x646C726F77787469;
/// How much longer the others wait than rank 0, which knows who is missing, and whose answer they want.
constexpr double answerS = 2;
/// Between two attempts to reach rank 0, which may start later.
constexpr auto retry = std::chrono::milliseconds(5);

/// What a rank says when it comes. Both sides are this program or another version of it on the same machine.
struct Greeting {
  uint64_t magic = greetingMagic;
  uint32_t version = ITX_MODULE_ABI_VERSION;
  int32_t size = 0, rank = 0, process = 0;
  uint64_t processors[16] = {}; ///< bits of the first 1024 that it may use
};

/// The answer to a rank; the ids of the processes follow if there is no error.
struct Answer {
  int32_t status = ITX_OK;
  uint32_t processors = 0;
  char message[1016] = {};
};

static_assert(std::has_unique_object_representations_v<Greeting> && std::has_unique_object_representations_v<Answer>);

/// A rank that has come to rank 0.
struct Guest {
  Socket socket;
  int32_t process = 0;
};

} // namespace

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the address of a socket; its length is that of the name.
static sockaddr_un socketAddress(const std::string &address, socklen_t &length) {
  std::string name = "intarsia-" + address.substr(address.find(':') + 1);
  sockaddr_un result = {};
  result.sun_family = AF_UNIX; // a zero byte before the name: it is no file
  std::memcpy(result.sun_path + 1, name.data(), name.size());
  length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

/// Returns the user of the process at the other end; of one that listens, who that was when it began to.
static bool userOf(const Socket &socket, uid_t &user) {
  ucred sender = {};
  socklen_t length = sizeof(sender);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &sender, &length) != 0)
    return false;
  user = sender.uid;
  return true;
}

static Greeting greetingOf(const WorldSettings &settings) {
  Greeting greeting;
  greeting.size = settings.size;
  greeting.rank = settings.rank;
  greeting.process = getpid();
  for (int processor : allowedProcessors())
    if (processor < 1024)
      greeting.processors[processor / 64] |= uint64_t(1) << processor % 64;
  return greeting;
}

// ---- Rank 0 -----------------------------------------------------------------------------------------------

/// Returns "ranks 1 and 3", those that have not come.
static std::string missingRanks(const std::vector<Guest> &guests) {
  std::vector<std::string> missing;
  for (size_t i = 1; i < guests.size(); ++i)
    if (!guests[i].socket.isOpen())
      missing.push_back(std::to_string(i));
  return (missing.size() == 1 ? "rank " : "ranks ") + join(missing);
}

/// Takes in one process that has connected. One that is of another user or no rank at all is ignored.
static Status takeIn(Socket socket, const Greeting &own, std::vector<Guest> &guests, uint64_t *processors) {
  uid_t user = uid_t(-1);
  Greeting greeting;
  // A rank sends its greeting when it has connected; one that is stopped in between must not hold up the others.
  if (!userOf(socket, user) || user != getuid() || !canRead(socket.get(), 1) ||
      recv(socket.get(), &greeting, sizeof(greeting), 0) != ssize_t(sizeof(greeting)) ||
      greeting.magic != greetingMagic)
    return Status::success();
  auto refuse = [&](Status status) {
    Answer answer;
    answer.status = status.code();
    std::strncpy(answer.message, status.message().c_str(), sizeof(answer.message) - 1);
    send(socket.get(), &answer, sizeof(answer), MSG_NOSIGNAL);
    return status;
  };
  if (greeting.version != own.version)
    return refuse(error(ITX_VERSION_MISMATCH,
                        "rank %d of the world is of a runtime with module ABI %u, rank 0 has %u: start all ranks with "
                        "the same version of Intarsia",
                        greeting.rank, greeting.version, own.version));
  if (greeting.size != own.size)
    return refuse(error(ITX_INVALID_ARGUMENT, "rank %d came to a world of %d ranks, but was started for one of %d",
                        greeting.rank, own.size, greeting.size));
  if (greeting.rank <= 0 || greeting.rank >= own.size || guests[greeting.rank].socket.isOpen())
    return refuse(error(ITX_INVALID_ARGUMENT,
                        "two processes (%d and %d) are rank %d of the world: give each its own ITX_WORLD_RANK",
                        greeting.rank == 0 ? own.process : guests[std::clamp(greeting.rank, 0, own.size - 1)].process,
                        greeting.process, greeting.rank));
  for (size_t i = 0; i < 16; ++i)
    processors[i] |= greeting.processors[i];
  guests[greeting.rank] = {std::move(socket), greeting.process};
  return Status::success();
}

/// Returns an error if a rank that has come is gone again.
static Status checkGuests(const std::vector<Guest> &guests) {
  for (size_t i = 1; i < guests.size(); ++i)
    if (guests[i].socket.isOpen() && canRead(guests[i].socket.get(), 0))
      return error(ITX_RANK_LOST, "rank %zu (process %d) of the world of %zu ended before all had come", i,
                   guests[i].process, guests.size());
  return Status::success();
}

/// Waits until all ranks have come.
static Status receiveGuests(const Socket &listener, const WorldSettings &settings, const Greeting &own,
                            std::vector<Guest> &guests, uint64_t *processors) {
  Clock::time_point begin = Clock::now();
  size_t come = 1;
  while (come < guests.size()) {
    if (settings.deadlineS != 0 && secondsSince(begin) > settings.deadlineS)
      return error(ITX_RANK_LOST,
                   "%s of the world of %d did not come within %g s: start all ranks, with the same address; the "
                   "environment variable ITX_WORLD_DEADLINE_S sets another time",
                   missingRanks(guests).c_str(), settings.size, settings.deadlineS);
    if (canRead(listener.get(), 0.05))
      if (Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)); socket.isOpen())
        ITX_RETURN_IF_ERROR(takeIn(std::move(socket), own, guests, processors));
    ITX_RETURN_IF_ERROR(checkGuests(guests));
    come = 1 + std::count_if(guests.begin(), guests.end(), [](const Guest &guest) { return guest.socket.isOpen(); });
  }
  return Status::success();
}

/// Sends the answer, with the ids of the processes and the shared memory if all is well.
static Status sendAnswer(int socket, const Status &status, const Meeting &meeting) {
  Answer answer;
  answer.status = status.code();
  answer.processors = meeting.processors;
  std::strncpy(answer.message, status.message().c_str(), sizeof(answer.message) - 1);
  iovec parts[2] = {{&answer, sizeof(answer)},
                    {const_cast<int32_t *>(meeting.processes.data()), meeting.processes.size() * sizeof(int32_t)}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = status.ok() ? 2 : 1;
  int descriptor = meeting.file.descriptor();
  if (status.ok()) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
    return error(ITX_IO_ERROR, "%s", std::strerror(errno));
  return Status::success();
}

static Status host(const WorldSettings &settings, uint64_t bytes, Meeting &meeting) {
  Greeting own = greetingOf(settings);
  uint64_t processors[16];
  std::copy(std::begin(own.processors), std::end(own.processors), processors);
  std::vector<Guest> guests(settings.size);
  guests[0].process = own.process;
  Status status;
  if (settings.size > 1) {
    socklen_t length;
    sockaddr_un address = socketAddress(settings.address, length);
    Socket listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!listener.isOpen() || bind(listener.get(), reinterpret_cast<sockaddr *>(&address), length) != 0 ||
        listen(listener.get(), settings.size) != 0)
      return errno == EADDRINUSE
                 ? error(ITX_INVALID_ARGUMENT, "two processes are rank 0 of the world at %s: give each its own rank",
                         settings.address.c_str())
                 : error(ITX_IO_ERROR, "cannot listen on the world's address %s: %s", settings.address.c_str(),
                         std::strerror(errno));
    status = receiveGuests(listener, settings, own, guests, processors);
  }
  for (const Guest &guest : guests)
    meeting.processes.push_back(guest.process);
  for (uint64_t word : processors)
    meeting.processors += uint32_t(__builtin_popcountll(word));
  if (status.ok())
    status = SharedFile::create(meeting.file);
  if (status.ok())
    status = meeting.file.reserve(bytes);
  for (size_t i = 1; i < guests.size(); ++i)
    if (guests[i].socket.isOpen())
      if (Status sent = sendAnswer(guests[i].socket.get(), status, meeting); !sent.ok() && status.ok())
        status = error(ITX_RANK_LOST, "rank %zu (process %d) of the world of %d ended before all had come: %s", i,
                       guests[i].process, settings.size, sent.message().c_str());
  return status;
}

// ---- The other ranks --------------------------------------------------------------------------------------

/// Connects with rank 0, which may not have started yet.
static Status connectToHost(const WorldSettings &settings, Socket &connected) {
  socklen_t length;
  sockaddr_un address = socketAddress(settings.address, length);
  Clock::time_point begin = Clock::now();
  for (;;) {
    Socket attempt(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (attempt.isOpen() && connect(attempt.get(), reinterpret_cast<sockaddr *>(&address), length) == 0) {
      // Whoever has this name first would give this rank memory to share.
      uid_t user = uid_t(-1);
      if (!userOf(attempt, user) || user != getuid())
        return error(ITX_INVALID_ARGUMENT,
                     "a process of another user (%d) has the world's address %s: give all ranks another local:NAME",
                     int(user), settings.address.c_str());
      connected = std::move(attempt);
      return Status::success();
    }
    if (!attempt.isOpen() || (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR))
      return error(ITX_IO_ERROR, "rank %d cannot reach the world's address %s: %s", settings.rank,
                   settings.address.c_str(), std::strerror(errno));
    if (settings.deadlineS != 0 && secondsSince(begin) > settings.deadlineS)
      return error(ITX_RANK_LOST,
                   "rank 0 of the world of %d did not come within %g s: start all ranks, with the same address, in one "
                   "network namespace; the environment variable ITX_WORLD_DEADLINE_S sets another time",
                   settings.size, settings.deadlineS);
    std::this_thread::sleep_for(retry);
  }
}

/// Reads rank 0's answer.
static Status readAnswer(int socket, const WorldSettings &settings, Meeting &meeting) {
  Answer answer;
  meeting.processes.resize(settings.size);
  iovec parts[2] = {{&answer, sizeof(answer)}, {meeting.processes.data(), meeting.processes.size() * sizeof(int32_t)}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (cmsghdr *header = received > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
      header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
    meeting.file = SharedFile(descriptor);
  }
  if (received < ssize_t(sizeof(answer)))
    return error(ITX_RANK_LOST, "rank 0 of the world of %d ended before all had come", settings.size);
  answer.message[sizeof(answer.message) - 1] = '\0';
  if (answer.status != ITX_OK)
    return {itx_status(answer.status), answer.message};
  if (size_t(received) != sizeof(answer) + meeting.processes.size() * sizeof(int32_t) || meeting.file.descriptor() < 0)
    return error(ITX_CORRUPT, "rank 0 of the world of %d gave an answer that cannot be read", settings.size);
  meeting.processors = answer.processors;
  return Status::success();
}

Status meet(const WorldSettings &settings, uint64_t bytes, Meeting &meeting) {
  meeting.hosts.resize(size_t(settings.size));
  if (settings.rank == 0)
    return host(settings, bytes, meeting);
  Socket socket;
  ITX_RETURN_IF_ERROR(connectToHost(settings, socket));
  Greeting greeting = greetingOf(settings);
  double patienceS = settings.deadlineS == 0 ? 1e6 : settings.deadlineS + answerS;
  // Rank 0 may have refused the world already; its answer says why.
  (void)send(socket.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL);
  if (!canRead(socket.get(), patienceS))
    return error(ITX_RANK_LOST, "rank 0 of the world of %d did not answer within %g s", settings.size, patienceS);
  return readAnswer(socket.get(), settings, meeting);
}

} // namespace intarsia::runtime
