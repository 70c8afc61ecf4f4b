//===- Compiler.h - From a model to an artifact, phase by phase -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COMPILER_COMPILER_H
#define INTARSIA_COMPILER_COMPILER_H

#include "intarsia/Assemble/Assemble.h"
#include "intarsia/Import/Import.h"
#include "intarsia/Partition/Partition.h"
#include "intarsia/Quantize/PrecisionCandidates.h"
#include "intarsia/Quantize/Quantize.h"
#include "intarsia/Quantize/QuantizedModel.h"
#include "mlir/IR/DialectRegistry.h"
#include <optional>
#include <string>
#include <vector>

namespace intarsia {

/// The phases in their order.
enum class Phase { Import, Quantize, Partition, Fuse, Lower, Target, Assemble };

struct CompileOptions {
  std::string model;  ///< path of one of the kinds that importer::importers() lists
  std::string output; ///< empty: named after the model; IR goes to standard output
  Phase stopAfter = Phase::Assemble;
  std::optional<Phase> startFrom; ///< by default quantize for IR and else import
  std::string dumpDirectory;      ///< IR after each pass goes here, in numbered files
  std::string explainFile;        ///< decisions of the fuse phase as JSON
  std::string reportFile;         ///< what becomes of a model and its ops, as JSON (lib/Compiler/ListOps.h)
  std::vector<std::string> flip;  ///< ids of decisions to take the other way
  importer::ImportOptions import; ///< options of the import phase
  QuantizeOptions quantize;       ///< precision of weights and activations
  /// File of formats of tensors and caches; empty: the one beside the weights, if there is one (PrecisionFile.h)
  std::string precisionFile;
  PartitionOptions partition;       ///< which device runs what
  std::string archiveDirectory;     ///< folder of the archives of an .mlir; empty: beside it
  std::string weightsDirectory;     ///< where models may keep data too (WeightsDirectory); empty: nowhere
  std::vector<std::string> targets; ///< --target; empty: what IR was made for, else this machine's CPU
  bool requireCubin = false;        ///< machine code for each NVIDIA GPU, or an error
  Emit emit = Emit::Shared;
  bool embedWeights = false;
  unsigned threads = 0; ///< 0: as many as this process may use
  std::string runner;   ///< for Emit::Exe
  bool verbose = false;
  bool elideResourceStrings = true; ///< leave the bytes of objects out of IR that is written as text
};

/// Registers the dialects that the phases read and make.
void registerCompilerDialects(mlir::DialectRegistry &registry);

/// Compiles a model. On an error prints to standard error, leaves no file half written and returns false.
bool compile(const CompileOptions &options);

/// Prints the ops of a model and whether they are imported, without compiling it; without a model all that are
/// imported. Writes the same to `options.reportFile`, unless it is empty. On an error prints to standard error and
/// returns false.
bool listOps(const CompileOptions &options);

/// Imports the Hugging Face directory `options.model`, quantizes its weights as `options.quantize` says, and writes the
/// result as `written` says (writeQuantizedModel, which gets model and threads of `options`). On an error prints to
/// standard error and returns nullopt; no file is there then that was not before.
std::optional<std::vector<QuantizedMatrix>> quantizeModel(CompileOptions options, QuantizedModelOptions written);

/// Imports the model directory `options.model` for `options.targets` and gives its module to a function. Prints errors,
/// also that of the function, to standard error and returns false.
bool inspectModel(CompileOptions options, llvm::function_ref<llvm::Error(mlir::ModuleOp)> use);

/// Installs a handler for the case that another process shortens a mapped file: this process then ends with a message
/// that names the file, exit status 1 and no incomplete files. For `main`, after LLVM's handlers are installed.
void explainTruncatedFiles();

} // namespace intarsia

#endif
