//===- MemoryTest.cpp - Shared memory, asynchronous copies, ldmatrix and checked accesses ----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Emulated/Kernels.h"

#include <cmath>
#include <cstring>
#include <numeric>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::allSchedules;
using intarsia::testing::launchOf;
using intarsia::testing::runOn;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

int32_t thread() { return itx_emulated_thread_id(0); }
char *shared() { return static_cast<char *>(itx_emulated_shared()); }

/// Adds global memory of a test to a launch.
template <typename T> void addRange(GridLaunch &launch, const std::vector<T> &values, const char *name) {
  launch.ranges.push_back({values.data(), values.size() * sizeof(T), name});
}

// ---- Shared memory ---------------------------------------------------------------------------------------------

/// Copies what is in shared memory at the block's start, then fills it.
void copyUnwritten(float *out) {
  auto *values = reinterpret_cast<float *>(shared());
  out[itx_emulated_block_id(0) * 32 + thread()] = values[thread()];
  values[thread()] = 1;
}

TEST(EmulatedMemory, EachBlockStartsWithNaN) {
  std::vector<float> out(96, 0);
  GridLaunch launch = launchOf(copyUnwritten, 32, out.data());
  launch.sharedBytes = 128;
  launch.grid = {3, 1, 1};
  ASSERT_TRUE(runOn(launch).ok());
  for (float value : out)
    EXPECT_TRUE(std::isnan(value));
}

void writeAddress(uint64_t *out) { *out = reinterpret_cast<uintptr_t>(shared()); }

TEST(EmulatedMemory, SharedMemoryIsAligned) {
  for (uint64_t bytes : {0, 1, 1023, 1024, 100000, 228 << 10}) {
    uint64_t address = 0;
    GridLaunch launch = launchOf(writeAddress, 1, &address);
    launch.sharedBytes = bytes;
    ASSERT_TRUE(runOn(launch).ok());
    EXPECT_NE(address, 0u);
    EXPECT_EQ(address % 1024, 0u);
  }
}

// ---- Asynchronous copies ---------------------------------------------------------------------------------------

/// Copies 16 bytes, of which `sourceBytes` from the source, and writes what is there before and after the wait.
void copyOne(const uint8_t *in, uint8_t *out, int64_t sourceBytes) {
  itx_emulated_async_copy(shared() + 16 * thread(), in + 16 * thread(), 16, int32_t(sourceBytes));
  std::memcpy(out + 64 * thread(), shared() + 16 * thread(), 16);
  itx_emulated_async_commit();
  itx_emulated_async_wait(1);
  std::memcpy(out + 64 * thread() + 16, shared() + 16 * thread(), 16);
  itx_emulated_async_wait(0);
  std::memcpy(out + 64 * thread() + 32, shared() + 16 * thread(), 16);
  itx_emulated_async_copy(shared() + 16 * thread(), in, 16, 16);
  itx_emulated_async_wait(0); // of no group
  std::memcpy(out + 64 * thread() + 48, shared() + 16 * thread(), 16);
}

TEST(EmulatedMemory, AsynchronousCopiesLandAtTheWait) {
  for (int64_t sourceBytes : {0, 1, 8, 16}) {
    std::vector<uint8_t> in(64 * 16), out(64 * 64, 7);
    std::iota(in.begin(), in.end(), uint8_t(1));
    GridLaunch launch = launchOf(copyOne, 64, in.data(), out.data(), sourceBytes);
    launch.sharedBytes = 64 * 16;
    addRange(launch, in, "operand 0");
    Status status = runOn(launch);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t t = 0; t < 64; ++t)
      for (int64_t i = 0; i < 16; ++i) {
        ASSERT_EQ(out[64 * t + i], 0xff) << "before the commit";
        ASSERT_EQ(out[64 * t + 16 + i], 0xff) << "before the wait";
        ASSERT_EQ(out[64 * t + 32 + i], i < sourceBytes ? in[16 * t + i] : 0) << t << " " << i;
        ASSERT_EQ(out[64 * t + 48 + i], 0xff) << "without a commit";
      }
  }
}

