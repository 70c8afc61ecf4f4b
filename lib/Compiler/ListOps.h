//===- ListOps.h - The ops of a model, as tables and JSON ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_LISTOPS_H
#define INTARSIA_LIB_COMPILER_LISTOPS_H

#include "intarsia/Compiler/Compiler.h"

namespace intarsia::compiler {

/// The content of the JSON report of a model.
struct ModelReport {
  importer::ImportReport import;
  bool isImported = false;
  std::vector<FollowedDevices> devices; ///< those that the model names
};

/// Writes a report to `options.reportFile`, or to standard output ("-"), as JSON: `model`, `imported`, `problem`, `ops`
/// (each with `op`, `domain`, `version`, `count`, `first_node`, `imported`, `refused`, `reason`) and `devices` (each
/// with `node`, `configuration`, `followed`, `reason`).
llvm::Error writeReport(const ModelReport &report, const CompileOptions &options);

} // namespace intarsia::compiler

#endif
