//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// From agent graphs, a fleet and the catalogue to a placement problem: for each piece a menu of ways to run it, each
// with what it takes. Free of MLIR.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_MENUS_H
#define INTARSIA_LIB_PLAN_MENUS_H

#include "intarsia/Plan/AgentGraph.h"
#include "intarsia/Plan/Placement.h"
#include "intarsia/Cost/ServingCost.h"

namespace intarsia::plan {

//===-- The fleet ---------------------------------------------------------------------------------------------===//

/// Equal devices. `device` is a copy of the catalogue's entry, with the node of this pool.
struct FleetPool {
  std::string name, location;
  CatalogueDevice device;
  int64_t count = 0, perNode = 1;
  bool wholeNodes = false;
  std::optional<double> rentalDollarsPerHour; ///< said for this pool
  std::optional<OwnershipTerms> owned;        ///< the purchase price stands in `device`
  double availability = 1;                    ///< of the devices, the fraction that is there
};

struct FleetLink {
  int from = 0, to = 0; ///< pools
  double gigabytesPerSecond = 0, microseconds = 0, dollarsPerGigabyte = 0;
  std::string shared; ///< links of this name are one wire
  bool oneWay = false;
};

struct Fleet {
  std::string name, location;
  std::vector<FleetPool> pools;
  std::vector<FleetLink> links;
  double wattsCap = unlimited;
  std::optional<double> gramsPerKilowattHour;
};

//===-- Menus -------------------------------------------------------------------------------------------------===//

struct MenuOptions {
  ServingEngine engine = ServingEngine::VLLM;
  Objective objective = Objective::DollarsPerRequest;
  const ServingEfficiency *efficiency = nullptr; ///< in place of the measured figures; outlives the menus
};

/// What the label of a choice says.
struct ChoiceMeaning {
  std::string precision; ///< of the weights; empty where there are none
  int tensor = 1, pipeline = 1, expert = 1, data = 1, batch = 1;
  bool outside = false; ///< on no device of the fleet
  /// What no implementation of a decoder can do without on each device of a replica: flops of a mean prompt, or bytes
  /// read in a decode step; and what the device does a second by the catalogue.
  struct Demand {
    bool isMemory = false;
    double amount = 0, perSecond = 0;
  };
  std::optional<Demand> demand;
  int parts = 1; ///< of one device, of which a replica takes one
  /// Of prefill and decode in the same replicas, which aggregate this is a choice of; 0: apart. An aggregate has one
  /// choice of the prefill and batches of the decode.
  int aggregate = 0;
  std::string experts; ///< of a decode whose experts are apart: the label of theirs
  /// Of experts apart, what a token brings and takes away in a step.
  double dispatchBytes = 0, combineBytes = 0;
  int devices() const { return tensor * pipeline * data; }
};

struct Menu {
  std::vector<Choice> choices;
  std::vector<ChoiceMeaning> meanings;
  std::vector<std::string> refusals; ///< why a pool and precision is not on it
  void add(Choice choice, ChoiceMeaning meaning, llvm::StringRef pool);
  /// Leaves the choices at those positions that are wanted.
  void keep(llvm::function_ref<bool(size_t)> wanted);
  /// Whether for each choice of the aggregate `other` there is one of the aggregate `one` that is no worse.
  bool noWorseAggregate(int one, int other) const;
};

/// What one execution of a prefill or a decode does, means over executions.
struct DecoderWork {
  std::string model;
  const ModelShape *shape = nullptr;
  std::vector<std::string> precisions; ///< empty: bf16, and fp8 or int8 by the device; 4 bits only by name
  bool decodes = false;
  double newTokens = 0, cachedTokens = 0;      ///< prefill
  double generatedTokens = 0;                  ///< prefill: of the new ones, those that a decode in reach has cached
  double squaredPrompt = 1;                    ///< prefill: mean square of the new tokens over the square of their mean
  double contextTokens = 0, writtenTokens = 0; ///< decode; the first token written is the prefill's
  std::optional<double> every;                 ///< decode: a reader starts after so many tokens
  bool prunes = true;              ///< not where a placement by hand may name what is no better than something else
  bool promised = false;           ///< decode: the promise of the next token holds for it
  double tokenMsBound = unlimited; ///< decode: the strictest of these promises
};

/// Pools times precisions times parallel degrees times batches (powers of two, the largest that fits and the largest
/// that keeps the promise of the next token), timed by ServingCost with prefill and decode on replicas of their own.
/// Tensor degrees are powers of two that divide the heads and stay inside a node; models of experts also get
/// data-parallel attention with experts over all devices; where no tensor degree holds the weights, nodes are chained
/// as a pipeline. Fails if nothing fits, naming the model, its bytes and the largest pool.
llvm::Expected<Menu> decoderMenu(const DecoderWork &work, const Fleet &fleet, const MenuOptions &options);
/// Prefill and decode in the same replicas; empty where nothing fits.
struct AggregatedMenu {
  Menu prefill, decode;
};
/// The same pools, precisions and degrees, with as many sequences in decode at once as the batch says. A step takes
///   decodeStep(B) + (B - 1) / written tokens · busy · interference
/// where busy is for how long a prompt keeps the devices (ServingCost::sharedStep, with what is found in the cache left
/// out). A prompt takes its own time and one step of the others for each `tokensPerChunk` of it, and waits behind other
/// prompts: M/G/1 (Pollaczek and Khinchine), with prompts as busy as the batches of its aggregate may keep the devices.
/// Devices and slots are the decode's. What the model wrote in an earlier turn is found by its prefill. Memory also
/// holds the prompts under way.
AggregatedMenu aggregatedMenu(const DecoderWork &prefill, const DecoderWork &decode, const Fleet &fleet,
                              const MenuOptions &options);
/// A decode whose experts are on other devices than its attention, and the experts.
struct SplitMenu {
  Menu decode, experts;
};
/// Attention and experts of a mixture of experts apart (attention-FFN disaggregation: MegaScale-Infer, arXiv
/// 2504.02263; Step-3, arXiv 2507.19427). A replica of experts takes the tokens of several replicas of attention in one
/// step, each replica of attention has as many micro-batches under way as keep it busy while the others are with the
/// experts:
///   stages = ⌈(attention + experts + exchange) / attention⌉,  step = stages · attention,  batch = stages · micro-batch
/// with the exchange of the experts' whole batch over the link between both pools, in two messages a layer of experts.
/// No two decodes are on it between the same pools of which one is no better in devices for a token and for one replica
/// in each pool, in the time of a step, and alone. Empty for a model without experts.
SplitMenu splitMenu(const DecoderWork &decode, const Fleet &fleet, const MenuOptions &options);

// For those that make menus.
/// What is offered where a model does not say: 16 bits, and 8 in the format that the device computes in. Formats of 4
/// bits change answers more than one may assume.
std::vector<std::string> precisionsOf(const DecoderWork &work, const CatalogueDevice &device);
/// Of a part of the model. Fails where the device does not compute in this precision, or lacks a figure.
llvm::Expected<ServingCost> partCost(const DecoderWork &work, const FleetPool &pool, const MenuOptions &options,
                                     const std::string &precision, ModelPart part, const ParallelDegrees &degrees);
bool headsDivide(const ModelShape &shape, int tensor);
/// Times and slots of a decode of `batch` sequences at once; not where it is.
Choice decodeChoice(const DecoderWork &work, int batch, double stepMs, double aloneMs);
/// Whether a choice is on the same pool and at least as good in all that a plan sees of it.
bool noWorse(const Choice &one, const Choice &other);
/// Milliseconds of a prefill after `cachedTokens` that are found: the scores of the new tokens against the cached ones
/// are those of the whole prompt less those of its two parts.
double prefillMs(const ServingCost &cost, double newTokens, double cachedTokens);
/// Of one choice of such a menu, again.
llvm::Expected<ServingCost> decoderCost(const DecoderWork &work, const Fleet &fleet, const MenuOptions &options,
                                        const Choice &choice, const ChoiceMeaning &meaning);

/// What one execution of an encoder, embedder, other model or search does. Time on a device is
///   launch + max(batch · flops / (peak · e), (stored bytes once + batch · read bytes) / (bandwidth · e')),
/// launch, e and e' being step_us, first.sixteen_bit_compute (or eight) and dense_bandwidth of the serving fit:
/// measured on GPUs (vLLM's, whatever the engine), carried over to all else. Where a device lets several programs in
/// (`clients` of the catalogue), what fits takes 1, 1/2, 1/4 or 1/8 of one: of its memory, its peak and its bandwidth.
struct RooflineWork {
  std::string what;                    ///< for messages: "model 'minilm'"
  std::vector<std::string> precisions; ///< empty: bf16, or f16 or f32 where the device has no other
  double parameters = 0;               ///< read once for all executions of a batch, times `passes`
  double passes = 1;
  double flops = 0;
  double readBytes = 0; ///< of an execution, beside the weights
  double heldBytes = 0; ///< of an index, which shards over devices
  bool hasPrecision() const { return parameters > 0; }
  std::optional<double> firstShare; ///< of the time, until the first output
};
llvm::Expected<Menu> rooflineMenu(const RooflineWork &work, const Fleet &fleet, const MenuOptions &options);

//===-- Spread ------------------------------------------------------------------------------------------------===//

/// Of amounts, each with its weight: 50 equally probable values of each; nothing where all are one constant.
Shape shapeOf(const std::vector<std::pair<Amount, double>> &amounts);
/// Of all attempts together, where each takes `one`, fails when it ends with probability `failure` below 1, and is made
/// again: the k-th is needed with probability failure^(k - 1).
Shape repeated(const Shape &one, double failure);

//===-- The problem -------------------------------------------------------------------------------------------===//

struct BuiltProblem {
  PlacementProblem problem;
  std::vector<std::vector<ChoiceMeaning>> meanings; ///< by piece and choice
  std::vector<std::vector<int>> pieceOfTask;        ///< by graph and task
  std::vector<std::string> unsure; ///< figures that the plan rests on and that are unsure, assumed or carried over
  std::vector<std::string> notes;  ///< what is not on menus and why
  size_t fleetPools = 0;           ///< the first so many pools are the fleet's, the others outside
};

/// Tasks of all graphs that ask the same model for the same thing become one piece, whose executions differ in scale:
/// one deployment serves them. Tasks on no device (tools, memories, plain functions, indexes that somebody else runs)
/// are on a pool "outside" of unlimited size, or one of their own where calls under way at once are limited.
llvm::Expected<BuiltProblem> buildProblem(const std::vector<workflow::Graph> &graphs, const Fleet &fleet,
                                          const MenuOptions &options);

} // namespace intarsia::plan

#endif