/// Copies three numbers to one address, each committed on its own, and writes what is there when 3, 2, 1 and 0 groups
/// are left.
void copyInOrder(const int32_t *in, int32_t *out) {
  for (int i = 0; i < 3; ++i) {
    itx_emulated_async_copy(shared(), in + i, 4, 4);
    itx_emulated_async_copy(shared() + 4 + 4 * i, in + i, 4, 4);
    itx_emulated_async_commit();
  }
  for (int left = 3; left >= 0; --left) {
    itx_emulated_async_wait(left);
    std::memcpy(out + 4 * (3 - left), shared(), 16);
  }
}

TEST(EmulatedMemory, GroupsLandInTheOrderOfTheirCommits) {
  std::vector<int32_t> in = {5, 6, 7}, out(16, 0);
  GridLaunch launch = launchOf(copyInOrder, 1, in.data(), out.data());
  launch.sharedBytes = 16;
  addRange(launch, in, "operand 0");
  Status status = runOn(launch);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, (std::vector<int32_t>{-1, -1, -1, -1, 5, 5, -1, -1, 6, 5, 6, -1, 7, 5, 6, 7}));
}

/// A pipeline of two stages that sums rows of the input. The wait of each round can be left out.
void pipeline(const float *in, float *out, int64_t rounds, int64_t withWait) {
  auto *stages = reinterpret_cast<float *>(shared());
  int32_t t = thread(), n = itx_emulated_block_dim(0);
  auto load = [&](int64_t round) {
    if (round < rounds)
      itx_emulated_async_copy(stages + round % 2 * n + t, in + round * n + t, 4, 4);
    itx_emulated_async_commit();
  };
  float sum = 0;
  load(0);
  for (int64_t round = 0; round < rounds; ++round) {
    load(round + 1);
    if (withWait)
      itx_emulated_async_wait(1);
    itx_emulated_barrier();
    sum += stages[round % 2 * n + (t + 1) % n];
    itx_emulated_barrier();
  }
  out[t] = sum;
}

TEST(EmulatedMemory, PipelinesNeedTheirWaits) {
  constexpr int64_t rounds = 5, n = 64;
  std::vector<float> in(rounds * n);
  std::iota(in.begin(), in.end(), 1.0f);
  for (Schedule schedule : allSchedules)
    for (int64_t withWait : {0, 1}) {
      std::vector<float> out(n, -1);
      GridLaunch launch = launchOf(pipeline, n, in.data(), out.data(), rounds, withWait);
      launch.sharedBytes = 2 * n * 4;
      addRange(launch, in, "operand 0");
      Status status = runOn(launch, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t t = 0; t < n; ++t) {
        float expected = 0;
        for (int64_t round = 0; round < rounds; ++round)
          expected += in[round * n + (t + 1) % n];
        if (withWait)
          EXPECT_EQ(out[t], expected) << t;
        else
          EXPECT_TRUE(std::isnan(out[t])) << t;
      }
    }
}

// ---- ldmatrix --------------------------------------------------------------------------------------------------

/// Loads matrices whose rows lie in reverse order, `stride` bytes apart, from `offset` on.
void loadMatrices(const uint16_t *in, uint32_t *out, int64_t count, int64_t transposed, int64_t stride,
                  int64_t offset) {
  int32_t t = thread();
  char *row = shared() + offset + (31 - t) * stride;
  itx_emulated_store_check(row, 16, ITX_EMULATED_SHARED);
  std::memcpy(row, in + 8 * t, 16);
  itx_emulated_warp_barrier(-1);
  itx_emulated_ldmatrix(reinterpret_cast<int32_t *>(out + 4 * t), row, int32_t(count), int32_t(transposed));
}

