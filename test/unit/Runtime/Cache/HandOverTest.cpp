//===- HandOverTest.cpp - Pages on their way to another process --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/HandOver.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Cache/QuantizedGroups.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::HasSubstr;

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

/// Makes a unit of a state from what was sent.
Status convert(const std::vector<HandOver> &parts, const HandOverState &to, uint64_t toPageTokens, uint64_t page,
               uint8_t *unit) {
  Conversion conversion;
  ITX_RETURN_IF_ERROR(planConversion(parts, {to}, 0, toPageTokens, "m.itx", conversion));
  convertUnit(conversion, to, toPageTokens, page, unit);
  return Status::success();
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
            ASSERT_TRUE(convert({sent}, to, uint64_t(toPage), uint64_t(page), unit.data()).ok());
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

TEST(HandOver, RefusesOtherElements) {
  HandOverState bytes = stateOf(CacheElement::U8, 4, false), same = bytes,
                floats = stateOf(CacheElement::F16, 4, false), eights = stateOf(CacheElement::F8, 4, false);
  EXPECT_EQ(whyNotConverted(bytes, 4, same, 4), "");
  EXPECT_EQ(whyNotConverted(bytes, 4, stateOf(CacheElement::U8, 8, false), 8), "");
  EXPECT_EQ(whyNotConverted(bytes, 4, floats, 4), "");
  EXPECT_EQ(whyNotConverted(floats, 4, bytes, 4), "");
  EXPECT_EQ(whyNotConverted(floats, 4, eights, 4),
            "'cache.0.keys' has elements of f16, here of f8E4M3FN: compile both with the same --kv");
  EXPECT_NE(whyNotConverted(eights, 4, bytes, 4), "");
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
      std::vector<uint8_t> made(wanted.payload.size(), 0xEE);
      for (uint64_t page = 0; page < 2; ++page) {
        Status status = convert(parts, wanted.states[0], 4, page, &made[page * wanted.states[0].unitBytes]);
        ASSERT_TRUE(status.ok()) << status.message();
      }
      EXPECT_EQ(made, wanted.payload) << first;
    }
  // Floats in other pages: what no token has is zero.
  std::vector<HandOver> parts = {partOf(CacheElement::F32, 0, 3, 2), partOf(CacheElement::F32, 3, 3, 8)};
  HandOver wanted = partOf(CacheElement::F32, 2, 2);
  std::vector<float> made(wanted.payload.size() / 4), expected(made.size());
  std::memcpy(expected.data(), wanted.payload.data(), wanted.payload.size());
  for (uint64_t page = 0; page < 2; ++page)
    ASSERT_TRUE(convert(parts, wanted.states[0], 4, page,
                        reinterpret_cast<uint8_t *>(made.data()) + page * wanted.states[0].unitBytes)
                    .ok());
  for (size_t i = 0; i < made.size(); ++i) {
    size_t token = i / (2 * 4 * features) * 4 + i / features % 4;
    EXPECT_EQ(made[i], token < 5 ? expected[i] : 0) << i;
  }
}

TEST(HandOver, NamesHeadsThatAreMissing) {
  std::vector<HandOver> parts = {partOf(CacheElement::U8, 0, 3), partOf(CacheElement::U8, 4, 2)};
  std::vector<uint8_t> unit(1000);
  std::string message = convert(parts, partOf(CacheElement::U8, 2, 2).states[0], 4, 0, unit.data()).message();
  EXPECT_EQ(message, "m.itx: head 3 of 6 of 'cache.0.keys' is in none of the 2 parts of the sequence that were sent: "
                     "receive from all ranks that share the layer");
  HandOverState other = partOf(CacheElement::U8, 2, 2).states[0];
  other.name[0] = 'x';
  message = convert(parts, other, 4, 0, unit.data()).message();
  EXPECT_NE(message.find("has no 'xache.0.keys': does it run a part of the model"), std::string::npos);
}

namespace {
/// The states of a cache of two heads of 32 features, and a sequence of 21 tokens in it.
struct WholeCache {
  static constexpr int64_t heads = 2, features = 32, tokens = 21;
  std::vector<HandOverState> states;
  HandOver sent;

