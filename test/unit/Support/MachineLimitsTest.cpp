//===- RuntimeHostMemory.cpp - How much memory a process may take -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Support/MachineLimits.h"

using namespace intarsia;
using namespace intarsia::testing;

TEST(HostMemory, OfTheMachineAndOfCgroups) {
  TemporaryFolder root;
  auto put = [&](const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
    writeFile(root / path, text);
  };
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
