//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelSearch.h"

#include "lib/Cost/ParallelLayer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

using namespace llvm;
using namespace intarsia;

namespace {

std::vector<int> divisorsOf(int number) {
  std::vector<int> divisors;
  for (int divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0)
      divisors.push_back(divisor);
  return divisors;
}

std::string kindOf(const ParallelMapping &mapping) {
  std::string kind;
  for (auto [degree, name] :
       {std::pair(mapping.tensor, "tensor"), std::pair(mapping.context, "context"), std::pair(mapping.expert, "expert"),
        std::pair(mapping.pipeline, "pipeline"), std::pair(mapping.data, "data")})
    if (degree > 1)
      kind += (kind.empty() ? "" : " x ") + std::string(name);
  return kind.empty() ? "one device" : kind;
}

class Search {
public:
  Search(const TrainingRun &run, const Cluster &cluster, const ParallelFigures &figures,
         const ParallelSearchOptions &options)
      : run(run), cluster(cluster), figures(figures), options(options),
        limit(options.memoryBytes > 0 ? options.memoryBytes : cluster.memoryGB * 1e9) {}

  ParallelSearchResult search();

private:
  struct Kind {
    ParallelChoice fastest, smallest;
    bool fits = false, isSeen = false;
  };

  void overExperts(ParallelMapping mapping);
  void overRuns(ParallelMapping mapping);
  void overOrders(ParallelMapping mapping, const TrainingRun &set);
  void overShards(ParallelMapping mapping, const TrainingRun &set, const LayerCost &layer);
  void consider(ParallelMapping mapping, const TrainingRun &set, const LayerCost &layer);
  void explain(ParallelAlternative &alternative) const;

  const TrainingRun &run;
  const Cluster &cluster;
  const ParallelFigures &figures;
  const ParallelSearchOptions &options;
  double limit;
  std::map<std::string, Kind> kinds;
  ParallelSearchResult result;
};

} // namespace

void Search::consider(ParallelMapping mapping, const TrainingRun &set, const LayerCost &layer) {
  ++result.considered;
  Kind &kind = kinds[kindOf(mapping)];
  // A step takes at least the computation of the mean stage, without the bubble.
  double whole = 0;
  std::vector<Stage> stages = stagesOf(*set.shape, mapping);
  for (const Stage &stage : stages)
    whole += layer.ofStage(stage).total();
  double microBatches = set.globalBatch / set.microBatch / mapping.data;
  // Stages without cuts have layers rounded up, so that a bound by their sum would be too high.
  double rounded = std::ceil(double(set.shape->layers) / mapping.pipeline) * mapping.pipeline / set.shape->layers;
  if (kind.fits && whole / rounded / mapping.pipeline * microBatches * 1e-3 > kind.fastest.time.totalMs)
    return;
  // No cut has a fullest stage below the mean one, which has at least as many micro-batches under way as the last one.
  // Rounding layers up makes a stage larger by at most `rounded`.
  double bytes = 0;
  for (const Stage &stage : stages)
    bytes += stageMemory(set, mapping, stage, mapping.pipeline - 1).total();
  double leastBytes = bytes / mapping.pipeline / rounded;
  if (leastBytes > limit && (kind.fits || (kind.isSeen && leastBytes >= kind.smallest.memory.total())))
    return;
  if (mapping.pipeline > 1 && mapping.chunks == 1) {
    double mostUs =
        kind.fits ? kind.fastest.time.totalMs * 1e3 / microBatches : std::numeric_limits<double>::infinity();
    if (leastBytes > limit || !cutIntoStages(mapping, set, cluster, figures, limit, mostUs)) {
      if (kind.fits)
        return;
      cutIntoSmallestStages(mapping, set, cluster, figures);
    }
  }
  ParallelChoice choice{mapping, set.microBatch, set.recompute, {}, trainingMemory(set, mapping)};
  bool fits = choice.memory.total() <= limit;
  if (!fits && (kind.fits || (kind.isSeen && kind.smallest.memory.total() <= choice.memory.total())))
    return;
  choice.time = trainingStep(set, cluster, mapping, figures);
  ++result.costed;
  if (!kind.isSeen || choice.memory.total() < kind.smallest.memory.total())
    kind.smallest = choice;
  kind.isSeen = true;
  if (fits && (!kind.fits || choice.time.totalMs < kind.fastest.time.totalMs)) {
    kind.fastest = choice;
    kind.fits = true;
  }
}

