//===- Launch.cpp - Start the ranks of a world on this host ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The process that launches runs no rank itself: it waits for signals and children alone, so that it can end a world
// whatever state the ranks are in.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Launch.h"

#include "lib/Runtime/Collectives/WorldSettings.h"
#include "lib/Support/MachineLimits.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace intarsia::runtime {

namespace {

/// What a rank that has failed or died leaves to the others: they end by themselves as soon as they notice, and their
/// results stay in order. Ranks notice a death within 50 ms (Communicator.cpp); all must be gone within 2 s.
constexpr double graceS = 0.5;

/// The most that is kept of what a rank writes to its standard error.
constexpr size_t keptBytes = 1 << 16;

struct Rank {
  int number = 0;
  pid_t process = -1;
  int errors = -1; ///< the reading end of its standard error
  std::string text;
  bool isRunning = false;
  int status = 0; ///< as waitpid gives it
};

class RankLauncher {
public:
  explicit RankLauncher(const LaunchSettings &launch) : launch_(launch) {
    if (launch_.address.empty())
      launch_.address = newWorldAddress();
    for (int rank = 0; launch_.ranks.empty() && rank < launch_.size; ++rank)
      ranks_.emplace_back().number = rank;
    for (int rank : launch_.ranks)
      ranks_.emplace_back().number = rank;
  }
  ~RankLauncher();
  RankLauncher(const RankLauncher &) = delete;
  RankLauncher &operator=(const RankLauncher &) = delete;

  Status start(const std::vector<std::string> &command);
  /// Waits until all ranks have ended; returns the exit status.
  int wait();
  void endAll();

private:
  [[noreturn]] void become(size_t place, const std::vector<std::string> &command, int errors, pid_t parent);
  void readErrors(Rank &rank);
  void takeSignals();
  void reap();
  int report();
  bool isRunning() const;
  static bool hasFailed(const Rank &rank) { return !rank.isRunning && rank.status != 0; }

  LaunchSettings launch_;
  std::vector<Rank> ranks_;
  int signals_ = -1;
  sigset_t before_;
  int interruption_ = 0; ///< signal that this process got
  int first_ = -1;       ///< place of the rank that failed first
};

} // namespace

std::vector<int> processorsOfRank(int rank, int size, const std::vector<int> &allowed) {
  size_t count = allowed.size();
  if (count < size_t(size))
    return {allowed[size_t(rank) % count]};
  return {allowed.begin() + long(count * size_t(rank) / size_t(size)),
          allowed.begin() + long(count * size_t(rank + 1) / size_t(size))};
}

