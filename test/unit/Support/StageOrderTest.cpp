//===- StageOrderTest.cpp - Orders of ranks with several stages ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/StageOrder.h"

#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <tuple>

using namespace intarsia;

namespace {

/// A message from one rank to another; both have to come to it at the same time. A stage is one from a rank to itself.
using Message = std::tuple<int64_t /*sender*/, int64_t /*receiver*/, int64_t /*part*/, int64_t /*turn it is for*/>;

/// Returns what each rank exchanges, in the order in which StageCalls does it.
std::vector<std::deque<Message>> exchangesOf(const std::vector<StageTurn> &order, int64_t ranks, int64_t turns) {
  std::vector<std::deque<Message>> exchanges(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::deque<Message> &own = exchanges[size_t(rank)];
    std::deque<std::pair<int64_t, Message>> kept;
    auto sendUpTo = [&](int64_t time) {
      for (; !kept.empty() && kept.front().first <= time; kept.pop_front())
        own.push_back(kept.front().second);
    };
    for (const StageTurn &item : order) {
      sendUpTo(item.position + rank - 1);
      if (rank > 0)
        own.push_back({rank - 1, rank, item.part, item.turn});
      else if (item.turn > 0)
        own.push_back({ranks - 1, 0, item.part, item.turn});
      sendUpTo(item.position + rank);
      own.push_back({rank, rank, item.part, item.turn});
      if (rank + 1 < ranks)
        own.push_back({rank, rank + 1, item.part, item.turn});
      else if (item.turn + 1 < turns)
        kept.push_back({item.due, {rank, 0, item.part, item.turn + 1}});
    }
    sendUpTo(INT64_MAX);
  }
  return exchanges;
}

/// Lets ranks exchange what both sides have come to, until nothing is left or none can go on; returns what is left.
/// Stages take 1 each, messages nothing; `time` receives when the last rank is done.
size_t leftAfterExchanges(std::vector<std::deque<Message>> exchanges, int64_t &time) {
  std::vector<int64_t> times(exchanges.size(), 0);
  for (bool moves = true; moves;) {
    moves = false;
    for (std::deque<Message> &own : exchanges) {
      if (own.empty())
        continue;
      Message next = own.front();
      auto from = size_t(std::get<0>(next)), to = size_t(std::get<1>(next));
      std::deque<Message> &sender = exchanges[from], &receiver = exchanges[to];
      if (sender.empty() || receiver.empty() || sender.front() != next || receiver.front() != next)
        continue;
      times[from] = times[to] = from == to ? times[to] + 1 : std::max(times[from], times[to]);
      sender.pop_front();
      if (from != to)
        receiver.pop_front();
      moves = true;
    }
  }
  time = *std::max_element(times.begin(), times.end());
  size_t left = 0;
  for (const std::deque<Message> &own : exchanges)
    left += own.size();
  return left;
}

class StageOrders : public testing::TestWithParam<bool> {};

/// And none waits longer than it has to: m parts of which all stages take 1 take p - 1 more than m v, as the papers
/// have it, although a message takes the time of both ranks.
TEST_P(StageOrders, NoRankWaitsInACircle) {
  for (int64_t ranks = 2; ranks <= 6; ++ranks)
    for (int64_t turns = 2; turns <= 4; ++turns)
      for (int64_t parts = 1; parts <= 3 * ranks + 1; ++parts) {
        auto exchanges = exchangesOf(stageOrder(parts, ranks, turns, GetParam()), ranks, turns);
        std::string what =
            std::to_string(parts) + " parts, " + std::to_string(ranks) + " ranks, " + std::to_string(turns) + " turns";
        int64_t time = 0;
        EXPECT_EQ(leftAfterExchanges(exchanges, time), 0u) << what;
        if (parts >= ranks) {
          EXPECT_EQ(time, parts * turns + ranks - 1) << what;
        }
      }
}

TEST_P(StageOrders, EachTurnOfEachPartComesOnceAndInTime) {
  for (int64_t ranks = 2; ranks <= 5; ++ranks)
    for (int64_t turns = 2; turns <= 3; ++turns)
      for (int64_t parts = 1; parts <= 12; ++parts) {
        std::map<std::pair<int64_t, int64_t>, StageTurn> found;
        int64_t last = -1;
        for (const StageTurn &item : stageOrder(parts, ranks, turns, GetParam())) {
          EXPECT_GT(item.position, last);
          last = item.position;
          EXPECT_TRUE(found.try_emplace({item.part, item.turn}, item).second);
        }
        EXPECT_EQ(found.size(), size_t(parts * turns));
        for (auto &[key, item] : found) {
          auto next = found.find({key.first, key.second + 1});
          EXPECT_EQ(item.due, next == found.end() ? -1 : next->second.position);
          if (next != found.end()) {
            EXPECT_GE(item.due, item.position + ranks);
          }
        }
      }
}

/// m parts of which all stages take 1: (p - 1) more than m v, as the papers have it.
TEST_P(StageOrders, IdleTimeIsThatOfThePapers) {
  for (int64_t ranks = 2; ranks <= 5; ++ranks)
    for (int64_t turns = 1; turns <= 4; ++turns)
      for (int64_t parts = ranks; parts <= 4 * ranks; ++parts) {
        std::vector<double> times(size_t(ranks * turns), 1.0);
        double time = stageOrderTime(stageOrder(parts, ranks, turns, GetParam()), times, ranks);
        EXPECT_EQ(time, double(parts * turns + ranks - 1));
      }
}

INSTANTIATE_TEST_SUITE_P(All, StageOrders, testing::Bool());

/// Without the order of the last rank, circles are found: the test can fail.
TEST(StageOrder, SendingAtOnceWouldBeACircle) {
  std::vector<std::deque<Message>> circle = {{{0, 1, 0, 0}, {1, 0, 0, 1}}, {{1, 0, 0, 1}, {0, 1, 0, 0}}};
  int64_t time = 0;
  EXPECT_EQ(leftAfterExchanges(circle, time), 4u);
}

TEST(PartInTurns, PartsAreOfOneSize) {
  EXPECT_EQ(partInTurns(1, 1, 4, 2), 1);
  EXPECT_EQ(partInTurns(8, 8, 2, 2), 4); // tokens of sequences, for each rank
  EXPECT_EQ(partInTurns(3, 3, 4, 2), 1);
  EXPECT_EQ(partInTurns(49, 1, 4, 2), 16);
  EXPECT_EQ(partInTurns(5, 1, 4, 2), 5);
  EXPECT_EQ(partInTurns(128, 1, 2, 2), 32); // sqrt(128 * 8 * 2) = 45, in units of 16 rows
  EXPECT_EQ(partInTurns(512, 1, 2, 2), 80); // sqrt(512 * 8 * 2) = 90, in units of 16
  EXPECT_EQ(partInTurns(512, 1, 4, 2), 48);
  EXPECT_EQ(partInTurns(2048, 1, 2, 2), 176);
}

} // namespace
