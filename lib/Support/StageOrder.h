//===- StageOrder.h - In which order ranks with several stages compute parts --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_SUPPORT_STAGEORDER_H
#define INTARSIA_SUPPORT_STAGEORDER_H

#include "lib/Support/PromptParts.h"

#include <vector>

namespace intarsia {

/// One stage of each rank for one part of a call. Of `ranks` ranks, rank r has the stages r, ranks + r, 2 ranks + r, …:
/// turn t is stage t ranks + r.
struct StageTurn {
  int64_t part = 0, turn = 0;
  /// Its place in time: if all stages took as long, rank r would begin it at `position + r`.
  int64_t position = 0;
  /// The position of the same part's next turn, for which the first rank needs what the last rank sends in this one;
  /// -1: this is the last turn.
  int64_t due = -1;
};

/// Returns what every rank computes for so many parts, in its order. Groups of parts go through all turns one after
/// another: interleaved, a group has as many parts as there are ranks (arXiv 2104.04473, section 2.2); breadth-first,
/// all parts are one (2211.05953). A group has more parts rather than leave fewer than ranks to the last one.
///
/// A part comes to its next turn `ranks` positions later at the earliest, when the last rank is done with it.
inline std::vector<StageTurn> stageOrder(int64_t parts, int64_t ranks, int64_t turns, bool isBreadthFirst) {
  std::vector<StageTurn> order;
  int64_t group = isBreadthFirst ? std::max<int64_t>(parts, 1) : ranks, position = 0;
  for (int64_t begin = 0, end = 0; begin < parts; begin = end) {
    end = parts - begin < 2 * group ? parts : begin + group;
    int64_t stride = std::max(end - begin, ranks);
    for (int64_t turn = 0; turn < turns; ++turn)
      for (int64_t part = begin; part < end; ++part) {
        int64_t here = position + turn * stride + part - begin;
        order.push_back({part, turn, here, turn + 1 < turns ? here + stride : -1});
      }
    position += (turns - 1) * stride + end - begin;
  }
  return order;
}

/// Returns the time until all parts are through, if messages take none: `ofStages[s]` is what stage s takes for a part.
inline double stageOrderTime(const std::vector<StageTurn> &order, const std::vector<double> &ofStages, int64_t ranks) {
  std::vector<double> free(size_t(ranks), 0), done;
  for (const StageTurn &item : order) {
    done.resize(std::max(done.size(), size_t(item.part) + 1), 0);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      double begin = std::max(free[size_t(rank)], done[size_t(item.part)]);
      free[size_t(rank)] = done[size_t(item.part)] = begin + ofStages[size_t(item.turn * ranks + rank)];
    }
  }
  return *std::max_element(free.begin(), free.end());
}

} // namespace intarsia

#endif
