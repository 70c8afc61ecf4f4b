//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Candidates of language models: pools, precisions, degrees and batches, timed by ServingCost.
//===----------------------------------------------------------------------------------------------------------===//
#include "Candidates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

/// Largest batch; larger ones were not measured (catalogue/serving).
constexpr int largestBatchTried = 512;
/// Largest number of pipeline stages.
constexpr int mostStages = 16;
/// Chunk of a prompt that is computed between the steps of decodes: the default of vLLM (max_num_batched_tokens on
/// devices of 70 GB and more) and of TensorRT-LLM (max_num_tokens).
constexpr double tokensPerChunk = 8192;
/// Limit of the time share in which prompts keep decoding replicas busy.
constexpr double mostBusyByPrompts = 0.95;
/// Limits of that share on a wafer, which has one sequence at a time: each is a choice.
constexpr double busyOfWafers[] = {0.25, 0.5, 0.75, mostBusyByPrompts};
/// A choice must have a probability of waiting above zero. This one is for a wait that adds no time.
constexpr double leastProbability = 1e-12;

void Candidates::add(Choice choice, ChoiceMeaning meaning, StringRef pool) {
  std::string label = "@" + pool.str();
  auto say = [&](StringRef what, int value) {
    if (value > 1)
      label += (" " + what + Twine(value)).str();
  };
  if (!meaning.precision.empty())
    label += " " + meaning.precision;
  say("tensor ", meaning.tensor), say("pipeline ", meaning.pipeline), say("expert ", meaning.expert);
  say("data ", meaning.data), say("share 1/", meaning.parts), say("batch ", meaning.batch);
  if (meaning.aggregate)
    label += " aggregated";
  choice.label = label;
  choices.push_back(std::move(choice));
  meanings.push_back(std::move(meaning));
}

void Candidates::keep(llvm::function_ref<bool(size_t)> wanted) {
  Candidates kept;
  for (size_t index = 0; index < choices.size(); ++index)
    if (wanted(index)) {
      kept.choices.push_back(choices[index]);
      kept.meanings.push_back(meanings[index]);
    }
  choices = std::move(kept.choices);
  meanings = std::move(kept.meanings);
}

double prefillMs(const ServingCost &cost, double newTokens, double cachedTokens) {
  double tokens = std::max(newTokens, 1.0);
  double alone = cost.firstToken(tokens).totalMs;
  if (cachedTokens <= 0)
    return alone;
  // Measured times have parts that do not grow with the tokens. The difference would count them as time saved.
  double overCached = cost.firstToken(tokens + cachedTokens).cacheMs - cost.firstToken(cachedTokens).cacheMs -
                      cost.firstToken(tokens).cacheMs;
  return alone + std::max(0.0, overCached);
}

/// Returns for how long a prompt occupies the devices. Cached tokens add the same time as in prefillMs.
static double busyMs(const ServingCost &cost, double newTokens, double cachedTokens) {
  double tokens = std::max(newTokens, 1.0);
  return cost.prefillBusyMs(tokens) + prefillMs(cost, tokens, cachedTokens) - prefillMs(cost, tokens, 0);
}

std::vector<std::string> precisionsOf(const DecoderWork &work, const CatalogueDevice &device) {
  if (!work.precisions.empty())
    return work.precisions;
  if (!device.wafer.empty())
    return {"f16"};
  std::vector<std::string> precisions{"bf16"};
  if (device.serving) { // what was measured
    precisions.clear();
    for (const char *measured : {"bf16", "f32", "int8"})
      if (device.serving->hasDecoder(measured))
        precisions.push_back(measured);
    return precisions;
  }
  for (const char *eight : {"fp8", "int8"})
    if (precisions.size() == 1 && device.peakTflops.count(eight))
      precisions.push_back(eight);
  return precisions;
}

