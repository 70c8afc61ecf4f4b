//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of a decoder on devices of the catalogue: the first token of a prompt (TTFT), a decode step (TPOT), and the
// number of sequences that fit. The formula is only here; its figures (fixed times, efficiencies) are fitted to
// measured tables by bench/fit_serving.py, which calls this code, and live in catalogue/efficiency/serving*.yaml.
//
// Decode step of B sequences with c tokens of context, n = tensor · attention-data devices, times of one device:
//
//   fixed     = Σ layers (per layer + per kind of layer) · engine · generation + per step + per sequence
//   latency   = 2 · layers · α · log2 n (+ α' · log2 nodes between nodes)
//   transfer  = all-reduce 2·(n−1)/n · bytes / (β · link), or dispatch and combine of experts under attention-data
//   weights   = ‖ stored bytes / (bandwidth · e), flops / (peak · e) ‖₄      (experts: those that B tokens touch)
//   cache     = ‖ cached bytes / (bandwidth · e), flops / (peak · e) ‖₄
//   step      = ‖ fixed + latency, (transfer + weights + cache) · imbalance ‖_q
//
// That is the formula of a data sheet: e are shares of its rates. Where the file of figures says `operators: measured`,
// the terms below take the place of weights, cache and latency, each a sum over the kernels of all layers with their
// shapes on this device (lib/Cost/ServingOperators.cpp), timed by surfaces that were fitted to operators measured one
// by one (GpuKernels.h). Only the fixed times and factors near 1 are then fitted to rows of serving:
//
//   weights   = linears · factor + experts · factor
//   cache     = attention · factor
//   latency   = 2 · layers · all-reduce(bytes, tensor) · engine, or two exchanges a layer of experts
//
// A pool that serves both phases also carries, on average, (B − 1) / output tokens of other requests' prompts in each
// step. TensorRT-LLM and vLLM compute them in the step itself, where their tokens share the weights that are read
// anyway; SGLang, as it is started by default, computes them in steps of their own. ‖a, b‖_q = (a^q + b^q)^(1/q) blends
// a sum (q = 1) into a maximum.
//
// Extrapolation: efficiencies are fitted by generation (hopper, blackwell; ampere under the Splitwise engine). A device
// of another generation takes those of the generation that its catalogue entry names as `efficiency_of`, times its own
// peaks; `carriedOver()` says so, and results for it are extrapolations. Devices that name none (wafers) are refused.
//
// A device with times of this compiler's own kernels (`MeasuredTimes`; CPUs) has no fitted figures. Whatever the
// engine,
//
//   step      = layers · layer(B rows) + head(B rows) + max(scores(c), cached bytes / bandwidth)
//   first     = layers · layer(t rows) + head(1 row) + scores(t)
//
// on one device and for decoders of grouped attention without experts: nothing else was measured, and is refused.
//
// A wafer (`CatalogueDevice::wafer`) has the times of programs that the compiler makes for the model (`WaferTimes`):
// the step of one sequence, a prompt as the device would execute it. One wafer holds the model and the cache of one
// sequence; batches and degrees above 1 are refused.
//
// Pipeline degrees of the fitted formula follow from the formula and are not fitted: every measured row has one stage.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_SERVINGCOST_H
#define INTARSIA_COST_SERVINGCOST_H

#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Cost/ModelShape.h"
#include "intarsia/Cost/WaferTimes.h"
#include <array>
#include <memory>
#include <optional>

