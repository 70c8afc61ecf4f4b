//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Distribution.h"
#include "Convolution.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

using namespace intarsia::plan;

namespace {
using Atoms = std::vector<std::pair<double, double>>;

/// Atoms below this share of the whole do not affect any percentile that is asked for. One at least is above it: there
/// are fewer than 1e13.
constexpr double negligible = 1e-13;

/// Returns the exponential distribution of mean 1 in 48 slices, narrower in the tail; an atom is the mean of its slice.
/// The loss of variance is below 0.5 %.
Atoms exponentialSlices() {
  Atoms slices;
  constexpr int count = 48;
  double low = 0;
  for (int i = 1; i <= count; ++i) {
    double survival = std::pow(1.0 - double(i) / count, 2.0);
    double survivalLow = std::exp(-low);
    double high = i == count ? INFINITY : -std::log(survival);
    double mass = survivalLow - (i == count ? 0 : survival);
    double firstMoment = survivalLow * (low + 1) - (i == count ? 0 : survival * (high + 1));
    slices.push_back({firstMoment / mass, mass});
    low = high;
  }
  return slices;
}

/// The grid ends at this quantile. Rarer values are summed up in one atom.
constexpr double mostOnGrid = 0.999999;

/// Values up to `high` on a grid from the least one on, which keeps their mean, and the sums over those above.
struct Gridded {
  std::vector<double> bins;
  double mean = 0, tail = 0, tailMoment = 0;
  Gridded(const Atoms &atoms, double high, double step) : bins(size_t((high - atoms.front().first) / step) + 2, 0.0) {
    double low = atoms.front().first;
    for (auto [value, probability] : atoms) {
      mean += value * probability;
      if (value > high) {
        tail += probability, tailMoment += probability * value;
        continue;
      }
      double position = (value - low) / step;
      auto bin = size_t(position);
      bins[bin] += probability * (1 - (position - bin));
      bins[bin + 1] += probability * (position - bin);
    }
  }
};
} // namespace

double intarsia::plan::normalQuantile(double level) {
  double low = -10, high = 10;
  for (int i = 0; i < 80; ++i) {
    double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < level ? low : high) = middle;
  }
  return (low + high) / 2;
}

Distribution::Distribution(Atoms valuesAndProbabilities) : entries(std::move(valuesAndProbabilities)) { normalize(); }

Distribution::Distribution(Atoms atoms, double spacing) : entries(std::move(atoms)), spacing(spacing) { normalize(); }

void Distribution::normalize() {
  // Sums and maxima multiply what rounding leaves of the whole: a long agent would have nothing left after some forty
  // maxima of maxima.
  double whole = 0;
  for (auto &[value, probability] : entries)
    whole += probability;
  assert(whole > 0 && "a distribution of nothing");
  for (auto &[value, probability] : entries)
    probability /= whole;
  if (entries.size() == 1)
    return;
  if (!std::is_sorted(entries.begin(), entries.end())) // most are, and sorting them again takes as long as all else
    std::sort(entries.begin(), entries.end());
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    auto [value, probability] = entries[i];
    if (probability < negligible)
      continue;
    if (kept && value - entries[kept - 1].first <= 1e-9 * std::max(1.0, std::abs(value)))
      entries[kept - 1].second += probability;
    else
      entries[kept++] = {value, probability};
  }
  entries.resize(kept);
  if (kept <= maximumAtoms)
    return;
  // Uses a regular grid up to the percentile 99.95, then one atom each for slices that halve the tail.
  double low = entries.front().first, high = quantile(0.9995);
  size_t bins = maximumAtoms - 64;
  double step = (high - low) / (bins - 1);
  spacing = step;
  std::vector<double> mass(bins, 0.0);
  Atoms tail;
  double tailMass = 0, tailMoment = 0, beyond = 0;
  for (auto [value, probability] : entries)
    beyond += value > high ? probability : 0;
  double boundary = beyond / 2;
  for (auto [value, probability] : entries) {
    if (value <= high && step > 0) {
      double position = (value - low) / step;
      size_t left = std::min(size_t(position), bins - 2);
      double share = position - left;
      mass[left] += probability * (1 - share);
      mass[left + 1] += probability * share;
      continue;
    }
    tailMass += probability;
    tailMoment += probability * value;
    beyond -= probability;
    if (beyond <= boundary) {
      tail.push_back({tailMoment / tailMass, tailMass});
      tailMass = tailMoment = 0;
      boundary = beyond / 2;
    }
  }
  if (tailMass > 0)
    tail.push_back({tailMoment / tailMass, tailMass});
  entries.clear();
  for (size_t i = 0; i < bins; ++i)
    if (mass[i] > 0)
      entries.push_back({low + i * step, mass[i]});
  entries.insert(entries.end(), tail.begin(), tail.end());
}

