//===- HostsTest.cpp - Worlds of several hosts: ranks that are missing, dead, stuck or wrong --------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hosts are processes with different names in ITX_WORLD_HOST. OperationsTest compares values.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Connection.h"
#include "lib/Runtime/Collectives/Operations.h"
#include "lib/Runtime/Collectives/Proof.h"
#include "lib/Runtime/Collectives/World.h"
#include "test/unit/Runtime/Collectives/Ranks.h"
#include "test/unit/Testing.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/socket.h>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::RankResult;
using intarsia::testing::Ranks;
using intarsia::testing::ScopedVariable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

namespace {

std::string sumOfOnes(World &world) {
  float value = 1, sum = 0;
  Status status = allReduce(world.all(), Reduction::Sum, ITX_F32, &sum, &value, 1);
  return status.ok() && sum != float(world.size()) ? "wrong sum" : status.message();
}

/// A rank that dies: those of its host and of others end with the same message.
TEST(Hosts, KilledRank) {
  for (const char *hosts : {"aabb", "abca", "abcd"}) {
    Ranks ranks(4, 60, hosts);
    for (int32_t rank = 0; rank < 4; ++rank)
      ranks.start(rank, [](World &world) -> std::string {
        if (std::string message = sumOfOnes(world); !message.empty())
          return "too early: " + message;
        if (world.rank() == 2)
          kill(getpid(), SIGKILL);
        auto begin = std::chrono::steady_clock::now();
        std::string first = sumOfOnes(world), second = sumOfOnes(world);
        if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
          return "too late: " + first;
        return first == second ? first : first + " / " + second;
      });
    pid_t killed = ranks.process(2);
    std::vector<RankResult> results = ranks.wait();
    EXPECT_EQ(results[2].signal, SIGKILL);
    for (int32_t rank : {0, 1, 3})
      EXPECT_EQ(
          results[rank].message,
          format("rank 2 (process %d on %c) of the world of 4 has ended: no other rank can go on", killed, hosts[2]))
          << hosts << " " << rank;
  }
}

/// A rank that is killed while megabytes are on their way.
TEST(Hosts, KilledRankInALongExchange) {
  std::vector<RankResult> results = [] {
    Ranks ranks(3, 60, "abc");
    return ranks.run([](World &world) -> std::string {
      std::vector<float> data(8 << 20, 1.0f);
      if (world.rank() == 1)
        std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          kill(getpid(), SIGKILL);
        }).detach();
      for (int i = 0; i < 1000; ++i)
        if (Status status = allReduce(world.all(), Reduction::Maximum, ITX_F32, data.data(), data.data(), data.size());
            !status.ok())
          return status.message();
      return "not noticed";
    });
  }();
  for (int32_t rank : {0, 2}) {
    EXPECT_THAT(results[rank].message, HasSubstr("rank 1 (process ")) << rank;
    EXPECT_THAT(results[rank].message, HasSubstr("has ended")) << rank;
  }
}

/// A rank that hangs while others wait, some of them for each other. They tell whom they wait for after half the
/// deadline, which is therefore longer than a busy machine keeps a rank from its processor.
TEST(Hosts, HungRank) {
  Ranks together(3, /*deadlineS=*/2, "aba"), apart(3, /*deadlineS=*/2, "abc");
  for (Ranks *ranks : {&together, &apart})
    for (int32_t rank = 0; rank < 3; ++rank)
      ranks->start(rank, [](World &world) -> std::string {
        if (world.rank() == 1)
          std::this_thread::sleep_for(std::chrono::seconds(5));
        std::string first = sumOfOnes(world); // what the others have sent before they gave up is enough for this one
        return first.empty() ? sumOfOnes(world) : first;
      });
  for (Ranks *ranks : {&together, &apart}) {
    std::vector<RankResult> results = ranks->wait();
    for (int32_t rank : {0, 2}) {
      EXPECT_THAT(results[rank].message, HasSubstr("rank 1 (process "));
      EXPECT_THAT(results[rank].message, HasSubstr("has not come to the next exchange within 2 s"));
      EXPECT_LT(results[rank].seconds, 5);
    }
    EXPECT_THAT(results[1].message, HasSubstr("has not come to the next exchange")); // the world has failed for it too
  }
}