namespace intarsia {

class ServingOperators;
struct OperatorTimes;

/// Serving engines of the measured tables. `Splitwise` is the one of the Splitwise paper's tables (2023).
enum class ServingEngine { TensorRTLLM, VLLM, SGLang, Splitwise };
constexpr int servingEngines = 4;
/// Parses trtllm, vllm, sglang, splitwise.
llvm::Expected<ServingEngine> parseServingEngine(llvm::StringRef name);
llvm::StringRef servingEngineName(ServingEngine engine);

/// Storage formats of elements. FP4 and INT4 have a scale of 8 bits for 16 elements.
enum class NumberFormat { BF16, FP8, INT8, FP4, INT4, F32 };
llvm::Expected<NumberFormat> parseNumberFormat(llvm::StringRef name);
llvm::StringRef numberFormatName(NumberFormat format);
double bytesOf(NumberFormat format);
inline bool isFourBit(NumberFormat format) { return format == NumberFormat::FP4 || format == NumberFormat::INT4; }

/// Precision of storage and computation. The head is always BF16.
struct ServingPrecision {
  NumberFormat weights = NumberFormat::BF16;   ///< feed-forward parts
  NumberFormat attention = NumberFormat::BF16; ///< projections of attention; 4-bit checkpoints of experts keep BF16
  /// The last projection of attention, where a checkpoint stores it in another format than the others.
  std::optional<NumberFormat> attentionOutput;
  NumberFormat cache = NumberFormat::BF16;
  NumberFormat compute = NumberFormat::BF16; ///< format of matmuls; its peak must be in the catalogue
};
/// Returns the precision that engines use for a checkpoint of `weights` on a device: matmuls in the same format if the
/// device has a peak for it and the format is not INT4, else in BF16 (weight-only quantization). The cache is as given.
ServingPrecision usualPrecision(const ModelShape &shape, const CatalogueDevice &device, NumberFormat weights,
                                NumberFormat cache);

struct ParallelDegrees {
  int tensor = 1;
  int attentionData = 1; ///< attention replicated, each replica with its own sequences; experts over all devices
  int expert = 1;        ///< number of the tensor · attentionData devices that hold different experts
  int pipeline = 1;
  int devices() const { return tensor * attentionData * pipeline; }
};

/// A model on devices.
struct Deployment {
  const ModelShape *shape = nullptr;
  const CatalogueDevice *device = nullptr;
  ServingEngine engine = ServingEngine::VLLM;
  ServingPrecision precision;
  ParallelDegrees degrees;
  bool onePhase = false;    ///< prefill and decode on separate pools (this is one of them)
  bool slowBuild = false;   ///< vLLM 0.16 and 0.17, measured slower a layer than builds before and after
  bool powerCapped = false; ///< Splitwise's capped H100
  double tokensPerStep = 1; ///< tokens accepted by speculative decoding with one drafted token: 1 (none) to 2
  /// Wafers: who makes programs for them, and the tokens of a sequence that these are made for.
  WaferTimes *wafers = nullptr;
  double sequenceTokens = 0;
};

/// Fitted figures, dimensionless unless a unit is given. Engines are indexed by ServingEngine.
struct ServingFigures {
  // Decode.
  double layerUs, expertLayerUs, latentLayerUs, linearLayerUs, selectedLayerUs, biasedLayerUs;
  std::array<double, servingEngines> layerFactor;
  double hopperFactor, ampereFactor, slowBuildFactor; ///< factors of the fixed time of a layer, against blackwell
  double stepUs, sequenceUs;
  std::array<double, servingEngines> sequenceFactor;
  double denseBandwidth, expertBandwidth, cacheBandwidth; ///< shares of the catalogue's GB/s
  double blackwellBandwidth, fourBitBandwidth, fourBitExpertBandwidth, dequantizedBandwidth; ///< factors on those
  double sixteenBitCompute, eightBitCompute, fourBitCompute, attentionCompute;               ///< shares of the dense
                                                                                             ///< peak
  double blackwellCompute, expertCompute;                                                    ///< factors on those
  double collectiveUs; ///< with operators: one exchange between replicas and the experts of their tokens
  std::array<double, servingEngines> collectiveFactor;
  double networkUs, linkEfficiency, allToAllFactor;
  double prefillLayerUs; ///< time of admitting a prompt in a pool of both phases
  std::array<double, servingEngines> interference;
  double dataParallelImbalance, expertParallelImbalance, expertDispersion;
  double blend; ///< q above
  double onePhaseFactor;
  double linearFactor, attentionFactor, expertsFactor; ///< factors on the times of measured operators
  // First token.
  double firstOverheadUs;
  std::array<double, servingEngines> firstOverheadFactor;
  double firstLayerUs, firstExpertLayerUs, firstLatentLayerUs, firstLinearLayerUs, firstSelectedLayerUs;
  std::array<double, servingEngines> firstLayerFactor;
  double firstHopperFactor; ///< factor of the fixed times before a first token, against blackwell
  double firstSixteenBitCompute, firstEightBitCompute, firstFourBitCompute, firstAttentionCompute;
  double firstBlackwellCompute, firstExpertCompute, firstBandwidth, firstLinkEfficiency;
  double firstWait;       ///< share of a prompt's time that each other request of the engine adds
  double firstOnePhaseUs; ///< hand-over to the decode pool
  double firstSlowBuildFactor, firstPowerCapFactor;
  double firstOperatorsFactor;               ///< factor on the times of measured operators
  double firstLongSlowdown, firstLongTokens; ///< computing takes 1 + slowdown · t² / (t² + tokens²) times as long