  WholeCache(CacheElement element, bool isOfKeys, int64_t page, bool transposed = false) {
    bool isFloat = element < CacheElement::F8;
    auto add = [&](std::string name, CacheElement its, bool paged, itx_dtype dtype, std::vector<int64_t> shape,
                   uint64_t elementBytes) {
      StateTensor state;
      state.name = "cache.0." + name;
      state.element = its;
      state.paged = paged;
      state.dtype = dtype;
      state.transposed = transposed;
      state.unitBytes = elementBytes;
      for (int64_t size : shape)
        state.unitBytes *= uint64_t(size);
      state.shape = std::move(shape);
      EXPECT_TRUE(describeState(state, states.emplace_back()).ok());
    };
    int64_t rows = transposed ? features : page, columns = transposed ? page : features;
    int64_t bytes = element == CacheElement::U4 ? columns / 2 : columns;
    std::string stem = isOfKeys ? "key" : "value";
    add(stem + "s", element, true, isFloat ? element == CacheElement::F32 ? ITX_F32 : ITX_F16 : ITX_I8,
        {heads, rows, bytes},
        element == CacheElement::F32 ? 4
        : isFloat                    ? 2
                                     : 1);
    if (!isFloat)
      add(stem + "_parameters", CacheElement::Other, true, ITX_I8, {heads, 2, isOfKeys ? features : page}, 1);
    if (!isFloat && isOfKeys)
      add("key_tail", CacheElement::Other, false, ITX_F16, {heads, rows, columns}, 2);
    sent.header.tokens = tokens;
    sent.header.pageTokens = uint64_t(page);
    sent.header.states = uint32_t(states.size());
    sent.states = states;
  }

  /// Returns this cache with what another one holds.
  Status take(const WholeCache &other) {
    sent.payload.clear();
    std::vector<HandOver> parts = {other.sent};
    for (size_t i = 0; i < states.size(); ++i) {
      Conversion conversion;
      ITX_RETURN_IF_ERROR(planConversion(parts, states, i, sent.header.pageTokens, "m.itx", conversion));
      for (uint64_t unit = 0; unit < sent.units(states[i]); ++unit) {
        sent.payload.resize(sent.payload.size() + states[i].unitBytes);
        convertUnit(conversion, states[i], sent.header.pageTokens, unit,
                    sent.payload.data() + sent.payload.size() - states[i].unitBytes);
      }
    }
    return Status::success();
  }
};
} // namespace

/// Floats become quantized values and floats again, in other pages: off by half of the largest step of their group, and
/// what lies in a tail by the rounding to f16.
TEST(HandOver, ConvertsQuantizedCaches) {
  using Cache = WholeCache;
  auto value = [](int64_t head, int64_t token, int64_t feature) {
    return std::sin(float(head * 5 + token * 3 + feature * 7)) * float(1 + feature % 5) + 0.3f;
  };
  for (bool isOfKeys : {true, false})
    for (CacheElement element : {CacheElement::U8, CacheElement::U4})
      for (auto [first, second] : {std::pair<int64_t, int64_t>(8, 8), {8, 16}, {16, 4}, {32, 8}}) {
        Cache floats(CacheElement::F32, isOfKeys, 4, true), back(CacheElement::F32, isOfKeys, 8);
        floats.sent.payload.resize(floats.states[0].unitBytes * 6);
        auto *data = reinterpret_cast<float *>(floats.sent.payload.data());
        for (int64_t token = 0; token < Cache::tokens; ++token)
          for (int64_t head = 0; head < Cache::heads; ++head)
            for (int64_t feature = 0; feature < Cache::features; ++feature)
              data[((token / 4 * Cache::heads + head) * Cache::features + feature) * 4 + token % 4] =
                  value(head, token, feature);
        // Keys of 4 bits are transposed in pages of whole blocks alone.
        bool isTransposed = isOfKeys && (element == CacheElement::U8 || first == 32);
        Cache quantized(element, isOfKeys, first, isTransposed), again(element, isOfKeys, second);
        for (auto [to, from] : {std::pair(&quantized, &floats), {&again, &quantized}, {&back, &again}}) {
          Status status = to->take(*from);
          ASSERT_TRUE(status.ok()) << status.message();
        }
        auto *made = reinterpret_cast<const float *>(back.sent.payload.data());
        // Steps are rounded up to two bits of mantissa and more; values are quantized once or twice.
        float step = (element == CacheElement::U8 ? 10.6f / 255 : 10.6f / 15) * 1.2f, most = 0;
        for (int64_t token = 0; token < Cache::tokens; ++token)
          for (int64_t head = 0; head < Cache::heads; ++head)
            for (int64_t feature = 0; feature < Cache::features; ++feature) {
              float has = made[((token / 8 * Cache::heads + head) * 8 + token % 8) * Cache::features + feature];
              float off = std::fabs(has - value(head, token, feature));
              EXPECT_LE(off, step * 1.01f) << isOfKeys << " " << int(element) << " " << first << " " << second << ": "
                                           << head << " " << token << " " << feature;
              most = std::max(most, off);
              if (isOfKeys && token >= Cache::tokens / std::min(first, second) * std::min(first, second) &&
                  token >= Cache::tokens / first * first && token >= Cache::tokens / second * second)
                EXPECT_LE(off, 4e-3f); // in both tails
            }
        EXPECT_GT(most, step / 50); // something was rounded
      }
}

