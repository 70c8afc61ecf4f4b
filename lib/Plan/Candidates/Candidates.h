//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// From agent graphs, a fleet and the catalogue to a placement problem: for each piece the candidates, with their costs.
// This folder is free of MLIR.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_CANDIDATES_H
#define INTARSIA_LIB_PLAN_CANDIDATES_H

#include "intarsia/Cost/ServingCost.h"
#include "intarsia/Plan/AgentGraph.h"
#include "intarsia/Plan/Placement.h"
#include <map>

namespace intarsia::plan {

//===-- The fleet ---------------------------------------------------------------------------------------------===//

/// Equal devices. `device` is a copy of the catalogue's entry, with the node of this pool.
struct FleetPool {
  std::string name, location;
  CatalogueDevice device;
  int64_t count = 0, perNode = 1;
  bool wholeNodes = false;
  std::optional<double> rentalDollarsPerHour; ///< given for this pool
  std::optional<OwnershipTerms> owned;        ///< terms for the purchase price in `device`
  double availability = 1;                    ///< fraction of the devices that is available
};

struct FleetLink {
  int from = 0, to = 0; ///< pools
  double gigabytesPerSecond = 0, microseconds = 0, dollarsPerGigabyte = 0;
  std::string shared; ///< links of this name share one wire
  bool oneWay = false;
};

struct Fleet {
  std::string name, location;
  std::vector<FleetPool> pools;
  std::vector<FleetLink> links;
  double wattsCap = unlimited;
  std::optional<double> gramsPerKilowattHour;
};

//===-- Candidates ----------------------------------------------------------------------------------------------===//

struct CandidateOptions {
  ServingEngine engine = ServingEngine::VLLM;
  Objective objective = Objective::DollarsPerRequest;
  const ServingEfficiency *efficiency = nullptr; ///< replaces the measured figures if set; outlives the candidate sets
  WaferTimes *wafers = nullptr;                  ///< makes programs for wafers, which are not offered without it
};

/// Meaning of a choice's label.
struct ChoiceMeaning {
  std::string precision; ///< precision of the weights; empty without weights
  int tensor = 1, pipeline = 1, expert = 1, data = 1, batch = 1;
  bool outside = false; ///< true if on no device of the fleet
  /// Lower bound of the work of any implementation of a decoder, on each device of a replica: flops of a mean prompt,
  /// or bytes read in a decode step; and the device's rate by the catalogue.
  struct Demand {
    bool isMemory = false;
    double amount = 0, perSecond = 0;
  };
  std::optional<Demand> demand;
  int parts = 1; ///< number of parts of one device, of which a replica takes one
  /// Prefill and decode in the same replicas: the number of the aggregate, which has one choice of each; 0: apart.
  int aggregate = 0;
  int devices() const { return tensor * pipeline * data; }
};

struct Candidates {
  std::vector<Choice> choices;
  std::vector<ChoiceMeaning> meanings;
  std::vector<std::string> refusals; ///< reasons why a pool and precision has no candidate
  void add(Choice choice, ChoiceMeaning meaning, llvm::StringRef pool);
  /// Keeps the choices at the wanted positions only.
  void keep(llvm::function_ref<bool(size_t)> wanted);
  /// Returns true if for each choice of the aggregate `other` there is one of the aggregate `one` that is no worse.
  bool noWorseAggregate(int one, int other) const;
};

/// Work of one execution of a prefill or a decode, means over executions.
struct DecoderWork {
  std::string model;
  const ModelShape *shape = nullptr;
  std::vector<std::string> precisions; ///< empty: bf16, and fp8 or int8 by the device; 4 bits only if named
  NumberFormat cache = NumberFormat::BF16;
  bool decodes = false;
  double newTokens = 0, cachedTokens = 0;      ///< prefill
  double generatedTokens = 0;                  ///< prefill: the new tokens that a decode in reach has cached
  double squaredPrompt = 1;                    ///< prefill: mean square of the new tokens over the square of their mean
  double contextTokens = 0, writtenTokens = 0; ///< decode; the first token written is the prefill's
  double squaredWritten = 1;       ///< decode: mean square of the written tokens over the square of their mean
  std::optional<double> every;     ///< decode: a consumer starts after this many tokens
  bool prunes = true;              ///< false if a placement by hand may name a dominated choice
  bool promised = false;           ///< decode: a bound on the next token applies to it
  double tokenMsBound = unlimited; ///< decode: the strictest of these bounds
};

/// Returns the candidates of a prefill or a decode: pools times precisions times parallel degrees times batches (powers
/// of two, the largest that fits and the largest that keeps the bound on the next token), timed by ServingCost with
/// prefill and decode on replicas of their own. Tensor degrees are powers of two that divide the heads and stay inside
/// a node; mixture-of-experts models also get data-parallel attention with experts over all devices; where no tensor
/// degree holds the weights, nodes are chained as a pipeline. Fails if nothing fits, naming the model, its bytes and
/// the largest pool.
llvm::Expected<Candidates> decoderCandidates(const DecoderWork &work, const Fleet &fleet,
                                             const CandidateOptions &options);
/// Candidates with prefill and decode in the same replicas; empty if nothing fits.
struct AggregatedCandidates {
  Candidates prefill, decode;
};
/// Returns the candidates with prefill and decode in the same replicas, for the same pools, precisions and degrees and
/// with as many sequences in decode at once as the batch says. A forward step takes
///   decodeStep(B) + promptsInStep(B) + (B - 1) / written tokens · scores over cached tokens
/// (ServingCost::sharedStep, and what a prompt's cached tokens add to it). A
/// prompt takes its own time and one step of the others for each `tokensPerChunk` of it, and waits behind other
/// prompts of its replica: M/G/1 (Pollaczek and Khinchine).
/// Devices and slots are the decode's. The prefill finds the tokens that the model wrote in an earlier turn in the
/// cache. Memory also holds the prompts in progress.
AggregatedCandidates aggregatedCandidates(const DecoderWork &prefill, const DecoderWork &decode, const Fleet &fleet,
                                          const CandidateOptions &options);

// Helpers of the candidate sets.
/// Returns the precisions to offer if a model does not name any: 16 bits, and 8 in the format that the device computes
/// in. Formats of 4 bits change answers more than may be assumed.
std::vector<std::string> precisionsOf(const DecoderWork &work, const CatalogueDevice &device);
/// Returns true if a choice is on the same pool and at least as good in every figure that a plan uses.
bool noWorse(const Choice &one, const Choice &other);
/// Returns the milliseconds of a prefill after `cachedTokens` in the cache: the scores of the new tokens against the
/// cached ones are those of the whole prompt less those of its two parts.
double prefillMs(const ServingCost &cost, double newTokens, double cachedTokens);
/// Returns the cost of one choice of such a candidate set.
llvm::Expected<ServingCost> decoderCost(const DecoderWork &work, const Fleet &fleet, const CandidateOptions &options,
                                        const Choice &choice, const ChoiceMeaning &meaning);

/// Work of one execution of an encoder, embedder, other model or search. Time on a device is
///   launch + max(batch · flops / (peak · e), (stored bytes once + batch · read bytes) / (bandwidth · e')),
/// where launch, e and e' are step_us, first.sixteen_bit_compute (or eight) and dense_bandwidth of the serving fit:
/// measured on GPUs (vLLM's, whatever the engine), and assumed for all other devices; but on a device with measured
/// times
/// (`MeasuredTimes`) an encoder takes what its flops did there. Where a device allows several
/// programs (`clients` of the catalogue), a replica takes 1, 1/2, 1/4 or 1/8 of its memory, peak and bandwidth.
struct RooflineWork {
  std::string what;                    ///< for messages: "model 'minilm'"
  std::vector<std::string> precisions; ///< empty: bf16, or f16 or f32 where the device has no other
  double parameters = 0;               ///< read once for all executions of a batch, times `passes`
  double passes = 1;
  double flops = 0;
  double units = 0;     ///< of input: tokens of an encoder
  double readBytes = 0; ///< per execution, beside the weights
  double heldBytes = 0; ///< size of an index, which shards over devices
  bool hasPrecision() const { return parameters > 0; }
  std::optional<double> firstShare; ///< share of the time until the first output
};
llvm::Expected<Candidates> rooflineCandidates(const RooflineWork &work, const Fleet &fleet,
                                              const CandidateOptions &options);

//===-- Spread ------------------------------------------------------------------------------------------------===//

/// Returns the shape of weighted amounts: 50 equally probable values of each; deterministic if all are one constant.
Shape shapeOf(const std::vector<std::pair<Amount, double>> &amounts);
/// Returns the shape of all attempts together. Each attempt takes `one`, fails at its end with probability `failure`
/// below 1, and is then repeated: the k-th is needed with probability failure^(k - 1).
Shape repeated(const Shape &one, double failure);

//===-- The problem -------------------------------------------------------------------------------------------===//

/// Work of a mean execution of a piece, from which its times follow; 0 where it has none of a kind.
struct PieceWork {
  const ModelShape *shape = nullptr;           ///< of a language model
  double newTokens = 0, cachedTokens = 0;      ///< prefill
  double contextTokens = 0, writtenTokens = 0; ///< decode
  double units = 0;                            ///< input of an encoder or another model
};

struct BuiltProblem {
  PlacementProblem problem;
  std::vector<std::vector<ChoiceMeaning>> meanings; ///< by piece and choice
  std::vector<std::vector<int>> pieceOfTask;        ///< by graph and task
  std::vector<std::string> unsure; ///< figures behind the plan that are uncertain, assumed or carried over
  std::vector<std::string> notes;  ///< candidates that are left out, and why
  size_t fleetPools = 0;           ///< number of the fleet's pools, which come first; the others are outside
  std::vector<PieceWork> works;    ///< by piece
  std::map<std::string, ModelShape> derivedShapes; ///< of models without one, by their names
};

/// Builds the problem. Tasks of all graphs with the same demand on the same model become one piece, whose executions
/// differ in scale: one deployment serves them. Tasks on no device (tools, memories, plain functions, indexes outside
/// the fleet) are on a pool "outside" of unlimited size, or on one of their own if simultaneous calls are limited.
llvm::Expected<BuiltProblem> buildProblem(const std::vector<workflow::Graph> &graphs, const Fleet &fleet,
                                          const CandidateOptions &options);

} // namespace intarsia::plan

#endif
