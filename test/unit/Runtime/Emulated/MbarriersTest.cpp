//===- MbarriersTest.cpp - Barriers in shared memory, and tensor copies that they count -------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Emulated/Kernels.h"

#include <numeric>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::allSchedules;
using intarsia::testing::launchOf;
using intarsia::testing::runOn;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

constexpr uint32_t boxRows = 16, boxColumns = 64, stageCount = 2;
constexpr int64_t boxBytes = boxRows * boxColumns * 2;

int32_t thread() { return itx_emulated_thread_id(0); }
uint8_t *sharedAt(int64_t offset) { return static_cast<uint8_t *>(itx_emulated_shared()) + offset; }
uint8_t *full(int64_t stage) { return sharedAt(stageCount * boxBytes + stage * 8); }
uint8_t *empty(int64_t stage) { return sharedAt(stageCount * boxBytes + (stageCount + stage) * 8); }

/// Makes the mbarriers of a ring whose consumers are `consumers` threads.
void makeRing(int32_t consumers) {
  if (thread() == 0) {
    for (uint32_t stage = 0; stage < stageCount; ++stage) {
      itx_emulated_mbarrier_init(full(stage), 1);
      itx_emulated_mbarrier_init(empty(stage), consumers);
    }
    itx_emulated_proxy_fence();
  }
  itx_emulated_barrier();
}

/// A producer, thread 64, copies boxes of a matrix from a first row and column on, down its rows; 64 consumers write
/// them out as they lie in shared memory.
void pipeline(const void *map, uint8_t *out, int64_t boxes, int64_t row, int64_t column) {
  constexpr int32_t consumers = 64;
  makeRing(consumers);
  if (thread() == consumers) {
    for (int64_t i = 0; i < boxes; ++i) {
      int64_t stage = i % stageCount;
      itx_emulated_mbarrier_wait(empty(stage), int32_t(i / stageCount & 1) ^ 1);
      itx_emulated_mbarrier_arrive_expect(full(stage), boxBytes);
      itx_emulated_tensor_copy(sharedAt(stage * boxBytes), map, int32_t(column), int32_t(row + i * boxRows),
                               full(stage));
    }
    return;
  }
  if (thread() > consumers)
    return;
  for (int64_t i = 0; i < boxes; ++i) {
    int64_t stage = i % stageCount;
    itx_emulated_mbarrier_wait(full(stage), int32_t(i / stageCount & 1));
    for (int64_t byte = thread() * 16; byte < boxBytes; byte += consumers * 16) {
      uint8_t *from = sharedAt(stage * boxBytes + byte);
      itx_emulated_load_check(from, 16, ITX_EMULATED_SHARED);
      std::memcpy(out + i * boxBytes + byte, from, 16);
    }
    itx_emulated_mbarrier_arrive(empty(stage));
  }
}

struct Matrix {
  uint64_t rows, columns;
  std::vector<uint16_t> elements;

  Matrix(uint64_t rows, uint64_t columns) : rows(rows), columns(columns), elements(rows * columns) {
    std::iota(elements.begin(), elements.end(), uint16_t(1));
  }
  TensorMap map(uint32_t swizzleBytes = 128) const {
    return {reinterpret_cast<const uint8_t *>(elements.data()), rows, columns, 2, boxRows, boxColumns, swizzleBytes};
  }
  uint16_t at(int64_t row, int64_t column) const {
    bool isInside = row >= 0 && uint64_t(row) < rows && column >= 0 && uint64_t(column) < columns;
    return isInside ? elements[uint64_t(row) * columns + uint64_t(column)] : 0;
  }
};

template <typename... Parameters, typename... Arguments>
GridLaunch withMap(const TensorMap &map, void (*kernel)(const void *, Parameters...), uint32_t threads,
                   Arguments... arguments) {
  GridLaunch launch = launchOf(kernel, threads, static_cast<const void *>(nullptr), arguments...);
  launch.tensorMaps = {map};
  launch.arguments[0] = reinterpret_cast<uintptr_t>(launch.tensorMaps.data());
  launch.sharedBytes = stageCount * boxBytes + stageCount * 16;
  launch.checked = true;
  return launch;
}

std::string messageOf(const GridLaunch &launch) { return runOn(launch).message(); }

} // namespace

