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
#include <memory>
#include <string>
#include <vector>

namespace intarsia {

/// The kind of output.
enum class Emit {
  Shared, ///< an artifact (.itx), weights beside it or inside
  Exe,    ///< the runner with the artifact and its weights inside
  Obj,    ///< a relocatable ELF object for a linker; weights beside it
  Bundle, ///< artifacts for several architectures in one file
};

struct AssembleOptions {
  std::string output;
  std::string archiveDirectory;         ///< folder of the files that nn.archive names
  std::vector<std::string> hostTriples; ///< of the artifacts that the module makes
  std::vector<std::string> flags;       ///< options that change the result, recorded in the manifest
  Emit emit = Emit::Shared;
  bool embedWeights = false;
  unsigned threads = 1;
  std::string runner; ///< path of intarsia-run; for Emit::Exe
};

/// Returns the files of an output: the output itself and, if the weights lie beside it, the weights file.
std::vector<std::string> outputFiles(const AssembleOptions &options);

/// Called when a step begins, with its name: "weights", "link".
using StepCallback = llvm::function_ref<void(llvm::StringRef)>;

/// Returns an error, before any work is done, if the output cannot be written: folder, permissions, several
/// hosts in one artifact, a weights file beside it that belongs to another artifact.
llvm::Error checkOutput(const AssembleOptions &options);

/// The weights of a module, packed on a thread of their own: that waits for memory and disk, other work for the
/// processor.
class WeightPacking {
public:
  /// Starts to pack the weights of a lowered module, which is not read any more when this returns. The error names an
  /// archive that is not as the module says.
  static llvm::Expected<WeightPacking> start(mlir::ModuleOp module, const AssembleOptions &options);
  WeightPacking(WeightPacking &&);
  /// Waits for the thread. The files of weights that assembleModule() was not given disappear.
  ~WeightPacking();

private:
  struct State;
  explicit WeightPacking(std::unique_ptr<State> state);
  friend llvm::Error assembleModule(mlir::ModuleOp, const AssembleOptions &, WeightPacking, StepCallback);
  std::unique_ptr<State> state;
};

/// Translates the host program of a module whose kernels are objects, links and writes everything. Files appear under
/// their names when everything is done, and none appears on an error. Equal modules and options give equal bytes.
llvm::Error assembleModule(mlir::ModuleOp module, const AssembleOptions &options, WeightPacking packing,
                           StepCallback step);

} // namespace intarsia

#endif
