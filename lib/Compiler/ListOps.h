//===- ListOps.h - The ops of a model, as tables and JSON ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_LISTOPS_H
#define INTARSIA_LIB_COMPILER_LISTOPS_H

#include "intarsia/Import/Import.h"
#include "llvm/Support/Error.h"

namespace intarsia::compiler {

/// Writes what import had to say of a model to a file, or to standard output ("-"), as JSON: `model`, `imported`,
/// `problem`, `ops` (each with `op`, `domain`, `version`, `count`, `first_node`, `imported`, `refused`, `reason`) and
/// `devices` (each with `node`, `configuration`, `followed`, `reason`).
llvm::Error writeReport(const importer::ImportReport &report, llvm::StringRef model, bool isImported,
                        const std::string &file);

} // namespace intarsia::compiler

#endif
