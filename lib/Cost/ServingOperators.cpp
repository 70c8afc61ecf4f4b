//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/ServingOperators.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace intarsia;

using Kind = AttentionLayers::Kind;

/// Element type of the matrix instructions of a linear with weights in a format.
static StringRef computedIn(NumberFormat format, NumberFormat compute) {
  switch (format) {
  case NumberFormat::F32:
    return "f32";
  case NumberFormat::BF16:
    return "bf16";
  case NumberFormat::FP8:
  case NumberFormat::INT8:
    return compute == NumberFormat::BF16 ? "bf16" : "fp8";
  case NumberFormat::FP4:
  case NumberFormat::INT4:
    return compute == NumberFormat::FP4 ? "fp4" : "bf16";
  }
  llvm_unreachable("all formats are listed");
}

static double activationBytes(StringRef type) {
  return type == "fp4" ? bytesOf(NumberFormat::FP4) : type == "fp8" ? 1 : 2;
}

double ServingOperators::linearUs(double rows, double columns, double depth, NumberFormat format,
                                  double matrices) const {
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Linear;
  shape.batch = matrices;
  shape.rows = std::max(1.0, rows);
  shape.columns = columns;
  shape.depth = depth;
  StringRef type = computedIn(format, what.precision.compute);
  shape.inputBytes = activationBytes(type);
  shape.weightBytes = bytesOf(format);
  return costs->microseconds(shape, type);
}

