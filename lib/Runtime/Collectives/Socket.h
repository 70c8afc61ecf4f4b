//===- Socket.h - A descriptor that is closed --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_SOCKET_H
#define INTARSIA_RUNTIME_COLLECTIVES_SOCKET_H

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace intarsia::runtime {

class Socket {
public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0)
      close(descriptor_);
  }
  Socket(Socket &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  bool isOpen() const { return descriptor_ >= 0; }

private:
  int descriptor_;
};

/// Waits until a socket has an event (POLLIN, POLLOUT), for at most so long. Returns false if it has none.
inline bool isReady(int socket, short event, double seconds) {
  pollfd one = {socket, event, 0};
  int ready;
  do {
    ready = poll(&one, 1, int(std::clamp(seconds * 1000, 0.0, 1e9)));
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

inline bool canRead(int socket, double seconds) { return isReady(socket, POLLIN, seconds); }

} // namespace intarsia::runtime

#endif
