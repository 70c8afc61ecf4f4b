//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of collectives: against formulas and counts that papers print.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Collectives.h"
#include <gtest/gtest.h>

using namespace intarsia;

TEST(Collectives, latenciesAreThoseOfTpi) {
  // arXiv 2410.00531, section 3.2: 8 devices behind two levels of routers, where a message passes four links of latency
  // tau each: 56 tau by a ring, 8 tau by a star.
  Link link{4, 1e12};
  EXPECT_NEAR(allReduceUs(AllReduce::Ring, 8, 8, link), 56, 1e-6);
  EXPECT_NEAR(allReduceUs(AllReduce::Star, 8, 8, link), 8, 1e-6);
  AllReduce algorithm;
  EXPECT_NEAR(fastestAllReduceUs(8, 8, link, &algorithm), 8, 1e-6);
  EXPECT_EQ(algorithm, AllReduce::Star);
}

TEST(Collectives, largeMessagesGoRound) {
  // 2 (p - 1) / p · n / bandwidth is the least that an all-reduce can take (Thakur and others 2005, section 4.5).
  Link link{10, 100};
  AllReduce algorithm;
  EXPECT_NEAR(fastestAllReduceUs(8, 1e9, link, &algorithm), 140 + 1.75e4, 1e-6);
  EXPECT_EQ(algorithm, AllReduce::Ring);
  EXPECT_EQ(allReduceUs(AllReduce::RecursiveDoubling, 4, 1e6, link), 2 * (10 + 10));
  EXPECT_EQ(fastestAllReduceUs(1, 1e9, link), 0);
}

TEST(Collectives, groupsShareAdapters) {
  ClusterLinks links{{1, 300}, {10, 25}, 8};
  EXPECT_EQ(links.membersInNode({16, 1}), 8);
  EXPECT_EQ(links.membersInNode({16, 2}), 4);
  EXPECT_EQ(links.membersInNode({16, 8}), 1);
  EXPECT_EQ(links.membersInNode({16, 64}), 1);
  EXPECT_EQ(links.ringNetwork({16, 1}).gigabytesPerSecond, 25);
  // Eight links, of which the one that leaves the node takes 10 us to start, and the others 1.
  EXPECT_NEAR(links.ringNetwork({16, 1}).alphaUs, 17 / 8.0, 1e-9);
  links.ringAdapters = 2;
  EXPECT_EQ(links.ringNetwork({16, 1}).gigabytesPerSecond, 50);
  EXPECT_NEAR(links.allGatherUs({16, 1}, 1e9), 15 * 17 / 8.0 + 15 / 16.0 * 2e4, 1e-6);
  links.ringAdapters = 8;
  EXPECT_EQ(links.ringNetwork({16, 1}).gigabytesPerSecond, 200);
  EXPECT_EQ(links.ringNetwork({16, 2}).gigabytesPerSecond, 100);
  EXPECT_EQ(links.ringNetwork({16, 8}).gigabytesPerSecond, 25);
  // One device of each of two nodes: what passes is the message once, at the speed of one adapter.
  EXPECT_NEAR(links.allReduceUs({2, 8}, 1e9), 4e4, 30);
  // 16 devices of two nodes: 15/16 of the message twice, at 200.
  EXPECT_NEAR(links.allReduceUs({16, 1}, 1e9), 9375, 9375 * 0.05);
  // Half of what an all-to-all sends stays in the node; the other half takes the network.
  EXPECT_NEAR(links.allToAllUs({16, 1}, 1e9), 2e4 + 80, 1);
}