TEST(HandOver, RefusesQuantizedCachesWithoutParameters) {
  WholeCache quantized(CacheElement::U8, true, 8), floats(CacheElement::F32, true, 8);
  quantized.sent.payload.resize(100000);
  EXPECT_TRUE(floats.take(quantized).ok());
  quantized.sent.states.pop_back(); // the tail
  EXPECT_EQ(floats.take(quantized).code(), ITX_CORRUPT);
  WholeCache narrow(CacheElement::U8, false, 8), other(CacheElement::F32, false, 8);
  narrow.sent.payload.resize(100000);
  narrow.sent.states[1].unitBytes -= 8; // parameters of fewer tokens
  EXPECT_EQ(other.take(narrow).code(), ITX_CORRUPT);
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
  Status status = receiveHandOver(sockets[1], 5, "b", {/*tokens=*/64, /*bytes=*/1 << 20}, received);
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

/// Sends the beginning of a sequence, after which the connection ends, and returns the status of who receives it.
static Status begun(const HandOverHeader &header, const HandOverState &state, const HandOverLimits &most) {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  EXPECT_EQ(write(sockets[0], &header, sizeof(header)), ssize_t(sizeof(header)));
  EXPECT_EQ(write(sockets[0], &state, sizeof(state)), ssize_t(sizeof(state)));
  close(sockets[0]);
  HandOver received;
  Status status = receiveHandOver(sockets[1], 5, "b", most, received);
  close(sockets[1]);
  return status;
}

TEST(HandOver, TakesMemoryForWhatHasCome) {
  auto peakKilobytes = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  HandOverState state = stateOf(CacheElement::F16, 4, false);
  uint64_t times = (uint64_t(1) << 30) / state.unitBytes; // a page of 1 GiB, of as many heads
  state.shape[0] *= int64_t(times);
  state.allHeads = state.shape[0];
  state.unitBytes *= times;
  HandOverHeader header = {};
  std::memcpy(header.magic, handOverMagic, sizeof(handOverMagic));
  header.version = handOverVersion;
  header.states = 1;
  header.tokens = 0;
  header.pageTokens = 4;
  state.paged = 0;
  header.payloadBytes = state.unitBytes;
  auto before = peakKilobytes();
  Status status = begun(header, state, {64, uint64_t(1) << 40});
  EXPECT_EQ(status.code(), ITX_IO_ERROR) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("the connection ended after 184 bytes"));
  EXPECT_LT(peakKilobytes() - before, 100 << 10);
  header.tokens = uint64_t(1) << 32;
  EXPECT_THAT(begun(header, state, {64, uint64_t(1) << 40}).message(),
              HasSubstr("a sequence of 4294967296 tokens, the context of this artifact is 64"));
}

TEST(HandOver, Timeouts) {
  for (double seconds : {double(NAN), -1.0, -double(INFINITY)})
    EXPECT_THAT(checkTimeout(seconds, "m.itx").message(), HasSubstr("m.itx: a timeout of "));
  for (double seconds : {0.0, 60.0, double(INFINITY)})
    EXPECT_TRUE(checkTimeout(seconds, "m.itx").ok());
}

/// NaN becomes the lowest value, as in kernels, and infinities the ends of the range.
TEST(HandOver, QuantizesWhatIsNoNumber) {
  for (int bits : {4, 8}) {
    GroupParameters parameters = chooseGroup({-1.0f, 3.0f}, bits);
    EXPECT_EQ(quantizeInGroup(parameters, bits, NAN), 0);
    EXPECT_EQ(quantizeInGroup(parameters, bits, -INFINITY), 0);
    EXPECT_EQ(quantizeInGroup(parameters, bits, INFINITY), bits == 4 ? 15 : 255);
    GroupParameters none = chooseGroup({NAN, NAN}, bits);
    EXPECT_EQ(quantizeInGroup(none, bits, NAN), 0);
  }
}