TEST(Mbarriers, RingsOfStagesCarryBoxes) {
  // The last box is ragged in both directions, and the first row and column are outside.
  Matrix matrix(75, 40);
  constexpr int64_t boxes = 5, row = -3, column = -8;
  for (Schedule schedule : allSchedules) {
    std::vector<uint8_t> out(boxes * boxBytes, 0xee);
    Status status = runOn(withMap(matrix.map(), pipeline, 96, out.data(), boxes, row, column), schedule);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < boxes * boxRows; ++i)
      for (int64_t j = 0; j < boxColumns; ++j) {
        // PTX ISA, "Swizzling modes", the table of 128 bytes: in row r the chunk c lies where chunk c ^ r is counted.
        int64_t chunk = j / 8 ^ i % 8;
        uint16_t element;
        std::memcpy(&element, &out[i * boxColumns * 2 + chunk * 16 + j % 8 * 2], 2);
        ASSERT_EQ(element, matrix.at(row + i, column + j)) << "row " << i << ", column " << j;
      }
  }
}

TEST(Mbarriers, SwizzlesOfFewerBytesTakeFewerBits) {
  // In rows of 64 bytes, bits 7 and 8 of an address flip bits 4 and 5; in rows of 32, bit 7 flips bit 4.
  for (uint32_t rowBytes : {32u, 64u}) {
    Matrix matrix(boxRows, rowBytes / 2);
    TensorMap map = matrix.map(rowBytes);
    map.boxColumns = rowBytes / 2;
    SharedMemory shared;
    ASSERT_TRUE(shared.reset(4096, /*tracked=*/true).ok());
    Mbarriers barriers(shared);
    ASSERT_TRUE(barriers.init(2048, 1, 0).ok());
    barriers.fence(0);
    ASSERT_TRUE(barriers.copy(2048, {&map, 0, 0, 0}).ok());
    EXPECT_FALSE(shared.areWritten(shared.address(), 1)) << "it has not landed";
    ASSERT_TRUE(barriers.arrive(2048, int64_t(boxRows * rowBytes)).ok());
    EXPECT_FALSE(shared.areWritten(shared.address(), 1)) << "nobody has waited";
    EXPECT_TRUE(barriers.isPast(2048, false));
    EXPECT_FALSE(barriers.isPast(2048, true));
    for (uint32_t row = 0; row < boxRows; ++row)
      for (uint32_t k = 0; k < rowBytes / 2; ++k) {
        uint32_t address = row * rowBytes + k * 2, flipped = rowBytes == 64 ? address >> 7 & 3 : address >> 7 & 1;
        uint16_t element;
        std::memcpy(&element, shared.address() + (address ^ flipped << 4), 2);
        ASSERT_EQ(element, matrix.at(row, k)) << "row " << row << ", column " << k;
      }
  }
}

TEST(Mbarriers, WhatHasNotLandedCannotBeRead) {
  auto kernel = [](const void *map) {
    makeRing(1);
    if (thread() == 0) {
      itx_emulated_mbarrier_arrive_expect(full(0), boxBytes);
      itx_emulated_tensor_copy(sharedAt(0), map, 0, 0, full(0));
    }
    itx_emulated_barrier();
    itx_emulated_load_check(sharedAt(64), 4, ITX_EMULATED_SHARED);
  };
  EXPECT_THAT(messageOf(withMap(Matrix(16, 64).map(), +kernel, 32)),
              AllOf(HasSubstr("loads 4 bytes at offset 64 of shared memory, where nothing has been written"),
                    HasSubstr("is a barrier or a wait for asynchronous copies missing?")));
}

TEST(Mbarriers, WithoutFenceCopiesDoNotKnowThem) {
  auto kernel = [](const void *map) {
    itx_emulated_mbarrier_init(full(0), 1);
    itx_emulated_tensor_copy(sharedAt(0), map, 0, 0, full(0));
  };
  EXPECT_THAT(messageOf(withMap(Matrix(16, 64).map(), +kernel, 1)),
              HasSubstr("copies with the mbarrier at offset 4096, which thread 0 has made without fence.proxy.async"));
}

TEST(Mbarriers, WaitsForEverAreListed) {
  // One byte fewer comes than was said.
  auto kernel = [](const void *map) {
    makeRing(1);
    if (thread() == 32) {
      itx_emulated_mbarrier_arrive_expect(full(1), boxBytes + 1);
      itx_emulated_tensor_copy(sharedAt(0), map, 0, 0, full(1));
    } else if (thread() < 32) {
      itx_emulated_mbarrier_wait(full(1), 0);
    }
  };
  for (Schedule schedule : allSchedules) {
    std::string message = runOn(withMap(Matrix(16, 64).map(), +kernel, 64), schedule).message();
    EXPECT_THAT(message, AllOf(HasSubstr("its threads wait for each other for ever: threads 0 to 31 wait at "
                                         "mbarrier_wait (offset 4104, parity 0)"),
                               HasSubstr("threads 32 to 63 returned"),
                               HasSubstr("mbarriers lack: the one at offset 4096, in a phase of parity 0, 1 of 1 "
                                         "arrivals and 0 bytes, the one at offset 4104, in a phase of parity 0, 0 of "
                                         "1 arrivals and 1 bytes")));
  }
}

