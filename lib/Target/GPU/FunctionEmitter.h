//===- FunctionEmitter.h - The skeleton of a GPU function of a kernel -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel is one or several GPU functions, launched one after the other. All take the same arguments: a pointer to
// each buffer, then each size as i64, then a pointer to the scratch of the launch; some take tensor maps behind them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_FUNCTIONEMITTER_H
#define INTARSIA_LIB_TARGET_GPU_FUNCTIONEMITTER_H

#include "lib/Kernel/KernelShape.h"
#include "lib/Kernel/RowEmitter.h"
#include "lib/Target/GPU/Architecture.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace intarsia::gpu {

using kernel::Element;
using kernel::Index;
using kernel::Indices;
using kernel::KernelShape;
using kernel::LoopEmitter;
using kernel::MemoryEmitter;
using kernel::PanelEmitter;
using kernel::RowEmitter;
using kernel::RowGuard;
using kernel::RowScope;
using kernel::Storage;
using kernel::TensorEmitter;

// Address spaces of LLVM for both vendors.
inline constexpr unsigned globalSpace = 1, sharedSpace = 3;

/// Name of the shared memory of a block, whose bytes the launch says.
inline constexpr llvm::StringLiteral sharedMemoryName = "itx_shared";

// Attributes of a GPU function, which the host needs to launch it. Expressions are texts in the kernel's sizes.
inline constexpr llvm::StringLiteral gridAttribute = "itx.grid";       ///< blocks, in x
inline constexpr llvm::StringLiteral sharedAttribute = "itx.shared";   ///< bytes of dynamic shared memory of a block
inline constexpr llvm::StringLiteral scratchAttribute = "itx.scratch"; ///< bytes of global memory of the launch
/// The tensor maps that it takes behind the scratch: an array of dictionaries with `buffer`, `element_bytes`, `rows`,
/// `columns`, `box` (rows and columns) and `swizzle_bytes`, as GpuTensorMap has them.
inline constexpr llvm::StringLiteral tensorMapsAttribute = "itx.tensor_maps";

/// Why a function is used for some sizes, with times: for people who read the IR.
inline constexpr llvm::StringLiteral whyAttribute = "itx.why";

/// A tensor map that a function takes (GpuTensorMap of lib/Formats/GpuObject.h), in the kernel's sizes.
struct TensorMapShape {
  unsigned buffer;
  int64_t elementBytes;
  mlir::AffineExpr rows, columns;
  int64_t boxRows, boxColumns, swizzleBytes;
};

/// True if a size is known, and a multiple of the divisor.
bool isMultipleOf(mlir::Value size, int64_t divisor);

/// Emits GPU functions in which a warp computes a row: its lanes take the elements of the row in turn. Where lanes work
/// on elements of their own, each computes alone.
class FunctionEmitter : public kernel::KernelBody {
public:
  FunctionEmitter(const LoopEmitter &loops, rt::KernelOp kernel, const Architecture &architecture)
      : KernelBody(loops, kernel), architecture(architecture) {}
  /// Says which module functions are appended to, named by `name` and a number that is not in use.
  void enter(mlir::gpu::GPUModuleOp into, llvm::StringRef prefix) { module = into, name = prefix.str(); }

  /// Begins the next function, with so many threads in a block and blocks in its grid.
  void beginLaunch(int64_t threadsOfBlock, mlir::AffineExpr blocks, llvm::ArrayRef<TensorMapShape> tensorMaps = {});
  /// Returns a pointer to one of the tensor maps of the function.
  mlir::Value tensorMap(unsigned index) { return operation.getArgument(scratchArgument() + 1 + index); }
  /// Says that the function needs no fewer registers than what leaves room for so many blocks on a multiprocessor.
  /// ptxas (version 13.0) takes registers for some more blocks otherwise, and spills a few.
  void planRegistersFor(int32_t blocks);
  /// Ends it: says on the function how it is launched.
  void endLaunch();

