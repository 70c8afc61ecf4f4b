//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ServingCost.h"
#include "lib/Cost/ServingOperators.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;
using namespace intarsia;

using Kind = AttentionLayers::Kind;

/// Share of a device's memory for weights and caches: engines keep the rest for activations and graphs (vLLM's
/// gpu_memory_utilization is 0.9 by default).
static constexpr double usableMemory = 0.88;

/// Returns (a^q + b^q)^(1/q).
static double blended(double a, double b, double q) {
  double most = std::max(a, b), least = std::min(a, b);
  return most > 0 ? most * std::pow(1 + std::pow(least / most, q), 1 / q) : 0;
}

static Error refuse(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

/// Returns why the times that were measured on a device say nothing about a deployment, or "".
static std::string refusalOfMeasured(const Deployment &deployment) {
  const MeasuredTimes &times = *deployment.device->serving;
  StringRef precision = numberFormatName(deployment.precision.weights);
  if (!times.hasDecoder(precision))
    return formatv("decoders in {0} were not measured on it, only in {1}", precision, times.decoderPrecisions());
  if (deployment.precision.cache != NumberFormat::BF16)
    return formatv("caches in {0} were not measured on it, only in 16 bits",
                   numberFormatName(deployment.precision.cache));
  if (deployment.degrees.devices() > 1)
    return formatv("a split over {0} devices; its times were measured on one, and no link between two of them",
                   deployment.degrees.devices());
  if (deployment.shape->experts)
    return "the model has experts, of which no times were measured on it";
  if (any_of(deployment.shape->attention,
             [](const AttentionLayers &layers) { return layers.kind != Kind::Grouped || layers.selectedTokens; }))
    return "the model has attention other than of grouped heads, of which no times were measured on it";
  return "";
}

/// Returns the programs of a deployment on a wafer.
static Expected<const WaferDecoder *> decoderOnWafer(const Deployment &deployment) {
  const ServingPrecision &precision = deployment.precision;
  WaferDecoderRequest request;
  request.wafer = deployment.device->wafer;
  request.shape = deployment.shape;
  request.context = deployment.sequenceTokens;
  if (!deployment.wafers)
    return refuse("programs of wafers are not made here");
  if (deployment.degrees.devices() != deployment.degrees.pipeline)
    return refuse("layers that are split over wafers; several wafers have some layers each");
  request.wafers = deployment.degrees.pipeline;
  switch (precision.weights) {
  case NumberFormat::BF16: // of 16 bits, in f16
    break;
  case NumberFormat::INT8:
  case NumberFormat::INT4:
    request.weightBits = precision.weights == NumberFormat::INT8 ? 8 : 4;
    break;
  default:
    return refuse("weights in " + numberFormatName(precision.weights) + "; wafers have f16, int8 and int4");
  }
  if (precision.cache != NumberFormat::BF16 && precision.cache != NumberFormat::F32)
    return refuse("caches in " + numberFormatName(precision.cache) + "; wafers have f16 and f32");
  request.cacheBits = precision.cache == NumberFormat::BF16 ? 16 : 32;
  return deployment.wafers->decoder(request);
}

Expected<ServingCost> ServingCost::create(const Deployment &deployment, const ServingEfficiency *efficiency) {
  const ModelShape &shape = *deployment.shape;
  const CatalogueDevice &device = *deployment.device;
  const ParallelDegrees &degrees = deployment.degrees;
  auto where = [&](const Twine &message) { return refuse(shape.name + " on " + device.name + ": " + message); };
  for (auto [name, value] : {std::pair("tensor", degrees.tensor),
                             {"attention-data", degrees.attentionData},
                             {"expert", degrees.expert},
                             {"pipeline", degrees.pipeline}})
    if (value < 1 || value > 4096)
      return where(formatv("{0} degree {1} is not between 1 and 4096", name, value));
  int group = degrees.tensor * degrees.attentionData;
  if (group % degrees.expert)
    return where(formatv("expert degree {0} does not divide {1} devices (tensor {2} x attention-data {3})",
                         degrees.expert, group, degrees.tensor, degrees.attentionData));
  if (degrees.expert > 1 && (!shape.experts || degrees.expert > shape.experts))
    return where(formatv("expert degree {0}, but the model has {1} experts", degrees.expert, shape.experts));
  if (degrees.pipeline > shape.layers)
    return where(formatv("pipeline degree {0}, but the model has {1} layers", degrees.pipeline, shape.layers));
  for (const AttentionLayers &layers : shape.attention)
    if (degrees.tensor > layers.heads)
      return where(formatv("tensor degree {0}, but attention has {1} heads", degrees.tensor, layers.heads));
  if (!(deployment.tokensPerStep >= 1 && deployment.tokensPerStep <= 2))
    return where(
        formatv("{0} tokens a step; with one drafted token they are between 1 and 2", deployment.tokensPerStep));
  if (device.serving)
    if (std::string reason = refusalOfMeasured(deployment); !reason.empty())
      return where(reason);
  const WaferDecoder *wafer = nullptr;
  if (!device.wafer.empty()) {
    Expected<const WaferDecoder *> made = decoderOnWafer(deployment);
    if (!made)
      return where(toString(made.takeError()));
    wafer = *made;
  }
  bool hasOwnTimes = device.serving || wafer;
  if (!hasOwnTimes && deployment.precision.weights == NumberFormat::F32)
    return where("no serving engine was measured with weights in f32; choose bf16");
  if (!hasOwnTimes && device.efficiencyOf.empty())
    return where(
        "its catalogue entry names no 'efficiency_of' (" + device.file + "): no measured generation stands for it" +
        (device.generation == "cpu" ? "; intarsia-plan --probe=cpu.yaml, run there, measures what a plan needs, and "
                                      "fleet.device {file = \"cpu.yaml\"} names it"
                                    : ""));

  ServingCost cost;
  cost.what = deployment;
  cost.fitted = efficiency ? efficiency : &ServingEfficiency::of(deployment.engine);
  cost.figures = &cost.fitted->figures;
  cost.isBlackwell = device.efficiencyOf == "blackwell";
  cost.measured = device.serving ? &*device.serving : nullptr;
  cost.wafer = wafer;
  if (wafer)
    cost.carried =
        formatv("times of programs on {0}{1} by {1} cores{5}, with {2} of {3} bytes in each, by a model that is "
                "fitted to published ones; embedding and the choice of tokens, on a host, are not counted, "
                "and a sequence of more than {4} tokens does not fit",
                wafer->regions > 1 ? formatv("{0} regions of ", wafer->regions).str() : std::string(), wafer->grid,
                wafer->bytes, wafer->bytesOfAll, wafer->context,
                wafer->rowsGrid == wafer->grid ? std::string()
                                               : formatv(", products of prompts on {0} by {0}", wafer->rowsGrid).str());
  if (!hasOwnTimes && !is_contained(cost.fitted->generations, device.generation)) {
    if (!is_contained(cost.fitted->generations, device.efficiencyOf))
      return where("no efficiencies of '" + device.efficiencyOf + "' were fitted for the engine '" +
                   servingEngineName(deployment.engine) + "' (" + cost.fitted->file + ")");
    cost.carried = "efficiencies of " + device.efficiencyOf + " carried over to " + device.generation;
  }

  Expected<double> bandwidth = device.need(device.memoryGBps, "memory_gbps");
  if (!bandwidth)
    return bandwidth.takeError();
  // Measured times need no peak; bounds of what a device can do take the one of f32 where there is none.
  StringRef sixteenBits = wafer ? "f16" : cost.measured && !device.peakTflops.count("bf16") ? "f32" : "bf16";
  StringRef computed = wafer ? "f16" : numberFormatName(deployment.precision.compute);
  Expected<double> sixteen = device.peak(sixteenBits);
  if (!sixteen)
    return sixteen.takeError();
  Expected<double> peak = device.peak(cost.measured && !device.peakTflops.count(computed.str()) ? "f32" : computed);
  if (!peak)
    return peak.takeError();
  cost.bytesPerUs = *bandwidth * 1e3;
  cost.sixteenBitFlopsPerUs = *sixteen * 1e6;
  cost.group = group;
  cost.linkBytesPerUs = cost.networkBytesPerUs = 1;
  if (!wafer && (cost.group > 1 || degrees.pipeline > 1)) { // times of programs have the network of several wafers
    Expected<double> link = device.linkOneWayGBps();
    if (!link)
      return link.takeError();
    cost.linkBytesPerUs = *link * 1e3;
    cost.nodes = std::max(1.0, cost.group / device.devicesOnLink());
    if (cost.nodes > 1) {
      Expected<double> network = device.need(device.networkGBps, "node.network_gbps");
      if (!network)
        return network.takeError();
      cost.networkBytesPerUs = *network * 1e3;
    }
  }

  const ServingPrecision &precision = deployment.precision;
  double tensor = degrees.tensor;
  double outputs = 0;
  for (const AttentionLayers &layers : shape.attention)
    outputs += layers.layers * layers.outputParameters(shape.hidden);
  double dense = ((shape.attentionParameters() - outputs) * bytesOf(precision.attention) +
                  outputs * bytesOf(precision.attentionOutput.value_or(precision.attention)) +
                  shape.denseParameters() * bytesOf(precision.weights)) /
                 tensor;
  double head = 2 * shape.headParameters() / tensor, embedding = 2 * shape.embeddingParameters() / tensor;
  double experts = shape.allExpertParameters() * bytesOf(precision.weights) / group;
  cost.multipliedParameters = shape.attentionParameters() + shape.denseParameters() +
                              shape.expertParameters() * shape.expertsPerToken * shape.expertLayers;
  cost.denseStreamUs = dense / cost.bytesPerUs;
  cost.headStreamUs = head / cost.bytesPerUs;
  cost.expertStreamUs = experts / cost.bytesPerUs;
  // Tied embeddings are stored once; in a pipeline the first stage has the embedding and the last the head.
  bool both = !shape.tiedEmbeddings && degrees.pipeline == 1;
  cost.weightBytes = (dense + experts) / degrees.pipeline + (both ? head + embedding : std::max(head, embedding));
  cost.matmulUsPerToken = 2 * cost.multipliedParameters / group / (*peak * 1e6);
  // The operators are kernels of GPUs; a processor has none of their tiles, which would be padded at its own rate.
  if (cost.fitted->operators && !cost.measured && !wafer && !StringRef(device.target).starts_with("cpu")) {
    Expected<ServingOperators> operators = ServingOperators::create(deployment, cost.figures->expertDispersion);
    if (!operators)
      return operators.takeError();
    cost.operators = std::make_shared<const ServingOperators>(std::move(*operators));
  }
  return cost;
}

double ServingCost::expertCopies() const {
  return group * (1 - std::pow(1 - 1 / group, std::max(1, what.shape->expertsPerToken)));
}

/// Activations go to experts as bytes and come back in BF16.
static constexpr double dispatchedBytes = 1, combinedBytes = 2;

double ServingCost::transferUsPerToken(double linkEfficiency, double allToAllFactor) const {
  if (group <= 1)
    return 0;
  const ModelShape &shape = *what.shape;
  double efficient = linkBytesPerUs * linkEfficiency;
  if (dispatchesExperts()) {
    // Each token goes to the devices of its experts; devices that hold several of its experts get it once.
    double bytes = (dispatchedBytes + combinedBytes) * shape.hidden * expertCopies() * shape.expertLayers;
    double us = allToAllFactor * bytes / efficient;
    if (nodes > 1)
      us += bytes * (1 - 1 / nodes) / (networkBytesPerUs * linkEfficiency);
    return us;
  }
  // All-reduces in BF16: a ring inside the node, and between nodes the share of each device.
  double bytes = 2.0 * shape.hidden * allReduces();
  double us = bytes * 2 * (1 - 1 / group) / efficient;
  if (nodes > 1)
    us += bytes * 2 * (1 - 1 / nodes) / (networkBytesPerUs * linkEfficiency);
  return us;
}

static double byFormat(NumberFormat format, double sixteen, double eight, double four) {
  switch (format) {
  case NumberFormat::F32: // refused by create: no engine was measured in it
  case NumberFormat::BF16:
    return sixteen;
  case NumberFormat::FP8:
  case NumberFormat::INT8:
    return eight;
  case NumberFormat::FP4:
  case NumberFormat::INT4:
    return four;
  }
  llvm_unreachable("all formats are listed");
}

double ServingCost::stepCacheBytes(double context) const {
  double bytes = 0;
  for (const AttentionLayers &layers : what.shape->attention) {
    double heads = std::min<double>(what.degrees.tensor, layers.heads);
    double shared = layers.kind == Kind::Grouped ? std::min<double>(what.degrees.tensor, layers.keyHeads) : 1;
    double elements = (layers.cachedElementsPerToken() - layers.indexDim) * layers.visible(context) / shared +
                      layers.indexDim * context;
    // A state is read and written.
    bytes += layers.layers * (elements * bytesOf(what.precision.cache) + 2 * layers.stateBytes() / heads);
  }
  return bytes;
}

StepTime ServingCost::measuredStep(double batch, double context) const {
  const ModelShape &shape = *what.shape;
  StringRef precision = numberFormatName(what.precision.weights);
  batch = std::max(1.0, batch);
  context = std::max(1.0, context);
  double flops = 0;
  for (const AttentionLayers &layers : shape.attention)
    flops += layers.layers * layers.scoreFlops(layers.visible(context), false);
  StepTime time;
  double layersUs = shape.layers * measured->layerUs(precision, multipliedParameters / shape.layers, batch);
  double headUs = measured->headUs(precision, shape.headParameters(), batch);
  double cacheUs =
      std::max(measured->stepScoresUs(flops * batch, context), stepCacheBytes(context) * batch / bytesPerUs);
  time.streamingMs = (layersUs + headUs) * 1e-3;
  time.cacheMs = cacheUs * 1e-3;
  time.totalMs = time.streamingMs + time.cacheMs;
  return time;
}

StepTime ServingCost::measuredFirstToken(double prompt, double prompts, double others) const {
  const ModelShape &shape = *what.shape;
  StringRef precision = numberFormatName(what.precision.weights);
  prompt = std::max(1.0, prompt);
  StepTime time;
  time.computeMs = (shape.layers * measured->layerUs(precision, multipliedParameters / shape.layers, prompt * prompts) +
                    measured->headUs(precision, shape.headParameters(), prompts)) *
                   1e-3;
  time.cacheMs = measured->promptScoresUs(promptScoreFlops(prompt) * prompts, prompt) * 1e-3;
  time.waitMs = (time.computeMs + time.cacheMs) * others;
  time.totalMs = time.computeMs + time.cacheMs + time.waitMs;
  return time;
}

bool ServingCost::dispatchesExperts() const { return what.degrees.attentionData > 1 && what.shape->experts; }

double ServingCost::exchangeLatencyUs(double positions, const ServingFigures &f) const {
  double factor = f.collectiveFactor[int(what.engine)], us = (what.degrees.pipeline - 1) * f.collectiveUs * factor;
  if (nodes > 1)
    us += allReduces() * f.networkUs * std::log2(nodes);
  if (!operators)
    return us + (group > 1 ? allReduces() * f.collectiveUs * factor * std::log2(group) : 0);
  // Replicas reduce among their tensor devices, and send to experts and back.
  double devices = dispatchesExperts() ? what.degrees.tensor : group;
  double bytes = 2.0 * what.shape->hidden * positions / what.degrees.attentionData;
  us += allReduces() * operators->allReduceUs(std::min<double>(devices, what.device->devicesOnLink()), bytes) * factor;
  us += normsUs(positions) * factor;
  return us + (dispatchesExperts() ? 2 * what.shape->expertLayers * f.collectiveUs * factor : 0);
}

/// Bytes that a token's norm of queries and keys over all heads reduces: two sums in f32, as vLLM reduces them.
static constexpr double normBytes = 2 * 4;

double ServingCost::normsUs(double positions) const {
  double us = 0, devices = std::min<double>(what.degrees.tensor, what.device->devicesOnLink());
  for (const AttentionLayers &layers : what.shape->attention)
    if (layers.normsOverHeads)
      us += layers.layers * operators->allReduceUs(devices, normBytes * positions / what.degrees.attentionData);
  return us;
}

double ServingCost::expertsFactor(const ServingFigures &f) const {
  return f.expertsFactor * (what.degrees.expert > 1 ? f.expertParallelImbalance : 1);
}

double ServingCost::operatorsUs(const OperatorTimes &times, const ServingFigures &f) const {
  return times.linearUs * f.linearFactor + times.attentionUs * f.attentionFactor + times.expertsUs * expertsFactor(f);
}

StepTime ServingCost::decodeStep(double batch, double context, const ServingFigures &f) const {
  if (wafer) {
    StepTime time;
    time.computeMs = time.totalMs = wafer->stepMs;
    return time;
  }
  if (measured)
    return measuredStep(batch, context);
  const ModelShape &shape = *what.shape;
  const ParallelDegrees &degrees = what.degrees;
  int engine = int(what.engine);
  context = std::max(0.0, context);
  // A pipeline's stages work on shares of the batch in turn; a token passes them all.
  double together = std::max(1.0, batch / degrees.pipeline);
  double positions = positionsOf(together);
  double replica = together / degrees.attentionData;
  bool fourBit = isFourBit(what.precision.weights);
  bool dequantized = fourBit && !isFourBit(what.precision.compute);

  double layersUs = f.layerUs * shape.layers + f.expertLayerUs * shape.expertLayers +
                    (shape.hasBiasedLayers ? f.biasedLayerUs * shape.layers : 0);
  double cacheBytes = stepCacheBytes(context), scoreFlops = 0;
  for (const AttentionLayers &layers : what.shape->attention) {
    double heads = std::min<double>(degrees.tensor, layers.heads);
    if (layers.kind == Kind::Latent)
      layersUs += f.latentLayerUs * layers.layers;
    if (layers.kind == Kind::Linear)
      layersUs += f.linearLayerUs * layers.layers;
    if (layers.selectedTokens)
      layersUs += f.selectedLayerUs * layers.layers;
    scoreFlops +=
        layers.layers * (layers.scoreFlops(layers.visible(context), false) + layers.indexFlops(context)) / heads;
  }
  double generation = isBlackwell ? 1 : f.hopperFactor * (what.device->generation == "ampere" ? f.ampereFactor : 1);
  StepTime time;
  double fixedUs = layersUs * f.layerFactor[engine] * generation * (what.slowBuild ? f.slowBuildFactor : 1);
  fixedUs += f.stepUs + f.sequenceUs * f.sequenceFactor[engine] * replica;
  double latencyUs = exchangeLatencyUs(positions, f);
  double transferUs = transferUsPerToken(f.linkEfficiency, f.allToAllFactor) * positions / degrees.attentionData +
                      (degrees.pipeline - 1) * 2.0 * shape.hidden * positions / (linkBytesPerUs * f.linkEfficiency);
  // Imbalance of replicas that step together; that of experts is below.
  double imbalance = degrees.attentionData > 1 ? f.dataParallelImbalance : 1;
  double onePhase = what.onePhase ? f.onePhaseFactor : 1;
  time.fixedMs = fixedUs * 1e-3;
  time.collectiveLatencyMs = latencyUs * 1e-3;
  if (operators) {
    OperatorTimes times = operators->step(replica, positions / degrees.attentionData, context);
    // The time of an all-reduce inside a node includes its transfer.
    transferUs = dispatchesExperts() || nodes > 1 ? transferUs : 0;
    time.streamingMs = (times.linearUs * f.linearFactor + times.expertsUs * expertsFactor(f)) * 1e-3;
    time.cacheMs = times.attentionUs * f.attentionFactor * 1e-3;
    time.collectiveTransferMs = transferUs * 1e-3;
    double stepUs = blended(fixedUs + latencyUs, transferUs + operatorsUs(times, f) * imbalance, f.blend);
    time.totalMs = stepUs * 1e-3 * onePhase / what.tokensPerStep;
    return time;
  }

  double shrink = (isBlackwell ? f.blackwellBandwidth : 1) * (dequantized ? f.dequantizedBandwidth : 1);
  double denseRate = f.denseBandwidth * shrink * (fourBit ? f.fourBitBandwidth : 1);
  double expertRate = f.expertBandwidth * shrink * (fourBit ? f.fourBitExpertBandwidth : 1);
  double streamUs = (denseStreamUs + headStreamUs) / denseRate +
                    expertStreamUs * shape.expertsTouched(positions, f.expertDispersion) / expertRate *
                        (degrees.expert > 1 ? f.expertParallelImbalance : 1);
  double computeRate = byFormat(what.precision.compute, f.sixteenBitCompute, f.eightBitCompute, f.fourBitCompute) *
                       (isBlackwell ? f.blackwellCompute : 1) * (shape.experts ? f.expertCompute : 1);
  double matmulUs = matmulUsPerToken * positions / computeRate;
  double cacheUs = blended(cacheBytes * replica / (bytesPerUs * f.cacheBandwidth),
                           scoreFlops * replica / (sixteenBitFlopsPerUs * f.attentionCompute), 4);
  double stepUs =
      blended(fixedUs + latencyUs, (transferUs + blended(streamUs, matmulUs, 4) + cacheUs) * imbalance, f.blend);
  time.streamingMs = streamUs * 1e-3;
  time.computeMs = matmulUs * 1e-3;
  time.cacheMs = cacheUs * 1e-3;
  time.collectiveTransferMs = transferUs * 1e-3;
  time.totalMs = stepUs * 1e-3 * onePhase / what.tokensPerStep;
  return time;
}

/// Tokens of prompts that engines compute together: a chunk of vLLM's and of SGLang's defaults has 2048 to 8192.
static constexpr double chunkTokens = 4096;

/// Returns the flops of a prompt's scores on one device.
double ServingCost::promptScoreFlops(double prompt) const {
  double flops = 0;
  for (const AttentionLayers &layers : what.shape->attention)
    flops += layers.layers * prompt *
             (layers.scoreFlops(layers.visibleOfPrompt(prompt), true) + layers.indexFlops(prompt / 2));
  return flops / group;
}

double ServingCost::promptUs(double prompt, double together, double beside, const ServingFigures &f) const {
  if (wafer)
    return wafer->promptMs(prompt) * 1e3;
  if (measured)
    return measuredFirstToken(prompt, 1, 0).totalMs * 1e3;
  const ModelShape &shape = *what.shape;
  if (operators) {
    together = std::clamp(together, 1.0, std::max(1.0, chunkTokens / std::max(1.0, prompt)));
    double steps = std::max(1.0, together * prompt / chunkTokens);
    OperatorTimes times =
        beside > 0 ? operators->promptBeside(together, prompt, beside, steps) : operators->prompt(together, prompt);
    double ownUs = (operatorsUs(times, f) + f.prefillLayerUs * shape.layers * steps) / together;
    return (ownUs + transferUsPerToken(f.linkEfficiency, f.allToAllFactor) * prompt) / what.degrees.attentionData;
  }
  double rate = byFormat(what.precision.compute, f.sixteenBitCompute, f.eightBitCompute, f.fourBitCompute) *
                (isBlackwell ? f.blackwellCompute : 1) * (shape.experts ? f.expertCompute : 1);
  return matmulUsPerToken * prompt / rate + promptScoreFlops(prompt) / (sixteenBitFlopsPerUs * f.attentionCompute) +
         transferUsPerToken(f.linkEfficiency, f.allToAllFactor) * prompt / what.degrees.attentionData +
         f.prefillLayerUs * shape.layers;
}

static double interferenceOf(const Deployment &what, const ServingFigures &f) {
  return f.interference[int(what.engine)] * (what.degrees.attentionData > 1 ? f.dataParallelImbalance : 1);
}

double ServingCost::interference() const { return measured || wafer ? 1 : interferenceOf(what, *figures); }

/// Returns true if an engine computes prompts in the steps of sequences that decode: TensorRT-LLM's in-flight batching
/// and vLLM's scheduler do; SGLang does it on request only (--enable-mixed-chunk).
static bool mixesPhases(ServingEngine engine) {
  return engine == ServingEngine::TensorRTLLM || engine == ServingEngine::VLLM;
}

/// Returns how many prompts of others begin in a step, on average, where each of `batch` requests writes `output`
/// tokens.
static double promptsPerStep(double batch, double output) { return std::max(0.0, batch - 1) / std::max(1.0, output); }

double ServingCost::promptsInStepMs(double batch, double prompt, double output) const {
  return promptsInStepMs(batch, promptsPerStep(batch, output), prompt, *figures);
}

double ServingCost::promptsInStepMs(double batch, double prompts, double prompt, const ServingFigures &f) const {
  double beside = mixesPhases(what.engine) ? positionsOf(std::max(1.0, batch)) / what.degrees.attentionData : 0;
  return prompts * promptUs(std::max(0.0, prompt), prompts, beside, f) * (measured ? 1 : interferenceOf(what, f)) *
         1e-3;
}

StepTime ServingCost::sharedStep(double batch, double prompt, double output, bool burst,
                                 const ServingFigures &f) const {
  StepTime time = decodeStep(batch, std::max(0.0, prompt) + std::max(0.0, output) / 2, f);
  time.interferenceMs = promptsInStepMs(batch, promptsPerStep(batch, output) * (burst ? 0.5 : 1), prompt, f);
  time.totalMs += time.interferenceMs;
  return time;
}

double ServingCost::prefillBusyMs(double prompt) const {
  // Stages of a pipeline hold different prompts at once.
  return promptUs(prompt, std::numeric_limits<double>::infinity(), /*beside=*/0, *figures) * 1e-3 /
         what.degrees.pipeline;
}

StepTime ServingCost::firstToken(double prompt, double prompts, double concurrency, double workers, bool burst,
                                 const ServingFigures &f) const {
  if (wafer) {
    StepTime time;
    time.cacheMs = wafer->promptAttentionMs(prompt);
    time.totalMs = wafer->promptMs(prompt) * std::max(1.0, prompts);
    time.computeMs = time.totalMs - time.cacheMs;
    return time;
  }
  if (measured) {
    double others = std::max(0.0, concurrency - 1) / std::max(1.0, workers) * (burst ? 0.5 : 1);
    return measuredFirstToken(prompt, std::max(1.0, prompts), others);
  }
  const ModelShape &shape = *what.shape;
  int engine = int(what.engine);
  prompt = std::max(0.0, prompt);
  prompts = std::max(1.0, prompts);
  double tokens = prompt * prompts;
  double layersUs = f.firstLayerUs * shape.layers + f.firstExpertLayerUs * shape.expertLayers;
  for (const AttentionLayers &layers : shape.attention) {
    if (layers.kind == Kind::Latent)
      layersUs += f.firstLatentLayerUs * layers.layers;
    if (layers.kind == Kind::Linear)
      layersUs += f.firstLinearLayerUs * layers.layers;
    if (layers.selectedTokens)
      layersUs += f.firstSelectedLayerUs * layers.layers;
  }
  double generation = isBlackwell ? 1 : f.firstHopperFactor;
  layersUs *= f.firstLayerFactor[engine] * (what.slowBuild ? f.firstSlowBuildFactor : 1) * generation *
              (what.device->generation == "ampere" ? f.ampereFactor : 1);
  double rate =
      byFormat(what.precision.compute, f.firstSixteenBitCompute, f.firstEightBitCompute, f.firstFourBitCompute) *
      (isBlackwell ? f.firstBlackwellCompute : 1) * (shape.experts ? f.firstExpertCompute : 1);
  double matmulUs = matmulUsPerToken * tokens / rate;
  double streamUs = (denseStreamUs + expertStreamUs) / f.firstBandwidth;
  double scoreUs = promptScoreFlops(prompt) * prompts / (sixteenBitFlopsPerUs * f.firstAttentionCompute);
  double transferUs = transferUsPerToken(f.firstLinkEfficiency, 1) * tokens / what.degrees.attentionData;
  double workUs = blended(streamUs, matmulUs, 4) + scoreUs;
  if (operators) {
    OperatorTimes times = operators->prompt(prompts, prompt);
    streamUs = (times.linearUs + times.expertsUs) * f.firstOperatorsFactor;
    scoreUs = times.attentionUs * f.firstOperatorsFactor;
    matmulUs = 0;
    workUs = streamUs + scoreUs;
  }
  double lengthRatio = tokens / f.firstLongTokens;
  double longer = 1 + f.firstLongSlowdown * lengthRatio * lengthRatio / (1 + lengthRatio * lengthRatio);
  double capped = what.powerCapped ? f.firstPowerCapFactor : 1;
  double ownUs = (layersUs + (workUs + transferUs) * longer) * capped;
  double others = std::max(0.0, concurrency - 1) / std::max(1.0, workers);
  double waitUs = ownUs * others * (burst ? 0.5 : f.firstWait);
  double overheadUs = f.firstOverheadUs * f.firstOverheadFactor[engine] * generation;
  StepTime time;
  time.fixedMs = (overheadUs + layersUs * capped) * 1e-3;
  time.streamingMs = streamUs * 1e-3;
  time.computeMs = matmulUs * 1e-3;
  time.cacheMs = scoreUs * 1e-3;
  time.collectiveTransferMs = transferUs * 1e-3;
  time.waitMs = (waitUs + (what.onePhase ? f.firstOnePhaseUs : 0)) * 1e-3;
  time.totalMs = (overheadUs + ownUs) * 1e-3 + time.waitMs;
  return time;
}

double ServingCost::stepBytesPerDevice(double batch, double context) const {
  // As in decodeStep.
  double together = std::max(1.0, batch / what.degrees.pipeline);
  double positions = positionsOf(together);
  double touched = what.shape->expertsTouched(positions, figures->expertDispersion);
  return (denseStreamUs + headStreamUs + expertStreamUs * touched) * bytesPerUs +
         stepCacheBytes(std::max(0.0, context)) * together / what.degrees.attentionData;
}

double ServingCost::promptFlopsPerDevice(double newTokens, double cachedTokens) const {
  return 2 * multipliedParameters / group * newTokens + promptScoreFlops(newTokens + cachedTokens) -
         promptScoreFlops(cachedTokens);
}

double ServingCost::matmulFlopsPerSecond() const { return 2 * multipliedParameters / group / matmulUsPerToken * 1e6; }

double ServingCost::cacheBytesPerDevice(double context) const {
  double bytes = 0;
  for (const AttentionLayers &layers : what.shape->attention) {
    double shared = layers.kind == Kind::Grouped ? std::min<double>(what.degrees.tensor, layers.keyHeads) : 1;
    double kept = layers.window ? std::min(context, double(layers.window)) : context;
    bytes += layers.layers * (layers.cachedElementsPerToken() * bytesOf(what.precision.cache) * kept / shared +
                              layers.stateBytes() / std::min<double>(what.degrees.tensor, layers.heads));
  }
  return bytes / what.degrees.pipeline;
}

Expected<double> ServingCost::largestBatch(double context) const {
  if (wafer)
    return std::ceil(context) <= double(wafer->context) ? 1.0 : 0.0;
  Expected<double> memory = what.device->need(what.device->memoryGB, "memory_gb");
  if (!memory)
    return memory;
  double usable = *memory * 1e9 * usableMemory;
  if (weightBytes >= usable)
    return refuse(formatv(
        "{0} on {1}: weights take {2:F1} GB a device, {3:F1} of {4:F0} GB are usable; use more devices "
        "(now {5}) or fewer bits",
        what.shape->name, what.device->name, weightBytes * 1e-9, usable * 1e-9, *memory, what.degrees.devices()));
  return (usable - weightBytes) / cacheBytesPerDevice(std::max(1.0, context)) * what.degrees.attentionData;
}
