//===- WarpMachineTest.cpp - Threads, barriers, shuffles, votes, and what is refused ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Emulated/Kernels.h"

#include <atomic>
#include <cmath>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::allSchedules;
using intarsia::testing::launchOf;
using intarsia::testing::runOn;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

int32_t thread() { return itx_emulated_thread_id(0); }
template <typename T> T *shared() { return static_cast<T *>(itx_emulated_shared()); }

// ---- Threads and blocks ----------------------------------------------------------------------------------------

constexpr int idFacts = 14;

/// Writes all that a thread knows about itself, at its number in the grid.
void writeIds(int32_t *out) {
  int64_t block = 0, number = 0;
  for (int d = 2; d >= 0; --d) {
    block = block * itx_emulated_grid_dim(d) + itx_emulated_block_id(d);
    number = number * itx_emulated_block_dim(d) + itx_emulated_thread_id(d);
  }
  int64_t threads = int64_t(itx_emulated_block_dim(0)) * itx_emulated_block_dim(1) * itx_emulated_block_dim(2);
  int32_t *facts = out + (block * threads + number) * idFacts;
  for (int d = 0; d < 3; ++d) {
    facts[d] = itx_emulated_thread_id(d);
    facts[3 + d] = itx_emulated_block_id(d);
    facts[6 + d] = itx_emulated_block_dim(d);
    facts[9 + d] = itx_emulated_grid_dim(d);
  }
  facts[12] = itx_emulated_lane_id();
  facts[13] = itx_emulated_warp_size();
}

TEST(WarpMachine, ThreadsKnowWhoTheyAre) {
  for (uint32_t warpSize : {32, 64})
    for (Schedule schedule : allSchedules) {
      std::vector<int32_t> out(3 * 2 * 4 * 5 * 7 * 3 * idFacts, -1);
      GridLaunch launch = launchOf(writeIds, 1, out.data());
      launch.grid = {3, 2, 4};
      launch.block = {5, 7, 3};
      launch.warpSize = warpSize;
      Status status = runOn(launch, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
      const int32_t *facts = out.data();
      for (int bz = 0; bz < 4; ++bz)
        for (int by = 0; by < 2; ++by)
          for (int bx = 0; bx < 3; ++bx)
            for (int t = 0; t < 105; ++t, facts += idFacts)
              ASSERT_EQ(std::vector<int32_t>(facts, facts + idFacts),
                        (std::vector<int32_t>{t % 5, t / 5 % 7, t / 35, bx, by, bz, 5, 7, 3, 3, 2, 4, t % int(warpSize),
                                              int(warpSize)}));
    }
}

template <size_t... index> void sumArguments(int64_t *out, decltype(int64_t(index))... values) {
  int64_t weight = 0;
  ((*out += ++weight * values), ...);
}
template <size_t... index> auto sumFunction(std::index_sequence<index...>) { return sumArguments<index...>; }

/// Runs a kernel of a pointer and `count` integers.
template <size_t count> void checkArguments() {
  int64_t out = 0, expected = 0;
  GridLaunch launch;
  launch.text = "kernel";
  launch.function = reinterpret_cast<void (*)()>(sumFunction(std::make_index_sequence<count>()));
  launch.arguments = {intarsia::testing::word(&out)};
  for (int64_t i = 1; i <= int64_t(count); ++i) {
    launch.arguments.push_back(uint64_t(i * i - 50));
    expected += i * (i * i - 50);
  }
  Status status = runOn(launch);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, expected) << count;
}

TEST(WarpMachine, ManyArgumentsArePassed) {
  checkArguments<1>();
  checkArguments<5>();
  checkArguments<6>();
  checkArguments<15>();
  checkArguments<16>();
  checkArguments<47>();
  checkArguments<48>();
  checkArguments<127>();
}

void countBlocks(std::atomic<int64_t> *counts) {
  itx_emulated_barrier();
  counts[itx_emulated_block_id(0)] += 1 + thread();
}

