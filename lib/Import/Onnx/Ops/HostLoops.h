//===- HostLoops.h - Loops that stay loops ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_HOSTLOOPS_H
#define INTARSIA_IMPORT_ONNX_OPS_HOSTLOOPS_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

/// What an iteration of a loop gives.
struct LoopStep {
  llvm::SmallVector<mlir::Value> carried; ///< of the shapes that the loop began with
  llvm::SmallVector<mlir::Value> parts;   ///< those of all iterations are results of the loop
  mlir::Value goesOn;                     ///< bool of one element: whether another follows; null if it always does
};

/// Builds an iteration: `step(number, carried)`, where `number` is a tensor<i64>. Returns nothing if it is refused.
using LoopBody = llvm::function_ref<std::optional<LoopStep>(mlir::Value, llvm::ArrayRef<mlir::Value>)>;

struct HostLoop {
  std::optional<Size> count;              ///< number behind that of the last iteration; without it there is no limit
  bool isComputed = false;                ///< true if the count is an element of a tensor
  mlir::Value goesOn;                     ///< bool without dimensions: whether the loop begins; null if it always does
  int64_t first = 0;                      ///< number of the first iteration, at most the count
  llvm::SmallVector<mlir::Value> carried; ///< values that the loop begins with
};

/// The results of a loop: what it carries, and the parts of all iterations along a new first dimension.
struct LoopResults {
  llvm::SmallVector<mlir::Value> carried, parts;
};

/// Builds a loop of the host (scf.for, or scf.while if a condition decides whether it goes on), whose iterations are
/// not written out: the number of them may be a size of the call. Refuses the node if what is carried changes its
/// shape, and parts of a loop that a condition ends.
std::optional<LoopResults> buildLoop(NodeContext &node, const HostLoop &loop, LoopBody body);

/// Returns the part of a tensor at a place along an axis, without that dimension. `number` is a tensor<i64> in [0,
/// size); with `isReverse` it counts from behind.
mlir::Value partAt(NodeContext &node, mlir::Value tensor, int64_t axis, mlir::Value number, bool isReverse = false);

/// Returns a tensor of one element without dimensions; nothing if it has more elements. A call whose tensor has another
/// number of elements ends with an error.
std::optional<mlir::Value> scalarOf(NodeContext &node, mlir::Value tensor);

/// Returns "f32[2, ?]".
std::string describe(mlir::Value tensor);

} // namespace intarsia::onnx

#endif
