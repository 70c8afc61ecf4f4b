//===- Windowed.h - Attributes of convolutions and pools ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_WINDOWED_H
#define INTARSIA_IMPORT_ONNX_OPS_WINDOWED_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

/// True for numbers of more than 32 bits, whose products 64 bits may not hold.
inline bool isLong(int64_t number) { return std::abs(number / 2) > std::numeric_limits<int32_t>::max() / 2; }

/// Reads strides, dilations and pads, those of `auto_pad` too; refuses what is wrong with them. `spatial` are the sizes
/// of the images.
std::optional<importer::Windows> windowsOf(NodeContext &node, llvm::ArrayRef<int64_t> window, const Shape &spatial);

/// Returns the numbers of an attribute, `count` of at least `least`, which are `byDefault` without the attribute;
/// refuses other numbers, and those of more than 32 bits.
std::optional<llvm::SmallVector<int64_t>> numbersOf(NodeContext &node, llvm::StringRef name, size_t count,
                                                    int64_t byDefault, int64_t least);

/// Convolves images [batch, channels, spatial…] with a weight [out, in / groups, window…], or of a transposed
/// convolution [in, out / groups, window…], whose sizes the call decides; `positions` are the sizes of the result.
mlir::Value convInCall(NodeContext &node, mlir::Value images, mlir::Value weight, const Size &groups,
                       const importer::Windows &windows, const Shape &positions);

} // namespace intarsia::onnx

#endif
