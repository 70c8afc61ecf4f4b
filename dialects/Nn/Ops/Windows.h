//===- Windows.h - Attributes of ops on windows of images ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_OPS_WINDOWS_H
#define INTARSIA_DIALECTS_NN_OPS_WINDOWS_H

#include "dialects/Nn/Nn.h"

namespace intarsia::nn {

/// The attributes of an op on windows, an entry for each spatial dimension. Images are [batch, spatial…, channels].
struct WindowAttributes {
  using Entries = std::optional<llvm::ArrayRef<int64_t>>;
  llvm::ArrayRef<int64_t> window;
  Entries strides, dilations, padsLow, padsHigh, beyond;

  /// True if each attribute has an entry for each dimension of the window.
  bool areComplete() const;
  WindowDimension operator[](unsigned dimension) const;
};

/// Checks the rank of an image, that each attribute has an entry for each of its spatial dimensions, and each entry.
/// `beyond` names the entries behind the pads.
mlir::LogicalResult verifyWindows(mlir::Operation *op, mlir::Value image, const WindowAttributes &attributes,
                                  llvm::StringRef beyond);
/// Checks that an op has a result where the size of its input in a spatial dimension is known.
mlir::LogicalResult verifyResultSize(mlir::Operation *op, unsigned dimension, WindowDimension window, int64_t size,
                                     int64_t resultSize);

} // namespace intarsia::nn

#endif
