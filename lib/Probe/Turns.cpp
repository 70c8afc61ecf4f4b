//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Turns.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace llvm;

namespace intarsia::probe {
namespace {

/// By how much a pass may take longer than one that does more before both are measured again: timers and caches.
constexpr double tolerance = 1.02;

/// Returns the value that a share of the values is below.
double quantile(std::vector<double> values, double share) {
  auto at = values.begin() + ptrdiff_t(double(values.size()) * share);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

class Turns {
public:
  Turns(ArrayRef<Pass> passes, const TurnOptions &options, Patience &patience)
      : passes(passes), options(options), patience(patience), times(passes.size()), totals(passes.size()) {}

  Expected<std::vector<double>> run();

private:
  ArrayRef<Pass> passes;
  const TurnOptions &options;
  Patience &patience;
  std::vector<std::vector<double>> times; ///< of the turns of each pass, in seconds
  std::vector<double> totals;
  double slow = 1;

  Error round(const Pass &pass, double &seconds);
  Expected<double> turnOf(const Pass &pass, double &seconds);
  Error turn(ArrayRef<size_t> which);
  double secondsOf(size_t pass) const { return quantile(times[pass], 0.25); }
  bool contradicts(size_t pass) const {
    return passes[pass].more >= 0 && secondsOf(pass) > tolerance * secondsOf(size_t(passes[pass].more));
  }
};

Error Turns::round(const Pass &pass, double &seconds) {
  double start = options.clock();
  if (Error error = pass.round())
    return error;
  seconds = options.clock() - start;
  return pass.reset();
}

/// Returns the time of the pass in one turn; `seconds` is what its rounds took.
Expected<double> Turns::turnOf(const Pass &pass, double &seconds) {
  std::vector<double> rounds;
  double warm = 0;
  do {
    double one = 0;
    if (Error error = round(pass, one))
      return std::move(error);
    if (warm < options.warmSeconds && one < options.longSeconds) {
      warm += one;
      continue;
    }
    rounds.push_back(one);
    seconds += one;
  } while (rounds.empty() || seconds < options.turnSeconds);
  return quantile(std::move(rounds), 0.5);
}

/// Takes a turn of some passes, again while others disturb it and patience lasts.
Error Turns::turn(ArrayRef<size_t> which) {
  for (;;) {
    double begin = options.clock();
    std::vector<double> found, took;
    for (size_t pass : which) {
      Expected<double> time = turnOf(passes[pass], took.emplace_back(0));
      if (!time)
        return time.takeError();
      found.push_back(*time);
    }
    double before = std::exchange(slow, options.slowdown());
    bool isDisturbed = std::max(before, slow) > options.mostSlowdown;
    if (isDisturbed && patience.seconds > 0) {
      patience.seconds -= options.clock() - begin;
      continue;
    }
    ++patience.turns;
    patience.disturbedTurns += isDisturbed;
    for (auto [pass, time, seconds] : zip_equal(which, found, took)) {
      times[pass].push_back(time);
      totals[pass] += seconds;
    }
    return Error::success();
  }
}

Expected<std::vector<double>> Turns::run() {
  // The first round of each touches what is touched once; it does not count.
  for (const Pass &pass : passes) {
    double ignored = 0;
    if (Error error = round(pass, ignored))
      return std::move(error);
  }
  slow = options.slowdown();
  SmallVector<size_t> which = to_vector(seq<size_t>(0, passes.size()));
  for (int number = 0; number < options.most && !which.empty(); ++number) {
    if (Error error = turn(which))
      return std::move(error);
    if (number + 1 >= options.fewest)
      erase_if(which, [&](size_t pass) { return totals[pass] >= options.enoughSeconds; });
  }
  for (int number = 0; number < options.again; ++number) {
    std::vector<bool> isAsked(passes.size());
    for (size_t pass = 0; pass < passes.size(); ++pass)
      if (contradicts(pass))
        isAsked[pass] = isAsked[size_t(passes[pass].more)] = true;
    which.clear();
    for (size_t pass = 0; pass < passes.size(); ++pass)
      if (isAsked[pass])
        which.push_back(pass);
    if (which.empty())
      break;
    if (Error error = turn(which))
      return std::move(error);
  }
  std::vector<double> us;
  for (size_t pass = 0; pass < passes.size(); ++pass)
    us.push_back(secondsOf(pass) * 1e6);
  // A pass follows all that do less, so that one way from the end settles chains.
  for (size_t pass = passes.size(); pass-- > 0;)
    if (passes[pass].more >= 0)
      us[pass] = std::min(us[pass], us[size_t(passes[pass].more)]);
  return us;
}

} // namespace

Expected<std::vector<double>> timeInTurns(ArrayRef<Pass> passes, const TurnOptions &options, Patience &patience) {
  return Turns(passes, options, patience).run();
}

} // namespace intarsia::probe