  /// Returns the names of the figures, in a fixed order, as the YAML files spell them ("layer_us", "layer_factor.vllm",
  /// …).
  static llvm::ArrayRef<const char *> names();
  double &at(size_t index);
  double at(size_t index) const { return const_cast<ServingFigures *>(this)->at(index); }
};

/// Out-of-sample errors of one kind of piece: ln(predicted / measured) of rows whose (model, system) was left out.
struct ServingResiduals {
  std::string kind; ///< decode or first_token
  int rows = 0, groups = 0;
  double groupSpread = 0;        ///< standard deviation between (model, system) pairs: one draw for a deployment
  double rowSpread = 0;          ///< within a pair: one draw for a piece
  std::vector<double> quantiles; ///< quantiles of all rows, at 0.05, 0.10 … 0.95: logarithms of predicted over measured
};

/// A file of catalogue/efficiency/serving*.yaml.
struct ServingEfficiency {
  std::string file;
  std::vector<ServingEngine> engines;
  std::vector<std::string> generations; ///< generations of the measured rows
  /// True if matrix products, attention, experts and all-reduces take the times of operators that were measured one by
  /// one (`operators: measured`); false if they take shares of the catalogue's peaks.
  bool operators = false;
  ServingFigures figures;
  std::vector<ServingResiduals> residuals;

  const ServingResiduals *residualsOf(llvm::StringRef kind) const;
  /// Reads a file. Errors name line, figure and reason: figures that are missing, unknown or not above zero, and
  /// efficiencies above 1.
  static llvm::Expected<ServingEfficiency> parse(llvm::StringRef yaml, llvm::StringRef file);
  /// Returns the embedded file that was fitted for an engine.
  static const ServingEfficiency &of(ServingEngine engine);
};

/// Milliseconds and their parts. Parts are blended, so they add up to more than `totalMs`.
struct StepTime {
  double fixedMs = 0;     ///< launches, layers, scheduler, sequences
  double streamingMs = 0; ///< weights
  double computeMs = 0;   ///< matmuls with weights
  double cacheMs = 0;     ///< attention over the cache
  double collectiveLatencyMs = 0, collectiveTransferMs = 0;
  double interferenceMs = 0; ///< other requests' prompts
  double waitMs = 0;         ///< first token: waiting for other requests, and the hand-over
  double totalMs = 0;
};

/// Cost of one deployment. A batch, or a number of prompts or workers, below 1 counts as 1; tokens below 0 (and NaN) as
/// 0.
class ServingCost {
public:
  /// Computes the cost. Errors: a figure that the catalogue lacks, degrees that do not divide the model, a device
  /// without efficiencies. Only largestBatch checks that the weights fit. `efficiency` replaces the embedded file of
  /// the engine and must outlive the result.
  static llvm::Expected<ServingCost> create(const Deployment &deployment,
                                            const ServingEfficiency *efficiency = nullptr);

  /// Returns the time of one decode step of `batch` sequences together, of `context` tokens on average, with nothing
  /// else on the devices. totalMs is the time of a token (TPOT), the step divided by its tokens if speculative.
  StepTime decodeStep(double batch, double context) const { return decodeStep(batch, context, *figures); }
  /// Returns the TPOT in a pool that serves both phases under a steady load of `batch` requests of `prompt` and
  /// `output` tokens. The batch is not checked: bound it by largestBatch(prompt + output / 2). `burst`: the requests
  /// come all at once, so each waits for half of the other prompts, not for all.
  StepTime sharedStep(double batch, double prompt, double output, bool burst = false) const {
    return sharedStep(batch, prompt, output, burst, *figures);
  }
  /// Returns the time until the first token of `prompts` prompts computed together, of `prompt` tokens each, in an
  /// engine with `concurrency` requests in all over `workers` such deployments. Further queueing is up to the caller.
  StepTime firstToken(double prompt, double prompts = 1, double concurrency = 1, double workers = 1,
                      bool burst = false) const {
    return firstToken(prompt, prompts, concurrency, workers, burst, *figures);
  }
  /// Returns for how long a prompt occupies the devices when others follow at once: the rate of a prefill pool follows
  /// from it.
  double prefillBusyMs(double prompt) const;
  /// Returns by how much, in a pool that serves both phases, a prompt that occupies the devices for one millisecond
  /// extends the steps of the others.
  double interference() const;

  /// Returns by how much the prompts of the other requests extend a step of such a pool, in milliseconds: the part of
  /// sharedStep that decodeStep does not have.
  double promptsInStepMs(double batch, double prompt, double output) const;

  /// Overloads with other figures, for the fit.
  StepTime decodeStep(double batch, double context, const ServingFigures &figures) const;
  StepTime sharedStep(double batch, double prompt, double output, bool burst, const ServingFigures &figures) const;
  StepTime firstToken(double prompt, double prompts, double concurrency, double workers, bool burst,
                      const ServingFigures &figures) const;

