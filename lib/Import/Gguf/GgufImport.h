//===- GgufImport.h - Import a GGUF file
//---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_GGUF_GGUFIMPORT_H
#define INTARSIA_IMPORT_GGUF_GGUFIMPORT_H

#include "intarsia/Import/Import.h"

namespace intarsia::importer {

/// Imports a GGUF file of a language model, or the first of its parts: a function `step`, as importHuggingFace makes
/// it.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importGguf(const ImportRequest &request);

} // namespace intarsia::importer

#endif