TEST(Mbarriers, MistakesAreNamed) {
  Matrix matrix(16, 64);
  auto message = [&](void (*kernel)(const void *)) { return messageOf(withMap(matrix.map(), kernel, 1)); };
  EXPECT_THAT(message([](const void *) { itx_emulated_mbarrier_wait(full(0), 0); }),
              HasSubstr("waits at offset 4096 of shared memory, where no mbarrier was made"));
  EXPECT_THAT(message([](const void *) { itx_emulated_mbarrier_init(sharedAt(4), 1); }),
              HasSubstr("makes an mbarrier at offset 4 of shared memory, which has 4128 bytes"));
  EXPECT_THAT(message([](const void *) { itx_emulated_mbarrier_init(full(0), 0); }),
              HasSubstr("makes an mbarrier for 0 arrivals"));
  EXPECT_THAT(message([](const void *) {
                makeRing(1);
                itx_emulated_mbarrier_arrive_expect(full(0), 16);
                itx_emulated_mbarrier_arrive(full(0));
              }),
              HasSubstr("arrives at the mbarrier at offset 4096, whose phase all 1 arrivals have reached"));
  EXPECT_THAT(message([](const void *map) {
                makeRing(1);
                itx_emulated_tensor_copy(sharedAt(64), map, 0, 0, full(0));
              }),
              HasSubstr("copies a box of 2048 bytes to offset 64"));
  EXPECT_THAT(message([](const void *map) {
                makeRing(1);
                itx_emulated_tensor_copy(sharedAt(3072), map, 0, 0, full(0));
              }),
              HasSubstr("to offset 3072 of shared memory, which has 4128 bytes"));
  EXPECT_THAT(message([](const void *) {
                makeRing(1);
                itx_emulated_tensor_copy(sharedAt(0), sharedAt(0), 0, 0, full(0));
              }),
              HasSubstr("which is no argument of the kernel"));
}

