//===- HuggingFace.h - Import a Hugging Face model directory -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_HUGGINGFACE_H
#define INTARSIA_IMPORT_HUGGINGFACE_HUGGINGFACE_H

#include "intarsia/Import/Import.h"

namespace intarsia::importer {

/// Imports a Hugging Face model directory (config.json and safetensors weights): a function `main`, for a
/// sentence-transformers directory (modules.json) also `embed`; for a language model a function `step`.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importHuggingFace(const ImportRequest &request);

} // namespace intarsia::importer

#endif
