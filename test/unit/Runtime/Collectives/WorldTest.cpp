//===- WorldTest.cpp - Worlds whose ranks are missing, dead, stuck or wrong --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/World.h"

#include "lib/Runtime/Collectives/Launch.h"
#include "lib/Runtime/Collectives/Operations.h"
#include "test/unit/Runtime/Collectives/Ranks.h"
#include "test/unit/Testing.h"

#include <csignal>
#include <cstddef>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::RankResult;
using intarsia::testing::Ranks;
using intarsia::testing::ScopedVariable;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

namespace {

std::string sumOnce(World &world) {
  float value = 1, sum = 0;
  Status status = allReduce(world.all(), Reduction::Sum, ITX_F32, &sum, &value, 1);
  return status.ok() && sum != float(world.size()) ? "wrong sum" : status.message();
}

/// Returns the number of files in memory that this process has a descriptor of.
size_t openWorlds() {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    count += std::filesystem::read_symlink(entry, ignored).string().find("intarsia-world") != std::string::npos;
  }
  return count;
}

/// A rank that dies in a sum that the others wait in.
TEST(World, KilledRank) {
  Ranks ranks(4);
  for (int32_t rank = 0; rank < 4; ++rank)
    ranks.start(rank, [](World &world) -> std::string {
      if (std::string message = sumOnce(world); !message.empty())
        return "too early: " + message;
      if (world.rank() == 2)
        kill(getpid(), SIGKILL);
      auto begin = std::chrono::steady_clock::now();
      std::string first = sumOnce(world), second = sumOnce(world);
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
        return "too late: " + first;
      return first == second ? first : first + " / " + second;
    });
  pid_t killed = ranks.process(2);
  std::vector<RankResult> results = ranks.wait();
  EXPECT_EQ(results[2].signal, SIGKILL);
  for (int32_t rank : {0, 1, 3})
    EXPECT_EQ(results[rank].message,
              format("rank 2 (process %d) of the world of 4 has ended: no other rank can go on", killed))
        << rank;
}

/// A rank that hangs while others wait, some of them for each other.
TEST(World, HungRank) {
  Ranks ranks(3, /*deadlineS=*/0.6);
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.start(rank, [](World &world) -> std::string {
      if (world.rank() == 1)
        std::this_thread::sleep_for(std::chrono::seconds(2));
      return sumOnce(world);
    });
  std::vector<RankResult> results = ranks.wait();
  for (int32_t rank : {0, 2}) {
    EXPECT_THAT(results[rank].message, HasSubstr("rank 1 (process "));
    EXPECT_THAT(results[rank].message, HasSubstr("has not come to the next exchange within 0.6 s"));
    EXPECT_LT(results[rank].seconds, 2);
  }
  EXPECT_EQ(results[1].message, results[0].message); // the world has failed for it too
}

TEST(World, RankThatLeaves) {
  std::vector<RankResult> results =
      Ranks(2).run([](World &world) { return world.rank() == 1 ? std::string() : sumOnce(world); });
  // Its process ends right after it has left.
  EXPECT_THAT(results[0].message, HasSubstr("rank 1 (process "));
}

TEST(World, MissingRanks) {
  Ranks ranks(4, /*deadlineS=*/0.6);
  ranks.start(0, sumOnce);
  ranks.start(2, sumOnce);
  std::vector<RankResult> results = ranks.wait();
  for (int32_t rank : {0, 2})
    EXPECT_THAT(results[rank].message, HasSubstr("ranks 1, 3 of the world of 4 did not come within 0.6 s")) << rank;
  Ranks others(2, /*deadlineS=*/0.6);
  others.start(1, sumOnce);
  EXPECT_THAT(others.wait()[1].message, HasSubstr("rank 0 of the world of 2 did not come within 0.6 s"));
}

TEST(World, RankThatEndsBeforeAllHaveCome) {
  Ranks ranks(3, /*deadlineS=*/20);
  ranks.start(0, sumOnce);
  ranks.start(1, sumOnce);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  kill(ranks.process(1), SIGKILL);
  std::vector<RankResult> results = ranks.wait();
  EXPECT_THAT(results[0].message,
              MatchesRegex("rank 1 \\(process [0-9]+\\) of the world of 3 ended before all had come"));
  EXPECT_LT(results[0].seconds, 2);
}

TEST(World, RanksOfOtherWorlds) {
  Ranks sizes(2, /*deadlineS=*/5);
  sizes.start(0, sumOnce);
  sizes.start(1, sumOnce, [](WorldSettings &settings) { settings.size = 3; });
  std::vector<RankResult> results = sizes.wait();
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "rank 1 came to a world of 2 ranks, but was started for one of 3");
  Ranks twins(3, /*deadlineS=*/5);
  twins.start(0, sumOnce);
  twins.start(1, sumOnce);
  twins.start(2, sumOnce, [](WorldSettings &settings) { settings.rank = 1; });
  EXPECT_THAT(twins.wait()[0].message,
              MatchesRegex("two processes \\([0-9]+ and [0-9]+\\) are rank 1 of the world: .*"));
}