bool noWorse(const Choice &one, const Choice &other) {
  auto perSecond = [](const Choice &choice) {
    return choice.executionsPerSecond.value_or(choice.slots * 1000.0 / choice.milliseconds);
  };
  auto alone = [](const Choice &choice) { return choice.millisecondsAlone.value_or(choice.milliseconds); };
  return one.pool == other.pool && one.devicesPerReplica <= other.devicesPerReplica &&
         one.deviceShare <= other.deviceShare && one.milliseconds <= other.milliseconds && alone(one) <= alone(other) &&
         one.tokenMs <= other.tokenMs && one.turnWaitMs <= other.turnWaitMs &&
         one.turnProbability <= other.turnProbability && perSecond(one) >= perSecond(other) &&
         one.firstOutputMs.value_or(one.milliseconds) <= other.firstOutputMs.value_or(other.milliseconds);
}

/// Removes the choices that another one in the same pool and precision dominates.
static void prune(Candidates &candidates) {
  auto beats = [&](size_t a, size_t b) {
    return candidates.meanings[a].precision == candidates.meanings[b].precision &&
           noWorse(candidates.choices[a], candidates.choices[b]);
  };
  candidates.keep([&](size_t b) {
    for (size_t a = 0; a < candidates.choices.size(); ++a)
      if (a != b && beats(a, b) && (!beats(b, a) || a < b))
        return false;
    return true;
  });
}

bool Candidates::noWorseAggregate(int one, int other) const {
  for (auto [choice, meaning] : llvm::zip(choices, meanings)) {
    bool found = meaning.aggregate != other;
    for (size_t a = 0; a < choices.size() && !found; ++a)
      found = meanings[a].aggregate == one && noWorse(choices[a], choice);
    if (!found)
      return false;
  }
  return true;
}

/// Removes the aggregates that another one in the same pool and precision dominates in all their choices.
static void prune(AggregatedCandidates &candidateSets) {
  // An aggregate is one prefill and one decode, at the same index of both.
  const Candidates &prefill = candidateSets.prefill, &decode = candidateSets.decode;
  size_t count = prefill.choices.size();
  assert(decode.choices.size() == count);
  auto beats = [&](size_t a, size_t b) {
    return prefill.meanings[a].precision == prefill.meanings[b].precision &&
           noWorse(prefill.choices[a], prefill.choices[b]) && noWorse(decode.choices[a], decode.choices[b]);
  };
  std::vector<bool> dropped(count);
  for (size_t b = 0; b < count; ++b)
    for (size_t a = 0; a < count && !dropped[b]; ++a)
      dropped[b] = a != b && !dropped[a] && beats(a, b) && (!beats(b, a) || a < b);
  for (Candidates *candidates : {&candidateSets.prefill, &candidateSets.decode})
    candidates->keep([&](size_t choice) { return !dropped[choice]; });
}

static Expected<NumberFormat> formatOf(const std::string &precision) {
  return parseNumberFormat(precision == "f16" ? "bf16" : precision);
}

/// Checks that the device computes in the format. INT4 is a storage format: its matrices are multiplied in BF16. All
/// others compute in the format that they are stored in; a device whose figure the catalogue lacks is not offered.
static Error computesIn(const CatalogueDevice &device, const std::string &precision, NumberFormat format) {
  if (!device.wafer.empty() && precision == "bf16")
    return createStringError("cores of wafers multiply f16, not bf16: add f16 to the 'precisions' of the model");
  // ServingCost says what was measured, and what wafers have.
  if (format == NumberFormat::INT4 || device.serving || !device.wafer.empty())
    return Error::success();
  return device.peak(precision == "f16" ? "bf16" : precision).takeError();
}

/// Returns the tokens that a mean sequence has at its end.
static double sequenceTokensOf(const DecoderWork &work) {
  return work.decodes ? work.contextTokens + work.writtenTokens : work.newTokens + work.cachedTokens;
}

static Deployment deploymentOf(const DecoderWork &work, const FleetPool &pool, const CandidateOptions &options,
                               NumberFormat format, const ParallelDegrees &degrees, bool aggregated) {
  Deployment deployment;
  deployment.shape = work.shape;
  deployment.device = &pool.device;
  deployment.engine = options.engine;
  deployment.precision = usualPrecision(*work.shape, pool.device, format, work.cache);
  deployment.degrees = degrees;
  deployment.onePhase = !aggregated;
  deployment.wafers = options.wafers;
  deployment.sequenceTokens = sequenceTokensOf(work);
  return deployment;
}