TEST(Mbarriers, ThreadsOfOneWarpWaitByThemselves) {
  // Lane 0 waits for what lane 1 does after it, while the others are at a barrier of the warp.
  auto kernel = [](const void *) {
    makeRing(1);
    if (thread() == 0)
      itx_emulated_mbarrier_wait(empty(0), 0);
    else if (thread() == 1)
      itx_emulated_mbarrier_arrive(empty(0));
    itx_emulated_warp_barrier(-1);
  };
  for (Schedule schedule : allSchedules) {
    Status status = runOn(withMap(Matrix(16, 64).map(), +kernel, 32), schedule);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

/// A descriptor of rows of 128 bytes at an offset of shared memory (PTX ISA, "Matrix descriptor format").
int64_t descriptorAt(int64_t offset) {
  uint64_t address = reinterpret_cast<uintptr_t>(sharedAt(offset));
  return int64_t((address & 0x3FFFF) / 16 | uint64_t(64) << 32 | uint64_t(1) << 62);
}

/// Four warps multiply what was copied to the first stage, release it before or behind the wait for it, and thread 128
/// copies there again.
void releaseStage(const void *map, int64_t early) {
  makeRing(4);
  if (thread() == 128) {
    for (int32_t i = 0; i < 2; ++i) {
      itx_emulated_mbarrier_wait(empty(0), i ^ 1);
      itx_emulated_mbarrier_arrive_expect(full(0), boxBytes);
      itx_emulated_tensor_copy(sharedAt(0), map, 0, 0, full(0));
    }
    return;
  }
  if (thread() > 128)
    return;
  itx_emulated_mbarrier_wait(full(0), 0);
  float sums[4] = {};
  // All 64 rows of A are the 16 of the box: groups of eight rows are 0 bytes apart.
  itx_emulated_wgmma(sums, descriptorAt(0) & ~(int64_t(0x3fff) << 32), descriptorAt(0), 8, 0);
  itx_emulated_wgmma_commit();
  if (early == 0)
    itx_emulated_wgmma_wait(0);
  else
    itx_emulated_wgmma_wait(1);
  if (itx_emulated_lane_id() == 0)
    itx_emulated_mbarrier_arrive(empty(0));
  itx_emulated_mbarrier_wait(full(0), 1);
  itx_emulated_wgmma_wait(0);
}

TEST(PendingProducts, StagesAreReleasedBehindTheWait) {
  Matrix matrix(16, 64);
  for (Schedule schedule : allSchedules) {
    Status status = runOn(withMap(matrix.map(), releaseStage, 160, int64_t(0)), schedule);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(
        runOn(withMap(matrix.map(), releaseStage, 160, int64_t(1)), schedule).message(),
        AllOf(
            HasSubstr("thread [128, 0, 0]"),
            HasSubstr("copies to 2048 bytes at offset 0 of shared memory, which a matrix instruction of four warps may "
                      "still read; is a wait for it missing, or a barrier behind the wait?")));
  }
}

/// Four warps write an operand, by stores or by asynchronous copies, and multiply it; one thread may leave out its
/// fence.
void multiplyOwn(const void *source, int64_t forgetful, int64_t isCopied) {
  uint8_t *own = sharedAt(thread() * 16);
  if (isCopied) {
    itx_emulated_async_copy(own, static_cast<const uint8_t *>(source) + thread() * 16, 16, 16);
    itx_emulated_async_commit();
    itx_emulated_async_wait(0);
  } else {
    itx_emulated_store_check(own, 16, ITX_EMULATED_SHARED);
    std::memcpy(own, static_cast<const uint8_t *>(source) + thread() * 16, 16);
  }
  if (thread() != forgetful)
    itx_emulated_proxy_fence();
  itx_emulated_barrier();
  float sums[4] = {};
  itx_emulated_wgmma(sums, descriptorAt(0) & ~(int64_t(0x3fff) << 32), descriptorAt(1024), 8, 0);
}

TEST(ProxyWrites, OperandsAreFencedByTheirWriters) {
  std::vector<uint16_t> source(128 * 8);
  for (int64_t isCopied : {0, 1})
    for (int64_t forgetful : {-1, 1, 5, 65}) { // chunk 5 of the first row is not multiplied
      GridLaunch launch = launchOf(multiplyOwn, 128, static_cast<const void *>(source.data()), forgetful, isCopied);
      launch.sharedBytes = 2048;
      launch.checked = true;
      launch.ranges = {{source.data(), source.size() * 2, "operand 0"}};
      for (Schedule schedule : allSchedules) {
        Status status = runOn(launch, schedule);
        if (forgetful < 0 || forgetful == 5)
          EXPECT_TRUE(status.ok()) << status.message();
        else
          EXPECT_THAT(
              status.message(),
              HasSubstr(format("multiplies what lies at offset %d of shared memory, which thread %d has written "
                               "without fence.proxy.async",
                               int(16 * forgetful), int(forgetful))));
      }
    }
}

TEST(Elect, OneThreadOfEachWarp) {
  auto kernel = [](int32_t *out) { out[thread()] = itx_emulated_elect(); };
  for (Schedule schedule : allSchedules) {
    std::vector<int32_t> out(64, -1);
    ASSERT_TRUE(runOn(launchOf(+kernel, 64, out.data()), schedule).ok());
    for (uint32_t warp : {0, 1})
      EXPECT_EQ(std::count(out.begin() + 32 * warp, out.begin() + 32 * (warp + 1), 1), 1);
    EXPECT_EQ(std::count(out.begin(), out.end(), 0), 62);
  }
}

TEST(SetRegisters, GroupsOfFourWarpsDoTheSame) {
  auto kernel = [](int64_t first, int64_t last, int64_t others) {
    int32_t warp = thread() / 32;
    itx_emulated_set_registers(int32_t(warp >= 8 ? others : warp == 7 ? last : first));
  };
  auto message = [&](int64_t first, int64_t last, int64_t others) {
    return messageOf(launchOf(+kernel, 384, first, last, others));
  };
  EXPECT_EQ(message(232, 232, 40), "");
  EXPECT_THAT(message(232, 240, 40), HasSubstr("warp 7 sets 240 registers, and warp 4 of its group 232"));
  EXPECT_THAT(message(232, 232, 56), HasSubstr("its warps set 66560 registers, a multiprocessor has 65536"));
  EXPECT_THAT(message(232, 232, 41), HasSubstr("sets 41 registers of a thread"));
  EXPECT_THAT(message(232, 232, 16), HasSubstr("sets 16 registers of a thread"));
}
