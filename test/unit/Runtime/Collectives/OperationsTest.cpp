//===- OperationsTest.cpp - Collective operations against plain sums ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Operations.h"

#include "lib/Formats/Dtype.h"
#include "lib/Formats/FloatFormats.h"
#include "test/unit/Runtime/Collectives/Ranks.h"
#include "gtest/gtest.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::RankResult;
using intarsia::testing::Ranks;

namespace {

/// Sizes that end inside of a line, of a block of the reduction and of a round, for every type.
constexpr uint64_t oddSizes[] = {0, 1, 3, 7, 8, 9, 33, 515, 1000, 4099, 8192, 8193, 20000, 70001};

/// Returns the i-th element of a rank's data, small integers and halves that each type has.
double valueOf(int32_t rank, uint64_t i) { return double((i * 7 + uint64_t(rank) * 31) % 23) - 11 + (i % 2) * 0.5; }

template <typename T> struct Traits {
  static T encode(double value) { return T(value); }
  static double decode(T value) { return double(value); }
};
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
template <> struct Traits<F16> {
  static F16 encode(double value) { return {encodeF16(float(value))}; }
  static double decode(F16 value) { return decodeF16(value.bits); }
};
template <> struct Traits<Bf16> {
  static Bf16 encode(double value) { return {encodeBf16(float(value))}; }
  static double decode(Bf16 value) { return decodeBf16(value.bits); }
};

/// Values repeat themselves after so many elements.
constexpr uint64_t period = 46;

/// Returns the i-th element of a rank's data as a type stores it. All elements are compared, so it is looked up.
template <typename T> double storedOf(int32_t rank, uint64_t i) {
  static std::vector<std::array<double, period>> known;
  while (known.size() <= size_t(rank)) {
    auto &values = known.emplace_back();
    for (uint64_t at = 0; at < period; ++at)
      values[at] = Traits<T>::decode(Traits<T>::encode(valueOf(int32_t(known.size()) - 1, at)));
  }
  return known[size_t(rank)][i % period];
}

/// Returns the elements of a rank from `begin` on, at an address that is a multiple of the element's size alone.
template <typename T> struct Data {
  explicit Data(uint64_t elements) : bytes((elements + 1) * sizeof(T) + 64), count(elements) {}
  T *get() { return reinterpret_cast<T *>(bytes.data() + sizeof(T)); }
  T &operator[](uint64_t i) { return get()[i]; }
  std::vector<uint8_t> bytes;
  uint64_t count;
};
template <typename T> Data<T> dataOf(int32_t rank, uint64_t elements) {
  Data<T> data(elements);
  for (uint64_t i = 0; i < std::min(elements, period); ++i)
    data[i] = Traits<T>::encode(valueOf(rank, i));
  for (uint64_t i = period; i < elements; ++i)
    data[i] = data[i - period];
  return data;
}

std::string place(const char *what, uint64_t elements, uint64_t i, double found, double wanted) {
  return format("%s of %llu: element %llu is %g, not %g", what, (unsigned long long)elements, (unsigned long long)i,
                found, wanted);
}

#define ITX_TRY(expression)                                                                                            \
  do {                                                                                                                 \
    if (Status tried = (expression); !tried.ok())                                                                      \
      return tried.message();                                                                                          \
  } while (false)
#define ITX_SAME(what, elements, i, found, wanted)                                                                     \
  do {                                                                                                                 \
    if ((found) != (wanted))                                                                                           \
      return place(what, elements, i, found, wanted);                                                                  \
  } while (false)

/// The values are such that a sum is exact in each type, whatever its order.
template <typename T> std::string reduceAll(World &world, itx_dtype dtype) {
  int32_t size = world.size(), rank = world.rank();
  std::array<double, period> sums[2]; // and maxima
  for (bool maximum : {false, true})
    for (uint64_t i = 0; i < period; ++i) {
      double total = storedOf<T>(0, i);
      for (int32_t other = 1; other < size; ++other) {
        double value = storedOf<T>(other, i);
        total = maximum ? std::max(total, value) : total + value;
      }
      sums[maximum][i] = total;
    }
  auto sum = [&](uint64_t i, bool maximum) { return sums[maximum][i % period]; };
  for (uint64_t elements : oddSizes)
    for (bool maximum : {false, true})
      for (bool inPlace : {false, true}) {
        Reduction reduction = maximum ? Reduction::Maximum : Reduction::Sum;
        Data<T> source = dataOf<T>(rank, elements), other(elements);
        Data<T> &result = inPlace ? source : other;
        ITX_TRY(allReduce(world.all(), reduction, dtype, result.get(), source.get(), elements));
        for (uint64_t i = 0; i < elements; ++i)
          ITX_SAME("all-reduce", elements, i, Traits<T>::decode(result[i]), sum(i, maximum));
        uint64_t part = elements;
        source = dataOf<T>(rank, part * uint64_t(size));
        ITX_TRY(reduceScatter(world.all(), reduction, dtype, other.get(), source.get(), part * uint64_t(size)));
        for (uint64_t i = 0; i < part; ++i)
          ITX_SAME("reduce-scatter", elements, i, Traits<T>::decode(other[i]), sum(uint64_t(rank) * part + i, maximum));
      }
  return {};
}

/// Rows are shared in every way that ranks and rows can be to each other: none, fewer than ranks, a rank without rows
/// of its own, parts of many rounds. Behind the last row it is repeated.
template <typename T> std::string shareRows(World &world, itx_dtype dtype) {
  uint64_t size = uint64_t(world.size()), rank = uint64_t(world.rank());
  auto at = storedOf<T>;
  for (uint64_t rows : {0, 1, 2, 3, 4, 5, 7, 64, 129})
    for (uint64_t length : {1, 48, 1031}) {
      uint64_t each = (rows + size - 1) / size;
      Data<T> source = dataOf<T>(world.rank(), rows * length), own(each * length), all(rows * length);
      ITX_TRY(reduceScatterRows(world.all(), Reduction::Sum, dtype, own.get(), source.get(), rows, length));
      for (uint64_t i = 0; i < each * length; ++i) {
        uint64_t row = std::min(rank * each + i / length, rows - 1);
        double total = 0;
        for (int32_t other = 0; other < int32_t(size); ++other)
          total += at(other, row * length + i % length);
        ITX_SAME("reduce-scatter of rows", rows, i, Traits<T>::decode(own[i]), total);
      }
      ITX_TRY(allGatherRows(world.all(), dtype, all.get(), own.get(), rows, length));
      for (uint64_t i = 0; i < rows * length; ++i) {
        double total = 0;
        for (int32_t other = 0; other < int32_t(size); ++other)
          total += at(other, i);
        ITX_SAME("all-gather of rows", rows, i, Traits<T>::decode(all[i]), total);
      }
    }
  return {};
}

template <typename T> std::string copyAll(World &world, itx_dtype dtype) {
  int32_t size = world.size(), rank = world.rank();
  auto wanted = storedOf<T>;
  for (uint64_t elements : oddSizes) {
    // Gathers, equal and unequal.
    for (bool isUneven : {false, true}) {
      std::vector<uint64_t> counts;
      uint64_t total = 0;
      for (int32_t other = 0; other < size; ++other) {
        counts.push_back(isUneven ? elements * uint64_t(other) / 2 : elements);
        total += counts.back();
      }
      Data<T> source = dataOf<T>(rank, counts[rank]), result(total);
      ITX_TRY(
          allGather(world.all(), dtype, result.get(), source.get(), counts[rank], isUneven ? nullptr : counts.data()));
      uint64_t at = 0;
      for (int32_t other = 0; other < size; ++other)
        for (uint64_t i = 0; i < counts[other]; ++i, ++at)
          ITX_SAME("all-gather", elements, at, Traits<T>::decode(result[at]), wanted(other, i));
    }
    // All-to-alls: the part of rank s for rank d begins at element d * elements of its data.
    Data<T> source = dataOf<T>(rank, elements * uint64_t(size)), result(elements * uint64_t(size));
    ITX_TRY(allToAll(world.all(), dtype, result.get(), source.get(), elements * uint64_t(size)));
    for (int32_t other = 0; other < size; ++other)
      for (uint64_t i = 0; i < elements; ++i)
        ITX_SAME("all-to-all", elements, i, Traits<T>::decode(result[uint64_t(other) * elements + i]),
                 wanted(other, uint64_t(rank) * elements + i));
    auto count = [&](int32_t from, int32_t to) { return elements * uint64_t(from + 2 * to) / 5; };
    std::vector<uint64_t> sends, receives;
    uint64_t sent = 0, received = 0;
    for (int32_t other = 0; other < size; ++other) {
      sends.push_back(count(rank, other));
      receives.push_back(count(other, rank));
      sent += sends.back();
      received += receives.back();
    }
    Data<T> parts = dataOf<T>(rank, sent), uneven(received);
    ITX_TRY(allToAllUnequal(world.all(), dtype, uneven.get(), parts.get(), sends.data(), receives.data()));
    uint64_t at = 0;
    for (int32_t other = 0; other < size; ++other) {
      uint64_t begin = 0;
      for (int32_t to = 0; to < rank; ++to)
        begin += count(other, to);
      for (uint64_t i = 0; i < receives[other]; ++i, ++at)
        ITX_SAME("uneven all-to-all", elements, at, Traits<T>::decode(uneven[at]), wanted(other, begin + i));
    }
    // Broadcasts.
    size_t root = size_t(size) - 1;
    Data<T> own = dataOf<T>(rank, elements);
    ITX_TRY(broadcast(world.all(), dtype, root, own.get(), own.get(), elements));
    for (uint64_t i = 0; i < elements; ++i)
      ITX_SAME("broadcast", elements, i, Traits<T>::decode(own[i]), wanted(int32_t(root), i));
    ITX_TRY(barrier(world.all()));
  }
  return {};
}

void expectGood(const std::vector<RankResult> &results, const std::string &what = "") {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].message, "") << what << " rank " << rank;
    EXPECT_EQ(results[rank].signal, 0) << what << " rank " << rank;
  }
}

