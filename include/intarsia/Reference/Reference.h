//===- Reference.h - Every nn op as plain loops ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_REFERENCE_REFERENCE_H
#define INTARSIA_REFERENCE_REFERENCE_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

namespace intarsia {

namespace reference {
/// Loads the dialects that references of ops are made of (ReferenceOpInterface) with the dialect nn, and gives their
/// ops the models by which they are bufferized.
void registerReferenceModels(mlir::DialectRegistry &registry);

/// Returns the name of the function of the kernel with this index in the artifact.
std::string functionNameOf(unsigned kernel);
/// Appends a kernel to `into` as that function, over tensors that are read from and written to buffers (the pass
/// `reference-kernels-to-functions`).
mlir::LogicalResult buildReferenceFunction(rt::KernelOp kernel, unsigned index, mlir::ModuleOp into);

/// Functions on tensors with ops of nn become linalg ops on memory, one after the other.
void buildReferenceBuffers(mlir::OpPassManager &manager);
/// The same, and those ops become loops.
void buildReferenceLoops(mlir::OpPassManager &manager);
/// Those loops become the LLVM dialect. What is left to call is in the C library.
void buildReferenceLowering(mlir::OpPassManager &manager);
} // namespace reference

/// Registers the passes of the folder with tools that take passes by name.
void registerReferencePasses();

} // namespace intarsia

#endif
