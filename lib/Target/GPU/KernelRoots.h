//===- KernelRoots.h - The kinds of kernels -----------------------------------------------------------------------
//===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_KERNELROOTS_H
#define INTARSIA_LIB_TARGET_GPU_KERNELROOTS_H

#include "lib/Target/GPU/KernelEmitter.h"

namespace intarsia::gpu {

using Emitter = std::unique_ptr<KernelEmitter>;
// The kinds of kernels, each in a file <Root>Kernel.cpp.
Emitter makeRowsKernel(rt::KernelOp kernel, const Architecture &architecture);
struct RowRange;
/// How tensor copies read the operands of a linear.
struct TensorCopies {
  bool arePossible = false;
  unsigned input = 0, weight = 0; ///< buffers of the kernel
  int64_t pitchBytes = 0; ///< of a row of them; 0 unless both lie in memory as they are multiplied, where copies exist
};
TensorCopies tensorCopiesOf(rt::KernelOp kernel, nn::LinearOp linear, const Architecture &architecture);
Emitter makeTensorCopyLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture,
                                   const MatrixInstruction &instruction, const TensorCopies &copies, RowRange rows);
struct QuantizedRows;
/// `input` says where the launch before has the input in E4M3, or dequantized; it is null if the input is not
/// quantized.
Emitter makeMatrixLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture,
                               const MatrixInstruction &instruction, RowRange rows, const QuantizedRows *input);
/// `input` says where the launch before has the input in E2M1, with scales of blocks.
Emitter makeBlockScaledLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture,
                                    const MatrixInstruction &instruction, RowRange rows, const QuantizedRows &input);
/// `input` says where the launch before has the input as integers.
Emitter makeIntegerLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture,
                                const MatrixInstruction &instruction, RowRange rows, const QuantizedRows &input);
/// `input` is null if the input is not quantized.
Emitter makeFewRowsLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture,
                                const QuantizedRows *input);
/// Returns true if makeFewRowsLinearKernel() can read the linear's weight.
bool multipliesFewRows(rt::KernelOp kernel, nn::LinearOp linear);
// Null if there is no emitter for a kernel; such ones are left to emitGeneralKernel().
Emitter makeAttentionKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);
Emitter makeCachedAttentionKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);
Emitter makeCacheAppendKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);
Emitter makeRouteKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);
Emitter makeCandidatesKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);
Emitter makeExpertsKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);
Emitter makeMatmulKernel(rt::KernelOp kernel, mlir::Operation *root, const Architecture &architecture);

/// Emits a kernel of any ops, one launch for each loop nest of their references, in f32. Temporaries are in the
/// launch's scratch.
mlir::LogicalResult emitGeneralKernel(rt::KernelOp kernel, const Architecture &architecture,
                                      mlir::gpu::GPUModuleOp module, llvm::StringRef name);

} // namespace intarsia::gpu

#endif
