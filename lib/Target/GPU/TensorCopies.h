//===- TensorCopies.h - Tensor copies, and the barriers in shared memory that count them ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions of Hopper as assembly (PTX ISA, sections "mbarrier", "cp.async.bulk.tensor", "setmaxnreg",
// "elect.sync"). EmulatedAssembly.cpp knows each by what its text begins with. Addresses of shared memory are pointers.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_TENSORCOPIES_H
#define INTARSIA_LIB_TARGET_GPU_TENSORCOPIES_H

#include "mlir/IR/Builders.h"

namespace intarsia::gpu {

/// Bytes of an mbarrier.
inline constexpr int64_t mbarrierBytes = 8;

/// Emits assembly that may read and write any memory.
mlir::Operation *emitAssembly(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef text,
                              llvm::StringRef constraints = "", mlir::ValueRange operands = {},
                              mlir::Type result = nullptr);

/// Makes an mbarrier for so many arrivals a phase. fenceProxy() has to follow before copies know it (CUDA C++
/// Programming Guide, "Asynchronous Data Copies using the Tensor Memory Accelerator (TMA)").
void initMbarrier(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, int32_t arrivals);
/// Orders what this thread has written to shared memory before what copies and matrix instructions do.
void fenceProxy(mlir::OpBuilder &b, mlir::Location loc);
void arrive(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier);
/// Arrives, and says that so many bytes come.
void arriveExpecting(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, int32_t bytes);
/// Waits until the phase of a parity (i32) has ended: 0 is that of the first one, and 1 that of the one before it,
/// which counts as ended (PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": the current or the immediately preceding
/// phase).
void waitForPhase(mlir::OpBuilder &b, mlir::Location loc, mlir::Value barrier, mlir::Value parity);
/// Begins to copy the box at a column and a row (i32) of a matrix. Bytes of the whole box are counted, with those that
/// lie outside of the matrix.
void copyBox(mlir::OpBuilder &b, mlir::Location loc, mlir::Value destination, mlir::Value map, mlir::Value column,
             mlir::Value row, mlir::Value barrier);
/// Returns i1: true in one thread of the warp.
mlir::Value electThread(mlir::OpBuilder &b, mlir::Location loc);
/// Sets the registers of each thread of a group of four warps, to fewer or to more than they have.
void setRegisters(mlir::OpBuilder &b, mlir::Location loc, bool areFewer, int32_t registers);

} // namespace intarsia::gpu

#endif
