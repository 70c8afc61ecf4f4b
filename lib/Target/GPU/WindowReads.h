//===- WindowReads.h - Windows of images as rows of a matrix ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_WINDOWREADS_H
#define INTARSIA_LIB_TARGET_GPU_WINDOWREADS_H

#include "lib/Target/GPU/FunctionEmitter.h"

namespace intarsia::gpu {

/// Reads the left side of a convolution as that of a linear: a row for each position of the result, [window… *
/// channels], which is nowhere in memory. Zero where a window is outside of the image.
class WindowReads : public LoopEmitter {
public:
  WindowReads(FunctionEmitter &function, TensorEmitter &tensors, nn::ConvOp root)
      : LoopEmitter(function), function(function), tensors(tensors), root(root) {}

  /// True if kernels multiply the windows of a convolution so.
  static bool arePossible(nn::ConvOp conv) { return conv.getGroups() == 1 && !conv.getTransposed(); }
  /// Returns `width` neighbouring elements of a row from the k-th on, in the type that the image is computed in.
  Element elements(mlir::Value row, mlir::Value k, int64_t width);

private:
  FunctionEmitter &function;
  TensorEmitter &tensors;
  nn::ConvOp root;
};

} // namespace intarsia::gpu

#endif
