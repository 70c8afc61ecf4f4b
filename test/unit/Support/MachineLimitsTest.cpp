//===- MachineLimitsTest.cpp - How much of a machine a process may use --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Support/MachineLimits.h"

#include <algorithm>

using namespace intarsia;
using namespace intarsia::testing;

/// A folder instead of /, with files of /proc and /sys.
class MachineLimits : public ::testing::Test {
protected:
  void put(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
    writeFile(root / path, text);
  }
  TemporaryFolder root;
};

TEST_F(MachineLimits, AvailableMemory) {
  EXPECT_EQ(availableMemoryBytes(root.path()), UINT64_MAX) << "nothing is known";
  put("proc/meminfo", "MemTotal:   900 kB\nMemFree:    100 kB\nMemAvailable:   500 kB\n");
  EXPECT_EQ(availableMemoryBytes(root.path()), 500u * 1024);
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  EXPECT_EQ(availableMemoryBytes(root.path()), 500u * 1024) << "no limit";
  put("sys/fs/cgroup/outer/memory.max", "300000\n");
  put("sys/fs/cgroup/outer/memory.current", "250000\n");
  EXPECT_EQ(availableMemoryBytes(root.path()), 50000u);
  put("sys/fs/cgroup/outer/memory.stat", "anon 100000\ninactive_file 120000\n");
  EXPECT_EQ(availableMemoryBytes(root.path()), 170000u) << "cached files make room";
  put("sys/fs/cgroup/outer/memory.current", "500000\n");
  EXPECT_EQ(availableMemoryBytes(root.path()), 0u);
  put("proc/self/cgroup", "5:cpu,memory:/box\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "90000\n");
  put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "80000\n");
  put("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 5000\n");
  EXPECT_EQ(availableMemoryBytes(root.path()), 15000u);
}

TEST_F(MachineLimits, TotalMemory) {
  EXPECT_EQ(totalMemoryBytes(root.path()), 0u) << "nothing is known";
  put("proc/meminfo", "MemTotal:   900 kB\nMemFree:    100 kB\nMemAvailable:   500 kB\n");
  EXPECT_EQ(totalMemoryBytes(root.path()), 900u * 1024);
  put("proc/self/cgroup", "0::/box\n");
  put("sys/fs/cgroup/box/memory.max", "max\n");
  EXPECT_EQ(totalMemoryBytes(root.path()), 900u * 1024) << "no limit";
  put("sys/fs/cgroup/box/memory.max", "300000\n");
  EXPECT_EQ(totalMemoryBytes(root.path()), 300000u);
  put("proc/self/cgroup", "5:cpu,memory:/box\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "90000\n");
  EXPECT_EQ(totalMemoryBytes(root.path()), 90000u);
}

TEST_F(MachineLimits, Threads) {
  std::vector<int> processors = allowedProcessors();
  ASSERT_FALSE(processors.empty());
  EXPECT_TRUE(std::is_sorted(processors.begin(), processors.end()));
  auto all = int32_t(processors.size());
  EXPECT_EQ(usableThreads(root.path()), all) << "no cgroup";
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(usableThreads(root.path()), all) << "no limit";
  put("sys/fs/cgroup/outer/cpu.max", "50000 100000\n");
  EXPECT_EQ(usableThreads(root.path()), 1) << "half a processor, of the folder above";
  put("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  EXPECT_EQ(usableThreads(root.path()), std::min(all, 2)) << "one and a half";
  put("proc/self/cgroup", "3:cpu,cpuacct:/box\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usableThreads(root.path()), all) << "no limit in version 1";
  put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "20000\n");
  EXPECT_EQ(usableThreads(root.path()), 1);
}
