//===- StoredWeights.h - Weights as they lie in memory --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_REFERENCE_STOREDWEIGHTS_H
#define INTARSIA_LIB_REFERENCE_STOREDWEIGHTS_H

#include "dialects/Rt/Rt.h"
#include "intarsia/Reference/ReferenceBuilder.h"

namespace intarsia::reference {

/// Returns the dense tensor that the memory of a weight holds: its elements in panels, or bytes of quantized values and
/// scales. Null for layouts, and formats of layouts, that nothing is known of.
mlir::RankedTensorType storageTypeOf(mlir::RankedTensorType weight, rt::LayoutAttrInterface layout);

/// Builds loops that read a weight of type `weight` from `storage`, a tensor of the type above. Panels may have any
/// width.
mlir::Value buildStoredWeight(ReferenceBuilder &builder, mlir::Value storage, mlir::RankedTensorType weight,
                              rt::LayoutAttrInterface layout);

} // namespace intarsia::reference

#endif
