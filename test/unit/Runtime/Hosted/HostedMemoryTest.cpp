//===- HostedMemoryTest.cpp - Addresses that only the device may follow --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/HostedMemory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::HasSubstr;

namespace {

const HostedNames names = {"reference", "the reference device", "ITX_REFERENCE"};

class HostedMemoryTest : public ::testing::Test {
protected:
  void SetUp() override {
    Status status = HostedMemory::reserve(names, 8 << 20, memory);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void *allocate(uint64_t bytes) {
    void *address = nullptr;
    Status status = memory->allocate(bytes, address);
    EXPECT_TRUE(status.ok()) << status.message();
    return address;
  }
  std::unique_ptr<HostedMemory> memory;
};

/// Returns true if the host can read a byte: the system refuses to write it into a pipe if not.
bool hostCanRead(const void *address) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_NONBLOCK), 0);
  ssize_t written = write(ends[1], address, 1);
  EXPECT_TRUE(written == 1 || errno == EFAULT) << std::strerror(errno);
  close(ends[0]);
  close(ends[1]);
  return written == 1;
}

TEST_F(HostedMemoryTest, HostCannotFollowAddresses) {
  auto *address = static_cast<uint8_t *>(allocate(1 << 20));
  EXPECT_TRUE(hostCanRead(this));
  for (int64_t offset : {0, 1, 4096, (1 << 20) - 1, 1 << 20, -1})
    EXPECT_FALSE(hostCanRead(address + offset)) << offset;
  void *found = nullptr;
  ASSERT_TRUE(memory->resolve(address, 1 << 20, found));
  EXPECT_TRUE(hostCanRead(found));
  EXPECT_NE(found, address);
}

TEST_F(HostedMemoryTest, BytesLieAtAConstantDistance) {
  auto *first = static_cast<uint8_t *>(allocate(100)), *second = static_cast<uint8_t *>(allocate(100));
  void *firstBytes = nullptr, *secondBytes = nullptr, *inside = nullptr;
  ASSERT_TRUE(memory->resolve(first, 100, firstBytes));
  ASSERT_TRUE(memory->resolve(second, 100, secondBytes));
  ASSERT_TRUE(memory->resolve(first + 37, 63, inside));
  EXPECT_EQ(static_cast<uint8_t *>(secondBytes) - static_cast<uint8_t *>(firstBytes), second - first);
  EXPECT_EQ(static_cast<uint8_t *>(inside) - static_cast<uint8_t *>(firstBytes), 37);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(firstBytes) % 64, 0u);
}

TEST_F(HostedMemoryTest, OnlyBytesOfOneAllocationAreFound) {
  auto *address = static_cast<uint8_t *>(allocate(100));
  void *found = nullptr;
  EXPECT_TRUE(memory->resolve(address, 0, found));
  EXPECT_TRUE(memory->resolve(address + 100, 0, found));
  EXPECT_FALSE(memory->resolve(address + 101, 0, found));
  EXPECT_FALSE(memory->resolve(address, 101, found));
  EXPECT_FALSE(memory->resolve(address + 50, 51, found));
  EXPECT_FALSE(memory->resolve(address, UINT64_MAX, found));
  EXPECT_FALSE(memory->resolve(address - 1, 1, found));
  EXPECT_FALSE(memory->resolve(this, 1, found));
  EXPECT_FALSE(memory->resolve(nullptr, 0, found));
  EXPECT_THAT(memory->explain(this, 1), HasSubstr("is it the host's?"));
  EXPECT_THAT(memory->explain(address + 50, 51), HasSubstr("has 51 bytes from"));
  EXPECT_THAT(memory->explain(address + 50, 51), HasSubstr("ends after 50"));
  EXPECT_TRUE(memory->release(address));
  EXPECT_FALSE(memory->resolve(address, 100, found));
  EXPECT_THAT(memory->explain(address, 100), HasSubstr("nothing allocated"));
  EXPECT_FALSE(memory->release(address));
  EXPECT_FALSE(memory->release(this));
}

TEST_F(HostedMemoryTest, KnowsItsAddresses) {
  auto *address = static_cast<uint8_t *>(allocate(100));
  EXPECT_TRUE(memory->overlaps(address, 1));
  EXPECT_FALSE(memory->overlaps(address, 0));
  EXPECT_FALSE(memory->overlaps(this, sizeof(*this)));
  EXPECT_TRUE(memory->overlaps(address - 4096, 8192));
}

TEST_F(HostedMemoryTest, LackOfMemory) {
  void *most = allocate(6 << 20), *address = this;
  Status status = memory->allocate(3 << 20, address);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(status.message(), "the reference device has no 3145728 bytes left of its 8388608: 6291456 are in use "
                              "(ITX_REFERENCE_MEMORY_BYTES)");
  EXPECT_EQ(address, nullptr);
  for (uint64_t bytes : {uint64_t(1) << 62, UINT64_MAX})
    EXPECT_EQ(memory->allocate(bytes, address).code(), ITX_OUT_OF_MEMORY);
  EXPECT_TRUE(memory->release(most));
  EXPECT_TRUE(memory->release(allocate(8 << 20))) << "all memory can be had in one piece";
  for (int i = 0; i < (8 << 20) / 64; ++i)
    ASSERT_NE(allocate(1), nullptr) << "guards do not count as memory";
  EXPECT_EQ(memory->allocate(0, address).code(), ITX_OUT_OF_MEMORY);
}

TEST_F(HostedMemoryTest, LargeFreedMemoryGoesBackToTheSystem) {
  void *address = allocate(4 << 20), *found = nullptr;
  ASSERT_TRUE(memory->resolve(address, 4 << 20, found));
  std::memset(found, 1, 4 << 20);
  ASSERT_TRUE(memory->release(address));
  long page = sysconf(_SC_PAGESIZE);
  auto first = (reinterpret_cast<uintptr_t>(found) + page - 1) / page * page;
  std::vector<unsigned char> present((2 << 20) / page);
  ASSERT_EQ(mincore(reinterpret_cast<void *>(first), 2 << 20, present.data()), 0);
  for (unsigned char isPresent : present)
    EXPECT_EQ(isPresent & 1, 0);
}

TEST(HostedMemory, TooMuchIsRefused) {
  std::unique_ptr<HostedMemory> memory;
  for (uint64_t bytes : {uint64_t(1) << 60, UINT64_MAX}) {
    Status status = HostedMemory::reserve(names, bytes, memory);
    EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
    EXPECT_THAT(status.message(), HasSubstr("ITX_REFERENCE_MEMORY_BYTES"));
  }
}

} // namespace
