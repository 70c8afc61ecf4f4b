//===- KernelRoots.h - Which class emits a kernel ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_KERNELROOTS_H
#define INTARSIA_LIB_TARGET_CPU_KERNELROOTS_H

#include "lib/Target/CPU/KernelEmitter.h"
#include <memory>

namespace intarsia::cpu {

using Emitter = std::unique_ptr<KernelEmitter>;

/// Emitters for each kind of root; `root` is of the op that the function is named after.
Emitter makeLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeQuantizedLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeTokenLinearKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeMatmulKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeConvKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeByteConvKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeRecurrentKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeAttentionKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeQuantizedAttentionKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeCacheAppendKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeCachedAttentionKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeRouteKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeExpertsKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
Emitter makeCandidatesKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);
/// A kernel of rows needs no root.
Emitter makeRowsKernel(rt::KernelOp kernel, mlir::Operation *root, const TileConfig &config);

/// Returns what emits a kernel; null after a message at the op that the CPU target cannot compile.
Emitter emitterOf(rt::KernelOp kernel, const TileConfig &config);

} // namespace intarsia::cpu

#endif
