//===- WeightStreamTest.cpp ---------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Tiers/WeightStream.h"

#include "lib/Runtime/Core/Memory.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;

namespace {

constexpr uint64_t MiB = 1 << 20;

/// An archive of tensors of bytes in a temporary file.
class WeightStreamTest : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/var/tmp/weights-XXXXXX"; // a disk, which /tmp may not be
    int file = mkstemp(name);
    ASSERT_GE(file, 0);
    path = name;
    std::string header = "{";
    uint64_t offset = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      header += (i ? "," : "") + ("\"t" + std::to_string(i)) + "\":{\"dtype\":\"U8\",\"shape\":[" +
                std::to_string(sizes[i]) + "],\"data_offsets\":[" + std::to_string(offset) + "," +
                std::to_string(offset + sizes[i]) + "]}";
      offset += sizes[i];
    }
    header += "}";
    header.resize((header.size() + 8 + 63) / 64 * 64 - 8, ' ');
    uint64_t length = header.size();
    std::string data(8, '\0');
    std::memcpy(data.data(), &length, 8);
    data += header;
    std::mt19937_64 random(3);
    for (uint64_t i = 0; i < offset / 8; ++i) {
      uint64_t word = random();
      data.append(reinterpret_cast<const char *>(&word), 8);
    }
    ASSERT_EQ(write(file, data.data(), data.size()), ssize_t(data.size()));
    close(file);
    ASSERT_TRUE(SafetensorsFile::open(path, archive).ok());
    for (size_t i = 0; i < sizes.size(); ++i)
      tensors.push_back(archive->find("t" + std::to_string(i)));
  }
  void TearDown() override { unlink(path.c_str()); }

  Status open(uint64_t bytes, bool isPromise = true) {
    // Sanitizers have memory of their own for each byte that is touched.
    return WeightStream::create("m.itx", *archive, tensors, {bytes, isPromise}, stream,
                                [this](uint64_t) { return others.load(); });
  }

  /// Uses tensors as launches do, each compared with the mapping.
  Status use(const std::vector<size_t> &order, size_t function = 0) {
    WeightPass pass;
    WeightUse used;
    ITX_RETURN_IF_ERROR(stream->begin(function, pass));
    Status status;
    for (size_t index : order) {
      int64_t value = 0; // an operand that is no weight
      void *buffers[] = {&value, const_cast<void *>(tensors[index]->data)};
      LaunchOperands launch;
      launch.buffers = buffers;
      launch.bufferCount = 2;
      status = stream->acquire(pass, launch, used);
      if (status.ok()) {
        EXPECT_EQ(used.buffers[0], &value);
        EXPECT_NE(used.buffers[1], tensors[index]->data);
        EXPECT_EQ(std::memcmp(used.buffers[1], tensors[index]->data, tensors[index]->bytes()), 0) << index;
      }
      stream->release(used);
      if (!status.ok())
        break;
    }
    stream->end(pass, status.ok());
    return status;
  }

  std::vector<uint64_t> sizes = std::vector<uint64_t>(24, 0);
  std::vector<size_t> inOrder;
  std::string path;
  std::unique_ptr<SafetensorsFile> archive;
  std::vector<const ArchiveTensor *> tensors;
  std::atomic<uint64_t> others{0}; // bytes that the rest of the process is said to have
  std::unique_ptr<WeightStream> stream;

  WeightStreamTest() {
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = i % 3 == 0 ? 4096 + 64 : i % 3 == 1 ? 3 * MiB + 640 : 2 * MiB - 64 * 7; // 40 MB
      inOrder.push_back(i);
    }
  }
};

} // namespace

TEST_F(WeightStreamTest, GivesAllTensorsInLessMemory) {
  ASSERT_TRUE(open(36 * MiB).ok()); // 16 of them are held back for others
  uint64_t before = anonymousBytes();
  for (int pass = 0; pass < 4; ++pass) {
    ASSERT_TRUE(use(inOrder).ok());
    EXPECT_TRUE(ITX_TEST_SANITIZED || anonymousBytes() <= before + 21 * MiB) << "pass " << pass;
  }
  EXPECT_NE(stream->figures().find("\"direct\""), std::string::npos);
}

