//===- MlirImport.h - Import IR
//------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_MLIRIMPORT_H
#define INTARSIA_IMPORT_MLIRIMPORT_H

#include "intarsia/Import/Import.h"

namespace intarsia::importer {

/// Reads IR, text or bytecode, as it is.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importMlir(const ImportRequest &request);

} // namespace intarsia::importer

#endif