static Expected<ServingCost> costOf(const DecoderWork &work, const FleetPool &pool, const CandidateOptions &options,
                                    NumberFormat format, const ParallelDegrees &degrees, bool aggregated) {
  return ServingCost::create(deploymentOf(work, pool, options, format, degrees, aggregated), options.efficiency);
}

Expected<ServingCost> decoderCost(const DecoderWork &work, const Fleet &fleet, const CandidateOptions &options,
                                  const Choice &choice, const ChoiceMeaning &meaning) {
  Expected<NumberFormat> format = formatOf(meaning.precision);
  if (!format)
    return format.takeError();
  return costOf(work, fleet.pools[choice.pool], options, *format,
                {meaning.tensor, meaning.data, meaning.expert, meaning.pipeline}, meaning.aggregate > 0);
}

static bool headsDivide(const ModelShape &shape, int tensor) {
  return llvm::all_of(shape.attention, [&](const AttentionLayers &layers) { return layers.heads % tensor == 0; });
}

/// Returns times and slots of a decode of `batch` sequences at once, without its pool.
static Choice decodeChoice(const DecoderWork &work, int batch, double stepMs, double aloneMs) {
  // The first token comes with the cache.
  double tokens = std::max(work.writtenTokens - 1, 1.0);
  Choice choice;
  choice.milliseconds = stepMs * tokens;
  choice.millisecondsAlone = std::min(aloneMs, stepMs) * tokens;
  choice.slots = batch;
  choice.firstOutputMs = work.every ? std::max(0.0, std::min(*work.every - 1, tokens) * stepMs) : 0;
  choice.tokenMs = work.promised ? stepMs : 0;
  return choice;
}

namespace {
class DecoderCandidates {
public:
  /// With `prompts`, makes the candidates of a decode that has its prefill in the same replicas.
  DecoderCandidates(const DecoderWork &work, const DecoderWork *prompts, const Fleet &fleet,
                    const CandidateOptions &options)
      : work(work), prompts(prompts), fleet(fleet), options(options) {}

  Error addAll() {
    for (int pool = 0; pool < int(fleet.pools.size()); ++pool)
      for (const std::string &name : precisionsOf(work, fleet.pools[pool].device)) {
        Expected<NumberFormat> format = formatOf(name);
        if (!format)
          return createStringError("model '" + work.model + "': " + toString(format.takeError()));
        addPool(pool, name, *format);
      }
    return Error::success();
  }

  Expected<Candidates> run() {
    if (Error error = addAll())
      return error;
    if (candidates.choices.empty())
      return nowhere();
    if (work.prunes)
      prune(candidates);
    return std::move(candidates);
  }

  AggregatedCandidates runAggregated() {
    AggregatedCandidates result;
    // The separate candidate sets report the error.
    if (Error error = addAll()) {
      consumeError(std::move(error));
      return result;
    }
    result.decode = std::move(candidates);
    result.prefill = std::move(prefills);
    if (work.prunes)
      prune(result);
    return result;
  }

private:
  const DecoderWork &work;
  const DecoderWork *prompts;
  const Fleet &fleet;
  const CandidateOptions &options;
  Candidates candidates, prefills;
  int aggregates = 0;
  double smallestWeights = unlimited; ///< smallest total over all devices of a replica, among the degrees tried
  std::string smallestPrecision;

  double sequenceTokens() const { return sequenceTokensOf(work); }

  void refuse(const FleetPool &pool, const Twine &why) {
    candidates.refusals.push_back(("'" + work.model + "' on @" + pool.name + ": " + why).str());
  }