TEST_F(WeightStreamTest, FollowsOtherOrders) {
  ASSERT_TRUE(open(36 * MiB).ok());
  std::mt19937 random(5);
  for (int pass = 0; pass < 6; ++pass) {
    std::vector<size_t> order = inOrder;
    std::shuffle(order.begin(), order.end(), random);
    order.insert(order.end(), {order[3], order[3], order[7]}); // some are used more often
    EXPECT_TRUE(use(order, size_t(pass % 2)).ok());
  }
  EXPECT_TRUE(use({4}).ok());
  EXPECT_TRUE(use({}).ok());
  EXPECT_TRUE(use(inOrder).ok());
}

TEST_F(WeightStreamTest, ServesSeveralThreads) {
  ASSERT_TRUE(open(36 * MiB).ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      std::vector<size_t> order = inOrder;
      std::mt19937 random{unsigned(i)};
      for (int pass = 0; pass < 3; ++pass) {
        std::shuffle(order.begin(), order.end(), random);
        EXPECT_TRUE(use(order).ok());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(WeightStreamTest, MakesRoomForOtherMemory) {
  ASSERT_TRUE(open(52 * MiB).ok()); // 16 of them are held back for others
  uint64_t before = anonymousBytes();
  ASSERT_TRUE(use(inOrder).ok());
  void *block = allocateAligned(16 * MiB);
  ASSERT_TRUE(block);
  // Before the block is touched, once what was being read has been.
  for (int i = 0; i < 5000 && anonymousBytes() > before + (52 - 16 - 16 + 1) * MiB; ++i)
    usleep(1000);
  EXPECT_TRUE(ITX_TEST_SANITIZED || anonymousBytes() <= before + (52 - 16 - 16 + 1) * MiB);
  std::memset(block, 1, 16 * MiB);
  others += 16 * MiB;
  EXPECT_TRUE(use(inOrder).ok());
  EXPECT_TRUE(ITX_TEST_SANITIZED || anonymousBytes() <= before + (52 - 16 + 1) * MiB);
  freeAligned(block);
}

TEST_F(WeightStreamTest, RefusesTooLittle) {
  Status status = open(20 * MiB);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_NE(status.message().find("allow at least"), std::string::npos) << status.message();
  ASSERT_TRUE(open(40 * MiB).ok());
  ASSERT_TRUE(use(inOrder).ok());
  void *block = allocateAligned(64 * MiB);
  others += 64 * MiB;
  EXPECT_EQ(use(inOrder).code(), ITX_OUT_OF_MEMORY);
  freeAligned(block);
  others -= 64 * MiB;
  EXPECT_TRUE(use(inOrder).ok()); // again, as there is memory
}

TEST_F(WeightStreamTest, UsesMoreIfNobodyHasAskedForTheLimit) {
  ASSERT_TRUE(open(20 * MiB, /*isPromise=*/false).ok());
  EXPECT_TRUE(use(inOrder).ok());
  others += 100 * MiB;
  EXPECT_TRUE(use(inOrder).ok());
  EXPECT_EQ(stream->spareBytes(), 0u);
}

TEST_F(WeightStreamTest, SaysWhatTheRestOfTheProcessCouldTake) {
  ASSERT_TRUE(open(52 * MiB).ok());
  uint64_t spare = stream->spareBytes();
  others += spare;
  EXPECT_TRUE(use(inOrder).ok());
  others += MiB;
  EXPECT_EQ(use(inOrder).code(), ITX_OUT_OF_MEMORY);
}

TEST_F(WeightStreamTest, NoticesAFileThatEnds) {
  ASSERT_TRUE(open(36 * MiB).ok());
  ASSERT_EQ(truncate(path.c_str(), off_t(8 * MiB)), 0);
  WeightPass pass;
  WeightUse used;
  ASSERT_TRUE(stream->begin(0, pass).ok());
  void *buffers[] = {const_cast<void *>(tensors[22]->data)};
  LaunchOperands launch;
  launch.buffers = buffers;
  launch.bufferCount = 1;
  Status status = stream->acquire(pass, launch, used);
  EXPECT_EQ(status.code(), ITX_CORRUPT) << status.message();
  stream->release(used);
}

TEST_F(WeightStreamTest, LeavesGatheredTensorsWhereTheyAre) {
  ASSERT_TRUE(open(36 * MiB).ok());
  WeightPass pass;
  WeightUse used;
  ASSERT_TRUE(stream->begin(0, pass).ok());
  void *buffers[] = {const_cast<void *>(tensors[1]->data)};
  LaunchOperands launch;
  launch.buffers = buffers;
  launch.bufferCount = 1;
  std::vector<OperandInfo> operands(1);
  operands[0].isGathered = true;
  launch.infos = &operands;
  ASSERT_TRUE(stream->acquire(pass, launch, used).ok());
  EXPECT_EQ(used.buffers[0], tensors[1]->data);
  stream->release(used);
}

TEST_F(WeightStreamTest, ChildrenOfAForkUseTheMapping) {
  ASSERT_TRUE(open(36 * MiB).ok());
  ASSERT_TRUE(use(inOrder).ok());
  pid_t child = fork();
  if (child == 0) {
    WeightPass pass;
    WeightUse used;
    void *buffers[] = {const_cast<void *>(tensors[1]->data)};
    LaunchOperands launch;
    launch.buffers = buffers;
    launch.bufferCount = 1;
    bool isGood =
        stream->begin(0, pass).ok() && stream->acquire(pass, launch, used).ok() && used.buffers[0] == tensors[1]->data;
    stream->release(used);
    _exit(isGood ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(use(inOrder).ok());
}

namespace {

/// The first large tensor stands for eight experts, and is not among the others.
class ExpertsTest : public WeightStreamTest {
protected:
  void SetUp() override {
    WeightStreamTest::SetUp();
    experts = tensors[1];
    tensors.erase(tensors.begin() + 1);
    inOrder.pop_back();
    operands[0].bytes = 4;
    operands[0].sizes = {0};
    operands[1].bytes = experts->bytes();
    operands[1].isGathered = true;
    operands[1].parts = 8;
    operands[1].indexBytes = 4;
  }

  /// Runs a launch that chooses experts, each compared with the mapping.
  Status read(std::vector<int32_t> indices) {
    uint64_t each = experts->bytes() / 8;
    WeightPass pass;
    WeightUse used;
    ITX_RETURN_IF_ERROR(stream->begin(0, pass));
    int64_t sizes[] = {int64_t(indices.size())};
    void *buffers[] = {indices.data(), const_cast<void *>(experts->data)};
    Status status = stream->acquire(pass, {buffers, 2, sizes, 1, &operands}, used);
    for (int32_t index : indices)
      if (status.ok() && index >= 0 && index < 8)
        EXPECT_EQ(std::memcmp(static_cast<const uint8_t *>(used.buffers[1]) + uint64_t(index) * each,
                              static_cast<const uint8_t *>(experts->data) + uint64_t(index) * each, each),
                  0)
            << index;
    stream->release(used);
    stream->end(pass, status.ok());
    return status;
  }

  const ArchiveTensor *experts = nullptr;
  std::vector<OperandInfo> operands = std::vector<OperandInfo>(2);
};

} // namespace

TEST_F(ExpertsTest, AreReadWhenTheyAreChosen) {
  ASSERT_TRUE(open(36 * MiB).ok());
  EXPECT_TRUE(read({3, -1, 8, 3, 5}).ok()); // no expert has two of these indices
  EXPECT_TRUE(read({5, 3}).ok());
  EXPECT_TRUE(read({3, 1, 2, 6}).ok());
  EXPECT_TRUE(read({0, 1, 2, 3, 4, 5, 6, 7}).ok());
  EXPECT_TRUE(read({7}).ok());
  EXPECT_TRUE(use(inOrder).ok()); // the others are there as well
}

TEST_F(ExpertsTest, OfALaunchThatIsTooLargeLeaveRoomForSmallerOnes) {
  ASSERT_TRUE(open(36 * MiB).ok());
  while (use(inOrder).ok())
    others += 256 << 10;
  others -= 768 << 10; // one expert fits, all of them do not
  EXPECT_EQ(read({0, 1, 2, 3, 4, 5, 6, 7}).code(), ITX_OUT_OF_MEMORY);
  EXPECT_TRUE(read({2}).ok());
  EXPECT_TRUE(use(inOrder).ok());
}

TEST_F(ExpertsTest, BeyondTheWeightsAreRefused) {
  ASSERT_TRUE(open(36 * MiB).ok());
  operands[1].bytes = archive->size() + 8;
  EXPECT_EQ(read({0}).code(), ITX_CORRUPT);
}
