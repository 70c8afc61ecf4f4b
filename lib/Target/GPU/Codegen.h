//===- Codegen.h - From kernels to the code of GPUs --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_CODEGEN_H
#define INTARSIA_LIB_TARGET_GPU_CODEGEN_H

#include "intarsia/Target/Target.h"
#include "lib/Target/GPU/Architecture.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/IR/Module.h"

namespace intarsia::gpu {

/// Appends a gpu.module with the functions of all kernels. Fails with a message at the op that cannot be compiled.
mlir::FailureOr<mlir::gpu::GPUModuleOp> emitKernels(llvm::ArrayRef<target::NumberedKernel> kernels,
                                                    const Architecture &architecture, mlir::ModuleOp into);

/// Writes the shapes of kernels for an architecture into IR.
mlir::LogicalResult chooseShapes(llvm::ArrayRef<target::NumberedKernel> kernels, const Architecture &architecture);

/// Remarks on each kernel that has no emitter of its own, with the architectures on which that is so.
void remarkOnLoops(llvm::ArrayRef<target::NumberedKernel> kernels, llvm::ArrayRef<const Architecture *> architectures);
/// Remarks on each kernel of 8-bit floats that architectures without instructions for them multiply as f16.
void remarkOnWidening(llvm::ArrayRef<target::NumberedKernel> kernels,
                      llvm::ArrayRef<const Architecture *> architectures);

/// Adds the passes from emitted functions to the LLVM dialect with the vendor's intrinsics.
void buildGpuLowering(mlir::OpPassManager &manager, const Architecture &architecture);

/// Adds the dialects and translations that both vendors need.
void addGpuDialects(mlir::DialectRegistry &registry);

/// The uses that code of kernels is made for.
enum class CodeFor {
  Device,  ///< the GPU
  Emulator ///< the host, each thread of the GPU by itself (lib/Runtime/Emulated)
};

/// Compiles kernels for an architecture to a GpuObject (lib/Formats/GpuObject.h). Errors name the kernel and the op.
llvm::Expected<std::vector<char>> compileKernels(mlir::ModuleOp module, llvm::ArrayRef<target::NumberedKernel> kernels,
                                                 const Architecture &architecture, CodeFor codeFor,
                                                 llvm::StringRef hostTriple);

/// Rewrites the code of a GPU so that the host can run it: address spaces go, and what only GPUs have becomes calls of
/// functions in a table that the runtime fills. An error names an intrinsic that the emulator does not know.
llvm::Error emulate(llvm::Module &module, const Architecture &architecture);

} // namespace intarsia::gpu

#endif