/// Whoever has the name of a world first would give its ranks memory to share.
TEST(World, AddressOfAnotherUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can be another user";
  Ranks ranks(2, /*deadlineS=*/5);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t stranger = fork();
  if (stranger == 0) {
    std::string name = "intarsia-" + ranks.settings().address.substr(std::string("local:").size());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    Socket listener(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    bool isListening = setuid(65534) == 0 &&
                       bind(listener.get(), reinterpret_cast<sockaddr *>(&address),
                            socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0 &&
                       listen(listener.get(), 2) == 0;
    (void)!write(ready[1], &isListening, 1);
    pause();
  }
  char isListening = 0;
  ASSERT_EQ(read(ready[0], &isListening, 1), 1);
  ASSERT_TRUE(isListening);
  ranks.start(1, sumOnce);
  RankResult result = ranks.wait()[1];
  EXPECT_THAT(result.message, HasSubstr("a process of another user (65534) has the world's address local:"));
  EXPECT_LT(result.seconds, 2);
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

TEST(World, OtherArtifacts) {
  std::vector<RankResult> results = Ranks(3).run([](World &world) -> std::string {
    Hash128 hash = {};
    Status status = world.agree(hash, "artifact", "use one");
    if (!status.ok())
      return "too early: " + status.message();
    hash[3] = world.rank() == 2;
    return world.agree(hash, "artifact", "use one").message();
  });
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "rank 2 has another artifact (00000001000000000000000000000000) than rank 0 "
                              "(00000000000000000000000000000000): use one");
}

TEST(World, RanksThatDoDifferentThings) {
  std::vector<RankResult> results = Ranks(2).run([](World &world) -> std::string {
    std::vector<float> data(64);
    return world.rank() == 0 ? allReduce(world.all(), Reduction::Sum, ITX_F32, data.data(), data.data(), 16).message()
                             : broadcast(world.all(), ITX_F32, 1, data.data(), data.data(), 64).message();
  });
  for (const RankResult &result : results) {
    EXPECT_THAT(result.message, HasSubstr("the ranks of the world do different things: rank"));
    EXPECT_THAT(result.message, HasSubstr("an all-reduce of 16 f32"));
    EXPECT_THAT(result.message, HasSubstr("a broadcast of 64 f32"));
  }
  EXPECT_EQ(results[0].message, results[1].message);
  results = Ranks(2).run([](World &world) -> std::string {
    std::vector<float> data(64);
    return allReduce(world.all(), Reduction::Sum, ITX_F32, data.data(), data.data(), 16 + world.rank()).message();
  });
  EXPECT_THAT(results[0].message, HasSubstr("17 f32"));
  results = Ranks(2).run([](World &world) -> std::string {
    uint64_t sends[] = {1, 2}, receives[] = {1, 2};
    int64_t data[8] = {};
    return allToAllUnequal(world.all(), ITX_I64, data, data + 4, sends, receives).message();
  });
  EXPECT_THAT(results[0].message, HasSubstr("sends "));
}

TEST(World, Groups) {
  std::vector<RankResult> results = Ranks(4).run([](World &world) -> std::string {
    // Two pairs, in an order of their own, and a transfer across them.
    Communicator *pair = nullptr, *across = nullptr, *again = nullptr, *both[2];
    std::vector<std::vector<int32_t>> pairs = {{2, 0}, {3, 1}};
    for (int i = 0; i < 2; ++i)
      if (Status status = world.group(pairs[i], both[i]); !status.ok())
        return status.message();
    pair = both[world.rank() % 2];
    if (Status status = world.group({0, 3}, across); !status.ok())
      return status.message();
    if (Status status = world.group({3, 1}, again); !status.ok() || again != both[1])
      return "a group was made twice";
    int32_t gathered[2], own = world.rank();
    if (Status status = allGather(*pair, ITX_I32, gathered, &own, 1); !status.ok())
      return status.message();
    if (gathered[0] != pairs[world.rank() % 2][0] || gathered[1] != pairs[world.rank() % 2][1])
      return "wrong order";
    // Small messages are sent before anyone receives them; large ones go in several rounds.
    std::vector<int32_t> sent(100000, 7), received(100000);
    for (uint64_t count : {1u, 100000u, 0u, 5u}) {
      if (world.rank() == 0)
        if (Status status = send(*across, ITX_I32, sent.data(), count); !status.ok())
          return status.message();
      if (world.rank() == 3)
        if (Status status = receive(*across, ITX_I32, received.data(), count); !status.ok())
          return status.message();
    }
    if (world.rank() == 3 && received != sent)
      return "lost data";
    std::string refusal = world.rank() == 1 ? barrier(*across).message() : "";
    return refusal.empty() == (world.rank() != 1) ? "" : "refusal: " + refusal;
  });
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "");
  results = Ranks(2).run([](World &world) -> std::string {
    Communicator *group;
    Status twice = world.group({0, 0}, group), outside = world.group({0, 2}, group), none = world.group({}, group);
    return !twice.ok() && !outside.ok() && !none.ok() ? sumOnce(world) : "taken";
  });
  EXPECT_EQ(results[0].message, "");
}

/// Each element is added in the order of the ranks, so that roundings are those of a plain loop, on all ranks.
TEST(World, SumsAreInTheOrderOfRanks) {
  std::vector<RankResult> results = Ranks(3).run([](World &world) -> std::string {
    auto value = [](int32_t rank, int i) {
      return std::ldexp(float(1 + (i * 37 + rank * 101) % 997), (i + rank * 9) % 31);
    };
    for (int elements : {100, 30000}) { // both algorithms
      std::vector<float> source(elements), sum(elements);
      for (int i = 0; i < elements; ++i)
        source[i] = value(world.rank(), i);
      if (Status status = allReduce(world.all(), Reduction::Sum, ITX_F32, sum.data(), source.data(), elements);
          !status.ok())
        return status.message();
      for (int i = 0; i < elements; ++i)
        if (volatile float first = value(0, i) + value(1, i); sum[i] != first + value(2, i))
          return format("element %d", i);
    }
    return {};
  });
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "");
}