Distribution Distribution::exponentialTail(double probability, double meanIfPositive) {
  if (probability < 1e-9 || meanIfPositive <= 0)
    return {};
  static const Atoms slices = exponentialSlices();
  Atoms atoms;
  if (probability < 1)
    atoms.push_back({0.0, 1 - probability});
  for (auto [value, mass] : slices)
    atoms.push_back({value * meanIfPositive, mass * probability});
  return Distribution(std::move(atoms));
}

double Distribution::mean() const {
  double sum = 0;
  for (auto [value, probability] : entries)
    sum += value * probability;
  return sum;
}

double Distribution::squaredVariation() const {
  double average = mean(), sum = 0;
  for (auto [value, probability] : entries)
    sum += (value - average) * (value - average) * probability;
  return average > 0 ? sum / (average * average) : 0;
}

double Distribution::quantile(double level) const {
  double sum = 0;
  for (size_t index = 0; index < entries.size(); ++index) {
    auto [value, probability] = entries[index];
    sum += probability;
    if (sum < level - 1e-12)
      continue;
    // Half of the distance to a neighbor on the grid; an atom without one is a value of its own.
    auto half = [&, value = value](size_t neighbor) {
      double away = neighbor < entries.size() ? std::abs(entries[neighbor].first - value) : INFINITY;
      return away <= 1.5 * spacing ? std::min(away, spacing) / 2 : 0;
    };
    double before = half(index - 1), share = std::clamp(1 + (level - sum) / probability, 0.0, 1.0);
    return value - before + share * (before + half(index + 1));
  }
  return entries.back().first;
}

Distribution Distribution::scaled(double factor) const {
  Distribution result = *this;
  for (auto &[value, probability] : result.entries)
    value *= factor;
  result.spacing *= factor;
  if (factor == 0)
    return {};
  return result;
}

Distribution Distribution::shifted(double offset) const {
  Distribution result = *this;
  for (auto &[value, probability] : result.entries)
    value += offset;
  return result;
}

Distribution Distribution::plus(const Distribution &other) const {
  if (isPoint())
    return other.shifted(minimum());
  if (other.isPoint())
    return shifted(other.minimum());
  // Products that would be moved to a grid in any case go there at once, on which the two are first; it is finer than
  // the final one.
  Atoms sums;
  constexpr size_t bins = 2048;
  double high = quantile(mostOnGrid), otherHigh = other.quantile(mostOnGrid);
  double low = minimum() + other.minimum(), step = (high + otherHigh - low) / (bins - 1);
  // All but rare values may be one, which no grid has.
  if (entries.size() * other.entries.size() > maximumAtoms && step > 0) {
    Gridded own(entries, high, step), others(other.entries, otherHigh, step);
    std::vector<double> mass = convolved(own.bins, others.bins);
    sums.reserve(mass.size() + 1);
    for (size_t i = 0; i < mass.size(); ++i)
      if (mass[i] > 0)
        sums.push_back({low + i * step, mass[i]});
    // Rare values of either, with what the other has then.
    double tailMass = own.tail + (1 - own.tail) * others.tail;
    if (tailMass > 0) {
      double moment = own.tailMoment + own.tail * others.mean + (1 - own.tail) * others.tailMoment +
                      (own.mean - own.tailMoment) * others.tail;
      std::pair<double, double> tail{moment / tailMass, tailMass};
      sums.insert(std::upper_bound(sums.begin(), sums.end(), tail), tail);
    }
    return Distribution(std::move(sums), std::max(spacing, other.spacing));
  }
  sums.reserve(entries.size() * other.entries.size());
  for (auto [left, leftProbability] : entries)
    for (auto [right, rightProbability] : other.entries)
      sums.push_back({left + right, leftProbability * rightProbability});
  return Distribution(std::move(sums), std::max(spacing, other.spacing));
}