/// Returns the expected largest of independent standard normal values: their quantile at (n − 3/8) / (n + 1/4) (Blom
/// 1958), by formula 26.2.23 of Abramowitz and Stegun.
static double largestNormal(double count) {
  if (count <= 1)
    return 0;
  double t = std::sqrt(-2 * std::log(1 - (count - 0.375) / (count + 0.25)));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

double ServingOperators::expertsUs(double rows) const {
  const ModelShape &model = *what.shape;
  double group = what.degrees.tensor * what.degrees.attentionData, expert = what.degrees.expert;
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Experts;
  double sent = rows * model.expertsPerToken / expert;
  // A step waits for the device that most experts are touched on: the numbers on the devices are nearly binomial, and
  // add up to that of all devices.
  double each = model.experts / expert, share = model.expertsTouched(rows, dispersion);
  double spread = std::sqrt(each * share * (1 - share) * (1 - 1 / expert));
  shape.experts = std::clamp(each * share + spread * largestNormal(expert), 1.0, std::max(1.0, each));
  shape.rows = std::max(shape.experts, sent);
  shape.columns = model.expertWidth / (group / expert);
  shape.depth = model.hidden;
  StringRef type = computedIn(what.precision.weights, what.precision.compute);
  shape.inputBytes = activationBytes(type);
  shape.weightBytes = bytesOf(what.precision.weights);
  return costs->microseconds(shape, type);
}

double ServingOperators::decodeUs(const AttentionLayers &layers, double sequences, double positions,
                                  double context) const {
  double tensor = what.degrees.tensor, heads = std::max(1.0, layers.heads / tensor);
  if (layers.kind == Kind::Linear) // a convolution, and the update of the state
    return 2 * costs->launchUs() + costs->streamUs(2 * layers.stateBytes() * sequences * heads / layers.heads);
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Decode;
  shape.batch = std::max(1.0, sequences);
  shape.rows = std::max(1.0, positions / shape.batch);
  shape.columns = std::max(1.0, layers.visible(context));
  shape.heads = heads;
  shape.keyHeads = layers.kind == Kind::Latent ? 1 : std::max(1.0, layers.keyHeads / tensor);
  shape.window = 0;
  bool latent = layers.kind == Kind::Latent;
  shape.depth = latent ? (2.0 * layers.cacheRank + layers.rotaryDim) / 2 : (layers.keyDim + layers.valueDim) / 2.0;
  shape.weightBytes = bytesOf(what.precision.cache);
  if (latent)
    shape.cachedDepth = layers.cacheRank + layers.rotaryDim;
  double us = costs->microseconds(shape, "bf16");
  if (layers.selectedTokens) // scores of the indexer, and the selection
    us += 2 * costs->launchUs() + costs->streamUs(sequences * context * (layers.indexDim + 4));
  return us;
}

double ServingOperators::prefillUs(const AttentionLayers &layers, double prompts, double tokens) const {
  double tensor = what.degrees.tensor, heads = std::max(1.0, layers.heads / tensor);
  if (layers.kind == Kind::Linear)
    return 4 * costs->launchUs() +
           costs->streamUs(prompts * tokens * heads * (2 * layers.keyDim + 3 * layers.valueDim) * 2);
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Prefill;
  shape.batch = std::max(1.0, prompts);
  shape.rows = std::max(1.0, tokens);
  shape.columns = shape.rows;
  shape.heads = heads;
  bool latent = layers.kind == Kind::Latent;
  shape.keyHeads = latent ? heads : std::max(1.0, layers.keyHeads / tensor);
  shape.window = layers.window;
  shape.depth = (layers.keyDim + (latent ? layers.rotaryDim : 0) + layers.valueDim) / 2.0;
  shape.weightBytes = bytesOf(what.precision.cache);
  if (latent)
    shape.cachedDepth = 2 * shape.depth;
  return costs->microseconds(shape, "bf16");
}

double ServingOperators::projectionsUs(const AttentionLayers &layers, double rows, bool isPrompt) const {
  double tensor = what.degrees.tensor, hidden = what.shape->hidden;
  double heads = std::max(1.0, layers.heads / tensor), keyHeads = std::max(1.0, layers.keyHeads / tensor);
  NumberFormat format = what.precision.attention;
  double us = linearUs(rows, hidden, heads * layers.valueDim, what.precision.attentionOutput.value_or(format));
  switch (layers.kind) {
  case Kind::Grouped: {
    double values = layers.valuesAreKeys ? 0 : keyHeads * layers.valueDim;
    double queries = heads * layers.keyDim * (layers.outputGate ? 2 : 1);
    us += linearUs(rows, queries + keyHeads * layers.keyDim + values, hidden, format);
    break;
  }
  case Kind::Latent:
    us += linearUs(rows, layers.queryRank + layers.cacheRank + layers.rotaryDim, hidden, format) +
          linearUs(rows, heads * (layers.keyDim + layers.rotaryDim), layers.queryRank, format);
    // Prompts expand keys and values; decoding multiplies queries and results by the same weights, head by head.
    if (isPrompt)
      us += linearUs(rows, heads * (layers.keyDim + layers.valueDim), layers.cacheRank, format);
    else
      us += linearUs(rows, layers.cacheRank, layers.keyDim, NumberFormat::BF16, heads) +
            linearUs(rows, layers.valueDim, layers.cacheRank, NumberFormat::BF16, heads);
    break;
  case Kind::Linear:
    us += linearUs(rows, 2 * keyHeads * layers.keyDim + heads * (2.0 * layers.valueDim + 2), hidden, format);
    break;
  }
  if (layers.indexHeads)
    us += linearUs(rows, double(layers.indexHeads) * layers.indexDim, layers.queryRank, format) +
          linearUs(rows, layers.indexDim + layers.indexHeads, hidden, NumberFormat::BF16);
  return us;
}

double ServingOperators::feedForwardUs(double rows, double width) const {
  double hidden = what.shape->hidden, each = width / what.degrees.tensor;
  return linearUs(rows, (what.shape->feedForwardMatrices - 1) * each, hidden, what.precision.weights) +
         linearUs(rows, hidden, each, what.precision.weights);
}

double ServingOperators::sharedBesideUs(double rows, double expertsUs) const {
  // Engines compute them on a stream of their own beside the experts, or as one more expert (SGLang). What is left is
  // reading their weights, as the memory is shared, and what outlasts the experts.
  double us = feedForwardUs(rows, what.shape->sharedWidth);
  double parameters =
      what.shape->feedForwardMatrices * what.shape->sharedWidth * what.shape->hidden / what.degrees.tensor;
  return std::min(us, std::max(costs->streamUs(parameters * bytesOf(what.precision.weights)), us - expertsUs));
}

OperatorTimes ServingOperators::rowsOf(double rows, bool isPrompt) const {
  auto [entry, isNew] = byRows.try_emplace({isPrompt, rows});
  OperatorTimes &times = entry->second;
  if (!isNew)
    return times;
  const ModelShape &model = *what.shape;
  for (const AttentionLayers &layers : model.attention)
    times.linearUs += layers.layers * projectionsUs(layers, rows, isPrompt);
  if (model.denseLayers)
    times.linearUs += model.denseLayers * feedForwardUs(rows, model.denseWidth);
  if (model.expertLayers) {
    times.linearUs += model.expertLayers * linearUs(rows, model.experts, model.hidden, NumberFormat::BF16);
    double routedUs = expertsUs(rows * what.degrees.attentionData);
    if (model.sharedWidth > 0)
      times.linearUs +=
          model.expertLayers * (isPrompt ? feedForwardUs(rows, model.sharedWidth) : sharedBesideUs(rows, routedUs));
    times.expertsUs = model.expertLayers * routedUs;
  }
  return times;
}

double ServingOperators::headUs(double rows) const {
  return linearUs(rows, double(what.shape->vocabulary) / what.degrees.tensor, what.shape->hidden, NumberFormat::BF16);
}

OperatorTimes ServingOperators::step(double sequences, double positions, double context) const {
  auto [entry, isNew] = byQuestion.try_emplace({false, sequences, positions, context, 0});
  OperatorTimes &times = entry->second;
  if (!isNew)
    return times;
  times = rowsOf(positions, /*isPrompt=*/false);
  for (const AttentionLayers &layers : what.shape->attention)
    times.attentionUs += layers.layers * decodeUs(layers, sequences, positions, context);
  times.linearUs += headUs(positions);
  return times;
}

OperatorTimes ServingOperators::prompt(double prompts, double tokens) const {
  auto [entry, isNew] = byQuestion.try_emplace({true, prompts, tokens, 0, 0});
  OperatorTimes &times = entry->second;
  if (!isNew)
    return times;
  times = rowsOf(prompts * tokens, /*isPrompt=*/true);
  for (const AttentionLayers &layers : what.shape->attention)
    times.attentionUs += layers.layers * prefillUs(layers, prompts, tokens);
  times.linearUs += headUs(prompts);
  return times;
}

OperatorTimes ServingOperators::promptBeside(double prompts, double tokens, double beside, double steps) const {
  auto [entry, isNew] = byQuestion.try_emplace({true, prompts, tokens, beside, steps});
  OperatorTimes &times = entry->second;
  if (!isNew)
    return times;
  OperatorTimes together = rowsOf(prompts * tokens / steps + beside, /*isPrompt=*/true);
  OperatorTimes without = rowsOf(beside, /*isPrompt=*/true);
  times.linearUs = steps * std::max(0.0, together.linearUs - without.linearUs);
  times.expertsUs = steps * std::max(0.0, together.expertsUs - without.expertsUs);
  for (const AttentionLayers &layers : what.shape->attention)
    times.attentionUs += layers.layers * prefillUs(layers, prompts, tokens);
  return times;
}

double ServingOperators::allReduceUs(double devices, double bytes) const {
  return intarsia::allReduceUs(devices, bytes, linkGBps, *reduction);
}

/// Completes a device by the measured one that stands for it.
static CatalogueDevice complete(const CatalogueDevice &device) {
  CatalogueDevice completed = device;
  const auto &families = GpuKernelTable::get().families;
  if (!families.count(device.generation) && families.count(device.efficiencyOf))
    completed.generation = device.efficiencyOf;
  if (device.multiprocessors && device.cacheMB)
    return completed;
  for (const CatalogueDevice &other : catalogueDevices()) {
    bool isMeasured = any_of(GpuKernelTable::get().fits, [&](const GpuKernelFit &fit) { return fit.of == other.name; });
    if (!isMeasured || other.generation != completed.generation)
      continue;
    if (!completed.multiprocessors)
      completed.multiprocessors = other.multiprocessors;
    if (!completed.cacheMB)
      completed.cacheMB = other.cacheMB;
    break;
  }
  return completed;
}

Expected<ServingOperators> ServingOperators::create(const Deployment &what, double dispersion) {
  ServingOperators operators;
  operators.what = what;
  operators.dispersion = dispersion;
  operators.device = std::make_shared<const CatalogueDevice>(complete(*what.device));
  Expected<GpuCosts> costs = GpuCosts::create(*operators.device);
  if (!costs)
    return costs.takeError();
  operators.costs = std::make_shared<const GpuCosts>(std::move(*costs));
  operators.reduction = &GpuKernelTable::get().allReduce(*operators.device);
  if (what.degrees.devices() > 1) {
    Expected<double> link = what.device->linkOneWayGBps();
    if (!link)
      return link.takeError();
    operators.linkGBps = *link;
  }
  return operators;
}