TEST(WarpMachine, BlocksRunOnSeveralThreads) {
  std::vector<std::atomic<int64_t>> counts(100);
  GridLaunch launch = launchOf(countBlocks, 96, counts.data());
  launch.grid = {100, 1, 1};
  MachineSettings settings;
  WarpMachine machine(settings);
  for (int round = 0; round < 3; ++round) {
    Status status = machine.run(launch, [](int64_t blocks, const std::function<void(int64_t, int64_t)> &run) {
      std::vector<std::thread> threads;
      for (int64_t begin = 0; begin < blocks; begin += 25)
        threads.emplace_back([&run, begin] { run(begin, begin + 25); });
      for (std::thread &thread : threads)
        thread.join();
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  for (size_t i = 0; i < counts.size(); ++i)
    EXPECT_EQ(counts[i], 3 * 96 * 97 / 2) << i;
}

/// Keeps integers and floating-point numbers in registers while lanes wait.
void keepRegisters(double *out) {
  int32_t t = thread();
  double a = t, b = t * 2.0, c = t * 3.0, d = t * 5.0, e = t * 7.0, f = t * 11.0, g = t * 13.0, h = t * 17.0;
  int64_t i = t, j = t * 2, k = t * 3, l = t * 5, m = t * 7, n = t * 11, o = t * 13;
  for (int round = 0; round < 10; ++round) {
    itx_emulated_warp_barrier(-1);
    a += b, c += d, e += f, g += h, b += 1, d += 2, f += 3, h += 4;
    i += j, k += l, m += n, o += i, j += 1, l += 2, n += 3;
  }
  out[t] = a + 2 * c + 3 * e + 5 * g + double(7 * i + 11 * k + 13 * m + 17 * o);
}

TEST(WarpMachine, RegistersSurviveWaiting) {
  std::vector<double> out(128, -1);
  ASSERT_TRUE(runOn(launchOf(keepRegisters, 128, out.data())).ok());
  for (int64_t t = 0; t < 128; ++t) {
    int64_t a = t, c = 3 * t, e = 7 * t, g = 13 * t, i = t, k = 3 * t, m = 7 * t, o = 13 * t;
    for (int64_t r = 0; r < 10; ++r) {
      a += 2 * t + r, c += 5 * t + 2 * r, e += 11 * t + 3 * r, g += 17 * t + 4 * r;
      i += 2 * t + r, k += 5 * t + 2 * r, m += 11 * t + 3 * r, o += i;
    }
    EXPECT_EQ(out[t], double(a + 2 * c + 3 * e + 5 * g + 7 * i + 11 * k + 13 * m + 17 * o)) << t;
  }
}

TEST(WarpMachine, ImpossibleLaunchesAreRefused) {
  int64_t out = 0;
  auto refused = [&](auto change) {
    GridLaunch launch = launchOf(countBlocks, 32, &out);
    change(launch);
    Status status = runOn(launch);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.block = {32, 33, 1}; }), HasSubstr("blocks of [32, 33, 1]"));
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.block = {0, 1, 1}; }), HasSubstr("1 to 1024"));
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.block = {1u << 31, 2, 1}; }), HasSubstr("1 to 1024"));
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.warpSize = 16; }), HasSubstr("warps of 16 threads"));
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.function = nullptr; }), HasSubstr("has no function"));
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.arguments.resize(129); }), HasSubstr("129 arguments"));
  EXPECT_THAT(refused([](GridLaunch &launch) { launch.grid = {~0u, ~0u, ~0u}; }), HasSubstr("more than 64 bits"));
  GridLaunch nothing = launchOf(countBlocks, 32, &out);
  nothing.grid = {3, 0, 1};
  EXPECT_TRUE(runOn(nothing).ok());
  EXPECT_EQ(out, 0);
}

// ---- Barriers --------------------------------------------------------------------------------------------------