Distribution Distribution::maximumWith(const Distribution &other) const {
  Atoms result;
  size_t i = 0, j = 0;
  double left = 0, right = 0, before = 0;
  while (i < entries.size() || j < other.entries.size()) {
    bool takeLeft = j == other.entries.size() || (i < entries.size() && entries[i].first <= other.entries[j].first);
    double value = takeLeft ? entries[i].first : other.entries[j].first;
    (takeLeft ? left : right) += takeLeft ? entries[i++].second : other.entries[j++].second;
    double now = left * right;
    if (now > before)
      result.push_back({value, now - before});
    before = now;
  }
  return Distribution(std::move(result), std::max(spacing, other.spacing));
}

Distribution Distribution::maximumOf(int count) const {
  Atoms result;
  double cumulative = 0, before = 0;
  for (auto [value, probability] : entries) {
    cumulative += probability;
    double now = std::pow(std::min(1.0, cumulative), count);
    result.push_back({value, now - before});
    before = now;
  }
  return Distribution(std::move(result), spacing);
}

namespace {
using Counts = std::vector<std::pair<int64_t, double>>;

/// Returns counts on the grid of Distribution::normalize for whole numbers: multiples of a step from the least count
/// on, regular up to the percentile 99.95, then slices that halve the tail. The mean does not change.
Counts onGrid(const Counts &counts, int64_t &step) {
  int64_t low = counts.front().first, high = low;
  double beyond = 1;
  for (auto [count, probability] : counts) {
    high = count;
    if ((beyond -= probability) <= 5e-4)
      break;
  }
  constexpr int64_t bins = int64_t(Distribution::maximumAtoms) - 64;
  step = std::max<int64_t>(1, (high - low + bins - 2) / (bins - 1));
  std::map<int64_t, double> mass;
  auto put = [&](double count, double probability) {
    double position = (count - double(low)) / double(step);
    auto left = int64_t(position);
    mass[left] += probability * (1 - (position - double(left)));
    if (position > double(left))
      mass[left + 1] += probability * (position - double(left));
  };
  double boundary = beyond / 2, tailMass = 0, tailMoment = 0;
  for (auto [count, probability] : counts) {
    if (count <= high) {
      put(double(count), probability);
      continue;
    }
    tailMass += probability, tailMoment += probability * double(count), beyond -= probability;
    if (beyond <= boundary) {
      put(tailMoment / tailMass, tailMass);
      tailMass = tailMoment = 0;
      boundary = beyond / 2;
    }
  }
  if (tailMass > 0)
    put(tailMoment / tailMass, tailMass);
  return {mass.begin(), mass.end()};
}

/// Sums of n copies, each built from its halves.
class Powers {
public:
  explicit Powers(Distribution one) { known.emplace(1, std::move(one)), known.emplace(0, Distribution()); }
  const Distribution &operator[](int64_t count) {
    auto found = known.find(count);
    if (found == known.end()) {
      Distribution sum = (*this)[count / 2].plus((*this)[count - count / 2]);
      found = known.emplace(count, std::move(sum)).first;
    }
    return found->second;
  }

private:
  std::map<int64_t, Distribution> known;
};
} // namespace