  void addPool(int index, const std::string &name, NumberFormat format) {
    const FleetPool &pool = fleet.pools[index];
    if (Error error = computesIn(pool.device, name, format))
      return refuse(pool, toString(std::move(error)));
    int inside = int(std::min({pool.perNode, pool.count, int64_t(64)}));
    bool fits = false;
    std::string lastRefusal;
    auto attempt = [&](ParallelDegrees degrees) {
      if (degrees.devices() > pool.count)
        return;
      std::string why = addDegrees(index, name, format, degrees);
      if (why.empty())
        fits = true;
      else
        lastRefusal = why;
    };
    int largest = 1;
    if (!pool.device.wafer.empty())
      inside = 1;
    for (int tensor = 1; tensor <= inside; tensor *= 2)
      if (headsDivide(*work.shape, tensor)) {
        attempt({tensor, 1, 1, 1});
        largest = tensor;
      }
    if (work.shape->experts)
      for (int devices = 2; devices <= inside; devices *= 2)
        attempt({1, devices, std::min(devices, work.shape->experts), 1});
    bool isWafer = !pool.device.wafer.empty(); // whose layers any number of wafers share
    for (int stages = 2; !fits && stages <= std::min(mostStages, work.shape->layers); stages += isWafer ? 1 : stages)
      attempt({largest, 1, 1, stages});
    if (!fits)
      refuse(pool, name + ": " + lastRefusal);
  }

  /// Returns powers of two up to `most`, and the largest batches that memory and the bound on a forward step allow:
  /// where 250 fit, or 90 keep the bound, rounding down to 128 or 64 would cost up to twice as much. `stepMs` is the
  /// time of a forward step by batch.
  template <typename Step> std::set<int> batchesOf(double most, Step stepMs) const {
    std::set<int> batches{int(most)};
    for (int batch = 1; batch <= most; batch *= 2)
      batches.insert(batch);
    auto keeps = [&](int batch) { return stepMs(batch) <= work.tokenMsBound; };
    if (!work.promised || !keeps(1))
      return batches;
    int within = 1; // a forward step takes longer the larger the batch
    for (int above = int(most) + 1; above - within > 1;) {
      int middle = (within + above) / 2;
      (keeps(middle) ? within : above) = middle;
    }
    batches.insert(within);
    return batches;
  }

  /// Adds a decode with its batch and step time.
  void addDecode(const Choice &where, ChoiceMeaning meaning, const ServingCost &cost, int batch, double stepMs,
                 double aloneMs) {
    Choice choice = decodeChoice(work, batch, stepMs, aloneMs);
    choice.pool = where.pool;
    choice.devicesPerReplica = where.devicesPerReplica;
    choice.cacheTokens = where.cacheTokens;
    meaning.batch = batch;
    meaning.demand = {true, cost.stepBytesPerDevice(batch, contextOfStep()), cost.memoryBytesPerSecond()};
    candidates.add(choice, meaning, fleet.pools[choice.pool].name);
  }
  double contextOfStep() const { return work.contextTokens + work.writtenTokens / 2; }

