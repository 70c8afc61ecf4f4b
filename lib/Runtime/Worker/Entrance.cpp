//===- Entrance.cpp - Where a worker waits for its front end ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/Entrance.h"

#include "lib/Runtime/Collectives/Connection.h"
#include "lib/Runtime/Collectives/Proof.h"
#include "lib/Runtime/Collectives/WorldSettings.h"

#include <atomic>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

namespace intarsia::runtime {

namespace {

/// A connection that the process has inherited.
class InheritedEntrance : public Entrance {
public:
  explicit InheritedEntrance(Socket socket) : socket_(std::move(socket)) {}
  int descriptor() const override { return -1; }
  Socket take() override { return std::move(socket_); }
  bool mayComeAgain() const override { return false; }

private:
  Socket socket_;
};

class UnixEntrance : public Entrance {
public:
  UnixEntrance(Socket listener, std::string path) : listener_(std::move(listener)), path_(std::move(path)) {}
  ~UnixEntrance() override { unlink(path_.c_str()); }
  int descriptor() const override { return listener_.get(); }
  Socket take() override { return Socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  bool mayComeAgain() const override { return true; }

private:
  Socket listener_;
  std::string path_;
};

/// Callers prove themselves on a thread of its own, so that one who is silent keeps nobody waiting.
class TcpEntrance : public Entrance {
public:
  TcpEntrance(Socket listener, std::string token)
      : listener_(std::move(listener)), came_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this, token = std::move(token)] { listen(token); }) {}
  ~TcpEntrance() override {
    isEnding_ = true;
    thread_.join();
  }
  int descriptor() const override { return came_.get(); }
  Socket take() override {
    std::lock_guard lock(mutex_);
    uint64_t count;
    (void)!read(came_.get(), &count, sizeof(count));
    return std::exchange(next_, Socket());
  }
  bool mayComeAgain() const override { return true; }

private:
  void listen(const std::string &token) {
    Callers callers(token, /*messageBytes=*/0);
    std::string problem;
    while (!isEnding_) {
      std::optional<Callers::Caller> caller = callers.next(listener_, /*seconds=*/0.2);
      if (callers.problem() != problem) {
        problem = callers.problem();
        std::fprintf(stderr, "warning: %s\n", problem.c_str());
      }
      if (!caller)
        continue;
      std::lock_guard lock(mutex_);
      next_ = std::move(caller->socket); // one that nobody took yet is closed
      uint64_t one = 1;
      (void)!write(came_.get(), &one, sizeof(one));
    }
  }

  Socket listener_, came_;
  std::atomic<bool> isEnding_ = false;
  std::mutex mutex_;
  Socket next_;
  std::thread thread_;
};

} // namespace

static Status openInherited(const std::string &address, const std::string &number,
                            std::unique_ptr<Entrance> &entrance) {
  int descriptor = -1, type = 0;
  auto [after, problem] = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  socklen_t length = sizeof(type);
  bool isNumber = problem == std::errc() && after == number.data() + number.size() && descriptor >= 0;
  if (!isNumber || getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM)
    return error(ITX_INVALID_ARGUMENT,
                 "'%s' is no connected stream socket of this process: fd:N is the descriptor of "
                 "one that it has inherited",
                 address.c_str());
  (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  entrance = std::make_unique<InheritedEntrance>(Socket(descriptor));
  return Status::success();
}

void closeInherited(const std::string &address) {
  std::unique_ptr<Entrance> entrance; // closes what it has got
  if (address.rfind("fd:", 0) == 0)
    (void)openEntrance(address, "", entrance);
}

static Status openUnix(const std::string &path, std::unique_ptr<Entrance> &entrance) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return error(ITX_INVALID_ARGUMENT, "unix:%s: the path has %zu bytes, 1 to %zu are possible", path.c_str(),
                 path.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto *where = reinterpret_cast<const sockaddr *>(&address);
  struct stat status;
  if (lstat(path.c_str(), &status) == 0) {
    // A worker that was killed leaves its file. One that runs answers, or has callers enough.
    Socket attempt(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!S_ISSOCK(status.st_mode) || connect(attempt.get(), where, sizeof(address)) == 0 || errno != ECONNREFUSED)
      return error(ITX_INVALID_ARGUMENT, "unix:%s: the file exists, and %s; choose another path", path.c_str(),
                   S_ISSOCK(status.st_mode) ? "a process listens at it" : "is no socket");
    unlink(path.c_str());
  }
  Socket listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  mode_t before = umask(0077); // other threads of this process make no files yet
  bool isBound = listener.isOpen() && bind(listener.get(), where, sizeof(address)) == 0;
  int code = errno;
  umask(before);
  if (isBound && listen(listener.get(), 16) == 0) {
    entrance = std::make_unique<UnixEntrance>(std::move(listener), path);
    return Status::success();
  }
  return error(ITX_IO_ERROR, "unix:%s: cannot listen there: %s", path.c_str(), std::strerror(isBound ? errno : code));
}

static Status openTcp(const std::string &address, const std::string &tokenFile, std::unique_ptr<Entrance> &entrance) {
  WorldSettings settings; // a worker's token follows the rules of a world's
  settings.address = "tcp:" + address;
  settings.tokenFile = tokenFile;
  std::string host, port;
  ITX_RETURN_IF_ERROR(splitAddress(address, host, port));
  if (tokenFile.empty())
    return error(ITX_INVALID_ARGUMENT,
                 "tcp:%s: whoever can reach a port could use the engine: give both ends --token=FILE, the same secret "
                 "(openssl rand -hex 32 makes one)",
                 address.c_str());
  ITX_RETURN_IF_ERROR(readToken(settings));
  Socket listener;
  ITX_RETURN_IF_ERROR(listenAt(host, port, listener));
  entrance = std::make_unique<TcpEntrance>(std::move(listener), settings.token);
  return Status::success();
}

Status openEntrance(const std::string &address, const std::string &tokenFile, std::unique_ptr<Entrance> &entrance) {
  size_t colon = address.find(':');
  std::string scheme = address.substr(0, colon), rest = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (scheme == "fd")
    return openInherited(address, rest, entrance);
  if (scheme == "unix")
    return openUnix(rest, entrance);
  if (scheme == "tcp")
    return openTcp(rest, tokenFile, entrance);
  return error(ITX_INVALID_ARGUMENT, "'%s' is no address: unix:PATH, fd:N and tcp:HOST:PORT are possible",
               address.c_str());
}

} // namespace intarsia::runtime