GridLaunch matrixLaunch(const std::vector<uint16_t> &in, std::vector<uint32_t> &out, int64_t count, int64_t transposed,
                        int64_t stride, int64_t offset) {
  GridLaunch launch = launchOf(loadMatrices, 32, in.data(), out.data(), count, transposed, stride, offset);
  launch.sharedBytes = 32 * 48;
  addRange(launch, in, "operand 0");
  addRange(launch, out, "operand 1");
  return launch;
}

TEST(EmulatedMemory, LdmatrixDistributesRows) {
  std::vector<uint16_t> in(4 * 8 * 8); // matrix, row, column
  std::iota(in.begin(), in.end(), uint16_t(1));
  for (int64_t count : {1, 2, 4})
    for (int64_t transposed : {0, 1}) {
      std::vector<uint32_t> out(128, 0xabababab);
      Status status = runOn(matrixLaunch(in, out, count, transposed, 48, 0));
      ASSERT_TRUE(status.ok()) << status.message();
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t matrix = 0; matrix < 4; ++matrix) {
          // The figure of the PTX ISA: thread T0 holds the first two elements of row 0, T1 the next two, T4 those of
          // row 1; transposed, the same with rows and columns exchanged.
          auto element = [&](uint32_t slow, uint32_t fast) -> uint32_t {
            uint32_t row = transposed ? fast : slow, column = transposed ? slow : fast;
            return in[matrix * 64 + row * 8 + column];
          };
          uint32_t slow = lane >> 2, fast = (lane & 3) << 1;
          uint32_t expected = element(slow, fast) | element(slow, fast + 1) << 16;
          ASSERT_EQ(out[4 * lane + matrix], matrix < count ? expected : 0xabababab) << lane << " " << matrix;
        }
    }
}

TEST(EmulatedMemory, LdmatrixRefusesBadRows) {
  std::vector<uint16_t> in(256);
  std::vector<uint32_t> out(128);
  EXPECT_THAT(runOn(matrixLaunch(in, out, 4, 0, 24, 0)).message(),
              AllOf(HasSubstr("thread [0, 0, 0]: the row of ldmatrix,"), HasSubstr("is not aligned to 16 bytes")));
  EXPECT_THAT(runOn(matrixLaunch(in, out, 3, 0, 16, 0)).message(), HasSubstr("ldmatrix loads 1, 2 or 4"));
  GridLaunch wide = matrixLaunch(in, out, 1, 0, 16, 0);
  wide.warpSize = 64;
  wide.block = {64, 1, 1};
  wide.sharedBytes = 64 * 48;
  in.resize(512);
  out.resize(256);
  wide.arguments[5] = 32 * 16;
  wide.arguments[0] = intarsia::testing::word(in.data());
  wide.arguments[1] = intarsia::testing::word(out.data());
  EXPECT_THAT(runOn(wide).message(), HasSubstr("ldmatrix needs warps of 32 threads, those of the kernel have 64"));
}

// ---- Checked accesses ------------------------------------------------------------------------------------------

struct Access {
  int64_t isStore, address, bytes, space;
};

void accessOnce(const Access *access) {
  if (thread() != 3)
    return;
  void *address = reinterpret_cast<void *>(access->address);
  if (access->isStore)
    itx_emulated_store_check(address, access->bytes, int32_t(access->space));
  else
    itx_emulated_load_check(address, access->bytes, int32_t(access->space));
}

class CheckedAccesses : public ::testing::Test {
protected:
  std::vector<float> first = std::vector<float>(10), second = std::vector<float>(100);
  std::vector<float> constants = std::vector<float>(4);

  /// Returns the message of the error of an access by thread 3 of block [0, 0, 0].
  std::string access(bool isStore, const void *address, int64_t bytes, int32_t space) {
    Access access = {isStore, int64_t(reinterpret_cast<uintptr_t>(address)), bytes, space};
    GridLaunch launch = launchOf(accessOnce, 32, &access);
    launch.sharedBytes = 256;
    launch.checked = true;
    addRange(launch, first, "operand 0");
    addRange(launch, second, "scratch");
    launch.ranges.push_back({constants.data(), 16, "the object", /*loadsOnly=*/true});
    return runOn(launch).message();
  }
};