TEST(Hosts, RankThatLeaves) {
  std::vector<RankResult> results =
      Ranks(2, 60, "ab").run([](World &world) { return world.rank() == 1 ? std::string() : sumOfOnes(world); });
  EXPECT_THAT(results[0].message, AllOf(HasSubstr("rank 1 (process "), HasSubstr("has left the world of 2")));
}

TEST(Hosts, FailedCall) {
  std::vector<RankResult> results = Ranks(2, 60, "ab").run([](World &world) -> std::string {
    world.state().beginCall();
    if (world.rank() == 1) {
      world.state().endCall(error(ITX_IO_ERROR, "the disk is gone"));
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return {};
    }
    return sumOfOnes(world);
  });
  EXPECT_THAT(results[0].message, HasSubstr("could not finish its call: the disk is gone"));
}

TEST(Hosts, MissingRanks) {
  Ranks ranks(4, /*deadlineS=*/0.5, "abcd");
  ranks.start(0, sumOfOnes);
  ranks.start(2, sumOfOnes);
  std::vector<RankResult> results = ranks.wait();
  for (int32_t rank : {0, 2})
    EXPECT_THAT(results[rank].message, HasSubstr("ranks 1, 3 of the world of 4 did not come to localhost:")) << rank;
  Ranks others(2, /*deadlineS=*/0.3, "ab");
  others.start(1, sumOfOnes);
  EXPECT_THAT(others.wait()[1].message,
              MatchesRegex("rank 0 of the world at localhost:[0-9]+ could not be reached within 0.3 s: .*"));
}

TEST(Hosts, RankThatEndsBeforeAllHaveCome) {
  Ranks ranks(3, /*deadlineS=*/20, "abc");
  for (int32_t rank : {0, 1})
    ranks.start(rank, sumOfOnes);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(ranks.process(1), SIGKILL);
  std::vector<RankResult> results = ranks.wait();
  EXPECT_EQ(results[0].message, "rank 1 of the world of 3 ended before all had come");
  EXPECT_LT(results[0].seconds, 2);
}

/// One with another token ends at once. The others wait for the right one, and say at their deadline who has come.
TEST(Hosts, Tokens) {
  Ranks ranks(3, /*deadlineS=*/1, "abc");
  for (int32_t rank : {0, 1})
    ranks.start(rank, sumOfOnes);
  ranks.start(2, sumOfOnes, [](WorldSettings &settings) {
    settings.token = "another token, as long";
    settings.deadlineS = 20;
  });
  std::vector<RankResult> results = ranks.wait();
  for (const RankResult &result : results) {
    EXPECT_THAT(result.message, HasSubstr("has another token for the world at this port: give all ranks the same"));
    EXPECT_LT(result.seconds, 5);
  }
  for (int32_t rank : {0, 1})
    EXPECT_THAT(results[rank].message, HasSubstr("rank 2 of the world of 3 did not come to localhost:"));
  WorldSettings settings = {2, 0, "tcp:localhost:29500", 1};
  EXPECT_THAT(readToken(settings).message(), HasSubstr("the world at tcp:localhost:29500 has no token; a token keeps"));
  std::string path = ::testing::TempDir() + "token";
  settings.tokenFile = path + "-missing";
  EXPECT_THAT(readToken(settings).message(), HasSubstr("cannot be read"));
  settings.tokenFile = path;
  std::ofstream(path) << "short\n";
  EXPECT_THAT(readToken(settings).message(), HasSubstr("has 5 characters, 16 to 4096 are possible"));
  std::ofstream(path) << "0123456789abcdef\n";
  EXPECT_TRUE(readToken(settings).ok());
  EXPECT_EQ(settings.token, "0123456789abcdef");
}

/// A connection of a stranger with rank 0 of a world.
struct Stranger {
  Socket socket;
  ProofOpening opening = {}; // what rank 0 has sent

