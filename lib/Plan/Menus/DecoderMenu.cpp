//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Menus of language models: pools, precisions, degrees and batches, timed by ServingCost.
//===----------------------------------------------------------------------------------------------------------===//
#include "Menus.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

/// Larger batches were not measured (catalogue/serving), so nothing is said of them.
constexpr int largestBatchTried = 512;
/// Stages of a pipeline that are tried.
constexpr int mostStages = 16;

void Menu::add(Choice choice, ChoiceMeaning meaning, StringRef pool) {
  std::string label = "@" + pool.str();
  auto say = [&](StringRef what, int value) {
    if (value > 1)
      label += (" " + what + Twine(value)).str();
  };
  if (!meaning.precision.empty())
    label += " " + meaning.precision;
  say("tensor ", meaning.tensor), say("pipeline ", meaning.pipeline), say("expert ", meaning.expert);
  say("data ", meaning.data), say("share 1/", meaning.parts), say("batch ", meaning.batch);
  choice.label = label;
  choices.push_back(std::move(choice));
  meanings.push_back(std::move(meaning));
}

double prefillMs(const ServingCost &cost, double newTokens, double cachedTokens) {
  double tokens = std::max(newTokens, 1.0);
  double alone = cost.firstToken(tokens).totalMs;
  if (cachedTokens <= 0)
    return alone;
  return alone + cost.firstToken(tokens + cachedTokens).cacheMs - cost.firstToken(cachedTokens).cacheMs -
         cost.firstToken(tokens).cacheMs;
}

/// For how long a prompt keeps others out. Cached tokens count as above, as a share of the time.
static double busyMs(const ServingCost &cost, double newTokens, double cachedTokens) {
  double tokens = std::max(newTokens, 1.0);
  return cost.prefillBusyMs(tokens) + prefillMs(cost, tokens, cachedTokens) - prefillMs(cost, tokens, 0);
}

/// What is offered where a model does not say: 16 bits, and 8 in the format that the device computes in. Formats of 4
/// bits change answers more than one may assume.
static std::vector<std::string> precisionsOf(const DecoderWork &work, const CatalogueDevice &device) {
  if (!work.precisions.empty())
    return work.precisions;
  std::vector<std::string> precisions{"bf16"};
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
         one.tokenMs <= other.tokenMs && perSecond(one) >= perSecond(other) &&
         one.firstOutputMs.value_or(one.milliseconds) <= other.firstOutputMs.value_or(other.milliseconds);
}

/// Takes away what is no better in anything than another choice in the same pool and precision.
static void prune(Menu &menu) {
  auto beats = [&](size_t a, size_t b) {
    return menu.meanings[a].precision == menu.meanings[b].precision && noWorse(menu.choices[a], menu.choices[b]);
  };
  Menu kept;
  for (size_t b = 0; b < menu.choices.size(); ++b) {
    bool dominated = false;
    for (size_t a = 0; a < menu.choices.size() && !dominated; ++a)
      dominated = a != b && beats(a, b) && (!beats(b, a) || a < b);
    if (dominated)
      continue;
    kept.choices.push_back(menu.choices[b]);
    kept.meanings.push_back(menu.meanings[b]);
  }
  menu.choices = std::move(kept.choices);
  menu.meanings = std::move(kept.meanings);
}

static Expected<ServingCost> costOf(const DecoderWork &work, const FleetPool &pool, const MenuOptions &options,
                                    NumberFormat format, const ParallelDegrees &degrees) {
  Deployment deployment;
  deployment.shape = work.shape;
  deployment.device = &pool.device;
  deployment.engine = options.engine;
  deployment.precision = usualPrecision(*work.shape, pool.device, format, NumberFormat::BF16);
  deployment.degrees = degrees;
  deployment.onePhase = true;
  return ServingCost::create(deployment, options.efficiency);
}

Expected<ServingCost> decoderCost(const DecoderWork &work, const Fleet &fleet, const MenuOptions &options,
                                  const Choice &choice, const ChoiceMeaning &meaning) {
  Expected<NumberFormat> format = parseNumberFormat(meaning.precision);
  if (!format)
    return format.takeError();
  return costOf(work, fleet.pools[choice.pool], options, *format,
                {meaning.tensor, meaning.data, meaning.expert, meaning.pipeline});
}

namespace {
class DecoderMenu {
public:
  DecoderMenu(const DecoderWork &work, const Fleet &fleet, const MenuOptions &options)
      : work(work), fleet(fleet), options(options) {}

  Expected<Menu> run() {
    for (int pool = 0; pool < int(fleet.pools.size()); ++pool)
      for (const std::string &name : precisionsOf(work, fleet.pools[pool].device)) {
        Expected<NumberFormat> format = parseNumberFormat(name == "f16" ? "bf16" : name);
        if (!format)
          return createStringError("model '" + work.model + "': " + toString(format.takeError()));
        addPool(pool, name, *format);
      }
    if (menu.choices.empty())
      return nowhere();
    if (work.prunes)
      prune(menu);
    return std::move(menu);
  }

private:
  const DecoderWork &work;
  const Fleet &fleet;
  const MenuOptions &options;
  Menu menu;
  double smallestWeights = unlimited; ///< in all devices of a replica, of what was tried
  std::string smallestPrecision;

