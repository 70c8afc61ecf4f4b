//===- HandOverTest.cpp - Pages on their way to another process --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/HandOver.h"
#include "lib/Formats/FloatFormats.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;

namespace {
constexpr int64_t heads = 2, features = 3;

HandOverState stateOf(CacheElement element, int64_t page, bool transposed) {
  itx_dtype dtypes[] = {ITX_F32, ITX_F16, ITX_BF16, ITX_I8, ITX_I8, ITX_I8};
  uint64_t bytes[] = {4, 2, 2, 1, 1, 1};
  StateTensor state;
  state.name = "cache.0.keys";
  state.paged = true;
  state.dtype = dtypes[size_t(element)];
  state.shape = {heads, transposed ? features : page, transposed ? page : features};
  state.unitBytes = uint64_t(heads * features * page) * bytes[size_t(element)];
  state.element = element;
  state.transposed = transposed;
  HandOverState description;
  EXPECT_TRUE(describeState(state, description).ok());
  return description;
}

/// Makes a unit of a state from the only state of a sequence that was sent.
void convertUnit(const HandOver &sent, const HandOverState &to, uint64_t toPageTokens, uint64_t page, uint8_t *unit) {
  std::vector<HandOver> parts = {sent};
  std::vector<HeadSource> sources;
  Status status = findHeads(parts, to, toPageTokens, "test", sources);
  ASSERT_TRUE(status.ok()) << status.message();
  runtime::convertUnit(sources, to, toPageTokens, page, unit);
}

float valueOf(int64_t head, int64_t token, int64_t feature) { return float(head * 64 + token * 4 + feature) / 4; }

/// Reads or writes one value of the page that the token is in.
float *at(std::vector<float> &pages, const HandOverState &state, int64_t page, int64_t head, int64_t token,
          int64_t feature) {
  int64_t slot = token % page, inside = state.transposed ? feature * page + slot : slot * features + feature;
  return &pages[size_t(token / page * heads * features * page + head * features * page + inside)];
}
} // namespace

TEST(HandOver, ConvertsElementsPagesAndOrders) {
  constexpr int64_t tokens = 13;
  for (auto [fromPage, toPage] : {std::pair<int64_t, int64_t>(4, 4), {4, 8}, {8, 4}, {16, 4}, {4, 16}})
    for (bool fromTransposed : {false, true})
      for (bool toTransposed : {false, true})
        for (CacheElement element : {CacheElement::F32, CacheElement::F16, CacheElement::BF16}) {
          HandOverState from = stateOf(CacheElement::F32, fromPage, fromTransposed),
                        to = stateOf(element, toPage, toTransposed);
          EXPECT_EQ(whyNotConverted(from, uint64_t(fromPage), to, uint64_t(toPage)), "");
          HandOver sent;
          sent.header.tokens = tokens;
          sent.header.pageTokens = uint64_t(fromPage);
          std::vector<float> source(size_t((tokens + fromPage - 1) / fromPage * fromPage * heads * features), 99);
          for (int64_t token = 0; token < tokens; ++token)
            for (int64_t head = 0; head < heads; ++head)
              for (int64_t feature = 0; feature < features; ++feature)
                *at(source, from, fromPage, head, token, feature) = valueOf(head, token, feature);
          sent.states = {from};
          auto *bytes = reinterpret_cast<const uint8_t *>(source.data());
          sent.payload.assign(bytes, bytes + source.size() * sizeof(float));
          for (int64_t page = 0; page * toPage < tokens; ++page) {
            std::vector<uint8_t> unit(to.unitBytes, 0xEE);
            convertUnit(sent, to, uint64_t(toPage), uint64_t(page), unit.data());
            std::vector<float> made;
            for (size_t i = 0; i < unit.size() / (element == CacheElement::F32 ? 4 : 2); ++i) {
              float whole = 0;
              uint16_t half = 0;
              if (element == CacheElement::F32)
                std::memcpy(&whole, &unit[4 * i], 4);
              else
                std::memcpy(&half, &unit[2 * i], 2);
              made.push_back(element == CacheElement::F32   ? whole
                             : element == CacheElement::F16 ? decodeF16(half)
                                                            : decodeBf16(half));
            }
            for (int64_t token = page * toPage; token < (page + 1) * toPage; ++token)
              for (int64_t head = 0; head < heads; ++head)
                for (int64_t feature = 0; feature < features; ++feature) {
                  // The values are exact in 8 bits of mantissa. What no token has is zero, unless pages are copied
                  // whole.
                  float has = *at(made, to, toPage, head, token % toPage, feature);
                  if (token < tokens)
                    EXPECT_EQ(has, valueOf(head, token, feature)) << token << " " << head << " " << feature;
                  else if (fromPage != toPage)
                    EXPECT_EQ(has, 0);
                }
          }
        }
}