void Search::overShards(ParallelMapping mapping, const TrainingRun &set, const LayerCost &layer) {
  int replicas = mapping.data * mapping.context;
  for (int zero = 0; zero <= (replicas > 1 ? options.mostZero : 0); ++zero) {
    mapping.zero = zero;
    consider(mapping, set, layer);
  }
}

void Search::overOrders(ParallelMapping mapping, const TrainingRun &set) {
  LayerCost layer(set, cluster, mapping, figures);
  overShards(mapping, set, layer);
  int layers = set.shape->layers;
  if (mapping.pipeline == 1 || layers % mapping.pipeline)
    return;
  for (int chunks : divisorsOf(layers / mapping.pipeline))
    for (PipelineOrder order : {PipelineOrder::Interleaved, PipelineOrder::BreadthFirst}) {
      mapping.chunks = chunks;
      mapping.order = order;
      if (chunks > 1 && whyNotMapped(set, mapping, cluster.devices).empty())
        overShards(mapping, set, layer);
    }
}

void Search::overRuns(ParallelMapping mapping) {
  double own = run.globalBatch / mapping.data;
  for (double microBatch = 1; microBatch <= options.mostMicroBatch && microBatch <= own; microBatch *= 2)
    for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      TrainingRun set = run;
      set.microBatch = microBatch;
      set.recompute = options.recomputes ? recompute : run.recompute;
      if ((!options.recomputes && recompute != Recompute::None) || !whyNotMapped(set, mapping, cluster.devices).empty())
        continue;
      // Fused attention keeps no scores that a selective recomputation would save.
      if (options.recomputes && recompute == Recompute::Selective && run.fusedAttention)
        continue;
      for (bool sequence : {false, true}) {
        mapping.sequence = sequence;
        if (!sequence || (options.sequence && mapping.tensor > 1))
          overOrders(mapping, set);
      }
    }
}

void Search::overExperts(ParallelMapping mapping) {
  if (!run.shape->experts)
    return overRuns(mapping);
  for (int expert : divisorsOf(cluster.devices / mapping.pipeline))
    for (bool folds : {false, true}) {
      mapping.expert = expert;
      mapping.foldsExperts = folds;
      mapping.expertTensor = folds ? 1 : mapping.tensor;
      if (!folds && mapping.data % expert)
        continue;
      if (folds && mapping.tensor == 1 && mapping.context == 1)
        continue; // the same as what is not folded
      overRuns(mapping);
    }
}

ParallelSearchResult Search::search() {
  for (int tensor : divisorsOf(cluster.devices))
    for (int context : divisorsOf(cluster.devices / tensor)) {
      if (context > options.mostContext)
        continue;
      for (int pipeline : divisorsOf(cluster.devices / tensor / context))
        for (ContextKind kind : {ContextKind::Ring, ContextKind::Ulysses}) {
          if (context == 1 && kind == ContextKind::Ulysses)
            continue;
          ParallelMapping mapping;
          mapping.tensor = tensor;
          mapping.context = context;
          mapping.pipeline = pipeline;
          mapping.data = cluster.devices / tensor / context / pipeline;
          mapping.contextKind = kind;
          overExperts(mapping);
        }
    }
  bool hasSmallest = false;
  for (auto &[name, kind] : kinds) {
    if (!kind.isSeen)
      continue;
    if (kind.fits && (!result.found || kind.fastest.time.totalMs < result.best.time.totalMs)) {
      result.found = true;
      result.best = kind.fastest;
    }
    if (!hasSmallest || kind.smallest.memory.total() < result.smallest.memory.total())
      result.smallest = kind.smallest;
    hasSmallest = true;
    result.alternatives.push_back({name, kind.fits, kind.fits ? kind.fastest : kind.smallest, ""});
  }
  sort(result.alternatives, [](const ParallelAlternative &a, const ParallelAlternative &b) {
    return std::tuple(!a.fits, a.choice.time.totalMs, a.kind) < std::tuple(!b.fits, b.choice.time.totalMs, b.kind);
  });
  for (ParallelAlternative &alternative : result.alternatives)
    explain(alternative);
  return std::move(result);
}