  explicit Stranger(const WorldSettings &settings) {
    std::string host, port;
    EXPECT_TRUE(splitAddress(settings.hostAddress(), host, port).ok());
    patience.seconds = 10;
    EXPECT_TRUE(connectTo(host, port, "rank 0", patience, socket).ok());
    EXPECT_TRUE(receiveAll(socket, &opening, sizeof(opening), patience).ok());
  }
  void say(const std::string &text) { EXPECT_TRUE(sendAll(socket, text.data(), text.size(), patience).ok()); }
  void open(uint32_t version) {
    ProofOpening own = opening;
    own.version = version;
    own.madeUp[0] += 1;
    EXPECT_TRUE(sendObject(socket, own, patience).ok());
  }
  /// Returns what rank 0 sends until it ends the connection.
  std::string rest() {
    std::string text;
    for (char letter; receiveAll(socket, &letter, 1, patience).ok();)
      text += letter;
    return text;
  }
  Patience patience;
};

/// Programs that find the port are no ranks: they change nothing, delay nobody and learn nothing.
TEST(Hosts, Strangers) {
  Ranks ranks(2, /*deadlineS=*/20, "ab");
  ranks.start(0, sumOfOnes);
  Stranger talking(ranks.settings()), old(ranks.settings()), guessing(ranks.settings());
  talking.say("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a browser\r\nAccept: */*\r\n\r\n");
  old.open(old.opening.version + 1);
  guessing.open(guessing.opening.version);
  guessing.say(std::string(32, 'x'));
  EXPECT_EQ(guessing.rest(), std::string(32, '\0')); // nobody's signature
  EXPECT_EQ(old.rest(), "");
  std::vector<Stranger> silent;
  for (int i = 0; i < 20; ++i)
    silent.emplace_back(ranks.settings());
  ranks.start(1, sumOfOnes);
  for (const RankResult &result : ranks.wait()) {
    EXPECT_EQ(result.message, "");
    EXPECT_LT(result.seconds, 5);
  }
}

/// Rank 0 signs nothing before the caller has: a signature is something to guess the token with.
TEST(Hosts, TheCallerProvesFirst) {
  Ranks ranks(2, /*deadlineS=*/1, "ab");
  ranks.start(0, sumOfOnes);
  Stranger stranger(ranks.settings());
  EXPECT_EQ(stranger.opening.unused, 0u); // not what lay in memory
  stranger.open(stranger.opening.version);
  EXPECT_EQ(stranger.rest(), "");
  (void)ranks.wait();
}

TEST(Hosts, RanksOfOtherWorlds) {
  Ranks sizes(2, /*deadlineS=*/5, "ab");
  sizes.start(0, sumOfOnes);
  sizes.start(1, sumOfOnes, [](WorldSettings &settings) { settings.size = 3; });
  for (const RankResult &result : sizes.wait())
    EXPECT_EQ(result.message, "rank 1 came to a world of 2 ranks, but was started for one of 3");
  Ranks twins(3, /*deadlineS=*/5, "abc");
  twins.start(0, sumOfOnes);
  twins.start(1, sumOfOnes);
  twins.start(2, sumOfOnes, [](WorldSettings &settings) { settings.rank = 1; });
  EXPECT_THAT(twins.wait()[0].message,
              MatchesRegex("two processes .one of them [0-9]+ on .. are rank 1 of the world.*"));
}

TEST(Hosts, OtherArtifacts) {
  std::vector<RankResult> results = Ranks(3, 60, "aab").run([](World &world) -> std::string {
    Hash128 hash = {};
    hash[3] = world.rank() == 2;
    return world.agree(hash, "artifact", "use one").message();
  });
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "rank 2 has another artifact (00000001000000000000000000000000) than rank 0 "
                              "(00000000000000000000000000000000): use one");
}

TEST(Hosts, RanksThatDoDifferentThings) {
  std::vector<RankResult> results = Ranks(2, 60, "ab").run([](World &world) -> std::string {
    std::vector<float> data(64);
    return world.rank() == 0 ? allReduce(world.all(), Reduction::Sum, ITX_F32, data.data(), data.data(), 16).message()
                             : broadcast(world.all(), ITX_F32, 1, data.data(), data.data(), 64).message();
  });
  EXPECT_THAT(results[0].message, AllOf(HasSubstr("the ranks of the world do different things: rank"),
                                        HasSubstr("an all-reduce of 16 f32"), HasSubstr("a broadcast of 64 f32")));
  results = Ranks(2, 60, "ab").run([](World &world) -> std::string {
    std::vector<float> data(64);
    uint64_t counts[2] = {3, 4}, own = 3 + uint64_t(world.rank());
    if (world.rank() == 0)
      counts[1] = 5;
    return allGather(world.all(), ITX_F32, data.data(), data.data() + 32, own, counts).message();
  });
  EXPECT_THAT(results[0].message, HasSubstr("rank 1 sends 16 bytes in an exchange in which rank 0 expects 20"));
}