/// A world: a letter for each rank's host.
struct Hosts {
  const char *letters;
  bool areReached; ///< by connections; false: all are one host
  Ranks ranks() const { return Ranks(int32_t(std::strlen(letters)), 60, areReached ? letters : ""); }
};
void PrintTo(const Hosts &hosts, std::ostream *out) { *out << hosts.letters << (hosts.areReached ? " by TCP" : ""); }

class OperationsTest : public ::testing::TestWithParam<Hosts> {};

TEST_P(OperationsTest, Reductions) {
  expectGood(GetParam().ranks().run([](World &world) -> std::string {
    for (auto [dtype, function] : {std::pair(ITX_F32, &reduceAll<float>), std::pair(ITX_F64, &reduceAll<double>),
                                   std::pair(ITX_F16, &reduceAll<F16>), std::pair(ITX_BF16, &reduceAll<Bf16>),
                                   std::pair(ITX_I32, &reduceAll<int32_t>), std::pair(ITX_I64, &reduceAll<int64_t>)})
      if (std::string message = function(world, dtype); !message.empty())
        return std::string(dtypeInfo(dtype)->name) + ": " + message;
    return {};
  }));
}

TEST_P(OperationsTest, Rows) {
  expectGood(GetParam().ranks().run([](World &world) -> std::string {
    for (auto [dtype, function] : {std::pair(ITX_F32, &shareRows<float>), std::pair(ITX_BF16, &shareRows<Bf16>)})
      if (std::string message = function(world, dtype); !message.empty())
        return std::string(dtypeInfo(dtype)->name) + ": " + message;
    return {};
  }));
}

TEST_P(OperationsTest, Copies) {
  expectGood(GetParam().ranks().run([](World &world) -> std::string {
    for (auto [dtype, function] : {std::pair(ITX_F32, &copyAll<float>), std::pair(ITX_I8, &copyAll<int8_t>),
                                   std::pair(ITX_BF16, &copyAll<Bf16>), std::pair(ITX_I64, &copyAll<int64_t>)})
      if (std::string message = function(world, dtype); !message.empty())
        return std::string(dtypeInfo(dtype)->name) + ": " + message;
    return {};
  }));
}

INSTANTIATE_TEST_SUITE_P(OneHost, OperationsTest,
                         ::testing::Values(Hosts{"a", false}, Hosts{"aa", false}, Hosts{"aaa", false},
                                           Hosts{"aaaa", false}));
// Hosts with one rank and with several, neighbouring and not.
INSTANTIATE_TEST_SUITE_P(SeveralHosts, OperationsTest,
                         ::testing::Values(Hosts{"aa", true}, Hosts{"ab", true}, Hosts{"abc", true}, Hosts{"aab", true},
                                           Hosts{"abab", true}, Hosts{"abcd", true}, Hosts{"abbcabca", true}));

} // namespace
