//===- HostRendezvous.cpp - How processes of several hosts meet --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rank comes to rank 0 with a Greeting, and gets the members of the world. Then it connects with the ranks of
// other hosts: it calls those before it, and is called by those behind it. When all have done that, rank 0 lets them
// go. Until then a rank that fails or ends is noticed by rank 0, which tells the others.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/HostRendezvous.h"

#include "lib/Runtime/Collectives/Connection.h"
#include "lib/Runtime/Collectives/Proof.h"
#include "lib/Runtime/Collectives/RemoteRanks.h"
#include "lib/Support/Hash.h"
#include "lib/Support/MachineLimits.h"

#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>

namespace intarsia::runtime {

namespace {

/// How long a rank may take for a message that is on its way.
constexpr double messageS = 2;
/// How much longer the others wait than rank 0, which knows who is missing, and whose answer they want.
constexpr double verdictS = 2;

/// A rank sends this when it comes. All are of one version of this program, which the proof of the token compares.
struct HostGreeting {
  int32_t size = 0, rank = 0, process = 0;
  int32_t file = -1; ///< descriptor of memory that the ranks of its host may share
  uint32_t port = 0; ///< that it listens at
  uint32_t unused = 0;
  Hash128 host = {};            ///< the same for processes that can share memory
  char hostName[64] = {};       ///< for messages
  uint64_t processors[16] = {}; ///< bits of the first 1024 that it may use
};

/// A greeting as rank 0 passes it on, with the address that the rank came from.
struct Member {
  HostGreeting greeting;
  int32_t host = 0; ///< number
  uint32_t unused = 0;
  char address[64] = {};
};

/// Rank 0 says by this whether a rank can go on.
struct Verdict {
  int32_t status = ITX_OK;
  char message[1020] = {};
};

/// A rank sends this on a connection with another rank: what it is for.
struct Purpose {
  int32_t rank = 0;
  uint32_t isControl = 0;
};

class HostMeeting {
public:
  explicit HostMeeting(const WorldSettings &settings) : settings_(settings) {
    patience_.seconds = settings.deadlineS;
    patience_.check = [this] { return look(); };
  }
  Status run(uint64_t (*bytesFor)(const std::vector<int32_t> &, int32_t), Meeting &meeting);

private:
  struct Caller {
    Socket socket;
    bool isReady = false;
  };

  Status come(Meeting &meeting);
  Status host();
  Status takeIn(Callers::Caller caller);
  Status visit();
  Status shareMemory(uint64_t (*bytesFor)(const std::vector<int32_t> &, int32_t), Meeting &meeting);
  Status connectLinks(Meeting &meeting);
  Status call(int32_t rank, bool isControl, Socket &socket);
  void takeCall(Callers::Caller caller, Meeting &meeting, size_t &missing);
  Status depart();
  Status look();
  void tell(const Status &status);
  std::string missingCallers() const;
  bool isElsewhere(int32_t rank) const { return members_[size_t(rank)].host != members_[size_t(settings_.rank)].host; }

