//===- Random.h - Repeatable random numbers -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_RANDOM_H
#define INTARSIA_RUNTIME_ENGINE_RANDOM_H

#include <cstdint>

namespace intarsia::runtime {

/// The numbers of numpy.random.default_rng(numpy.random.SeedSequence(seed, spawn_key=(spawn,))), so that a seed means
/// the same text in all languages: NumPy's generator PCG64 (O'Neill 2014, "PCG: A Family of Simple Fast
/// Space-Efficient Statistically Good Algorithms for Random Number Generation", XSL-RR 128/64), seeded by its
/// SeedSequence (O'Neill 2015, "Developing a seed_seq Alternative").
class Random {
public:
  Random(uint64_t seed, uint32_t spawn);

  /// Returns a number in [0, 1), a multiple of 2^-53.
  double next();

private:
  unsigned __int128 state_ = 0, increment_ = 0;
};

/// Returns a seed that the operating system draws.
uint64_t drawSeed();

} // namespace intarsia::runtime

#endif
