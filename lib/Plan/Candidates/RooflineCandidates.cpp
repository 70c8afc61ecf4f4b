//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Candidates of models other than language models: by the larger of arithmetic and memory.
//===----------------------------------------------------------------------------------------------------------===//
#include "Candidates.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace llvm;

namespace intarsia::plan {

/// Share of a device's memory for weights and indexes; as in ServingCost.
constexpr double usableMemory = 0.88;
constexpr int largestBatchTried = 64;

/// Returns the bytes of a stored number: f32 and f16 beside the formats of language models.
static Expected<double> bytesOfElement(StringRef name) {
  if (name == "f32")
    return 4;
  if (name == "f16")
    return 2;
  Expected<NumberFormat> format = parseNumberFormat(name);
  if (!format)
    return format.takeError();
  return bytesOf(*format);
}

/// Returns the precision if a model does not name one: 16 bits, or 32 on a device that does not compute in 16.
static std::string usualPrecision(const CatalogueDevice &device) {
  for (const char *precision : {"bf16", "f16", "f32"})
    if (device.peakTflops.count(precision))
      return precision;
  return "bf16";
}

namespace {
class RooflineCandidates {
public:
  RooflineCandidates(const RooflineWork &work, const Fleet &fleet, const CandidateOptions &options)
      : work(work), fleet(fleet),
        figures((options.efficiency ? *options.efficiency : ServingEfficiency::of(ServingEngine::VLLM)).figures) {}

  Expected<Candidates> run() {
    for (int pool = 0; pool < int(fleet.pools.size()); ++pool) {
      if (!fleet.pools[pool].device.wafer.empty()) {
        refuse(pool, "programs of wafers are timed for language models alone");
        continue;
      }
      if (!work.hasPrecision()) {
        add(pool, "", 0, 1);
        continue;
      }
      std::vector<std::string> precisions = work.precisions;
      if (precisions.empty())
        precisions = {usualPrecision(fleet.pools[pool].device)};
      const std::optional<MeasuredTimes> &measured = fleet.pools[pool].device.serving;
      for (const std::string &precision : precisions) {
        Expected<double> bytes = bytesOfElement(precision);
        if (!bytes)
          return createStringError(work.what + ": " + toString(bytes.takeError()));
        if (isEncoder() && measured && !measured->hasEncoder(precision)) {
          refuse(pool, "encoders in " + precision + " were not measured on it");
          continue;
        }
        Expected<double> peak = fleet.pools[pool].device.peak(precision == "int4" ? "bf16" : precision);
        if (!peak) {
          refuse(pool, toString(peak.takeError()));
          continue;
        }
        add(pool, precision, *bytes, *peak);
      }
    }
    if (candidates.choices.empty()) {
      std::string text = work.what + " fits nowhere";
      for (const std::string &refusal : candidates.refusals)
        text += "\n  " + refusal;
      return createStringError(text);
    }
    return std::move(candidates);
  }

private:
  const RooflineWork &work;
  const Fleet &fleet;
  const ServingFigures &figures;
  Candidates candidates;

  /// An encoder passes each unit of its input through its weights once.
  bool isEncoder() const { return work.hasPrecision() && work.passes == 1 && work.units > 0 && work.flops > 0; }

  void refuse(int pool, const Twine &why) {
    candidates.refusals.push_back((work.what + " on @" + fleet.pools[pool].name + ": " + why).str());
  }

  void add(int index, const std::string &precision, double bytesOfNumber, double peakTflops) {
    const FleetPool &pool = fleet.pools[index];
    Expected<double> memory = pool.device.need(pool.device.memoryGB, "memory_gb");
    if (!memory)
      return refuse(index, toString(memory.takeError()));
    Expected<double> bandwidth = pool.device.need(pool.device.memoryGBps, "memory_gbps");
    if (!bandwidth)
      return refuse(index, toString(bandwidth.takeError()));
    double weights = work.parameters * bytesOfNumber, usable = *memory * 1e9 * usableMemory;
    bool eight = bytesOfNumber == 1;
    double compute = eight ? figures.firstEightBitCompute : figures.firstSixteenBitCompute;
    bool added = false;
    auto addBatches = [&](int shards, int parts) {
      if (weights + work.heldBytes / shards > usable / parts)
        return;
      for (int batch = 1; batch <= (work.hasPrecision() ? largestBatchTried : 1); batch *= 2) {
        auto ms = [&](double together) {
          if (isEncoder() && pool.device.serving)
            return parts *
                   pool.device.serving->encoderUs(precision, work.flops / (2 * work.units), work.units * together) *
                   1e-3;
          double computeMs = together * work.flops / (peakTflops * 1e9 * compute);
          double memoryMs = (weights * work.passes + together * work.readBytes / shards) /
                            (*bandwidth * 1e6 * figures.denseBandwidth);
          return figures.stepUs * 1e-3 + parts * std::max(work.hasPrecision() ? computeMs : 0, memoryMs);
        };
        Choice choice;
        choice.pool = index;
        choice.devicesPerReplica = shards;
        choice.deviceShare = 1.0 / parts;
        choice.milliseconds = ms(batch);
        choice.millisecondsAlone = ms(1);
        choice.slots = batch;
        if (work.firstShare)
          choice.firstOutputMs = choice.milliseconds * std::clamp(*work.firstShare, 0.0, 1.0);
        ChoiceMeaning meaning;
        meaning.precision = precision;
        meaning.data = shards;
        meaning.parts = parts;
        meaning.batch = batch;
        candidates.add(choice, meaning, pool.name);
        added = true;
      }
    };
    // An index is split into as many shards as hold it; a model stays whole.
    int most = work.heldBytes > 0 ? int(std::min<int64_t>(pool.count, 64)) : 1;
    for (int shards = 1; shards <= most; shards *= 2)
      addBatches(shards, 1);
    for (int parts = 2; parts <= std::min(mostSharesOfDevice, pool.device.mostClients()); parts *= 2)
      addBatches(1, parts);
    if (!added)
      refuse(index, formatv("takes {0:F1} GB, {1} devices of {2:F0} GB are there", (weights + work.heldBytes) * 1e-9,
                            pool.count, *memory));
  }
};
} // namespace

Expected<Candidates> rooflineCandidates(const RooflineWork &work, const Fleet &fleet, const CandidateOptions &options) {
  return RooflineCandidates(work, fleet, options).run();
}

} // namespace intarsia::plan