RankLauncher::~RankLauncher() {
  for (const Rank &rank : ranks_)
    if (rank.errors >= 0)
      close(rank.errors);
  if (signals_ >= 0) {
    close(signals_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
}

/// Puts a rank on its processors; where the system refuses, it runs anywhere.
static void bindTo(const std::vector<int> &processors) {
  size_t most = size_t(processors.back()) + 1;
  cpu_set_t *set = CPU_ALLOC(most);
  if (!set)
    return;
  CPU_ZERO_S(CPU_ALLOC_SIZE(most), set);
  for (int processor : processors)
    CPU_SET_S(processor, CPU_ALLOC_SIZE(most), set);
  (void)sched_setaffinity(0, CPU_ALLOC_SIZE(most), set);
  CPU_FREE(set);
}

/// Turns this process, a fresh child, into a rank.
void RankLauncher::become(size_t place, const std::vector<std::string> &command, int errors, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  std::vector<int> processors = processorsOfRank(int(place), int(ranks_.size()), allowedProcessors());
  bindTo(processors);
  setenv("ITX_WORLD_SIZE", std::to_string(launch_.size).c_str(), 1);
  setenv("ITX_WORLD_RANK", std::to_string(ranks_[place].number).c_str(), 1);
  setenv("ITX_WORLD_ADDRESS", launch_.address.c_str(), 1);
  if (!launch_.tokenFile.empty())
    setenv("ITX_WORLD_TOKEN_FILE", launch_.tokenFile.c_str(), 1);
  setenv("ITX_THREADS", std::to_string(processors.size()).c_str(), 0);
  if (int null = ranks_[place].number == 0 ? -1 : open("/dev/null", O_RDWR); null >= 0) {
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
  }
  dup2(errors, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "error: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

Status RankLauncher::start(const std::vector<std::string> &command) {
  sigset_t handled;
  sigemptyset(&handled);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    sigaddset(&handled, signal);
  sigprocmask(SIG_BLOCK, &handled, &before_);
  signals_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0)
    return error(ITX_IO_ERROR, "cannot wait for signals: %s", std::strerror(errno));
  // A child must not inherit what is not yet written.
  std::fflush(nullptr);
  pid_t parent = getpid();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return error(ITX_IO_ERROR, "cannot make a pipe for rank %d: %s", ranks_[i].number, std::strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ranks_[i].errors = ends[0];
    pid_t process = fork();
    if (process == 0)
      become(i, command, ends[1], parent);
    close(ends[1]);
    if (process < 0)
      return error(ITX_IO_ERROR, "cannot start rank %d of %d: %s", ranks_[i].number, launch_.size,
                   std::strerror(errno));
    ranks_[i].process = process;
    ranks_[i].isRunning = true;
  }
  return Status::success();
}

bool RankLauncher::isRunning() const {
  for (const Rank &rank : ranks_)
    if (rank.isRunning)
      return true;
  return false;
}

/// Keeps what a rank has written to its standard error.
void RankLauncher::readErrors(Rank &rank) {
  char bytes[4096];
  ssize_t count;
  while (rank.errors >= 0 && (count = read(rank.errors, bytes, sizeof(bytes))) != 0) {
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return;
    rank.text.append(bytes, std::min(size_t(count), keptBytes - std::min(keptBytes, rank.text.size())));
  }
  if (rank.errors >= 0)
    close(rank.errors);
  rank.errors = -1;
}

void RankLauncher::reap() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank &rank = ranks_[i];
    if (!rank.isRunning || waitpid(rank.process, &rank.status, WNOHANG) != rank.process)
      continue;
    rank.isRunning = false;
    // A rank that ends because of another one is not the first to fail, though its end may be noticed first.
    auto isReason = [](const Rank &one) { return WIFSIGNALED(one.status) || WEXITSTATUS(one.status) != rankLostExit; };
    if (hasFailed(rank) && (first_ < 0 || (isReason(rank) && !isReason(ranks_[first_]))))
      first_ = int(i);
  }
}

void RankLauncher::takeSignals() {
  signalfd_siginfo information;
  while (read(signals_, &information, sizeof(information)) == sizeof(information))
    if (information.ssi_signo != SIGCHLD && interruption_ == 0)
      interruption_ = int(information.ssi_signo);
}

void RankLauncher::endAll() {
  for (Rank &rank : ranks_)
    if (rank.isRunning)
      kill(rank.process, SIGKILL);
  for (Rank &rank : ranks_)
    if (rank.isRunning && waitpid(rank.process, &rank.status, 0) == rank.process)
      rank.isRunning = false;
}

int RankLauncher::wait() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point failed;
  bool isFailing = false;
  while (isRunning()) {
    std::vector<pollfd> events = {{signals_, POLLIN, 0}};
    for (const Rank &rank : ranks_)
      events.push_back({rank.errors, POLLIN, 0}); // negative ones are ignored
    poll(events.data(), events.size(), isFailing ? 20 : 1000);
    takeSignals();
    for (Rank &rank : ranks_)
      readErrors(rank);
    reap();
    if ((first_ >= 0 || interruption_) && !isFailing) {
      isFailing = true;
      failed = Clock::now();
    }
    if (interruption_ || (isFailing && std::chrono::duration<double>(Clock::now() - failed).count() > graceS)) {
      endAll();
      break;
    }
  }
  for (Rank &rank : ranks_)
    readErrors(rank);
  return report();
}

/// Writes why the world has failed, if it has; returns the exit status.
int RankLauncher::report() {
  if (interruption_) {
    std::fprintf(stderr, "error: ended by signal %d (%s), and all %zu ranks with it\n", interruption_,
                 strsignal(interruption_), ranks_.size());
    return 128 + interruption_;
  }
  if (first_ < 0) {
    std::fputs(ranks_[0].text.c_str(), stderr);
    return 0;
  }
  const Rank &rank = ranks_[size_t(first_)];
  if (WIFSIGNALED(rank.status)) {
    std::fputs(rank.text.c_str(), stderr);
    std::fprintf(stderr,
                 "error: rank %d (process %d) was ended by signal %d (%s): all other ranks of the world of %d "
                 "were ended too\n",
                 rank.number, int(rank.process), WTERMSIG(rank.status), strsignal(WTERMSIG(rank.status)), launch_.size);
    return 128 + WTERMSIG(rank.status);
  }
  std::string text = rank.text;
  if (const std::string prefix = "error: "; text.compare(0, prefix.size(), prefix) == 0)
    text.insert(prefix.size(), format("rank %d: ", rank.number));
  if (text.empty())
    text = format("error: rank %d (process %d) ended with status %d\n", rank.number, int(rank.process),
                  WEXITSTATUS(rank.status));
  std::fputs(text.c_str(), stderr);
  return WEXITSTATUS(rank.status);
}

int launchWorld(const LaunchSettings &settings, const std::vector<std::string> &command) {
  if (settings.size < 1 || settings.size > maximumRanks) {
    std::fprintf(stderr, "error: a world of %d ranks; 1 to %d are possible\n", settings.size, maximumRanks);
    return 2;
  }
  RankLauncher launch(settings);
  if (Status status = launch.start(command); !status.ok()) {
    launch.endAll();
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return 1;
  }
  return launch.wait();
}

} // namespace intarsia::runtime
