//===- Assemble.h - From kernels and a host program to files -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ASSEMBLE_ASSEMBLE_H
#define INTARSIA_ASSEMBLE_ASSEMBLE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia {

/// What is written.
enum class Emit {
  Shared, ///< an artifact (.itx), weights beside it or inside
  Exe,    ///< the runner with the artifact and its weights inside
  Obj,    ///< a relocatable ELF object for a linker; weights beside it
  Bundle, ///< artifacts for several architectures in one file
};

struct AssembleOptions {
  std::string output;
  std::string archiveDirectory;               ///< where the files that nn.archive names are
  std::vector<std::string> targets = {"cpu"}; ///< those of one architecture are variants of one artifact
  std::vector<std::string> flags;             ///< recorded in the manifest: what was asked for that changes the result
  Emit emit = Emit::Shared;
  bool embedWeights = false;
  unsigned threads = 1;
  std::string runner; ///< path of intarsia-run; for Emit::Exe
};

/// The files that an output consists of: itself and, where the weights lie beside it, theirs.
std::vector<std::string> outputFiles(const AssembleOptions &options);

/// Called when a step begins, with its name: "kernels", "weights", "link".
using StepCallback = llvm::function_ref<void(llvm::StringRef)>;

/// Says before any work is done why the output cannot be written: folder, permissions, targets that it cannot hold, a
/// weights file beside it that belongs to something else.
llvm::Error checkOutput(const AssembleOptions &options);

/// Compares every nn.weight with the archive that it names. The error names the tensor and both types.
llvm::Error checkWeights(mlir::ModuleOp module, llvm::StringRef archiveDirectory);

/// Compiles the kernels of a lowered module, packs its weights, links and writes everything. Files appear under their
/// names when all is done; on an error none does. Equal modules and options give equal bytes.
llvm::Error assembleModule(mlir::ModuleOp module, const AssembleOptions &options, StepCallback step);

} // namespace intarsia

#endif
