//===- MessagesTest.cpp - Messages of a worker, whole and damaged
//--------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/Messages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

static const uint8_t *bytesOf(const std::string &text) { return reinterpret_cast<const uint8_t *>(text.data()); }

/// Returns the body of a message.
template <typename Message> static std::string bodyOf(Message &&message) {
  return writeMessage(std::forward<Message>(message)).substr(headerBytes);
}

template <typename Message> static Status read(const std::string &body, Message &message) {
  return readBody(bytesOf(body), body.size(), message);
}

static Submit fullSubmit() {
  Submit submit;
  submit.tag = 7;
  submit.temperature = 0.5;
  submit.topP = 0.9;
  submit.minP = 0.125;
  submit.repetitionPenalty = 1.25;
  submit.presencePenalty = -0.5;
  submit.frequencyPenalty = 0.75;
  submit.deadlineSeconds = 1.5;
  submit.maxTokens = int64_t(1) << 40;
  submit.minTokens = 2;
  submit.topK = 3;
  submit.seed = -4;
  submit.seedSpawn = 5;
  submit.flags = Submit::hasSeed | Submit::hasMask;
  submit.samples = 2;
  submit.logprobs = 21;
  submit.promptLogprobs = 1;
  submit.draftTokens = 6;
  submit.priority = -8;
  submit.prompt = {1, -2, int64_t(1) << 50};
  submit.stopTokens = {9};
  submit.biasTokens = {10, 11};
  submit.biasValues = {-100, 0.5};
  submit.key = "key";
  submit.salt = "salt";
  return submit;
}

static Events twoEvents() {
  Events events;
  events.step = 12;
  events.events.resize(2);
  events.events[0].kind = ITX_EVENT_TOKEN;
  events.events[0].topCount = 2;
  events.events[1].kind = ITX_EVENT_FINISHED;
  events.events[1].finish = ITX_FINISH_FAILED;
  events.events[1].messageBytes = 3;
  events.top = {{5, -0.5f}, {6, -1.5f}};
  events.messages = "why";
  return events;
}

TEST(WorkerMessages, HeaderIsBytesAndKind) {
  // Written down by hand: the layout is an agreement with the program in Python.
  std::string message = writeMessage(Cancel{0x0102030405060708});
  EXPECT_EQ(message, std::string("\x08\0\0\0\x03\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01", 16));
  MessageHeader header;
  ASSERT_TRUE(readHeader(bytesOf(message), largestBody, header).ok());
  EXPECT_EQ(header.bodyBytes, 8u);
  EXPECT_EQ(MessageKind(header.kind), MessageKind::Cancel);
  Status status = readHeader(bytesOf(message), 7, header);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("kind 3 with 8 bytes; at most 7"));
}

TEST(WorkerMessages, ListsAreCountAndElements) {
  EXPECT_EQ(bodyOf(Masks{1, {1}, {0x0A0B0C0D}}), std::string("\1\0\0\0\0\0\0\0\1\0\0\0\1\1\0\0\0\x0D\x0C\x0B\x0A", 21));
  std::string body = bodyOf(twoEvents());
  EXPECT_EQ(body.size(), 8 + 4 + 2 * EventRecord::leastBytes + 4 + 2 * LogProbability::leastBytes + 4 + 3);
}

TEST(WorkerMessages, RequestHasAllFields) {
  Submit submit;
  Status status = read(bodyOf(fullSubmit()), submit);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(submit.tag, 7u);
  itx_request request = requestOf(submit);
  EXPECT_EQ(request.struct_bytes, sizeof(request));
  EXPECT_THAT(std::vector<int64_t>(request.prompt, request.prompt + request.prompt_count),
              ElementsAre(1, -2, int64_t(1) << 50));
  EXPECT_EQ(request.max_tokens, int64_t(1) << 40);
  EXPECT_EQ(request.min_tokens, 2);
  ASSERT_EQ(request.stop_count, 1u);
  EXPECT_EQ(request.stop_tokens[0], 9);
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_k, 3);
  EXPECT_EQ(request.top_p, 0.9);
  EXPECT_EQ(request.min_p, 0.125);
  EXPECT_EQ(request.repetition_penalty, 1.25);
  EXPECT_EQ(request.presence_penalty, -0.5);
  EXPECT_EQ(request.frequency_penalty, 0.75);
  ASSERT_EQ(request.bias_count, 2u);
  EXPECT_EQ(request.bias_tokens[1], 11);
  EXPECT_EQ(request.bias_values[0], -100);
  EXPECT_EQ(request.seed, -4);
  EXPECT_EQ(request.has_seed, 1);
  EXPECT_EQ(request.seed_spawn, 5u);
  EXPECT_EQ(request.samples, 2);
  EXPECT_EQ(request.logprobs, 21);
  EXPECT_EQ(request.prompt_logprobs, 1);
  EXPECT_EQ(request.draft_tokens, 6);
  EXPECT_EQ(request.has_mask, 1);
  EXPECT_EQ(request.priority, -8);
  EXPECT_EQ(request.deadline_seconds, 1.5);
  EXPECT_STREQ(request.key, "key");
  EXPECT_STREQ(request.salt, "salt");
  submit.flags = 0;
  EXPECT_EQ(requestOf(submit).has_seed, 0);
  EXPECT_EQ(requestOf(submit).has_mask, 0);
}