TEST_F(CheckedAccesses, GlobalOnesAreInsideOneOperand) {
  for (int32_t space : {ITX_EMULATED_GLOBAL, ITX_EMULATED_GENERIC})
    for (bool isStore : {false, true}) {
      EXPECT_EQ(access(isStore, &first[0], 40, space), "");
      EXPECT_EQ(access(isStore, &first[9], 4, space), "");
      EXPECT_EQ(access(isStore, &second[99], 4, space), "");
      EXPECT_THAT(access(isStore, &first[9], 8, space),
                  AllOf(HasSubstr("kernel 'k' (layer.3), block [0, 0, 0], thread [3, 0, 0]"),
                        HasSubstr(isStore ? "stores 8 bytes" : "loads 8 bytes"),
                        HasSubstr("operand 0, at offset 36 of its 40 bytes")));
      EXPECT_THAT(access(isStore, reinterpret_cast<char *>(&second[0]) - 4, 4, space),
                  HasSubstr("scratch, at offset -4 of its 400 bytes"));
      EXPECT_THAT(access(isStore, nullptr, 4, space), HasSubstr("not in global memory of the launch"));
      EXPECT_THAT(access(isStore, &first[0], -1, space), HasSubstr("negative"));
    }
  EXPECT_THAT(access(false, &first[0], 4, 2), HasSubstr("address space 2"));
  EXPECT_EQ(access(false, nullptr, 4, ITX_EMULATED_PRIVATE), "");
}

TEST_F(CheckedAccesses, ConstantsAreOnlyLoaded) {
  for (int32_t space : {ITX_EMULATED_GLOBAL, ITX_EMULATED_GENERIC, ITX_EMULATED_CONSTANT}) {
    EXPECT_EQ(access(false, &constants[3], 4, space), "");
    EXPECT_THAT(access(true, &constants[3], 4, space),
                HasSubstr("in the object at offset 12: kernels only load from there"));
    EXPECT_THAT(access(false, &constants[3], 8, space), HasSubstr("the object, at offset 12 of its 16 bytes"));
  }
}

/// Does with shared memory what the flags say.
enum SharedUse { LoadWritten, LoadUnwritten, LoadBeyond, LoadPartly, CopyNotLanded, CopyLanded, Private };
void useShared(int64_t use, const float *in) {
  char *memory = shared();
  if (thread() == 0) {
    itx_emulated_store_check(memory + 64, 8, ITX_EMULATED_SHARED);
    itx_emulated_async_copy(memory + 128, in, 16, 0);
    itx_emulated_async_commit();
    if (use == CopyLanded)
      itx_emulated_async_wait(0);
  }
  itx_emulated_barrier();
  if (thread() != 40)
    return;
  // Sanitizers may keep local variables elsewhere.
  auto *own = static_cast<char *>(__builtin_frame_address(0)) - 8;
  switch (use) {
  case LoadWritten:
    return itx_emulated_load_check(memory + 68, 4, ITX_EMULATED_GENERIC);
  case LoadUnwritten:
    return itx_emulated_load_check(memory + 60, 4, ITX_EMULATED_GENERIC);
  case LoadBeyond:
    return itx_emulated_load_check(memory + 250, 8, ITX_EMULATED_SHARED);
  case LoadPartly:
    return itx_emulated_load_check(memory + 64, 16, ITX_EMULATED_SHARED);
  case CopyNotLanded:
  case CopyLanded:
    return itx_emulated_load_check(memory + 140, 4, ITX_EMULATED_SHARED);
  case Private:
    return itx_emulated_load_check(own, 8, ITX_EMULATED_GENERIC);
  }
}