TEST(HandOver, RefusesWhatHasScales) {
  HandOverState bytes = stateOf(CacheElement::U8, 4, false), same = bytes,
                floats = stateOf(CacheElement::F16, 4, false), eights = stateOf(CacheElement::F8, 4, false);
  EXPECT_EQ(whyNotConverted(bytes, 4, same, 4), "");
  EXPECT_NE(whyNotConverted(bytes, 4, stateOf(CacheElement::U8, 8, false), 8), "");
  EXPECT_NE(whyNotConverted(bytes, 4, floats, 4), "");
  EXPECT_NE(whyNotConverted(floats, 4, bytes, 4), "");
  EXPECT_NE(whyNotConverted(floats, 4, eights, 4), "");
  EXPECT_EQ(whyNotConverted(eights, 4, stateOf(CacheElement::F8, 8, true), 8), "");
  HandOverState fewer = floats;
  fewer.shape[0] = fewer.allHeads = 1;
  EXPECT_NE(whyNotConverted(floats, 4, fewer, 4).find("'cache.0.keys' has 2 heads of 3 features, here 1 of 3"),
            std::string::npos);
  fewer.allHeads = 2; // a rank has one of the two
  EXPECT_EQ(whyNotConverted(floats, 4, fewer, 4), "");
}

namespace {
/// A part of a sequence of 5 tokens in pages of 4: some heads of 6, each byte or float says where it belongs.
HandOver partOf(CacheElement element, int64_t firstHead, int64_t count, uint64_t pageTokens = 4) {
  HandOver part;
  part.header.tokens = 5;
  part.header.pageTokens = pageTokens;
  part.tokens = {1, 2, 3, 4, 5};
  HandOverState state = stateOf(element, int64_t(pageTokens), false);
  state.unitBytes = state.unitBytes / uint64_t(state.shape[0]) * uint64_t(count);
  state.shape[0] = count;
  state.firstHead = firstHead;
  state.allHeads = 6;
  part.states = {state};
  for (uint64_t page = 0; page < part.pages(); ++page)
    for (int64_t head = firstHead; head < firstHead + count; ++head)
      for (uint64_t slot = 0; slot < pageTokens; ++slot)
        for (int64_t feature = 0; feature < features; ++feature) {
          auto value = uint8_t(head * 40 + int64_t(page * pageTokens + slot) * 4 + feature);
          float whole = float(value);
          auto *bytes = element == CacheElement::U8 ? &value : reinterpret_cast<uint8_t *>(&whole);
          part.payload.insert(part.payload.end(), bytes, bytes + (element == CacheElement::U8 ? 1 : 4));
        }
  return part;
}
} // namespace

