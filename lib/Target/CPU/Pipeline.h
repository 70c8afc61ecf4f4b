//===- Pipeline.h - From kernels to LLVM, pass by pass ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_PIPELINE_H
#define INTARSIA_LIB_TARGET_CPU_PIPELINE_H

#include "lib/Target/CPU/CpuTarget.h"
#include "mlir/Pass/PassManager.h"

namespace intarsia::cpu {

/// Adds the passes that lower emitted functions to the LLVM dialect: the pipeline `target-cpu-lower-to-llvm`.
void buildLowerToLlvm(mlir::OpPassManager &manager);

/// Adds the passes that emit the kernels of a module as functions, for a variant.
void buildEmission(mlir::OpPassManager &manager, const CpuVariant &variant);
/// Adds those between emitted functions and buildLowerToLlvm().
void buildPreparation(mlir::OpPassManager &manager, const CpuVariant &variant);

} // namespace intarsia::cpu

#endif
