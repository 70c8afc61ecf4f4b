//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LEGALIZE_DECOMPOSE_H
#define INTARSIA_LEGALIZE_DECOMPOSE_H

#include "dialects/Interfaces/ReferenceBuilder.h"
#include "dialects/Nn/Nn.h"

namespace intarsia::legalize {

/// Returns a Fourier transform of a static number of elements as products with matrices and arithmetic between them.
mlir::Value decomposeFft(reference::ReferenceBuilder &builder, nn::FftOp op);

} // namespace intarsia::legalize

#endif
