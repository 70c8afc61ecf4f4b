//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "ChildProcess.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace intarsia::plan {

using Clock = std::chrono::steady_clock;

/// Runs the work and writes its result; exits with 0 when all is written.
[[noreturn]] static void workInChild(int out, pid_t parent, llvm::function_ref<std::string()> work) {
  // The child ends with its parent, and the program's handlers do not catch a crash of the library.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  for (int fault : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP})
    std::signal(fault, SIG_DFL);
  std::string result = work();
  uint64_t bytesOfResult = result.size();
  result.insert(0, reinterpret_cast<const char *>(&bytesOfResult), sizeof bytesOfResult);
  for (size_t sent = 0; sent < result.size();) {
    ssize_t bytes = write(out, result.data() + sent, result.size() - sent);
    if (bytes < 0 && errno != EINTR)
      _exit(1);
    sent += size_t(std::max<ssize_t>(bytes, 0));
  }
  _exit(0);
}

/// Reads the number of bytes that follow, and these bytes: children of other threads may hold the other end open for
/// longer. Returns false if the deadline or the end of the stream comes first.
static bool readAll(int in, Clock::time_point deadline, std::string &text) {
  char buffer[1 << 16];
  uint64_t wanted = 0;
  while (text.size() < sizeof wanted || text.size() < sizeof wanted + wanted) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{in, POLLIN, 0};
    // Waits of more than a day are split into days.
    int count = left > 0 ? poll(&ready, 1, int(std::min<int64_t>(left, 86'400'000))) : 0;
    if (left <= 0)
      return false;
    if (count <= 0)
      continue;
    ssize_t bytes = read(in, buffer, sizeof buffer);
    if (bytes > 0)
      text.append(buffer, size_t(bytes));
    else if (bytes == 0 || errno != EINTR)
      return false;
    if (text.size() >= sizeof wanted)
      std::memcpy(&wanted, text.data(), sizeof wanted);
  }
  text.erase(0, sizeof wanted);
  return true;
}

std::optional<std::string> runInChild(Clock::time_point deadline, llvm::function_ref<std::string()> work,
                                      std::string &failure) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    failure = std::string("got no pipe: ") + std::strerror(errno);
    return std::nullopt;
  }
  pid_t parent = getpid(), child = fork();
  int forkError = errno;
  if (child == 0)
    workInChild(ends[1], parent, work);
  close(ends[1]);
  std::string result;
  bool isComplete = child > 0 && readAll(ends[0], deadline, result);
  close(ends[0]);
  if (child < 0) {
    failure = std::string("got no process: ") + std::strerror(forkError);
    return std::nullopt;
  }
  // A child that crashed has ended already and keeps its status.
  if (!isComplete)
    kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
    failure = std::string("crashed: ") + strsignal(WTERMSIG(status));
  if (!isComplete || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return std::nullopt;
  return result;
}

} // namespace intarsia::plan