TEST(World, NothingIsLeft) {
  size_t before = openWorlds();
  std::vector<RankResult> results = Ranks(2).run([](World &world) -> std::string {
    if (world.rank() == 1)
      kill(getpid(), SIGKILL);
    kill(getpid(), SIGKILL);
    return {};
  });
  EXPECT_EQ(results[0].signal, SIGKILL);
  EXPECT_EQ(openWorlds(), before);
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("intarsia"), std::string::npos) << entry.path();
}

TEST(World, TooLittleSharedMemory) {
  Status status = checkSharedMemory(1000, 999);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), HasSubstr("need 1000 bytes of shared memory to exchange data, 999 are available"));
  EXPECT_TRUE(checkSharedMemory(1000, 1000).ok());
  // A limit that the system itself enforces.
  SharedFile file;
  ASSERT_TRUE(SharedFile::create(file).ok());
  EXPECT_EQ(file.reserve(uint64_t(1) << 60).code(), ITX_OUT_OF_MEMORY);
}

TEST(WorldSettings, Environment) {
  WorldSettings settings;
  EXPECT_TRUE(readWorldSettings(settings).ok());
  EXPECT_EQ(settings.size, 0);
  {
    ScopedVariable size("ITX_WORLD_SIZE", "4"), rank("ITX_WORLD_RANK", "3");
    EXPECT_THAT(readWorldSettings(settings).message(), HasSubstr("ITX_WORLD_ADDRESS is missing"));
    ScopedVariable address("ITX_WORLD_ADDRESS", "local:x");
    EXPECT_TRUE(readWorldSettings(settings).ok());
    EXPECT_EQ(settings.size, 4);
    EXPECT_EQ(settings.rank, 3);
    EXPECT_EQ(settings.deadlineS, 300);
    ScopedVariable outside("ITX_WORLD_RANK", "4");
    EXPECT_THAT(readWorldSettings(settings).message(), HasSubstr("ITX_WORLD_RANK is '4', a number from 0 to 3"));
    ScopedVariable first("ITX_WORLD_RANK", "0"), wrong("ITX_WORLD_ADDRESS", "host:77");
    EXPECT_THAT(readWorldSettings(settings).message(),
                HasSubstr("'host:77' of the world is neither tcp:HOST:PORT nor local:NAME"));
    ScopedVariable good("ITX_WORLD_ADDRESS", "local:x"), deadline("ITX_WORLD_DEADLINE_S", "soon");
    EXPECT_THAT(readWorldSettings(settings).message(), HasSubstr("ITX_WORLD_DEADLINE_S is 'soon'"));
  }
  ScopedVariable size("OMPI_COMM_WORLD_SIZE", "2"), rank("OMPI_COMM_WORLD_RANK", "1"), name("PMIX_NAMESPACE", "77");
  settings = {};
  EXPECT_TRUE(readWorldSettings(settings).ok());
  EXPECT_EQ(settings.size, 2);
  EXPECT_EQ(settings.rank, 1);
  std::string address = settings.address;
  ScopedVariable other("PMIX_NAMESPACE", "78");
  EXPECT_TRUE(readWorldSettings(settings).ok());
  EXPECT_NE(settings.address, address);
  ScopedVariable local("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  EXPECT_THAT(readWorldSettings(settings).message(), HasSubstr("1 of the world's 2 ranks are on this host"));
}

TEST(WorldSettings, SharesOfProcessors) {
  EXPECT_EQ(processorsOfRank(0, 2, {0, 1, 4, 5, 6}), (std::vector<int>{0, 1}));
  EXPECT_EQ(processorsOfRank(1, 2, {0, 1, 4, 5, 6}), (std::vector<int>{4, 5, 6}));
  EXPECT_EQ(processorsOfRank(2, 4, {3, 7}), (std::vector<int>{3}));
}

} // namespace
