//===- PrecisionCandidates.h - What formats a model's matrices may have, and what each costs ---------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_PRECISIONCANDIDATES_H
#define INTARSIA_QUANTIZE_PRECISIONCANDIDATES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia {

/// Lists the matrices of linears and embeddings of an imported module as JSON, with the bytes of each in each format of
/// `formats` and as it is stored ("none"), and the microseconds that multiplying it by one token takes on the device of
/// the module that is slowest (costs of the catalogue):
///
///   {"model": hash, "bytes": of all tensors, "microseconds": of other kernels for one token,
///    "tensors": [{"key", "name", "table", "shape", "candidates": [{"format", "bytes", "microseconds", "linear",
///    "why"}]}]}
///
/// `linear` says that a model directory can hold the format; `why` why a device of the module has no kernel for it, and
/// which targets have one.
llvm::Expected<std::string> listPrecisionCandidates(mlir::ModuleOp module, llvm::StringRef archiveDirectory,
                                                    const std::vector<std::string> &formats);

/// Writes what the values of matrices mean when they are rounded to the nearest of a format, in F32: those whose keys
/// are `keys`, to a file of safetensors. Errors name what is no stored matrix, and values that a format does not hold.
llvm::Error writeNearest(mlir::ModuleOp module, llvm::StringRef archiveDirectory, const std::vector<std::string> &keys,
                         const std::string &format, const std::string &path);

} // namespace intarsia

#endif
