//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Random numbers that are the same on every machine for the same seed.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SIMULATE_RANDOM_H
#define INTARSIA_PLAN_SIMULATE_RANDOM_H

#include "intarsia/Plan/Distribution.h"
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace intarsia::plan {

/// xoshiro256++ (Blackman and Vigna, 2019).
class Random {
public:
  explicit Random(uint64_t seed) {
    for (uint64_t &word : state) {
      uint64_t z = seed += 0x9e3779b97f4a7c15;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }
  /// Returns a number in (0, 1).
  double unit() {
    auto rotate = [](uint64_t value, int by) { return (value << by) | (value >> (64 - by)); };
    uint64_t result = rotate(state[0] + state[3], 23) + state[0], shifted = state[1] << 17;
    state[2] ^= state[0], state[3] ^= state[1], state[1] ^= state[2], state[0] ^= state[3];
    state[2] ^= shifted, state[3] = rotate(state[3], 45);
    return (double(result >> 11) + 0.5) * 0x1.0p-53;
  }
  double exponential() { return -std::log(unit()); }
  double normal() { return std::sqrt(2 * exponential()) * std::cos(2 * M_PI * unit()); }

private:
  uint64_t state[4];
};

/// Draws from a shape.
class Sampler {
public:
  explicit Sampler(const Shape &shape) : kind(shape.kind) {
    if (kind == Shape::Kind::Lognormal)
      deviation = shape.logarithmDeviation();
    if (kind != Shape::Kind::Atoms)
      return;
    Distribution distribution = shape.discretized();
    double sum = 0;
    for (auto [value, probability] : distribution.atoms())
      atoms.push_back({sum += probability, value});
  }
  double draw(Random &random) const {
    switch (kind) {
    case Shape::Kind::Deterministic:
      return 1;
    case Shape::Kind::Exponential:
      return random.exponential();
    case Shape::Kind::Lognormal:
      return std::exp(deviation * random.normal() - deviation * deviation / 2);
    case Shape::Kind::Atoms: {
      auto above = [](double level, const std::pair<double, double> &atom) { return level < atom.first; };
      auto found = std::upper_bound(atoms.begin(), atoms.end(), random.unit(), above);
      return found == atoms.end() ? atoms.back().second : found->second;
    }
    }
    return 1;
  }

private:
  Shape::Kind kind;
  double deviation = 0;
  std::vector<std::pair<double, double>> atoms; ///< (cumulative probability, value)
};

} // namespace intarsia::plan

#endif