Distribution Distribution::sumOf(std::vector<std::pair<int64_t, double>> counts) const {
  std::erase_if(counts, [](auto &entry) { return entry.second < negligible; });
  std::sort(counts.begin(), counts.end());
  if (isPoint()) {
    Atoms atoms;
    for (auto [count, probability] : counts)
      atoms.push_back({double(count) * minimum(), probability});
    return Distribution(std::move(atoms));
  }
  int64_t low = counts.front().first, step = 1;
  if (counts.size() > maximumAtoms)
    counts = onGrid(counts, step);
  else
    for (auto &[count, probability] : counts)
      count -= low;
  // Evaluates a polynomial in the sum of `step` copies after Paterson and Stockmeyer (1973): blocks of powers, combined
  // by Horner's rule in the power of a block. The number of convolutions is about twice the square root of the count.
  Powers ones(*this);
  Powers powers(ones[step]);
  int64_t longest = counts.back().first + 1;
  int64_t block = longest <= 8 ? longest : int64_t(std::ceil(std::sqrt(std::min<double>(longest, maximumAtoms))));
  Powers blocks(powers[block]);
  Distribution sum;
  double weight = 0;
  int64_t at = counts.back().first / block;
  for (size_t end = counts.size(); end > 0;) {
    int64_t which = counts[end - 1].first / block;
    std::vector<std::pair<Distribution, double>> parts;
    double own = weight;
    if (weight > 0)
      parts.push_back({sum.plus(blocks[at - which]), weight});
    for (; end > 0 && counts[end - 1].first / block == which; --end) {
      parts.push_back({powers[counts[end - 1].first % block], counts[end - 1].second});
      own += counts[end - 1].second;
    }
    for (auto &[part, probability] : parts)
      probability /= own;
    sum = mixture(parts);
    weight = own, at = which;
  }
  return sum.plus(blocks[at]).plus(ones[low]);
}

Distribution Distribution::mixture(const std::vector<std::pair<Distribution, double>> &parts) {
  Atoms result;
  double spacing = 0;
  for (auto &[part, weight] : parts) {
    spacing = std::max(spacing, part.spacing);
    for (auto [value, probability] : part.entries)
      if (weight > 0)
        result.push_back({value, probability * weight});
  }
  return Distribution(std::move(result), spacing);
}

double Shape::logarithmDeviation() const {
  // Solves ln(p95/mean) = z s - s²/2, with z the normal quantile of 95 %, for the smaller root.
  double z = 1.6448536269514722, ratio = std::log(p95OverMean);
  return z - std::sqrt(std::max(0.0, z * z - 2 * ratio));
}

double Shape::squaredVariation() const {
  switch (kind) {
  case Kind::Deterministic:
    return 0;
  case Kind::Exponential:
    return 1;
  case Kind::Lognormal:
    return std::expm1(std::pow(logarithmDeviation(), 2));
  case Kind::Atoms:
    return Distribution(atoms).squaredVariation();
  }
  return 0;
}

Distribution Shape::discretized() const {
  switch (kind) {
  case Kind::Deterministic:
    return Distribution::point(1);
  case Kind::Exponential:
    return Distribution::exponentialTail(1, 1);
  case Kind::Lognormal: {
    // Means of slices: the share of X below q is Phi(z - s) for X of mean 1. Few shapes are asked for often.
    thread_local std::map<double, Distribution> known;
    auto [found, inserted] = known.try_emplace(p95OverMean);
    if (!inserted)
      return found->second;
    double deviation = logarithmDeviation();
    constexpr int count = 48;
    Atoms slices;
    double share = 0, level = 0;
    for (int i = 1; i <= count; ++i) {
      double nextLevel = i == count ? 1 : 1 - std::pow(1 - double(i) / count, 2.0);
      double nextShare = i == count ? 1 : std::erfc(-(normalQuantile(nextLevel) - deviation) / std::sqrt(2.0)) / 2;
      slices.push_back({(nextShare - share) / (nextLevel - level), nextLevel - level});
      share = nextShare, level = nextLevel;
    }
    return found->second = Distribution(std::move(slices));
  }
  case Kind::Atoms: {
    Distribution given(atoms);
    return given.scaled(1 / given.mean());
  }
  }
  return {};
}