  llvm::StringRef targetKind() const override { return architecture.vendor == Vendor::Nvidia ? "cuda" : "hip"; }
  mlir::Value emitSize(int64_t position) override;
  using KernelBody::scratch;
  /// Returns scratch of this warp: shared memory, or if a block may have less than it takes, global memory.
  mlir::Value scratch(mlir::AffineExpr bytes) override;

  mlir::LogicalResult
  emitVectorLoop(mlir::Value size, llvm::function_ref<mlir::LogicalResult(mlir::Value i, int64_t width)> body) override;
  mlir::LogicalResult emitStoreLoop(
      mlir::Value size,
      llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(mlir::Value i, int64_t width)> compute,
      llvm::function_ref<void(mlir::Value i, int64_t width, llvm::ArrayRef<mlir::Value> values)> store) override;
  kernel::Values emitReductions(mlir::Value size, llvm::ArrayRef<kernel::Reduction> reductions,
                                llvm::function_ref<kernel::Values(mlir::Value i, int64_t width)> elements) override;
  mlir::LogicalResult
  emitPrefixes(mlir::Value size, const kernel::Prefixes &prefixes,
               llvm::function_ref<llvm::FailureOr<mlir::Value>(mlir::Value i, int64_t width)> element,
               llvm::function_ref<void(mlir::Value i, int64_t width, mlir::Value prefix)> store) override;

  /// Waits until all threads of the block are here, and what they wrote can be read by all.
  void emitBlockBarrier();
  /// The same for the threads of the warp.
  void emitWarpBarrier();
  /// Returns bytes of the block's shared memory, of which `bytes` more are used then.
  mlir::Value sharedMemory(mlir::AffineExpr bytes);
  /// Emits what each lane computes for itself.
  template <typename Fn> auto alone(Fn emitLanes) {
    bool before = std::exchange(lanesShareRow, false);
    auto result = emitLanes();
    lanesShareRow = before;
    return result;
  }
  /// Returns what the lane has whose number differs in the bits of `distance`.
  mlir::Value exchanged(mlir::Value value, int64_t distance);
  /// Returns what as many neighbouring lanes have, or all of the warp, combined; all of them have it then.
  mlir::Value combineLanes(mlir::Value value, kernel::Combination kind, std::optional<int64_t> lanes = std::nullopt);
  /// Returns where scratch of the launch begins, and the part from `offset` on.
  mlir::Value kernelScratch(mlir::AffineExpr offset);
  /// Reserves scratch that the kernel's functions share, those that begin from now on; returns where it begins.
  mlir::AffineExpr reserve(mlir::AffineExpr bytes);
  /// Says how much scratch the function uses, for functions that divide it up themselves.
  void setLaunchScratch(mlir::AffineExpr bytes) { scratchBytes = bytes; }

  const Architecture &architecture;

  // The function that is being emitted.
  mlir::gpu::GPUFuncOp operation;
  mlir::Value thread, block; ///< i64: index of the thread in its block, and of the block
  mlir::Value lane, warp;    ///< i64: index of the thread in its warp, and of the warp in its block
  int64_t warpsOfBlock = 0;
  bool lanesShareRow = true; ///< the lanes of a warp are at the same row, and may exchange values

private:
  /// Returns the number of the argument that points to the scratch.
  unsigned scratchArgument() {
    return kernel.getNumArguments() + kernel.getResultTypes().size() + unsigned(kernel.getSizes().size());
  }

  mlir::gpu::GPUModuleOp module;
  std::string name;
  unsigned launches = 0;
  mlir::AffineExpr blocks;                                                    ///< of the function's grid
  mlir::AffineExpr sharedBytes, scratchBytes;                                 ///< of the function so far
  mlir::AffineExpr reserved = mlir::getAffineConstantExpr(0, b.getContext()); ///< bytes of scratch
};

} // namespace intarsia::gpu

#endif
