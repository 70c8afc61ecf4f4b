//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Amount.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

using namespace intarsia;

double intarsia::normalProbability(double score) { return 0.5 * std::erfc(-score / std::sqrt(2.0)); }

double intarsia::normalScore(double probability) {
  if (probability > 0.5)
    return -normalScore(1 - probability);
  // Abramowitz and Stegun 26.2.23, good to 4.5e-4; each Halley step then triples the digits.
  double t = std::sqrt(-2 * std::log(probability));
  double score =
      -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 3; ++step) {
    double density = std::exp(-score * score / 2) / std::sqrt(2 * M_PI);
    if (density == 0)
      break;
    double newton = (normalProbability(score) - probability) / density;
    score -= newton / (1 + score * newton / 2);
  }
  return score;
}

Amount Amount::constant(double value) {
  Amount result;
  result.value = value;
  return result;
}

Amount Amount::lognormal(double mean, double variance) {
  if (variance <= 0 || mean <= 0)
    return constant(mean);
  double spread = std::sqrt(std::log1p(variance / (mean * mean)));
  double center = std::log(mean) - spread * spread / 2;
  Amount result;
  result.knots = {{0, center}, {1, center + spread}};
  return result;
}

std::optional<Amount> Amount::fromMeanAndPercentile(double mean, Percentile percentile, std::optional<double> limit) {
  double score = normalScore(percentile.percent / 100);
  if (mean <= 0 || percentile.value <= 0 || (limit && (percentile.value > *limit || mean > *limit)))
    return std::nullopt;
  if (mean == percentile.value)
    return constant(mean);
  auto ofSpread = [&](double spread) {
    double center = std::log(percentile.value) - score * spread;
    Amount result;
    result.knots = {{0, center}, {1, center + spread}};
    result.cut = limit;
    return result;
  };
  // With spread 0 the mean is the percentile. Searches upwards for the first spread that has the mean.
  constexpr double step = 1.0 / 256, widest = 4;
  bool above = percentile.value > mean;
  auto passed = [&](double spread) {
    double difference = ofSpread(spread).mean() - mean;
    return above ? difference <= 0 : difference >= 0;
  };
  double low = 0, high = 0;
  do {
    low = high;
    high += step;
    if (high > widest)
      return std::nullopt;
  } while (!passed(high));
  while (high - low > 1e-14 * high && low < (low + high) / 2 && (low + high) / 2 < high) {
    double middle = (low + high) / 2;
    (passed(middle) ? high : low) = middle;
  }
  return ofSpread(high);
}

Amount Amount::fromPercentiles(const std::vector<Percentile> &percentiles, std::optional<double> limit) {
  assert(percentiles.size() >= 2 && "one percentile is no curve");
  Amount result;
  for (Percentile percentile : percentiles)
    result.knots.push_back({normalScore(percentile.percent / 100), std::log(percentile.value)});
  auto slope = [](const Knot &a, const Knot &b) { return (b.logarithm - a.logarithm) / (b.score - a.score); };
  const Knot last = result.knots.back();
  double beyond = slope(result.knots.front(), last);
  if (beyond < slope(*(result.knots.end() - 2), last))
    result.knots.push_back({last.score + 1, last.logarithm + beyond});
  result.cut = limit;
  return result;
}

double Amount::at(double score) const {
  if (knots.empty())
    return value;
  size_t right = 1;
  while (right + 1 < knots.size() && knots[right].score < score)
    ++right;
  const Knot &a = knots[right - 1], &b = knots[right];
  double slope = (b.logarithm - a.logarithm) / (b.score - a.score);
  double result = std::exp(a.logarithm + slope * (score - a.score));
  return cut ? std::min(result, *cut) : result;
}

/// E[x^n] = sum over the lines ln x = a + b z of exp(n a + (n b)^2 / 2) (Φ(z2 - n b) - Φ(z1 - n b)), and the limit^n
/// times the probability of reaching it.
double Amount::moment(int order) const {
  if (knots.empty())
    return std::pow(value, order);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double end = infinity;
  double sum = 0;
  for (size_t right = 1; right < knots.size(); ++right) {
    const Knot &left = knots[right - 1], &next = knots[right];
    double slope = (next.logarithm - left.logarithm) / (next.score - left.score);
    double base = left.logarithm - slope * left.score;
    double from = right == 1 ? -infinity : left.score, to = right + 1 == knots.size() ? infinity : next.score;
    if (cut && slope > 0) {
      double reached = (std::log(*cut) - base) / slope;
      if (reached < to) {
        to = std::max(reached, from);
        end = std::min(end, to);
      }
    }
    double shift = order * slope;
    sum +=
        std::exp(order * base + shift * shift / 2) * (normalProbability(to - shift) - normalProbability(from - shift));
    if (end < infinity)
      break;
  }
  return end < infinity ? sum + std::pow(*cut, order) * normalProbability(-end) : sum;
}

double Amount::variance() const {
  double first = moment(1);
  return std::max(0.0, moment(2) - first * first);
}

Amount Amount::scaled(double factor) const {
  if (factor <= 0)
    return constant(0);
  Amount result = *this;
  result.value *= factor;
  for (Knot &knot : result.knots)
    knot.logarithm += std::log(factor);
  if (result.cut)
    *result.cut *= factor;
  return result;
}

std::vector<double> intarsia::runProbabilities(double expected, unsigned most) {
  assert(most >= 1 && expected >= 1 && expected <= most && "the mean lies within the bounds");
  std::vector<double> probabilities(most, 0);
  if (expected == 1) {
    probabilities.front() = 1;
    return probabilities;
  }
  if (expected == most) {
    probabilities.back() = 1;
    return probabilities;
  }
  // P(n) = exp(t n) / sum; the mean grows with t. exp(t (n - most)) for t > 0, so that nothing overflows.
  auto fill = [&](double t) {
    double sum = 0, mean = 0;
    for (unsigned n = 1; n <= most; ++n) {
      double weight = std::exp(t * (t > 0 ? double(n) - most : double(n) - 1));
      probabilities[n - 1] = weight;
      sum += weight;
      mean += n * weight;
    }
    for (double &probability : probabilities)
      probability /= sum;
    return mean / sum;
  };
  double low = -1, high = 1;
  while (fill(low) > expected)
    low *= 2;
  while (fill(high) < expected)
    high *= 2;
  for (int step = 0; step < 200 && low < (low + high) / 2 && (low + high) / 2 < high; ++step) {
    double middle = (low + high) / 2;
    (fill(middle) < expected ? low : high) = middle;
  }
  fill((low + high) / 2);
  return probabilities;
}
