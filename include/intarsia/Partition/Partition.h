//===- Partition.h - Which device runs what -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PARTITION_PARTITION_H
#define INTARSIA_PARTITION_PARTITION_H

#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace intarsia {

/// Ranks that a world may have, as itx_world_options says.
inline constexpr int64_t mostRanks = 256;

/// How ranks share a model.
enum class PartitionKind {
  Tensor,   ///< each has a part of every layer
  Pipeline, ///< each has some layers, and they run one after another
  Auto      ///< the one of these for which the cost model predicts the shortest step
};

struct PartitionOptions {
  std::vector<std::string>
      placements;        ///< "encoder.layer.[0-2]*=@reference": a glob over the model's names and a device
  std::string gpuMemory; ///< "8GB": the GPU's layers take no more, the others run on the host; empty: no limit
  int64_t world = 1;     ///< ranks that run the model together
  PartitionKind kind = PartitionKind::Tensor;
  std::string rankMemory;     ///< "8GB": the most weights and caches of a rank, with Auto; empty: no limit
  std::vector<double> speeds; ///< of each rank against the others; empty: all are equal
};

/// On a module whose layers were split by memory: an array with a dictionary for each device (`device`, `layers`,
/// `which`, `weight_bytes`, `cache_bytes`, `expected_us`; of the GPU also `scratch_bytes`, `limit_bytes`).
inline constexpr llvm::StringLiteral splitAttr = "rt.split";

/// On a module whose partition was chosen by cost: an array with a dictionary for each alternative (`partition`,
/// `chosen`, `why`; of those that can be carried out `expected_us`, `exchanges_us`, `rank_bytes`).
inline constexpr llvm::StringLiteral partitionAttr = "rt.partition";

/// Returns the bytes of a size of memory: "8GB", "7.5GiB".
llvm::Expected<uint64_t> parseMemorySize(llvm::StringRef text);

/// Adds the phase: ops get the devices that they run on.
void buildPartitionPipeline(mlir::OpPassManager &pipeline, const PartitionOptions &options);

/// Adds the passes of the phase that share functions over ranks.
void addRankPartition(mlir::OpPassManager &pipeline, const PartitionOptions &options);

/// Registers the phase's passes and the pipeline `intarsia-partition` with tools that take passes by name.
void registerPartitionPasses();

} // namespace intarsia

#endif
