//===- Connection.cpp - Connections between hosts ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Connection.h"

#include "lib/Runtime/Collectives/RemoteRanks.h"

#include <arpa/inet.h>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace intarsia::runtime {

/// Between two attempts to connect.
static constexpr auto connectRetry = std::chrono::milliseconds(20);
/// Between two looks at what a wait looks after.
static constexpr double lookS = 0.05;

Status splitAddress(const std::string &address, std::string &host, std::string &port) {
  host.clear();
  port.clear();
  size_t colon = address.rfind(':');
  if (colon != std::string::npos) {
    host = address.substr(0, colon);
    port = address.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string::npos)
      host.clear();
  }
  bool isPort = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !isPort || std::stoi(port) < 1 || std::stoi(port) > 65535)
    return error(ITX_INVALID_ARGUMENT,
                 "'%s' is not HOST:PORT with a port from 1 to 65535, such as node0:29500 or [fd00::1]:29500",
                 address.c_str());
  return Status::success();
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

static Status resolve(const std::string &host, const std::string &port, int flags, AddressList &list) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  int code = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (code != 0)
    return error(ITX_INVALID_ARGUMENT, "the host '%s' is not known: %s", host.c_str(), gai_strerror(code));
  list = AddressList(found, freeaddrinfo);
  return Status::success();
}

/// True for names and addresses that mean the host that uses them.
static bool isLoopback(const std::string &host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

Status listenAt(const std::string &host, const std::string &port, Socket &listener) {
  AddressList list(nullptr, freeaddrinfo);
  ITX_RETURN_IF_ERROR(resolve(isLoopback(host) ? host : "", port, AI_PASSIVE, list));
  int code = 0;
  // IPv6 first: such a socket takes connections of both.
  for (int family : {AF_INET6, AF_INET})
    for (const addrinfo *at = list.get(); at; at = at->ai_next) {
      if (at->ai_family != family)
        continue;
      Socket attempt(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      int yes = 1, no = 0;
      if (attempt.isOpen()) {
        (void)setsockopt(attempt.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        if (family == AF_INET6)
          (void)setsockopt(attempt.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
        if (bind(attempt.get(), at->ai_addr, at->ai_addrlen) == 0 && listen(attempt.get(), SOMAXCONN) == 0) {
          listener = std::move(attempt);
          return Status::success();
        }
      }
      code = errno;
    }
  return error(code == EADDRINUSE ? ITX_INVALID_ARGUMENT : ITX_IO_ERROR, "cannot listen at port %s: %s%s", port.c_str(),
               std::strerror(code),
               code == EADDRINUSE ? "; give the world another port, and each process its own rank" : "");
}

uint16_t portOf(const Socket &listener) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  (void)getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in &>(address).sin_port);
}

std::string addressText(const sockaddr_storage &address, uint32_t length) {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), length, text, sizeof(text), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "an address that is not known";
  std::string result = text;
  // A socket of IPv6 says so of a peer with IPv4.
  const std::string mapped = "::ffff:";
  return result.rfind(mapped, 0) == 0 ? result.substr(mapped.size()) : result;
}

std::string peerAddress(const Socket &socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address), &length) != 0)
    length = 0; // it has ended
  return addressText(address, length);
}

/// Connects with one address; errno says why it cannot.
static bool connectOnce(const addrinfo &at, Socket &connected) {
  Socket attempt(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.isOpen())
    return false;
  if (connect(attempt.get(), at.ai_addr, at.ai_addrlen) != 0 && errno != EINPROGRESS)
    return false;
  int code = 0;
  socklen_t length = sizeof(code);
  if (!isReady(attempt.get(), POLLOUT, 1))
    code = ETIMEDOUT;
  else
    (void)getsockopt(attempt.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  errno = code;
  if (code != 0)
    return false;
  (void)fcntl(attempt.get(), F_SETFL, 0);
  prepareConnection(attempt.get());
  connected = std::move(attempt);
  return true;
}

Status connectTo(const std::string &host, const std::string &port, const std::string &who, const Patience &patience,
                 Socket &connected) {
  AddressList list(nullptr, freeaddrinfo);
  ITX_RETURN_IF_ERROR(resolve(host, port, 0, list));
  for (;;) {
    int code = 0;
    for (const addrinfo *at = list.get(); at; at = at->ai_next) {
      if (connectOnce(*at, connected))
        return Status::success();
      code = errno;
    }
    ITX_RETURN_IF_ERROR(patience.check());
    if (patience.isOver())
      return error(ITX_RANK_LOST, "%s at %s:%s could not be reached within %g s: %s", who.c_str(), host.c_str(),
                   port.c_str(), patience.seconds, std::strerror(code));
    std::this_thread::sleep_for(connectRetry);
  }
}

/// Waits for an event of a socket.
static Status waitFor(const Socket &socket, short event, const Patience &patience) {
  while (!isReady(socket.get(), event, lookS)) {
    ITX_RETURN_IF_ERROR(patience.check());
    if (patience.isOver())
      return error(ITX_RANK_LOST, "nothing came within %g s", patience.seconds);
  }
  return Status::success();
}

Status sendAll(const Socket &socket, const void *data, uint64_t bytes, const Patience &patience) {
  const char *at = static_cast<const char *>(data);
  while (bytes != 0) {
    ITX_RETURN_IF_ERROR(waitFor(socket, POLLOUT, patience));
    ssize_t sent = ::send(socket.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (sent < 0)
      return error(ITX_RANK_LOST, "the connection has ended: %s", std::strerror(errno));
    at += sent;
    bytes -= uint64_t(sent);
  }
  return Status::success();
}

Status receiveAll(const Socket &socket, void *data, uint64_t bytes, const Patience &patience) {
  char *at = static_cast<char *>(data);
  while (bytes != 0) {
    ITX_RETURN_IF_ERROR(waitFor(socket, POLLIN, patience));
    ssize_t count = recv(socket.get(), at, bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (count <= 0)
      return error(ITX_RANK_LOST, "the connection has ended%s%s", count < 0 ? ": " : "",
                   count < 0 ? std::strerror(errno) : "");
    at += count;
    bytes -= uint64_t(count);
  }
  return Status::success();
}

} // namespace intarsia::runtime