  const WorldSettings &settings_;
  Patience patience_;
  HostGreeting own_;
  Socket listener_;             // for the connections between ranks
  Socket first_;                // the connection with rank 0
  std::vector<Caller> callers_; // of rank 0: the others
  std::vector<Member> members_;
  bool mayLook_ = false, mayGo_ = false, isTold_ = false;
};

} // namespace

/// Returns what processes have in common that can share memory and see each other: the machine, its networks and
/// processes (containers have their own), and the user. ITX_WORLD_HOST makes hosts of processes, for tests.
static Hash128 hostIdentity() {
  std::string text = std::to_string(getuid());
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  text += "\n" + boot;
  for (const char *path : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    struct stat information = {};
    if (stat(path, &information) == 0)
      text += "\n" + std::to_string(information.st_ino);
  }
  if (const char *name = std::getenv("ITX_WORLD_HOST"))
    text += std::string("\n") + name;
  return hashBytes(text.data(), text.size());
}

static HostGreeting hostGreetingOf(const WorldSettings &settings, uint32_t port, int file) {
  HostGreeting greeting;
  greeting.size = settings.size;
  greeting.rank = settings.rank;
  greeting.process = getpid();
  greeting.file = file;
  greeting.port = port;
  greeting.host = hostIdentity();
  if (const char *name = std::getenv("ITX_WORLD_HOST"))
    std::strncpy(greeting.hostName, name, sizeof(greeting.hostName) - 1);
  else
    (void)gethostname(greeting.hostName, sizeof(greeting.hostName) - 1);
  for (int processor : allowedProcessors())
    if (processor < 1024)
      greeting.processors[processor / 64] |= uint64_t(1) << processor % 64;
  return greeting;
}

static Verdict verdictOf(const Status &status) {
  Verdict verdict;
  verdict.status = status.code();
  status.message().copy(verdict.message, sizeof(verdict.message) - 1);
  return verdict;
}

/// Receives whether this rank, or another one, can go on.
static Status receiveVerdict(const Socket &socket, const Patience &patience) {
  Verdict verdict;
  ITX_RETURN_IF_ERROR(receiveAll(socket, &verdict, sizeof(verdict), patience));
  verdict.message[sizeof(verdict.message) - 1] = '\0';
  return verdict.status == ITX_OK ? Status::success() : Status(itx_status(verdict.status), verdict.message);
}

/// True if a connection has ended; verdicts have other messages.
static bool isEnd(const Status &status) {
  return status.code() == ITX_RANK_LOST && status.message().rfind("the connection", 0) == 0;
}

/// Tells the others that this rank cannot go on.
void HostMeeting::tell(const Status &status) {
  if (isTold_)
    return;
  isTold_ = true;
  Verdict verdict = verdictOf(status);
  Patience shortly;
  shortly.seconds = messageS;
  for (const Caller &caller : callers_)
    if (caller.socket.isOpen())
      (void)sendObject(caller.socket, verdict, shortly);
  if (first_.isOpen())
    (void)sendObject(first_, verdict, shortly);
}

/// Looks after the others while this rank waits for one of them.
Status HostMeeting::look() {
  if (!mayLook_)
    return Status::success();
  Patience shortly;
  shortly.seconds = messageS;
  if (first_.isOpen() && !mayGo_ && canRead(first_.get(), 0)) {
    Status status = receiveVerdict(first_, shortly);
    isTold_ = !status.ok();
    mayGo_ = status.ok();
    return isEnd(status) ? error(ITX_RANK_LOST, "rank 0 of the world of %d ended before all had come", settings_.size)
                         : status;
  }
  for (size_t rank = 1; rank < callers_.size(); ++rank) {
    Caller &caller = callers_[rank];
    if (!caller.socket.isOpen() || !canRead(caller.socket.get(), 0))
      continue;
    Status status = receiveVerdict(caller.socket, shortly);
    if (isEnd(status))
      status = error(ITX_RANK_LOST, "rank %zu of the world of %d ended before all had come", rank, settings_.size);
    ITX_RETURN_IF_ERROR(status);
    caller.isReady = true;
  }
  return Status::success();
}

// ---- Greetings --------------------------------------------------------------------------------------------

std::string HostMeeting::missingCallers() const {
  std::vector<std::string> missing;
  for (size_t rank = 1; rank < callers_.size(); ++rank)
    if (!callers_[rank].socket.isOpen())
      missing.push_back(std::to_string(rank));
  return (missing.size() == 1 ? "rank " : "ranks ") + join(missing);
}

/// Takes in one process that has called rank 0 and has the token.
Status HostMeeting::takeIn(Callers::Caller caller) {
  Patience shortly;
  shortly.seconds = messageS;
  HostGreeting greeting;
  std::memcpy(&greeting, caller.message.data(), sizeof(greeting));
  auto refuse = [&](Status status) {
    (void)sendObject(caller.socket, verdictOf(status), shortly);
    return status;
  };
  greeting.hostName[sizeof(greeting.hostName) - 1] = '\0';
  if (greeting.size != settings_.size)
    return refuse(error(ITX_INVALID_ARGUMENT, "rank %d came to a world of %d ranks, but was started for one of %d",
                        greeting.rank, settings_.size, greeting.size));
  if (greeting.rank <= 0 || greeting.rank >= settings_.size || callers_[size_t(greeting.rank)].socket.isOpen())
    return refuse(error(ITX_INVALID_ARGUMENT,
                        "two processes (one of them %d on %s) are rank %d of the world: give each its own rank",
                        greeting.process, greeting.hostName, greeting.rank));
  Member &member = members_[size_t(greeting.rank)];
  member.greeting = greeting;
  caller.address.copy(member.address, sizeof(member.address) - 1);
  callers_[size_t(greeting.rank)].socket = std::move(caller.socket);
  return Status::success();
}

/// Rank 0: waits until all have come, and tells them who there is.
Status HostMeeting::host() {
  std::string name, port;
  ITX_RETURN_IF_ERROR(splitAddress(settings_.hostAddress(), name, port));
  members_.resize(size_t(settings_.size));
  members_[0].greeting = own_;
  callers_.resize(size_t(settings_.size));
  Socket door;
  if (settings_.size > 1)
    ITX_RETURN_IF_ERROR(listenAt(name, port, door));
  mayLook_ = true;
  Callers callers(settings_.token, sizeof(HostGreeting));
  auto isMissing = [](const Caller &caller) { return !caller.socket.isOpen(); };
  while (std::any_of(callers_.begin() + 1, callers_.end(), isMissing)) {
    if (patience_.isOver())
      return error(ITX_RANK_LOST,
                   "%s of the world of %d did not come to %s within %g s: start all ranks, with the same address and "
                   "token; the environment variable ITX_WORLD_DEADLINE_S sets another time%s%s",
                   missingCallers().c_str(), settings_.size, settings_.hostAddress().c_str(), settings_.deadlineS,
                   callers.problem().empty() ? "" : "; ", callers.problem().c_str());
    if (std::optional<Callers::Caller> caller = callers.next(door, 0.05))
      ITX_RETURN_IF_ERROR(takeIn(std::move(*caller)));
    ITX_RETURN_IF_ERROR(look());
  }
  std::vector<Hash128> hosts;
  for (Member &member : members_) {
    auto found = std::find(hosts.begin(), hosts.end(), member.greeting.host);
    member.host = int32_t(found - hosts.begin());
    if (found == hosts.end())
      hosts.push_back(member.greeting.host);
  }
  Verdict good;
  for (size_t rank = 1; rank < callers_.size(); ++rank) {
    ITX_RETURN_IF_ERROR(sendObject(callers_[rank].socket, good, patience_));
    for (const Member &member : members_)
      ITX_RETURN_IF_ERROR(sendObject(callers_[rank].socket, member, patience_));
  }
  return Status::success();
}

/// The other ranks: comes to rank 0, and learns who there is.
Status HostMeeting::visit() {
  std::string name, port;
  ITX_RETURN_IF_ERROR(splitAddress(settings_.hostAddress(), name, port));
  Status status = connectTo(name, port, "rank 0 of the world", patience_, first_);
  if (status.code() == ITX_RANK_LOST)
    return error(ITX_RANK_LOST,
                 "%s: start all ranks, with the same address; the environment variable ITX_WORLD_DEADLINE_S sets "
                 "another time",
                 status.message().c_str());
  ITX_RETURN_IF_ERROR(status);
  Patience longer = patience_;
  longer.seconds = settings_.deadlineS == 0 ? 0 : settings_.deadlineS + verdictS;
  status = proveToken(first_, settings_.token, longer);
  if (isEnd(status))
    return error(ITX_RANK_LOST, "rank 0 of the world of %d has ended the connection", settings_.size);
  ITX_RETURN_IF_ERROR(status);
  ITX_RETURN_IF_ERROR(sendObject(first_, own_, longer));
  members_.resize(size_t(settings_.size));
  status = receiveVerdict(first_, longer);
  isTold_ = !status.ok();
  if (status.ok())
    status = receiveAll(first_, members_.data(), members_.size() * sizeof(Member), longer);
  if (isEnd(status))
    return error(ITX_RANK_LOST, "rank 0 of the world of %d ended before all had come", settings_.size);
  ITX_RETURN_IF_ERROR(status);
  for (Member &member : members_)
    if (member.address[sizeof(member.address) - 1] || member.greeting.hostName[sizeof(member.greeting.hostName) - 1] ||
        member.host < 0 || member.host >= settings_.size)
      return error(ITX_CORRUPT, "rank 0 of the world of %d gave an answer that cannot be read", settings_.size);
  mayLook_ = true;
  return Status::success();
}

// ---- Memory and connections -------------------------------------------------------------------------------

/// Takes the memory of the first rank on this host, and makes it large enough.
Status HostMeeting::shareMemory(uint64_t (*bytesFor)(const std::vector<int32_t> &, int32_t), Meeting &meeting) {
  uint64_t processors[16] = {};
  int32_t own = members_[size_t(settings_.rank)].host, leader = -1;
  for (int32_t rank = 0; rank < settings_.size; ++rank) {
    const Member &member = members_[size_t(rank)];
    meeting.processes.push_back(member.greeting.process);
    meeting.hosts.push_back(member.host);
    meeting.hostNames.push_back(member.greeting.hostName);
    if (member.host != own)
      continue;
    leader = leader < 0 ? rank : leader;
    for (size_t i = 0; i < std::size(processors); ++i)
      processors[i] |= member.greeting.processors[i];
  }
  for (uint64_t word : processors)
    meeting.processors += uint32_t(__builtin_popcountll(word));
  if (leader != settings_.rank) {
    const HostGreeting &greeting = members_[size_t(leader)].greeting;
    std::string path = format("/proc/%d/fd/%d", greeting.process, greeting.file);
    int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
      return error(ITX_IO_ERROR, "rank %d cannot share memory with rank %d (process %d) of its host: %s: %s",
                   settings_.rank, leader, greeting.process, path.c_str(), std::strerror(errno));
    meeting.file = SharedFile(descriptor);
  }
  return meeting.file.reserve(bytesFor(meeting.hosts, settings_.rank));
}

/// Connects with a rank before this one.
Status HostMeeting::call(int32_t rank, bool isControl, Socket &socket) {
  const Member &member = members_[size_t(rank)];
  // Rank 0 sees ranks of its own host at an address that others may not have; they have reached rank 0.
  std::string address = member.host == members_[0].host ? peerAddress(first_) : member.address;
  std::string who = format("rank %d (process %d on %s)", rank, member.greeting.process, member.greeting.hostName);
  ITX_RETURN_IF_ERROR(connectTo(address, std::to_string(member.greeting.port), who, patience_, socket));
  ITX_RETURN_IF_ERROR(proveToken(socket, settings_.token, patience_));
  return sendObject(socket, Purpose{settings_.rank, isControl}, patience_);
}

/// Takes a connection of a rank behind this one. Others are ignored.
void HostMeeting::takeCall(Callers::Caller caller, Meeting &meeting, size_t &missing) {
  Purpose purpose;
  std::memcpy(&purpose, caller.message.data(), sizeof(purpose));
  if (purpose.rank <= settings_.rank || purpose.rank >= settings_.size || !isElsewhere(purpose.rank))
    return;
  Socket &place = (purpose.isControl ? meeting.controls : meeting.links)[size_t(purpose.rank)];
  if (place.isOpen())
    return;
  place = std::move(caller.socket);
  --missing;
}

Status HostMeeting::connectLinks(Meeting &meeting) {
  meeting.controls.resize(size_t(settings_.size));
  meeting.links.resize(size_t(settings_.size));
  size_t missing = 0;
  for (int32_t rank = 0; rank < settings_.size; ++rank) {
    if (!isElsewhere(rank))
      continue;
    if (rank > settings_.rank) {
      missing += 2;
      continue;
    }
    ITX_RETURN_IF_ERROR(call(rank, true, meeting.controls[size_t(rank)]));
    ITX_RETURN_IF_ERROR(call(rank, false, meeting.links[size_t(rank)]));
  }
  Callers callers(settings_.token, sizeof(Purpose));
  while (missing != 0) {
    if (std::optional<Callers::Caller> caller = callers.next(listener_, 0.05))
      takeCall(std::move(*caller), meeting, missing);
    ITX_RETURN_IF_ERROR(look());
    if (patience_.isOver())
      return error(ITX_RANK_LOST,
                   "%zu connections of other ranks with rank %d did not come within %g s: may their "
                   "hosts reach port %u of this one?",
                   missing, settings_.rank, patience_.seconds, own_.port);
  }
  return Status::success();
}

/// Waits until all are connected.
Status HostMeeting::depart() {
  Verdict good;
  if (settings_.rank != 0) {
    ITX_RETURN_IF_ERROR(sendObject(first_, good, patience_));
    while (!mayGo_) {
      (void)canRead(first_.get(), 0.05);
      ITX_RETURN_IF_ERROR(look());
    }
    return Status::success();
  }
  auto isReady = [](const Caller &caller) { return caller.isReady; };
  while (!std::all_of(callers_.begin() + 1, callers_.end(), isReady)) {
    ITX_RETURN_IF_ERROR(look());
    if (patience_.isOver())
      return error(ITX_RANK_LOST, "the ranks of the world of %d were not all connected within %g s", settings_.size,
                   patience_.seconds);
    (void)poll(nullptr, 0, 1);
  }
  for (size_t rank = 1; rank < callers_.size(); ++rank)
    ITX_RETURN_IF_ERROR(sendObject(callers_[rank].socket, good, patience_));
  return Status::success();
}

Status HostMeeting::come(Meeting &meeting) {
  ITX_RETURN_IF_ERROR(SharedFile::create(meeting.file));
  std::string name, port;
  ITX_RETURN_IF_ERROR(splitAddress(settings_.hostAddress(), name, port));
  ITX_RETURN_IF_ERROR(listenAt(name, "0", listener_));
  own_ = hostGreetingOf(settings_, portOf(listener_), meeting.file.descriptor());
  return settings_.rank == 0 ? host() : visit();
}

Status HostMeeting::run(uint64_t (*bytesFor)(const std::vector<int32_t> &, int32_t), Meeting &meeting) {
  // The first one's memory must stay where the others find it until they have it.
  Meeting result;
  Status status = come(result);
  if (status.ok()) {
    status = shareMemory(bytesFor, result);
    if (status.ok())
      status = connectLinks(result);
    if (status.ok())
      status = depart();
  }
  if (!status.ok()) {
    tell(status);
    return status;
  }
  meeting = std::move(result);
  return status;
}

Status meetHosts(const WorldSettings &settings, uint64_t (*bytesFor)(const std::vector<int32_t> &, int32_t),
                 Meeting &meeting) {
  return HostMeeting(settings).run(bytesFor, meeting);
}

} // namespace intarsia::runtime
