//===- Entrance.h - Where a worker waits for its front end --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WORKER_ENTRANCE_H
#define INTARSIA_RUNTIME_WORKER_ENTRANCE_H

#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Support/Status.h"

#include <functional>
#include <memory>

namespace intarsia::runtime {

/// Gives connections with front ends, one after another.
class Entrance {
public:
  virtual ~Entrance() = default;
  /// Readable when take() may have a connection; -1 if there will be none.
  virtual int descriptor() const = 0;
  /// Returns a connection; a closed socket if there is none yet.
  virtual Socket take() = 0;
  /// Whether more than one front end can come, one after another.
  virtual bool mayComeAgain() const = 0;
};

/// Opens an address:
///   fd:N             a connected socket that this process has inherited; it gives this one connection
///   unix:PATH        a socket that only this user can connect with; the file is removed at the end
///   tcp:HOST:PORT    both ends prove that they know the secret in `tokenFile`, as ranks of a world do (Proof.h);
///                    what follows is neither encrypted nor signed
Status openEntrance(const std::string &address, const std::string &tokenFile, std::unique_ptr<Entrance> &entrance);

/// Closes the descriptor of an address fd:N, in a process that has inherited it and is not to serve: the front end
/// would not notice that the process that serves has died.
void closeInherited(const std::string &address);

} // namespace intarsia::runtime

#endif