  /// Adds pairs for all batches; returns the reason if there are none.
  std::string addAggregated(Choice choice, ChoiceMeaning meaning, const ServingCost &cost, double most) {
    double newTokens = std::max(prompts->newTokens - prompts->generatedTokens, 1.0);
    double cachedTokens = prompts->cachedTokens + std::min(prompts->generatedTokens, prompts->newTokens);
    double alone = prefillMs(cost, newTokens, cachedTokens);
    double busy = std::min(busyMs(cost, newTokens, cachedTokens), alone),
           tokens = std::max(work.writtenTokens - 1, 1.0);
    double chunks = std::ceil(newTokens / tokensPerChunk);
    // Prompts of the others, and the scores of their cached tokens.
    double overCached = std::max(0.0, alone - prefillMs(cost, newTokens, 0)) * cost.interference();
    auto stepMs = [&](int batch) {
      return cost.decodeStep(batch, contextOfStep()).totalMs + cost.promptsInStepMs(batch, newTokens, tokens) +
             (batch - 1) / tokens * overCached;
    };
    std::set<int> batches = batchesOf(std::min(most, double(largestBatchTried)), stepMs);
    bool added = false;
    for (int batch : batches) {
      double step = stepMs(batch), perMs = batch / (step * tokens), utilization = perMs * busy;
      if (batch < meaning.data || utilization > mostBusyByPrompts)
        continue;
      Choice guest;
      guest.pool = choice.pool;
      guest.milliseconds = alone + chunks * cost.decodeStep(batch, contextOfStep()).totalMs;
      // Pollaczek and Khinchine; the variation of prompts also varies their turns.
      guest.turnMs = busy, guest.turnProbability = utilization;
      guest.turnWaitMs = utilization / (2 * (1 - utilization)) * busy * prompts->squaredPrompt;
      double inPrompts = perMs * (guest.milliseconds + guest.turnWaitMs);
      if (batch + inPrompts > most)
        continue;
      meaning.aggregate = ++aggregates;
      meaning.batch = batch;
      choice.cacheTokens = (most - inPrompts) * sequenceTokens();
      addDecode(choice, meaning, cost, batch, step, stepMs(1));
      meaning.demand = {false, cost.promptFlopsPerDevice(newTokens, cachedTokens), cost.matmulFlopsPerSecond()};
      prefills.add(guest, meaning, fleet.pools[choice.pool].name);
      added = true;
    }
    return added ? "" : "prompts leave no time or no room for a decode";
  }

  /// Adds a wafer that computes a prompt and then its tokens, before the next request: M/G/1. Tokens are as fast as
  /// alone, the decode keeps the wafer for prompt and tokens.
  void addOneByOne(Choice choice, ChoiceMeaning meaning, const ServingCost &cost) {
    double newTokens = std::max(prompts->newTokens - prompts->generatedTokens, 1.0);
    double cachedTokens = prompts->cachedTokens + std::min(prompts->generatedTokens, prompts->newTokens);
    double promptMs = prefillMs(cost, newTokens, cachedTokens), stepMs = cost.decodeStep(1, contextOfStep()).totalMs;
    double tokensMs = stepMs * std::max(work.writtenTokens - 1, 1.0), requestMs = promptMs + tokensMs;
    double variance =
        promptMs * promptMs * (prompts->squaredPrompt - 1) + tokensMs * tokensMs * (work.squaredWritten - 1);
    for (double mostBusy : busyOfWafers) {
      Choice guest;
      guest.pool = choice.pool;
      guest.milliseconds = promptMs;
      guest.turnMs = requestMs, guest.turnProbability = mostBusy;
      guest.turnWaitMs = mostBusy / (2 * (1 - mostBusy)) * (requestMs + variance / requestMs);
      meaning.aggregate = ++aggregates;
      meaning.demand = {false, cost.promptFlopsPerDevice(newTokens, cachedTokens), cost.matmulFlopsPerSecond()};
      prefills.add(guest, meaning, fleet.pools[choice.pool].name);
      Choice decode = decodeChoice(work, 1, stepMs, stepMs);
      decode.pool = choice.pool;
      decode.devicesPerReplica = choice.devicesPerReplica;
      decode.milliseconds = requestMs / mostBusy;
      decode.millisecondsAlone = decode.milliseconds;
      decode.firstOutputMs = 0;
      decode.turnProbability = leastProbability; // the wait for the wafer is the prompt's, and not counted again
      meaning.demand = {true, cost.stepBytesPerDevice(1, contextOfStep()), cost.memoryBytesPerSecond()};
      candidates.add(decode, meaning, fleet.pools[choice.pool].name);
    }
  }

