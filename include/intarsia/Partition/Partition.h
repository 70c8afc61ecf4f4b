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

struct PartitionOptions {
  std::vector<std::string>
      placements; ///< "encoder.layer.[0-2]*=@reference": a glob over the model's names and a device
};

/// Adds the phase: ops get the devices that they run on.
void buildPartitionPipeline(mlir::OpPassManager &pipeline, const PartitionOptions &options);

/// Registers the phase's passes and the pipeline `intarsia-partition` with tools that take passes by name.
void registerPartitionPasses();

} // namespace intarsia

#endif
