//===- Partition.h - Which device runs what -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PARTITION_PARTITION_H
#define INTARSIA_PARTITION_PARTITION_H

#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Cost/Collectives.h"
#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace intarsia {

/// Ranks that a world may have, as itx_world_options says.
inline constexpr int64_t mostRanks = 256;

/// The work that partitions are compared by. A world computes `sequences` at once: each has a prompt of `prompt` tokens
/// and is continued by `tokens` tokens. A model without caches computes a batch of `sequences` examples, each with
/// `prompt` tokens.
struct RankLoad {
  int64_t sequences = 1, prompt = 0, tokens = 1;
  bool hasLength = false; ///< false: sequences are as long as the model allows
};

struct PartitionOptions {
  std::vector<std::string>
      placements;        ///< "encoder.layer.[0-2]*=@reference": a glob over the model's names and a device
  std::string gpuMemory; ///< "8GB": the GPU's layers take no more, the others run on the host; empty: no limit
  int64_t world = 1;     ///< ranks that run the model together
  /// Parts of neighbouring layers; as many ranks share each of them; a divisor of `world`. 0: that for which the cost
  /// model predicts the shortest step.
  int64_t stages = 1;
  /// Stages that each rank of a pipeline has, in whose order parts of a call go through the ranks several times.
  int64_t turns = 1;
  bool isBreadthFirst = false; ///< all parts of a call go through one turn before the next; false: some at a time
  /// Groups of the ranks of a stage that have different experts; the ranks of a group have parts of each of them.
  int64_t experts = 1;
  /// Parts of the tokens of a call, or of the examples of a batch; as many ranks share the work on each of them. At
  /// most one of these and the stages is more than 1.
  int64_t context = 1, data = 1;
  /// Norms and residuals between what ranks of a stage add up are computed by some rows on each of these ranks.
  bool sequence = false;
  /// Ranks that share the tokens of a call share attention and caches by heads.
  bool heads = false;
  std::string rankMemory;     ///< "8GB": the most weights and caches of a rank, with 0 stages; empty: no limit
  std::vector<int64_t> hosts; ///< ranks of each host, in the order of the ranks; empty: all are on one
  std::string network;        ///< "10Gbit/s,50us": between several hosts, for costs
  std::vector<double> speeds; ///< of each rank against the others; empty: all are equal
  std::string figures;        ///< file of intarsia-plan --probe whose times are those of a rank; empty: the catalogue's
  bool roundsMessages = false; ///< sums over ranks send 8 bits an element between hosts
  std::string rankLoad;        ///< "sequences:8,prompt:512", with 0 stages; empty: one call at the expected sizes
  bool isGiven = false;        ///< the user says how ranks share the model; a model's own configuration does not then
};

/// On a module whose layers were split by memory: an array with a dictionary for each device (`device`, `layers`,
/// `which`, `weight_bytes`, `cache_bytes`, `expected_us`; of the GPU also `scratch_bytes`, `limit_bytes`).
inline constexpr llvm::StringLiteral splitAttr = "rt.split";

/// On a module whose partition was chosen by cost: an array with a dictionary for each alternative (`partition`,
/// `chosen`, `why`; of those that can be carried out `expected_us`, `exchanges_us`, `rank_bytes`, and with a load of
/// sequences `prompts_us`, `tokens_us`).
inline constexpr llvm::StringLiteral partitionAttr = "rt.partition";

/// Returns the bytes of a size of memory: "8GB", "7.5GiB".
llvm::Expected<uint64_t> parseMemorySize(llvm::StringRef text);

/// Returns what a network is by a text: the bandwidth of a host's adapter, and the time of a short message between two
/// hosts: "10Gbit/s,50us".
llvm::Expected<Link> parseNetwork(llvm::StringRef text);

/// Returns what a world has to do by a text: "sequences:8,prompt:512,tokens:128", of which any may be left out.
llvm::Expected<RankLoad> parseRankLoad(llvm::StringRef text);

/// Reads a device that intarsia-plan --probe measured, with times of models. The error names the file and what it
/// lacks.
llvm::Expected<CatalogueDevice> readRankFigures(llvm::StringRef file);

/// Sets how the ranks of a world share a model by a text: "tensor" (each rank has a part of every layer), "pipeline"
/// (each has some layers), "expert" (each has some experts, and a part of everything else), "context" or "data" (each
/// computes some tokens or examples with all weights), products of these as "pipeline:2,tensor:2" for four ranks (two
/// have some layers, and a part of each of them), of which one number may be left out, with "sequence", which has none,
/// beside tensor or expert, with "interleaved:2" or "breadth-first:2" beside pipeline (a rank has two stages), or
/// "auto": chosen by cost.
llvm::Error parsePartition(llvm::StringRef text, PartitionOptions &options);

/// Returns the text that parsePartition reads.
std::string partitionText(const PartitionOptions &options);

/// What became of the devices that a model names for a node.
struct FollowedDevices {
  std::string node, configuration;
  bool isFollowed = false;
  bool isStage = false; ///< it names a stage of a pipeline
  std::string why;      ///< why it was overruled
};

/// Follows the devices that a model names for its nodes (dialects/Rt/DeviceConfigurations.h), before the phase: ops get
/// devices, and options a partition where the user gives none. `--place` comes later, and holds.
std::vector<FollowedDevices> followDevices(mlir::ModuleOp module, PartitionOptions &options);
/// Completes the outcomes after the phase, which may cut stages otherwise, and prints them in a remark.
void finishDevices(mlir::ModuleOp module, std::vector<FollowedDevices> &outcomes);

/// Adds the phase: ops get the devices that they run on.
void buildPartitionPipeline(mlir::OpPassManager &pipeline, const PartitionOptions &options);

/// Adds the passes of the phase that share functions over ranks.
void addRankPartition(mlir::OpPassManager &pipeline, const PartitionOptions &options);

/// Registers the phase's passes and the pipeline `intarsia-partition` with tools that take passes by name.
void registerPartitionPasses();

} // namespace intarsia

#endif
