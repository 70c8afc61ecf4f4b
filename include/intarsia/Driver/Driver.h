//===- Driver.h - From a model to an artifact, phase by phase ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DRIVER_DRIVER_H
#define INTARSIA_DRIVER_DRIVER_H

#include "intarsia/Assemble/Assemble.h"
#include "intarsia/Import/Import.h"
#include "intarsia/Quantize/Quantize.h"
#include "mlir/IR/DialectRegistry.h"
#include <string>
#include <vector>

namespace intarsia {

/// The phases in their order.
enum class Phase { Import, Quantize, Fuse, Lower, Target, Assemble };

struct CompileOptions {
  std::string model;  ///< Hugging Face directory, .gguf, .mlir or .mlirbc
  std::string output; ///< empty: named after the model; IR goes to standard output
  Phase stopAfter = Phase::Assemble;
  std::optional<Phase> startFrom;             ///< by default import for a directory and fuse for IR
  std::string dumpDirectory;                  ///< IR after each pass goes here, in numbered files
  std::string explainFile;                    ///< decisions of the fuse phase as JSON
  std::vector<std::string> flip;              ///< ids of decisions to take the other way
  importer::ImportOptions import;             ///< of a model directory
  QuantizeOptions quantize;                   ///< precision of weights and activations
  std::string archiveDirectory;               ///< where the archives of an .mlir are; empty: beside it
  std::vector<std::string> targets = {"cpu"}; ///< fusion is decided for the first
  Emit emit = Emit::Shared;
  bool embedWeights = false;
  unsigned threads = 0; ///< 0: as many as this process may use
  std::string runner;   ///< for Emit::Exe
  bool verbose = false;
};

/// The dialects that the phases read and make.
void registerCompilerDialects(mlir::DialectRegistry &registry);

/// Compiles. Errors are printed to standard error; false then, and no file is left half written.
bool compile(const CompileOptions &options);

/// Makes the end of a process that reads a mapped file, which another process shortens, a message with the file's path,
/// exit status 1 and no incomplete files. For `main`, after LLVM's handlers are installed.
void explainTruncatedFiles();

} // namespace intarsia

#endif
