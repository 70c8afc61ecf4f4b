//===- MaskExchangeTest.cpp - Questions of an engine for masks, and their answers ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/MaskExchange.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <future>

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

/// Asks as an engine does, on a thread of its own, for a vocabulary of 40 tokens.
class MaskExchangeTest : public ::testing::Test {
protected:
  struct Text {
    uint64_t request;
    int32_t sample;
    std::vector<int64_t> tokens;
  };

  void SetUp() override {
    exchange_.onQuestion([this] { asked_.set_value(); });
    exchange_.connect(40);
  }

  std::future<int32_t> ask(std::vector<Text> texts) {
    asked_ = {};
    texts_ = std::move(texts);
    bits_.assign(2 * texts_.size(), 0);
    rows_.clear();
    for (size_t i = 0; i < texts_.size(); ++i)
      rows_.push_back({texts_[i].request, texts_[i].sample, 0, texts_[i].tokens.data(), texts_[i].tokens.size(),
                       bits_.data() + 2 * i});
    std::future<void> asked = asked_.get_future();
    std::future<int32_t> result = std::async(
        std::launch::async, [this] { return MaskExchange::answerRows(&exchange_, rows_.data(), rows_.size()); });
    asked.wait_for(std::chrono::seconds(10));
    return result;
  }

  AskMasks question() {
    AskMasks asked;
    std::string message = exchange_.takeQuestion();
    EXPECT_GT(message.size(), headerBytes);
    Status status =
        readBody(reinterpret_cast<const uint8_t *>(message.data()) + headerBytes, message.size() - headerBytes, asked);
    EXPECT_TRUE(status.ok()) << status.message();
    return asked;
  }

  MaskExchange exchange_{/*seconds=*/10};
  std::promise<void> asked_;
  std::vector<Text> texts_;
  std::vector<uint32_t> bits_;
  std::vector<itx_mask_row> rows_;
};

} // namespace

TEST_F(MaskExchangeTest, AnswersReachTheRows) {
  auto result = ask({{1, 0, {5}}, {2, 1, {}}});
  AskMasks asked = question();
  EXPECT_THAT(exchange_.takeQuestion(), IsEmpty()); // it is asked once
  ASSERT_EQ(asked.rows.size(), 2u);
  EXPECT_EQ(asked.rows[1].request, 2u);
  EXPECT_EQ(asked.rows[1].sample, 1);
  EXPECT_THAT(asked.rows[0].added, ElementsAre(5));

  EXPECT_THAT(exchange_.answer({asked.round + 1, {0, 0}, {0, 0, 0, 0}}).message(), HasSubstr("nobody waits for"));
  EXPECT_THAT(exchange_.answer({asked.round, {0}, {0, 0}}).message(), HasSubstr("1 rows and 2 words"));
  EXPECT_THAT(exchange_.answer({asked.round, {0, 0}, {0, 0}}).message(), HasSubstr("2 rows of 2 words each"));
  ASSERT_TRUE(exchange_.answer({asked.round, {0, 1}, {1, 2, 3, 4}}).ok());
  EXPECT_EQ(result.get(), 0);
  EXPECT_THAT(bits_, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(rows_[0].complete, 0);
  EXPECT_EQ(rows_[1].complete, 1);
  EXPECT_THAT(exchange_.answer({asked.round, {0, 1}, {1, 2, 3, 4}}).message(), HasSubstr("nobody waits for"));
}

TEST_F(MaskExchangeTest, OnlyChangesOfTextsAreAsked) {
  auto answer = [&](std::vector<Text> texts) {
    auto result = ask(std::move(texts));
    AskMasks asked = question();
    EXPECT_TRUE(exchange_
                    .answer({asked.round, std::vector<uint8_t>(asked.rows.size()),
                             std::vector<uint32_t>(2 * asked.rows.size())})
                    .ok());
    EXPECT_EQ(result.get(), 0);
    return asked.rows;
  };
  auto rows = answer({{1, 0, {5, 6}}});
  EXPECT_EQ(rows[0].kept, 0u);
  EXPECT_THAT(rows[0].added, ElementsAre(5, 6));
  // Two proposals of a draft are two rows more of the same text; both are refused then.
  rows = answer({{1, 0, {5, 6, 7}}, {1, 0, {5, 6, 7, 8}}, {1, 0, {5, 6, 7, 8, 9}}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[i].kept, 2u + i);
    EXPECT_THAT(rows[i].added, ElementsAre(7 + i));
  }
  rows = answer({{1, 0, {5, 6, 7, 3}}});
  EXPECT_EQ(rows[0].kept, 3u);
  EXPECT_THAT(rows[0].added, ElementsAre(3));
  exchange_.forget(1, 0);
  rows = answer({{1, 0, {5}}});
  EXPECT_EQ(rows[0].kept, 0u);
}

TEST_F(MaskExchangeTest, FailsWithoutFrontEnd) {
  auto result = ask({{1, 0, {5}}});
  exchange_.disconnect();
  exchange_.connect(40); // the next one is not asked what the first did not answer
  EXPECT_EQ(result.get(), 1);
  EXPECT_THAT(exchange_.takeQuestion(), IsEmpty());
  exchange_.disconnect();
  itx_mask_row row = {1, 0, 0, nullptr, 0, nullptr};
  EXPECT_EQ(MaskExchange::answerRows(&exchange_, &row, 1), 1);
}

TEST(MaskExchange, WaitsNoLongerThanItSays) {
  MaskExchange exchange(/*seconds=*/0.02);
  int asked = 0;
  exchange.onQuestion([&] { ++asked; });
  exchange.connect(40);
  int64_t token = 5;
  uint32_t bits[2] = {};
  itx_mask_row row = {1, 0, 0, &token, 1, bits};
  EXPECT_FALSE(exchange.isOverdue());
  EXPECT_EQ(MaskExchange::answerRows(&exchange, &row, 1), 1);
  EXPECT_TRUE(exchange.isOverdue());
  EXPECT_EQ(asked, 2); // for the question, and for its end
}