  /// Returns the bytes that each device must read in a decode step of `batch` sequences of `context` tokens: the
  /// weights that its tokens pass and the cache. For a pipeline it is the sum over all stages, which a token passes one
  /// after the other.
  double stepBytesPerDevice(double batch, double context) const;
  /// Returns the flops on each device (for a pipeline: of all stages together) of a prompt of `newTokens` after
  /// `cachedTokens` found in the cache.
  double promptFlopsPerDevice(double newTokens, double cachedTokens) const;
  /// Rates of one device by the catalogue: bytes a second, and flops a second in the precision of matmuls with weights.
  double memoryBytesPerSecond() const { return bytesPerUs * 1e6; }
  double matmulFlopsPerSecond() const;

  /// The model on a wafer, which serves one sequence at a time: prompt, then tokens. Null on other devices.
  const WaferDecoder *onWafer() const { return wafer; }
  /// Returns the bytes of weights on one device.
  double weightBytesPerDevice() const { return weightBytes; }
  /// Returns the bytes of cache and state that a sequence of `context` tokens holds on each device of its replica.
  double cacheBytesPerDevice(double context) const;
  /// Returns the number of sequences that fit at `context` tokens, over all devices: (0.88 · memory − weights) / cache.
  /// The error says by how much the weights alone exceed the memory. Experts keep no cache: infinity if their weights
  /// fit.
  llvm::Expected<double> largestBatch(double context) const;

  const Deployment &deployment() const { return what; }
  const ServingEfficiency &efficiency() const { return *fitted; }
  /// Returns "", or the figures that were carried over and from which generation.
  const std::string &carriedOver() const { return carried; }

private:
  ServingCost() = default;
  /// Returns the number of all-reduces in a decode step.
  double allReduces() const { return 2.0 * what.shape->layers; }
  /// Returns to how many devices the activations of a token go in a layer of experts that lie on all devices of the
  /// group.
  double expertCopies() const;
  /// Returns the tokens of a step of `sequences`. A speculative step checks one drafted token for each sequence beside
  /// the next one.
  double positionsOf(double sequences) const { return sequences * (what.tokensPerStep > 1 ? 2 : 1); }
  double promptScoreFlops(double prompt) const;
  /// Returns microseconds of the operators with the figures that scale them.
  double operatorsUs(const OperatorTimes &times, const ServingFigures &figures) const;
  double expertsFactor(const ServingFigures &figures) const;
  /// Returns microseconds of the exchanges of a step, without bytes that `transferUsPerToken` counts.
  double exchangeLatencyUs(double positions, const ServingFigures &figures) const;
  /// Returns true if tokens go to the devices of their experts, instead of all devices reducing sums.
  bool dispatchesExperts() const;
  /// The same by times measured on the device.
  StepTime measuredStep(double batch, double context) const;
  StepTime measuredFirstToken(double prompt, double prompts, double others) const;
  /// Returns for how long a prompt occupies the devices, in microseconds, if `together` of them are computed at once
  /// (as many as a chunk of the engine holds, at most). `beside`: tokens of other sequences that each replica computes
  /// in the same steps; the time is then what the prompts add to these.
  double promptUs(double prompt, double together, double beside, const ServingFigures &figures) const;
  /// Returns by how much `prompts` prompts, on average, extend a step of `batch` sequences, in milliseconds.
  double promptsInStepMs(double batch, double prompts, double prompt, const ServingFigures &figures) const;
  /// Returns the all-reduces of norms of queries and keys over all heads of a token, in microseconds.
  double normsUs(double positions) const;
  double transferUsPerToken(double linkEfficiency, double allToAllFactor) const;
  /// Returns the bytes of cache that one sequence of `context` tokens reads, and of states that it writes, on each
  /// device in a decode step.
  double stepCacheBytes(double context) const;

  Deployment what;
  const ServingEfficiency *fitted = nullptr;
  const ServingFigures *figures = nullptr;
  const MeasuredTimes *measured = nullptr; ///< of the device, if it has some
  const WaferDecoder *wafer = nullptr;
  std::string carried;
  std::shared_ptr<const ServingOperators> operators; ///< null: shares of peaks
  bool isBlackwell = false;
  // Figures of one device; times are microseconds at full peak or bandwidth.
  double weightBytes = 0, denseStreamUs = 0, headStreamUs = 0, expertStreamUs = 0;
  double multipliedParameters = 0; ///< of all devices; those that a token is multiplied with, without the head
  double matmulUsPerToken = 0;
  double bytesPerUs = 0, sixteenBitFlopsPerUs = 0, linkBytesPerUs = 0, networkBytesPerUs = 0;
  double group = 1, nodes = 1; ///< devices of a stage, which reduce together, and their nodes
};

} // namespace intarsia

#endif