  /// Adds all batches; returns the reason if there are none.
  std::string addDegrees(int index, const std::string &name, NumberFormat format, const ParallelDegrees &degrees) {
    const FleetPool &pool = fleet.pools[index];
    Expected<ServingCost> cost = costOf(work, pool, options, format, degrees, prompts != nullptr);
    if (!cost)
      return toString(cost.takeError());
    if (double bytes = cost->weightBytesPerDevice() * degrees.devices(); bytes < smallestWeights) {
      smallestWeights = bytes;
      smallestPrecision = name;
    }
    Expected<double> most = cost->largestBatch(sequenceTokens());
    if (!most)
      return toString(most.takeError());
    if (*most < 1)
      return formatv("beside the weights there is no room for the cache of one sequence of {0:F0} tokens",
                     sequenceTokens());
    ChoiceMeaning meaning{name, degrees.tensor, degrees.pipeline, degrees.expert, degrees.attentionData, 1, false};
    Choice choice;
    choice.pool = index;
    choice.devicesPerReplica = degrees.devices();
    if (!work.decodes) {
      choice.milliseconds = prefillMs(*cost, work.newTokens, work.cachedTokens);
      // While one prompt is computed, others are on their way in and out: the time of a prompt alone is longer than the
      // time for which it keeps the devices busy.
      double busy = std::min(busyMs(*cost, work.newTokens, work.cachedTokens), choice.milliseconds);
      choice.slots = std::max(1, int(std::ceil(choice.milliseconds / busy - 1e-9)));
      choice.executionsPerSecond = 1000 / busy;
      if (choice.slots > *most)
        choice.slots = int(*most), choice.executionsPerSecond = choice.slots * 1000 / choice.milliseconds;
      meaning.batch = choice.slots;
      meaning.demand = {false, cost->promptFlopsPerDevice(std::max(work.newTokens, 1.0), work.cachedTokens),
                        cost->matmulFlopsPerSecond()};
      candidates.add(choice, meaning, pool.name);
      return "";
    }
    if (prompts && cost->onWafer()) {
      addOneByOne(choice, meaning, *cost);
      return "";
    }
    if (prompts)
      return addAggregated(choice, meaning, *cost, *most);
    auto stepMs = [&](int batch) { return cost->decodeStep(batch, contextOfStep()).totalMs; };
    if (!cost->onWafer()) // which has one sequence, whatever its length is
      choice.cacheTokens = *most * sequenceTokens();
    bool added = false;
    for (int batch : batchesOf(std::min(*most, double(largestBatchTried)), stepMs))
      if (batch >= degrees.attentionData) {
        addDecode(choice, meaning, *cost, batch, stepMs(batch), stepMs(1));
        added = true;
      }
    if (added)
      return "";
    return formatv("room for {0:F0} sequences, attention over {1} devices needs as many", *most, degrees.attentionData);
  }

  Error nowhere() const {
    const FleetPool *best = nullptr;
    double bestBytes = 0;
    for (const FleetPool &pool : fleet.pools)
      if (pool.device.memoryGB && pool.device.memoryGB->value * pool.count >= bestBytes) {
        best = &pool;
        bestBytes = pool.device.memoryGB->value * pool.count;
      }
    std::string text = "model '" + work.model + "' (" + work.shape->name + ") " +
                       (smallestWeights < unlimited ? "fits nowhere" : "has no pool that computes in its precisions");
    if (best && smallestWeights < unlimited)
      text += formatv(": its weights take {0:F1} GB in {1}, and the largest pool @{2} has {3} devices of {4:F0} GB "
                      "({5:F0} GB in all, of which 88 % are for weights and caches); add devices with more memory, or "
                      "allow fewer bits in 'precisions'",
                      smallestWeights * 1e-9, smallestPrecision, best->name, best->count, best->device.memoryGB->value,
                      bestBytes);
    for (const std::string &refusal : candidates.refusals)
      text += "\n  " + refusal;
    return createStringError(text);
  }
};
} // namespace

Expected<Candidates> decoderCandidates(const DecoderWork &work, const Fleet &fleet, const CandidateOptions &options) {
  return DecoderCandidates(work, nullptr, fleet, options).run();
}

AggregatedCandidates aggregatedCandidates(const DecoderWork &prefill, const DecoderWork &decode, const Fleet &fleet,
                                          const CandidateOptions &options) {
  return DecoderCandidates(decode, &prefill, fleet, options).runAggregated();
}

} // namespace intarsia::plan