/// With one rank a host, elements are added in the order of the ranks, as in memory: the same bits.
TEST(Hosts, SumsAreInTheOrderOfRanks) {
  auto value = [](int32_t rank, int i) {
    return std::ldexp(float(1 + (i * 37 + rank * 101) % 997), (i + rank * 9) % 31);
  };
  std::vector<RankResult> results = Ranks(3, 60, "abc").run([&](World &world) -> std::string {
    for (size_t elements : {100, 30000, 200000}) { // at once, and by pieces
      std::vector<float> source(elements), sum(source.size());
      for (size_t i = 0; i < elements; ++i)
        source[i] = value(world.rank(), int(i));
      if (Status status = allReduce(world.all(), Reduction::Sum, ITX_F32, sum.data(), source.data(), elements);
          !status.ok())
        return status.message();
      for (int i = 0; i < int(elements); ++i)
        if (volatile float first = value(0, i) + value(1, i); sum[size_t(i)] != first + value(2, i))
          return format("element %d of %zu", i, elements);
    }
    return {};
  });
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "");
}

/// Sums whose messages are rounded: within what runtime.h promises of the exact sum, and with the same bits on all
/// ranks.
TEST(Hosts, SumsInInt8) {
  for (const char *hosts : {"ab", "aabb", "abc"}) {
    Ranks ranks(int32_t(std::strlen(hosts)), 60, hosts);
    std::vector<RankResult> results = ranks.run([&](World &world) -> std::string {
      auto value = [](int32_t rank, uint64_t i) {
        return float(std::sin(double(i) * 0.7 + rank) * std::pow(10.0, double(i / 32 % 7) - 3));
      };
      size_t hostCount = world.all().hosts().size();
      for (uint64_t elements : {1, 31, 33, 4096, 16385, 300001}) {
        std::vector<float> source(elements), sum(elements), all(elements * size_t(world.size()));
        for (uint64_t i = 0; i < elements; ++i)
          source[i] = value(world.rank(), i);
        if (Status status = allReduce(world.all(), Reduction::SumInt8, ITX_F32, sum.data(), source.data(), elements);
            !status.ok())
          return status.message();
        if (Status status = allGather(world.all(), ITX_F32, all.data(), sum.data(), elements); !status.ok())
          return status.message();
        bool isExact = true;
        std::vector<double> sums(elements), largestOfRanks(elements);
        for (uint64_t i = 0; i < elements; ++i)
          for (int32_t rank = 0; rank < world.size(); ++rank) {
            double one = value(rank, i);
            sums[i] += one;
            largestOfRanks[i] = std::max(largestOfRanks[i], std::fabs(one));
          }
        for (uint64_t i = 0; i < elements; ++i) {
          // What the largest of any 32 elements around this one, and of sums of them, can be.
          auto begin = largestOfRanks.begin() + long(i < 31 ? 0 : i - 31);
          auto end = largestOfRanks.begin() + long(std::min(elements, i + 32));
          double exact = sums[i], largest = *std::max_element(begin, end);
          double allowed = largest * double(world.size()) / 254 * (double(hostCount) + 1) / double(hostCount) * 1.001;
          if (!(std::fabs(sum[i] - exact) <= allowed))
            return format("element %llu of %llu is %g, not %g", (unsigned long long)i, (unsigned long long)elements,
                          double(sum[i]), exact);
          isExact &= std::fabs(sum[i] - exact) <= 1e-6 * largest;
          for (int32_t rank = 0; rank < world.size(); ++rank)
            if (all[uint64_t(rank) * elements + i] != all[i])
              return "ranks have different sums";
        }
        if (isExact && elements > 1)
          return "nothing was rounded";
      }
      float broken[64] = {}, result[64];
      broken[3] = NAN;
      if (Status status = allReduce(world.all(), Reduction::SumInt8, ITX_F32, result, broken, 64); !status.ok())
        return status.message();
      if (!std::isnan(result[3]) || result[40] != 0)
        return "NaN is lost, or everywhere";
      return allReduce(world.all(), Reduction::SumInt8, ITX_F16, result, broken, 8).code() == ITX_UNSUPPORTED
                 ? ""
                 : "f16 was taken";
    });
    for (const RankResult &result : results)
      EXPECT_EQ(result.message, "") << hosts;
  }
}