/// Says by how much it is slower, and in which part most.
void Search::explain(ParallelAlternative &alternative) const {
  if (!alternative.fits) {
    alternative.why = formatv("needs {0:f1} GB of {1:f1} GB", alternative.choice.memory.total() / 1e9, limit / 1e9);
    return;
  }
  const StepTime &time = alternative.choice.time, &best = result.best.time;
  if (time.totalMs <= best.totalMs)
    return;
  const std::pair<const char *, double StepTime::*> parts[] = {
      {"linears", &StepTime::linearMs},          {"attention", &StepTime::attentionMs},
      {"elementwise", &StepTime::elementwiseMs}, {"launches", &StepTime::launchMs},
      {"tensor exchanges", &StepTime::tensorMs}, {"context exchanges", &StepTime::contextMs},
      {"expert exchanges", &StepTime::expertMs}, {"sends between stages", &StepTime::sendMs},
      {"data parallelism", &StepTime::dataMs},   {"bubble", &StepTime::bubbleMs},
      {"optimizer", &StepTime::optimizerMs}};
  auto most = std::max_element(std::begin(parts), std::end(parts), [&](auto &a, auto &b) {
    return time.*a.second - best.*a.second < time.*b.second - best.*b.second;
  });
  alternative.why = formatv("{0:f1} % slower, most of it {1} ({2:f1} ms more)", 100 * (time.totalMs / best.totalMs - 1),
                            most->first, time.*most->second - best.*most->second);
}

TrainingRun ParallelChoice::of(TrainingRun run) const {
  run.microBatch = microBatch;
  run.recompute = recompute;
  return run;
}

std::string ParallelChoice::text() const {
  std::string text;
  auto add = [&](const Twine &part) { text += ((text.empty() ? "" : ", ") + part).str(); };
  for (auto [degree, name] : {std::pair(mapping.tensor, "tensor"), std::pair(mapping.context, "context"),
                              std::pair(mapping.expert, "expert"), std::pair(mapping.data, "data")})
    if (degree > 1)
      add(Twine(name) + " " + Twine(degree));
  if (mapping.expert > 1 && mapping.foldsExperts)
    text += " (folded)";
  if (mapping.pipeline > 1) {
    add("pipeline " + Twine(mapping.pipeline));
    if (mapping.chunks > 1)
      text += formatv(" ({0} chunks{1})", mapping.chunks,
                      mapping.order == PipelineOrder::BreadthFirst ? ", breadth-first" : "");
  }
  if (mapping.zero)
    add("ZeRO " + Twine(mapping.zero));
  if (mapping.sequence)
    add("sequence");
  add("micro-batch " + Twine(int64_t(microBatch)));
  if (recompute != Recompute::None)
    add(recompute == Recompute::Full ? "full recomputation" : "scores recomputed");
  return text;
}

ParallelSearchResult intarsia::searchParallel(const TrainingRun &run, const Cluster &cluster,
                                              const ParallelFigures &figures, const ParallelSearchOptions &options) {
  return Search(run, cluster, figures, options).search();
}