  double sequenceTokens() const {
    return work.decodes ? work.contextTokens + work.writtenTokens : work.newTokens + work.cachedTokens;
  }

  void refuse(const FleetPool &pool, const Twine &why) {
    menu.refusals.push_back(("'" + work.model + "' on @" + pool.name + ": " + why).str());
  }

  bool headsDivide(int tensor) const {
    return llvm::all_of(work.shape->attention,
                        [&](const AttentionLayers &layers) { return layers.heads % tensor == 0; });
  }

  void addPool(int index, const std::string &name, NumberFormat format) {
    const FleetPool &pool = fleet.pools[index];
    // INT4 is a format of storage: its products are in BF16. All others compute in what they are stored in, or the
    // device is not offered: nothing stands in for a figure that the catalogue lacks.
    if (format != NumberFormat::INT4)
      if (Expected<double> peak = pool.device.peak(name == "f16" ? "bf16" : name); !peak)
        return refuse(pool, toString(peak.takeError()));
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
    for (int tensor = 1; tensor <= inside; tensor *= 2)
      if (headsDivide(tensor)) {
        attempt({tensor, 1, 1, 1});
        largest = tensor;
      }
    if (work.shape->experts)
      for (int devices = 2; devices <= inside; devices *= 2)
        attempt({1, devices, std::min(devices, work.shape->experts), 1});
    for (int stages = 2; !fits && stages <= std::min(mostStages, work.shape->layers); stages *= 2)
      attempt({largest, 1, 1, stages});
    if (!fits)
      refuse(pool, name + ": " + lastRefusal);
  }

  /// Powers of two up to `most`, and what lies between two of them where a bound does: a memory that holds 250 or a
  /// promise that 90 keep would cost up to twice as much with 128 or 64.
  std::set<int> batchesOf(const ServingCost &cost, double context, double most) const {
    std::set<int> batches{int(most)};
    for (int batch = 1; batch <= most; batch *= 2)
      batches.insert(batch);
    auto keeps = [&](int batch) { return cost.decodeStep(batch, context).totalMs <= work.tokenMsBound; };
    if (!work.promised || !keeps(1))
      return batches;
    int within = 1; // steps take longer the larger the batch
    for (int above = int(most) + 1; above - within > 1;) {
      int middle = (within + above) / 2;
      (keeps(middle) ? within : above) = middle;
    }
    batches.insert(within);
    return batches;
  }

  /// Adds all batches; says why there are none.
  std::string addDegrees(int index, const std::string &name, NumberFormat format, const ParallelDegrees &degrees) {
    const FleetPool &pool = fleet.pools[index];
    Expected<ServingCost> cost = costOf(work, pool, options, format, degrees);
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
      // While one prompt is computed, others are on their way in and out: the time of a prompt alone is longer than
      // that for which it keeps the devices busy.
      double busy = std::min(busyMs(*cost, work.newTokens, work.cachedTokens), choice.milliseconds);
      choice.slots = std::max(1, int(std::ceil(choice.milliseconds / busy - 1e-9)));
      choice.executionsPerSecond = 1000 / busy;
      if (choice.slots > *most)
        choice.slots = int(*most), choice.executionsPerSecond = choice.slots * 1000 / choice.milliseconds;
      meaning.batch = choice.slots;
      meaning.demand = {false, cost->promptFlopsPerDevice(std::max(work.newTokens, 1.0), work.cachedTokens),
                        cost->productFlopsPerSecond()};
      menu.add(choice, meaning, pool.name);
      return "";
    }
    // The first token comes with the cache.
    double tokens = std::max(work.writtenTokens - 1, 1.0);
    double context = work.contextTokens + work.writtenTokens / 2;
    double alone = cost->decodeStep(1, context).totalMs;
    bool added = false;
    for (int batch : batchesOf(*cost, context, std::min(*most, double(largestBatchTried)))) {
      if (batch < degrees.attentionData)
        continue;
      double step = cost->decodeStep(batch, context).totalMs;
      choice.milliseconds = step * tokens;
      choice.millisecondsAlone = std::min(alone, step) * tokens;
      choice.slots = batch;
      choice.firstOutputMs = work.every ? std::min(*work.every - 1, tokens) * step : 0;
      choice.firstOutputMs = std::max(0.0, *choice.firstOutputMs);
      choice.tokenMs = work.promised ? step : 0;
      choice.cacheTokens = *most * sequenceTokens();
      meaning.batch = batch;
      meaning.demand = {true, cost->stepBytesPerDevice(batch, context), cost->memoryBytesPerSecond()};
      menu.add(choice, meaning, pool.name);
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
    for (const std::string &refusal : menu.refusals)
      text += "\n  " + refusal;
    return createStringError(text);
  }
};
} // namespace

Expected<Menu> decoderMenu(const DecoderWork &work, const Fleet &fleet, const MenuOptions &options) {
  return DecoderMenu(work, fleet, options).run();
}

} // namespace intarsia::plan
