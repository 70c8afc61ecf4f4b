//===- Import.h - From a model on disk to nn IR ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_IMPORT_H
#define INTARSIA_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <vector>

namespace intarsia::importer {

/// The user's options for the import of a model.
struct ImportOptions {
  std::optional<int64_t> context; ///< maximal tokens of a text of a language model
};

/// Imports a Hugging Face model directory (config.json and safetensors weights): a function `main`, for a
/// sentence-transformers directory (modules.json) also `embed`; for a language model a function `step`. Weights are
/// named, not read: nn.archive ops hold file names relative to `directory`. On failure the result is null and `error`
/// says what is wrong, in which file, and what to try. Loads the dialects it emits into `context`.
mlir::OwningOpRef<mlir::ModuleOp> importHuggingFace(llvm::StringRef directory, const ImportOptions &options,
                                                    mlir::MLIRContext *context, std::string &error);

/// Imports a GGUF file of a language model, or the first of its parts: a function `step`, as importHuggingFace makes
/// it. nn.archive ops hold file names relative to the file's folder.
mlir::OwningOpRef<mlir::ModuleOp> importGguf(llvm::StringRef path, const ImportOptions &options,
                                             mlir::MLIRContext *context, std::string &error);

/// Returns the values of "model_type" in config.json that importHuggingFace knows, sorted.
std::vector<std::string> knownModelTypes();

} // namespace intarsia::importer

#endif