/// Reverses n numbers by way of shared memory. The barrier is left out on request.
void reverse(const int32_t *in, int32_t *out, int64_t withBarrier) {
  int32_t t = thread(), n = itx_emulated_block_dim(0);
  shared<int32_t>()[t] = in[t];
  if (withBarrier)
    itx_emulated_barrier();
  out[t] = shared<int32_t>()[n - 1 - t];
}

TEST(WarpMachine, BarriersOrderSharedMemory) {
  for (uint32_t n : {1, 31, 32, 33, 256, 1024}) {
    std::vector<int32_t> in(n), expected(n);
    for (uint32_t i = 0; i < n; ++i) {
      in[i] = int32_t(i * i);
      expected[n - 1 - i] = in[i];
    }
    for (Schedule schedule : allSchedules) {
      std::vector<int32_t> out(n, -2);
      GridLaunch launch = launchOf(reverse, n, in.data(), out.data(), int64_t(1));
      launch.sharedBytes = n * 4;
      Status status = runOn(launch, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(out, expected) << n;
      launch.arguments[2] = 0;
      ASSERT_TRUE(runOn(launch, schedule).ok());
      if (n > 1)
        EXPECT_NE(out, expected) << "a missing barrier must show";
    }
  }
}

/// Each warp adds to what the warp before it has written, if the last barrier is there.
void chain(int32_t *out, int64_t withBarrier) {
  int32_t t = thread(), n = itx_emulated_block_dim(0), warp = t / 32;
  auto *values = shared<int32_t>();
  values[t] = t;
  itx_emulated_barrier();
  int32_t next = values[(t + 32) % n];
  if (withBarrier)
    itx_emulated_barrier();
  values[t] = next * 2;
  itx_emulated_barrier();
  out[t] = values[t] + warp;
}

TEST(WarpMachine, SchedulesShowWritesThatOvertakeReads) {
  int wrong = 0;
  for (Schedule schedule : allSchedules)
    for (int64_t withBarrier : {0, 1}) {
      std::vector<int32_t> out(128), expected(128);
      for (int32_t t = 0; t < 128; ++t)
        expected[t] = (t + 32) % 128 * 2 + t / 32;
      GridLaunch launch = launchOf(chain, 128, out.data(), withBarrier);
      launch.sharedBytes = 512;
      ASSERT_TRUE(runOn(launch, schedule).ok());
      if (withBarrier)
        EXPECT_EQ(out, expected);
      else
        wrong += out != expected;
    }
  EXPECT_GE(wrong, 2);
}

/// Notes whose turn it is: at the start, after a barrier of the warp, and after one of the block.
void noteTurns(int32_t *turns, int64_t *count) {
  int32_t who = itx_emulated_block_id(0) * 1000 + thread();
  turns[(*count)++] = who;
  itx_emulated_warp_barrier(-1);
  turns[(*count)++] = who + 100;
  itx_emulated_barrier();
  turns[(*count)++] = who + 200;
}

TEST(WarpMachine, SchedulesDecideWhoseTurnItIs) {
  auto turnsOf = [](Schedule schedule) {
    std::vector<int32_t> turns(2 * 64 * 3, -1);
    int64_t count = 0;
    GridLaunch launch = launchOf(noteTurns, 64, turns.data(), &count);
    launch.grid = {2, 1, 1};
    EXPECT_TRUE(runOn(launch, schedule).ok());
    EXPECT_EQ(count, int64_t(turns.size()));
    return turns;
  };
  // Whose turn begins each run of 32 lanes, and in which direction they follow.
  auto expected = [](std::vector<int32_t> firsts, int32_t direction) {
    std::vector<int32_t> turns;
    for (int32_t first : firsts)
      for (int32_t lane = 0; lane < 32; ++lane)
        turns.push_back(first + direction * lane);
    return turns;
  };
  EXPECT_EQ(turnsOf(Schedule::Lockstep), expected({0, 32, 100, 132, 200, 232, 1000, 1032, 1100, 1132, 1200, 1232}, 1));
  EXPECT_EQ(turnsOf(Schedule::Greedy), expected({0, 100, 32, 132, 200, 232, 1000, 1100, 1032, 1132, 1200, 1232}, 1));
  EXPECT_EQ(turnsOf(Schedule::GreedyReversed),
            expected({1063, 1163, 1031, 1131, 1263, 1231, 63, 163, 31, 131, 263, 231}, -1));
}

void leaveEarly(int32_t *out, int64_t leaving) {
  int32_t t = thread();
  if (t % 64 < leaving)
    return;
  shared<int32_t>()[t] = 1;
  itx_emulated_barrier();
  int32_t sum = 0;
  for (int32_t i = 0; i < itx_emulated_block_dim(0); ++i)
    sum += shared<int32_t>()[i] == 1;
  out[t] = sum;
  itx_emulated_barrier();
}

TEST(WarpMachine, ThreadsThatReturnedAreNotWaitedFor) {
  for (Schedule schedule : allSchedules)
    for (int64_t leaving : {0, 1, 40, 63, 64}) {
      std::vector<int32_t> out(128, -1);
      GridLaunch launch = launchOf(leaveEarly, 128, out.data(), leaving);
      launch.sharedBytes = 512;
      Status status = runOn(launch, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int t = 0; t < 128; ++t)
        EXPECT_EQ(out[t], t % 64 < leaving ? -1 : 2 * (64 - leaving)) << t;
    }
}

/// Odd and even lanes wait for each other apart, different numbers of times.
void warpHalves(int32_t *out) {
  int32_t t = thread(), lane = itx_emulated_lane_id();
  int64_t mask = lane % 2 ? 0xAAAAAAAA : 0x55555555;
  auto *values = shared<int32_t>();
  for (int32_t round = 0; round < (lane % 2 ? 5 : 3); ++round) {
    values[t] = round == 0 ? t : values[t] + 1;
    itx_emulated_warp_barrier(mask);
    int32_t other = values[t ^ 2];
    itx_emulated_warp_barrier(mask);
    values[t] = other;
  }
  itx_emulated_warp_barrier(0xffffffff);
  out[t] = values[t ^ 1];
}

TEST(WarpMachine, WarpBarriersJoinTheLanesOfTheirMask) {
  for (Schedule schedule : allSchedules) {
    std::vector<int32_t> out(64, -1);
    GridLaunch launch = launchOf(warpHalves, 64, out.data());
    launch.sharedBytes = 256;
    Status status = runOn(launch, schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int t = 0; t < 64; ++t) // an odd number of exchanges, and an addition in each but the first
      EXPECT_EQ(out[t], (t ^ 3) + ((t ^ 1) % 2 ? 4 : 2)) << t;
  }
}

// ---- Shuffles and votes ----------------------------------------------------------------------------------------

struct ShuffleCase {
  int32_t operand, width;
};

/// Shuffles 100 + lane in all ways.
void shuffles(int32_t *out, const ShuffleCase *test, int64_t leaving) {
  int32_t lane = itx_emulated_lane_id(), value = 100 + lane;
  if (lane == leaving)
    return;
  out[4 * lane] = itx_emulated_shuffle_idx(value, test->operand, test->width);
  out[4 * lane + 1] = itx_emulated_shuffle_up(value, test->operand, test->width);
  out[4 * lane + 2] = itx_emulated_shuffle_down(value, test->operand, test->width);
  out[4 * lane + 3] = itx_emulated_shuffle_xor(value, test->operand, test->width);
}

/// The source lane by the pseudo code of PTX's shfl.sync, with its operands a clamp and a segment mask.
int32_t ptxSource(int mode, int32_t lane, int32_t b, int32_t width, int32_t warp) {
  int32_t all = warp - 1, clamp = mode == 1 ? 0 : all, segmask = all & ~(width - 1);
  int32_t bval = b & all;
  int32_t maxLane = (lane & segmask) | (clamp & ~segmask & all), minLane = lane & segmask;
  int32_t j = 0;
  bool inRange = false;
  switch (mode) {
  case 0:
    j = minLane | (bval & ~segmask & all), inRange = j <= maxLane;
    break;
  case 1:
    j = lane - bval, inRange = j >= maxLane;
    break;
  case 2:
    j = lane + bval, inRange = j <= maxLane;
    break;
  case 3:
    j = lane ^ bval, inRange = j <= maxLane;
    break;
  }
  return inRange ? j : lane;
}

TEST(WarpMachine, ShufflesFollowPtx) {
  for (int32_t warp : {32, 64})
    for (int32_t width = 1; width <= warp; width *= 2)
      for (int32_t operand : {0, 1, 2, 3, 5, 8, 16, 17, 31, 32, 40, 63})
        for (int64_t leaving : {-1, 0, 7, 31}) {
          std::vector<int32_t> out(4 * warp, -1);
          ShuffleCase test = {operand, width};
          GridLaunch launch = launchOf(shuffles, uint32_t(warp), out.data(), &test, leaving);
          launch.warpSize = uint32_t(warp);
          Status status = runOn(launch, allSchedules[operand % 3]);
          ASSERT_TRUE(status.ok()) << status.message();
          for (int32_t lane = 0; lane < warp; ++lane)
            for (int mode = 0; mode < 4 && lane != leaving; ++mode) {
              int32_t source = ptxSource(mode, lane, operand, width, warp);
              if (source == leaving)
                source = lane;
              ASSERT_EQ(out[4 * lane + mode], 100 + source)
                  << "mode " << mode << ", lane " << lane << ", operand " << operand << ", width " << width;
            }
        }
}

void votes(int64_t *out, const int32_t *predicates, int64_t leaving) {
  int32_t t = thread();
  if (t < leaving) {
    itx_emulated_vote_any(1);
    return;
  }
  itx_emulated_vote_any(1);
  out[3 * t] = itx_emulated_vote_ballot(predicates[t]);
  out[3 * t + 1] = itx_emulated_vote_any(predicates[t]);
  out[3 * t + 2] = itx_emulated_vote_all(predicates[t]);
}

TEST(WarpMachine, VotesCountTheLanesThatAreThere) {
  for (uint32_t warp : {32u, 64u})
    for (int64_t leaving : {0, 1, 5, 20}) {
      constexpr uint32_t threads = 80; // the last warp has 16
      for (int pattern = 0; pattern < 4; ++pattern) {
        std::vector<int32_t> predicates(threads);
        for (uint32_t t = 0; t < threads; ++t) // only bit 0 counts
          predicates[t] = (pattern == 0 ? 0 : pattern == 1 ? 1 : pattern == 2 ? t % 3 == 0 : t == 70) | 6;
        std::vector<int64_t> out(3 * threads, -7);
        GridLaunch launch = launchOf(votes, threads, out.data(), predicates.data(), leaving);
        launch.warpSize = warp;
        Status status = runOn(launch);
        ASSERT_TRUE(status.ok()) << status.message();
        for (uint32_t t = uint32_t(leaving); t < threads; ++t) {
          uint64_t ballot = 0;
          bool any = false, all = true;
          for (uint32_t i = t / warp * warp; i < std::min(threads, (t / warp + 1) * warp); ++i)
            if (int64_t(i) >= leaving) {
              ballot |= uint64_t(predicates[i] & 1) << (i % warp);
              any |= predicates[i] & 1;
              all &= predicates[i] & 1;
            }
          ASSERT_EQ(out[3 * t], int64_t(ballot)) << t;
          ASSERT_EQ(out[3 * t + 1], any) << t;
          ASSERT_EQ(out[3 * t + 2], all) << t;
        }
      }
    }
}

// ---- Errors ----------------------------------------------------------------------------------------------------

extern "C" __attribute__((visibility("default"))) void divergent(int64_t way) {
  int32_t t = thread();
  if (t < 8) {
    if (t == 3)
      return;
    itx_emulated_barrier();
  } else if (t < 32) {
    way == 0 ? itx_emulated_shuffle_xor(t, 1, 32) : itx_emulated_vote_any(t);
  }
  itx_emulated_barrier();
}

TEST(WarpMachine, DeadlocksListWhereThreadsWait) {
  for (Schedule schedule : allSchedules) {
    Status status = runOn(launchOf(divergent, 96, int64_t(0)), schedule);
    EXPECT_EQ(status.code(), ITX_INTERNAL);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("kernel 'k' (layer.3), block [0, 0, 0]"), HasSubstr("threads 0 to 2 wait at barrier ("),
                      HasSubstr("thread 3 returned"), HasSubstr("threads 4 to 7 wait at barrier ("),
                      HasSubstr("threads 8 to 31 wait at shuffle_xor ("),
                      HasSubstr("threads 32 to 95 wait at barrier (")));
    status = runOn(launchOf(divergent, 96, int64_t(1)), schedule);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("vote_any"), Not(HasSubstr("shuffle"))));
  }
}