/// The same of rows, each of which is rounded once.
TEST(Hosts, RowsInInt8) {
  for (const char *hosts : {"ab", "abab"}) {
    std::vector<RankResult> results =
        Ranks(int32_t(std::strlen(hosts)), 60, hosts).run([](World &world) -> std::string {
          uint64_t rows = 7, length = 96, size = uint64_t(world.size()), each = (rows + size - 1) / size;
          auto value = [](int32_t rank, uint64_t i) { return std::sin(float(i) * 0.7f + float(rank)); };
          std::vector<float> source(rows * length), own(each * length);
          for (uint64_t i = 0; i < source.size(); ++i)
            source[i] = value(world.rank(), i);
          if (Status status =
                  reduceScatterRows(world.all(), Reduction::SumInt8, ITX_F32, own.data(), source.data(), rows, length);
              !status.ok())
            return status.message();
          for (uint64_t i = 0; i < own.size(); ++i) {
            uint64_t row = std::min(uint64_t(world.rank()) * each + i / length, rows - 1);
            float exact = 0;
            for (int32_t rank = 0; rank < world.size(); ++rank)
              exact += value(rank, row * length + i % length);
            if (!(std::fabs(own[i] - exact) <= float(size) / 254))
              return format("element %llu is %g, not %g", (unsigned long long)i, double(own[i]), double(exact));
          }
          return {};
        });
    for (const RankResult &result : results)
      EXPECT_EQ(result.message, "") << hosts;
  }
}

/// A message of every host is added before the sum is rounded to 16 bits.
TEST(Hosts, SumsOf16BitsAreRoundedOnce) {
  std::vector<RankResult> results = Ranks(4, 60, "aabb").run([](World &world) -> std::string {
    // 1, 3 * 2^-10, 2^-10, 2^-10: 1 and 5/8 of a step. Rounded on the first host, that would be 1 and 1/4.
    uint16_t values[4] = {0x3F80, 0x3B40, 0x3A80, 0x3A80}, sum = 0;
    Status status = allReduce(world.all(), Reduction::Sum, ITX_BF16, &sum, &values[world.rank()], 1);
    return status.ok() && sum != 0x3F81 ? format("%04x", sum) : status.message();
  });
  for (const RankResult &result : results)
    EXPECT_EQ(result.message, "");
}

TEST(Hosts, Addresses) {
  std::string host, port;
  EXPECT_TRUE(splitAddress("[fd00::1]:29500", host, port).ok());
  EXPECT_EQ(host, "fd00::1");
  EXPECT_EQ(port, "29500");
  for (const char *wrong : {"node0", "node0:", "node0:x", "node0:0", "node0:65536", ":29500", "fd00::1:29500"})
    EXPECT_THAT(splitAddress(wrong, host, port).message(), HasSubstr("is not HOST:PORT")) << wrong;
  WorldSettings settings = {2, 1, "tcp:no-such-host.invalid:29500", 1};
  settings.token = "0123456789abcdef";
  std::shared_ptr<World> world;
  EXPECT_THAT(World::join(settings, world).message(), HasSubstr("the host 'no-such-host.invalid' is not known"));
}

TEST(Hosts, Environment) {
  WorldSettings settings;
  ScopedVariable address("ITX_WORLD_ADDRESS", "tcp:node0:29500"), token("ITX_WORLD_TOKEN_FILE", "/token");
  EXPECT_THAT(readWorldSettings(settings).message(), HasSubstr("ITX_WORLD_SIZE and ITX_WORLD_RANK are missing"));
  // mpirun says rank and size, also where not all ranks are on this host.
  ScopedVariable size("OMPI_COMM_WORLD_SIZE", "4"), rank("OMPI_COMM_WORLD_RANK", "3"),
      local("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  EXPECT_TRUE(readWorldSettings(settings).ok());
  EXPECT_EQ(settings.size, 4);
  EXPECT_EQ(settings.rank, 3);
  EXPECT_EQ(settings.hostAddress(), "node0:29500");
  EXPECT_EQ(settings.tokenFile, "/token");
}

} // namespace
