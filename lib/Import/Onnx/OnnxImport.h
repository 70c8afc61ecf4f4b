//===- OnnxImport.h - Import an ONNX file -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_ONNXIMPORT_H
#define INTARSIA_IMPORT_ONNX_ONNXIMPORT_H

#include "intarsia/Import/Import.h"

namespace intarsia::importer {

/// Reads a file named .onnx. Its graph becomes the function `main`. The error names all nodes that are not imported.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(const ImportRequest &request);

/// Returns the ops that are imported, each with its least version.
std::vector<ImportReport::Op> knownOnnxOps();

} // namespace intarsia::importer

#endif
