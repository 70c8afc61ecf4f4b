//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Side by side, grids with the same tiles are a run: within it, cycles change by less than a percent. From one run to
// the next they jump, by up to 4 % where a tree of sums has one stage more and by as much where a tile has one row
// less, so that runs are timed, not interpolated.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/GridSearch.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace llvm;

namespace intarsia::wafer {
namespace {

/// Grids that are timed first are at least so much larger than the one before.
constexpr double coarseStep = 1.125;
/// Between two timed runs no others are timed if both take so much longer than the fastest grid: a percent for each run
/// of their distance, and not more than five.
double closeTo(size_t distance) { return 1 + 0.01 * double(std::min<size_t>(distance, 5)); }

class Search {
public:
  Search(ArrayRef<GridCandidate> candidates, function_ref<Expected<double>(int64_t)> cyclesOn)
      : candidates(candidates), cyclesOn(cyclesOn) {}

  Error run() {
    for (size_t run : coarseRuns())
      if (Error error = time(ends[run]))
        return error;
    while (std::optional<size_t> index = mostPromisingRun())
      if (Error error = time(*index))
        return error;
    while (std::optional<size_t> index = besideTheFastest())
      if (Error error = time(*index))
        return error;
    return Error::success();
  }

private:
  ArrayRef<GridCandidate> candidates;
  function_ref<Expected<double>(int64_t)> cyclesOn;
  std::map<size_t, double> cycles;  // by number of a candidate
  std::vector<size_t> begins, ends; // of each run, its first and its last candidate
  double fastest = std::numeric_limits<double>::infinity();
  size_t fastestIndex = 0;

  Error time(size_t index) {
    Expected<double> measured = cyclesOn(candidates[index].grid);
    if (!measured)
      return measured.takeError();
    cycles[index] = *measured;
    if (*measured < fastest)
      fastest = *measured, fastestIndex = index;
    return Error::success();
  }

  /// Finds the runs. Returns those that are timed first: on both sides of grids that do not fit, and some between them.
  std::vector<size_t> coarseRuns() {
    std::vector<size_t> first;
    double last = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      bool followsDirectly = i > 0 && candidates[i].grid == candidates[i - 1].grid + 1;
      if (followsDirectly && candidates[i].tiles == candidates[i - 1].tiles) {
        ends.back() = i;
        continue;
      }
      if (!followsDirectly) {
        if (!ends.empty() && (first.empty() || first.back() + 1 != ends.size()))
          first.push_back(ends.size() - 1);
        last = 0;
      }
      begins.push_back(i), ends.push_back(i);
      if (double(candidates[i].grid) >= last * coarseStep) {
        first.push_back(ends.size() - 1);
        last = double(candidates[i].grid);
      }
    }
    if (!ends.empty() && first.back() + 1 != ends.size())
      first.push_back(ends.size() - 1);
    return first;
  }

  /// Returns the last candidate of the run in the middle between two timed ones of which one is close to the fastest.
  std::optional<size_t> mostPromisingRun() const {
    std::optional<size_t> result;
    double best = std::numeric_limits<double>::infinity();
    std::optional<size_t> before;
    for (size_t run = 0; run < ends.size(); ++run) {
      if (cycles.count(ends[run]) == 0)
        continue;
      if (before && run - *before > 1)
        if (double least = std::min(cycles.at(ends[*before]), cycles.at(ends[run]));
            least < best && least <= fastest * closeTo(run - *before)) {
          best = least;
          result = ends[(*before + run) / 2];
        }
      before = run;
    }
    return result;
  }

  /// Returns a candidate of the fastest one's run, in the middle between it and the next one that was timed.
  std::optional<size_t> besideTheFastest() const {
    size_t run = 0;
    while (ends[run] < fastestIndex)
      ++run;
    if (!(fastest < std::numeric_limits<double>::infinity()))
      return std::nullopt;
    auto found = cycles.find(fastestIndex);
    int64_t low = int64_t(begins[run]) - 1, high = int64_t(ends[run]) + 1, here = int64_t(fastestIndex);
    if (found != cycles.begin())
      low = std::max(low, int64_t(std::prev(found)->first));
    if (std::next(found) != cycles.end())
      high = std::min(high, int64_t(std::next(found)->first));
    if (here - low > 1)
      return size_t((low + here) / 2);
    if (high - here > 1)
      return size_t((high + here) / 2);
    return std::nullopt;
  }
};

} // namespace

Error searchGrids(ArrayRef<GridCandidate> candidates, function_ref<Expected<double>(int64_t)> cyclesOn) {
  return candidates.empty() ? Error::success() : Search(candidates, cyclesOn).run();
}

} // namespace intarsia::wafer