/// Returns how many of the body's beginnings are accepted.
template <typename Message> static size_t acceptedBeginnings(const std::string &body) {
  size_t accepted = 0;
  for (size_t bytes = 0; bytes < body.size(); ++bytes) {
    Message message;
    Status status = read(body.substr(0, bytes), message);
    accepted += status.ok();
    EXPECT_EQ(status.code(), ITX_CORRUPT);
  }
  Message message;
  EXPECT_TRUE(read(body, message).ok());
  EXPECT_THAT(read(body + '\0', message).message(), HasSubstr("1 bytes are left behind the last field"));
  return accepted;
}

TEST(WorkerMessages, NoBeginningIsAMessage) {
  EXPECT_EQ(acceptedBeginnings<Hello>(bodyOf(Hello())), 0u);
  EXPECT_EQ(acceptedBeginnings<Submit>(bodyOf(fullSubmit())), 0u);
  EXPECT_EQ(acceptedBeginnings<Masks>(bodyOf(Masks{1, {0, 1}, {2, 3}})), 0u);
  EXPECT_EQ(acceptedBeginnings<Events>(bodyOf(twoEvents())), 0u);
  EXPECT_EQ(acceptedBeginnings<AskMasks>(bodyOf(AskMasks{1, {{2, 3, 4, {5, 6}}}})), 0u);
  EXPECT_EQ(acceptedBeginnings<Refused>(bodyOf(Refused{1, "cache full", "no page"})), 0u);
}

TEST(WorkerMessages, CountsTakeNoMemory) {
  // A list of 2^32 - 1 tokens, of which none has come.
  Masks masks;
  EXPECT_THAT(read(std::string(8, '\0') + std::string(4, '\xff'), masks).message(),
              HasSubstr("'complete' has 4294967295 elements, the body ends before"));
  AskMasks asked;
  EXPECT_THAT(read(std::string(8, '\0') + std::string(4, '\xff') + std::string(60, '\0'), asked).message(),
              HasSubstr("'rows' has 4294967295 elements"));
  EXPECT_TRUE(asked.rows.empty());
}

TEST(WorkerMessages, FieldsMustAgree) {
  Hello hello;
  EXPECT_THAT(read(bodyOf(Hello{1, workerVersion}), hello).message(), HasSubstr("none of a front end"));
  Status status = read(bodyOf(Hello{workerMagic, workerVersion + 1}), hello);
  EXPECT_EQ(status.code(), ITX_VERSION_MISMATCH);
  EXPECT_THAT(status.message(), HasSubstr("speaks version 2 of the protocol, this worker version 1"));

  Submit submit = fullSubmit(), unused;
  submit.biasValues.pop_back();
  EXPECT_THAT(read(bodyOf(submit), unused).message(), HasSubstr("'bias_tokens' has 2 elements, 'bias_values' 1"));
  submit = fullSubmit();
  submit.flags = 4;
  EXPECT_THAT(read(bodyOf(submit), unused).message(), HasSubstr("'flags' is 4"));
  submit = fullSubmit();
  submit.salt = std::string("a\0b", 3);
  EXPECT_THAT(read(bodyOf(submit), unused).message(), HasSubstr("'salt' has a zero byte"));

  Masks masks;
  EXPECT_THAT(read(bodyOf(Masks{1, {2}, {0}}), masks).message(), HasSubstr("other than 0 and 1"));

  Events events = twoEvents(), read_;
  events.top.pop_back();
  EXPECT_THAT(read(bodyOf(events), read_).message(),
              HasSubstr("2 likeliest tokens and 3 bytes of messages, there are 1 and 3"));
}