void refuse(int64_t what, int8_t *memory) {
  int32_t t = thread();
  if (what == 0 && t == 5)
    itx_emulated_trap();
  if (what == 1 && t == 5)
    itx_emulated_warp_barrier(0xf);
  if (what == 2 && t == 5)
    itx_emulated_shuffle_idx(0, 0, 12);
  if (what == 3 && t == 5)
    itx_emulated_thread_id(3);
  if (what == 4 && t == 5)
    itx_emulated_mma(63, memory, memory, memory, memory);
  if (what == 5 && t < 31)
    itx_emulated_mma(ITX_EMULATED_M16N8K16_F32_F16, memory, memory, memory, memory);
  if (what == 6)
    itx_emulated_mma(ITX_EMULATED_MFMA_16X16X16_F32_F16, memory, memory, memory, memory);
  if (what == 7)
    itx_emulated_mma(t < 16 ? ITX_EMULATED_M16N8K16_F32_F16 : ITX_EMULATED_M16N8K16_F32_BF16, memory, memory, memory,
                     memory);
  itx_emulated_warp_barrier(-1);
}

TEST(WarpMachine, MisuseNamesTheThread) {
  int8_t memory[64] = {};
  MachineSettings settings;
  WarpMachine machine(settings);
  const char *expected[] = {"thread [5, 0, 0]: the kernel executes a trap",
                            "thread [5, 0, 0]: waits at a warp barrier whose mask 0xf is without its own lane 5",
                            "thread [5, 0, 0]: shuffles segments of 12 lanes",
                            "thread [5, 0, 0]: asks for dimension 3",
                            "thread [5, 0, 0]: there is no matrix instruction of kind 63",
                            "threads 0 to 30 wait at mma (m16n8k16_f32_f16)",
                            "mfma_16x16x16_f32_f16 needs warps of 64 threads, those of the kernel have 32",
                            "threads 16 to 31 wait at mma (m16n8k16_f32_bf16)"};
  for (int64_t what = 0; what < 8; ++what) {
    Status status = machine.run(launchOf(refuse, 32, what, memory));
    EXPECT_EQ(status.code(), ITX_INTERNAL);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel 'k' (layer.3), block [0, 0, 0]"), HasSubstr(expected[what])));
    EXPECT_TRUE(machine.run(launchOf(refuse, 32, int64_t(99), memory)).ok()) << "an error must not stay";
  }
  Status status = machine.run(launchOf(refuse, 31, int64_t(5), memory));
  EXPECT_THAT(status.message(), HasSubstr("executes mma (m16n8k16_f32_f16) without its lanes 31, which have returned"));
}

} // namespace
