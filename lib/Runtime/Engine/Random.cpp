//===- Random.cpp - Repeatable random numbers ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/Random.h"

#include <array>
#include <bit>
#include <random>
#include <vector>

namespace intarsia::runtime {

namespace {

/// NumPy's SeedSequence with a pool of four words.
class SeedSequence {
public:
  SeedSequence(uint64_t seed, uint32_t spawn) {
    // A seed before a spawn key takes at least as many words as the pool has.
    const std::vector<uint32_t> entropy = {uint32_t(seed), uint32_t(seed >> 32), 0, 0, spawn};
    uint32_t hash = 0x43b0d7e5;
    auto hashed = [&](uint32_t value) {
      value ^= hash;
      hash *= 0x931e8875;
      value *= hash;
      return value ^ (value >> 16);
    };
    for (size_t i = 0; i < pool_.size(); ++i)
      pool_[i] = hashed(entropy[i]);
    for (size_t from = 0; from < pool_.size(); ++from)
      for (size_t to = 0; to < pool_.size(); ++to)
        if (from != to)
          pool_[to] = mix(pool_[to], hashed(pool_[from]));
    for (size_t from = pool_.size(); from < entropy.size(); ++from)
      for (uint32_t &word : pool_)
        word = mix(word, hashed(entropy[from]));
  }

  /// Returns the first words of 64 bits that are generated from the seed.
  std::array<uint64_t, 4> generate() const {
    uint32_t hash = 0x8b51f9dd;
    std::array<uint64_t, 4> words = {};
    for (size_t i = 0; i < 2 * words.size(); ++i) {
      uint32_t value = pool_[i % pool_.size()] ^ hash;
      hash *= 0x58f38ded;
      value *= hash;
      value ^= value >> 16;
      words[i / 2] |= uint64_t(value) << (i % 2 * 32);
    }
    return words;
  }

private:
  static uint32_t mix(uint32_t left, uint32_t right) {
    uint32_t result = 0xca01f9dd * left - 0x4973f715 * right;
    return result ^ (result >> 16);
  }

  std::array<uint32_t, 4> pool_ = {};
};

using Wide = unsigned __int128;
constexpr Wide multiplier = Wide(0x2360ed051fc65da4) << 64 | 0x4385df649fccf645;

} // namespace

Random::Random(uint64_t seed, uint32_t spawn) {
  std::array<uint64_t, 4> words = SeedSequence(seed, spawn).generate();
  increment_ = (Wide(words[2]) << 64 | words[3]) << 1 | 1;
  state_ = (increment_ + (Wide(words[0]) << 64 | words[1])) * multiplier + increment_;
}

double Random::next() {
  state_ = state_ * multiplier + increment_;
  uint64_t bits = std::rotr(uint64_t(state_ >> 64) ^ uint64_t(state_), int(state_ >> 122));
  return double(bits >> 11) * 0x1p-53;
}

uint64_t drawSeed() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

} // namespace intarsia::runtime