TEST(EmulatedMemory, UnwrittenSharedMemoryIsRefused) {
  std::vector<float> in(4);
  auto use = [&](SharedUse use, bool checked = true) {
    GridLaunch launch = launchOf(useShared, 64, int64_t(use), in.data());
    launch.sharedBytes = 256;
    launch.checked = checked;
    addRange(launch, in, "operand 0");
    return runOn(launch).message();
  };
  EXPECT_EQ(use(LoadWritten), "");
  EXPECT_EQ(use(CopyLanded), "");
  EXPECT_EQ(use(Private), "");
  EXPECT_EQ(use(LoadUnwritten, false), "") << "writes are not known";
  EXPECT_THAT(use(LoadUnwritten), AllOf(HasSubstr("thread [40, 0, 0]: loads 4 bytes at offset 60 of shared memory"),
                                        HasSubstr("nothing has been written to offset 60")));
  EXPECT_THAT(use(LoadPartly), HasSubstr("nothing has been written to offset 72"));
  EXPECT_THAT(use(CopyNotLanded), HasSubstr("nothing has been written to offset 140"));
  EXPECT_THAT(use(LoadBeyond), HasSubstr("offset 250 of the block's 256 bytes of shared memory"));
}

/// Stores some bytes and loads as many, `distance` bytes further on.
void storeAndLoad(int64_t bytes, int64_t distance) {
  itx_emulated_store_check(shared() + 64, bytes, ITX_EMULATED_SHARED);
  itx_emulated_load_check(shared() + 64 + distance, bytes, ITX_EMULATED_SHARED);
}

TEST(EmulatedMemory, EachByteIsNotedApart) {
  for (int64_t bytes : {1, 2, 3, 4, 7, 8, 12, 16, 32})
    for (int64_t distance : {-1, 0, 1}) {
      GridLaunch launch = launchOf(storeAndLoad, 1, bytes, distance);
      launch.sharedBytes = 128;
      launch.checked = true;
      std::string message = runOn(launch).message();
      if (distance == 0)
        EXPECT_EQ(message, "") << bytes;
      else
        EXPECT_THAT(message, HasSubstr(format("written to offset %lld;", (long long)(distance < 0 ? 63 : 64 + bytes))));
    }
}

struct Copy {
  int64_t destination, source, bytes, sourceBytes; // offsets; a negative source is none
};
void copyBadly(const float *in, const Copy *copy) {
  const char *source = reinterpret_cast<const char *>(in) + copy->source;
  itx_emulated_async_copy(shared() + copy->destination, source, int32_t(copy->bytes), int32_t(copy->sourceBytes));
}

TEST(EmulatedMemory, BadAsynchronousCopiesAreRefused) {
  alignas(16) float in[8] = {};
  auto message = [&](Copy copy) {
    GridLaunch launch = launchOf(copyBadly, 1, in, &copy);
    launch.sharedBytes = 64;
    launch.ranges.push_back({in, sizeof(in), "operand 0"});
    return runOn(launch).message();
  };
  EXPECT_EQ(message({48, 16, 16, 16}), "");
  EXPECT_EQ(message({48, 1 << 20, 16, 0}), "") << "the source is not read";
  EXPECT_THAT(message({52, 0, 16, 16}), HasSubstr("the destination of an asynchronous copy,"));
  EXPECT_THAT(message({48, 4, 16, 16}), HasSubstr("the source of an asynchronous copy,"));
  EXPECT_THAT(message({64, 0, 4, 4}), HasSubstr("offset 64 of the block's 64 bytes"));
  EXPECT_THAT(message({0, 32, 4, 4}), HasSubstr("operand 0, at offset 32 of its 32 bytes"));
  EXPECT_THAT(message({0, 0, 32, 32}), HasSubstr("copies 32 bytes asynchronously"));
  EXPECT_THAT(message({0, 0, 4, 5}), HasSubstr("of which 5 from the source"));
}

} // namespace