/// Ranks that share the heads in another way: some of one, some of another, and one that two of them have.
TEST(HandOver, PutsHeadsOfRanksTogether) {
  for (CacheElement element : {CacheElement::U8, CacheElement::F32})
    for (int64_t first : {0, 1, 2, 4}) {
      std::vector<HandOver> parts = {partOf(element, 4, 2), partOf(element, 0, 3), partOf(element, 2, 2)};
      HandOver wanted = partOf(element, first, 2);
      std::vector<HeadSource> sources;
      Status status = findHeads(parts, wanted.states[0], 4, "m.itx", sources);
      ASSERT_TRUE(status.ok()) << status.message();
      std::vector<uint8_t> made(wanted.payload.size(), 0xEE);
      for (uint64_t page = 0; page < 2; ++page)
        runtime::convertUnit(sources, wanted.states[0], 4, page, &made[page * wanted.states[0].unitBytes]);
      EXPECT_EQ(made, wanted.payload) << first;
    }
  // Floats in other pages: what no token has is zero.
  std::vector<HandOver> parts = {partOf(CacheElement::F32, 0, 3, 2), partOf(CacheElement::F32, 3, 3, 8)};
  HandOver wanted = partOf(CacheElement::F32, 2, 2);
  std::vector<HeadSource> sources;
  ASSERT_TRUE(findHeads(parts, wanted.states[0], 4, "m.itx", sources).ok());
  std::vector<float> made(wanted.payload.size() / 4), expected(made.size());
  std::memcpy(expected.data(), wanted.payload.data(), wanted.payload.size());
  for (uint64_t page = 0; page < 2; ++page)
    runtime::convertUnit(sources, wanted.states[0], 4, page,
                         reinterpret_cast<uint8_t *>(made.data()) + page * wanted.states[0].unitBytes);
  for (size_t i = 0; i < made.size(); ++i) {
    size_t token = i / (2 * 4 * features) * 4 + i / features % 4;
    EXPECT_EQ(made[i], token < 5 ? expected[i] : 0) << i;
  }
}

TEST(HandOver, NamesHeadsThatAreMissing) {
  std::vector<HandOver> parts = {partOf(CacheElement::U8, 0, 3), partOf(CacheElement::U8, 4, 2)};
  std::vector<HeadSource> sources;
  std::string message = findHeads(parts, partOf(CacheElement::U8, 2, 2).states[0], 4, "m.itx", sources).message();
  EXPECT_EQ(message, "m.itx: head 3 of 6 of 'cache.0.keys' is in none of the 2 parts of the sequence that were sent: "
                     "receive from all ranks that share the layer");
  HandOverState other = partOf(CacheElement::U8, 2, 2).states[0];
  other.name[0] = 'x';
  message = findHeads(parts, other, 4, "m.itx", sources).message();
  EXPECT_NE(message.find("has no 'xache.0.keys': does it run a part of the model"), std::string::npos);
}

/// Sends a sequence of one page with a state, and returns the status of who receives it.
static Status exchanged(const HandOverState &state) {
  HandOver handOver, received;
  std::memcpy(handOver.header.magic, handOverMagic, sizeof(handOverMagic));
  handOver.header.version = handOverVersion;
  handOver.header.states = 1;
  handOver.header.tokens = 3;
  handOver.header.pageTokens = 4;
  handOver.header.payloadBytes = state.unitBytes;
  handOver.states = {state};
  handOver.tokens = {1, 2, 3};
  handOver.payload.resize(state.unitBytes);
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  std::thread sender([&] { (void)sendHandOver(sockets[0], 5, "a", handOver); });
  Status status = receiveHandOver(sockets[1], 5, "b", 1 << 20, received);
  close(sockets[1]);
  sender.join();
  close(sockets[0]);
  return status;
}

TEST(HandOver, RefusesPagesThatAreNoneOfTheirElements) {
  HandOverState state = stateOf(CacheElement::F16, 4, false);
  EXPECT_TRUE(exchanged(state).ok());
  HandOverState beyond = state; // heads that the model does not have
  beyond.firstHead = 1;
  EXPECT_EQ(exchanged(beyond).code(), ITX_CORRUPT);
  beyond.firstHead = INT64_MIN;
  EXPECT_EQ(exchanged(beyond).code(), ITX_CORRUPT);
  HandOverState wider = state; // bytes of f16 that say that they are f32
  wider.element = uint8_t(CacheElement::F32);
  EXPECT_EQ(exchanged(wider).code(), ITX_CORRUPT);
  HandOverState deeper = state;
  deeper.shape[3] = 2;
  deeper.unitBytes *= 2;
  EXPECT_EQ(exchanged(deeper).code(), ITX_CORRUPT);
  HandOverState longer = state;
  longer.shape[1] = 8;
  longer.unitBytes *= 2;
  EXPECT_EQ(exchanged(longer).code(), ITX_CORRUPT);
}
