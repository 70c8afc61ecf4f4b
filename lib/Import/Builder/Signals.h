//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_BUILDER_SIGNALS_H
#define INTARSIA_IMPORT_BUILDER_SIGNALS_H

#include "lib/Import/Builder/ModuleBuilder.h"

namespace intarsia::importer {

/// Returns how many windows of `size` elements a signal of at least that length has, `step` from one to the next.
Size frameCount(ModuleBuilder &graph, mlir::Location at, const Size &length, int64_t size, int64_t step);
/// Returns the Fourier transforms of windows of a signal [batch, length, 1 or 2]: [batch, windows, bins, 2] (`STFT` of
/// ONNX 17). Windows have `size` elements, `step` from one to the next, and are multiplied by `window` [size] if it is
/// not null. Reports a signal that is shorter than a window.
mlir::Value stft(ModuleBuilder &graph, mlir::Location at, mlir::Value signal, mlir::Value window, int64_t size,
                 int64_t step, bool isOnesided);
/// Returns the signal of such transforms: [batch, (windows - 1) * step + size, 1], or 2 of complex ones. Windows are
/// multiplied by `window` again, added where they overlap, and divided by the sum of its squares there, if that is
/// above 1e-11 (`istft` of PyTorch, which then cuts both ends).
mlir::Value istft(ModuleBuilder &graph, mlir::Location at, mlir::Value transforms, mlir::Value window, int64_t size,
                  int64_t step, bool isOnesided);

} // namespace intarsia::importer

#endif
