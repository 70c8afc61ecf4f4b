//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/ParallelLayer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

using namespace intarsia;

namespace {

/// The slowest stage, the longest exchange and the longest optimizer of the stages that were cut so far.
struct State {
  double slowest = 0, exchanged = 0, optimizer = 0;
  int begin = 0;    ///< of the last stage
  int previous = 0; ///< state of the stages before it

  bool isNoWorseThan(const State &other) const {
    return slowest <= other.slowest && exchanged <= other.exchanged && optimizer <= other.optimizer;
  }
};

/// A dynamic programme over stages and layers. All states that no other one is better than in each respect are kept:
/// two cuts may be as fast while one has shorter exchanges.
class Cut {
public:
  Cut(ParallelMapping &mapping, const TrainingRun &run, const Cluster &cluster, const ParallelFigures &figures)
      : mapping(mapping), run(run), layers(run.shape->layers), dense(run.shape->denseLayers),
        cost(run, cluster, mapping, figures) {
    LayerCost layer(run, cluster, mapping, figures);
    Stage one;
    one.denseLayers = 1;
    denseUs = dense ? layer.ofStage(one).total() : 0;
    one = {0, 1, false, false};
    expertUs = dense < layers ? layer.ofStage(one).total() : 0;
    headUs = layer.ofHead().total();
    meanUs = (denseUs * dense + expertUs * (layers - dense) + headUs) / mapping.pipeline;
  }

  bool fastest(double limit, double mostUs);
  void smallest();

private:
  struct Costs {
    double bytes = 0;
    State state;
  };

  const Costs &of(int number, int begin, int end);
  template <typename Step> void overStages(Step step);

  ParallelMapping &mapping;
  const TrainingRun &run;
  int layers, dense;
  StepCost cost;
  double denseUs, expertUs, headUs, meanUs;
  std::map<std::tuple<int, int, int>, Costs> known; ///< by stage, dense layers and all layers
};

} // namespace

const Cut::Costs &Cut::of(int number, int begin, int end) {
  int first = std::max(0, std::min(end, dense) - begin);
  auto [found, isNew] = known.try_emplace({number, first, end - begin});
  if (!isNew)
    return found->second;
  Stage stage{double(first), double(end - begin - first), number == 0, number == mapping.pipeline - 1};
  TrainingMemory memory = stageMemory(run, mapping, stage, number);
  found->second.bytes = memory.total();
  found->second.state.slowest =
      stage.denseLayers * denseUs + stage.expertLayers * expertUs + (stage.isLast ? headUs : 0);
  found->second.state.exchanged = cost.exchangedUs(stage);
  found->second.state.optimizer = cost.optimizerUs(stage, memory, meanUs);
  return found->second;
}

/// Calls `step` for each stage and the layers that it may have, with at least one layer on each other one. Of those
/// with the same end the shorter ones come first, until it returns false.
template <typename Step> void Cut::overStages(Step step) {
  int count = mapping.pipeline;
  for (int number = 0; number < count; ++number)
    for (int end = number == count - 1 ? layers : number + 1; end <= layers - (count - 1 - number); ++end)
      for (int begin = number == 0 ? 0 : end - 1; begin >= number; --begin)
        if (!step(number, begin, end))
          break;
}

bool Cut::fastest(double limit, double mostUs) {
  int count = mapping.pipeline;
  using Row = std::vector<std::vector<State>>;
  std::vector<Row> states(count + 1, Row(layers + 1));
  states[0][0] = {State()};
  overStages([&](int number, int begin, int end) {
    const Costs &costs = of(number, begin, end);
    if (costs.bytes > limit || costs.state.slowest > mostUs)
      return false;
    std::vector<State> &into = states[number + 1][end];
    for (int previous = 0; previous < int(states[number][begin].size()); ++previous) {
      const State &before = states[number][begin][previous];
      State state{std::max(before.slowest, costs.state.slowest), std::max(before.exchanged, costs.state.exchanged),
                  std::max(before.optimizer, costs.state.optimizer), begin, previous};
      if (std::any_of(into.begin(), into.end(), [&](const State &other) { return other.isNoWorseThan(state); }))
        continue;
      std::erase_if(into, [&](const State &other) { return state.isNoWorseThan(other); });
      into.push_back(state);
    }
    return true;
  });
  const std::vector<State> &ends = states[count][layers];
  if (ends.empty())
    return false;
  double microBatches = run.globalBatch / run.microBatch / mapping.data;
  auto whole = [&](const State &state) {
    return (microBatches - 1) * state.slowest + cost.dataUs(state.exchanged, meanUs) + state.optimizer;
  };
  const State *state =
      &*std::min_element(ends.begin(), ends.end(), [&](const State &a, const State &b) { return whole(a) < whole(b); });
  mapping.stageLayers.assign(count, 0);
  for (int number = count, end = layers; number-- > 0;) {
    mapping.stageLayers[number] = end - state->begin;
    end = state->begin;
    state = &states[number][end][state->previous];
  }
  return true;
}

void Cut::smallest() {
  int count = mapping.pipeline;
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(count + 1, std::vector<double>(layers + 1, never));
  std::vector<std::vector<int>> begins(count, std::vector<int>(layers + 1, 0));
  best[0][0] = 0;
  overStages([&](int number, int begin, int end) {
    double most = std::max(best[number][begin], of(number, begin, end).bytes);
    if (most < best[number + 1][end]) {
      best[number + 1][end] = most;
      begins[number][end] = begin;
    }
    return true;
  });
  mapping.stageLayers.assign(count, 0);
  for (int number = count, end = layers; number-- > 0; end = begins[number][end])
    mapping.stageLayers[number] = end - begins[number][end];
}

bool intarsia::cutIntoStages(ParallelMapping &mapping, const TrainingRun &run, const Cluster &cluster,
                             const ParallelFigures &figures, double limit, double mostUs) {
  mapping.stageLayers.clear();
  return Cut(mapping, run, cluster, figures).fastest(limit, mostUs);
}

void intarsia::cutIntoSmallestStages(ParallelMapping &mapping, const TrainingRun &run, const Cluster &cluster,
                                     const ParallelFigures &figures) {
  mapping.stageLayers.clear();
  Cut(mapping, run, cluster, figures).smallest();
}
