//===- Precision.h - Formats that a file beside the weights names ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_PRECISION_H
#define INTARSIA_LIB_COMPILER_PRECISION_H

#include "intarsia/Quantize/Quantize.h"
#include "intarsia/Quantize/QuantizedModel.h"
#include <optional>
#include <string>

namespace intarsia::compiler {

/// Reads the file of formats at `path`, or if that is empty the one beside the weights; nullopt if there is none. An
/// error names a file that is about other weights, or says that activations in blocks of 8 and of 4 bits are asked for
/// and not chosen.
llvm::Expected<std::optional<PrecisionFile>> findPrecision(mlir::ModuleOp module, llvm::StringRef archiveDirectory,
                                                           const std::string &path, const QuantizeOptions &options);

/// Returns options with the formats of a file. Formats of caches that the user names hold against those of the file,
/// and so do activations.
QuantizeOptions withPrecision(QuantizeOptions options, const std::optional<PrecisionFile> &file);

/// Leaves in a file what the quantize phase does for a model directory, and returns what the compiler is to read there:
/// formats that the directory's layout does not hold, and integers of 5 and 6 bits, which lie in 8.
PrecisionFile takeRest(mlir::ModuleOp module, std::optional<PrecisionFile> &file);

/// Writes what takeRest() returned into a model directory, or removes the file of an earlier model there if that is
/// empty.
llvm::Error writeRest(mlir::ModuleOp module, PrecisionFile rest, const std::string &directory);

} // namespace intarsia::compiler

#endif
