//===- Import.h - From a model on disk to nn IR ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_IMPORT_H
#define INTARSIA_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"
#include <optional>
#include <string>
#include <vector>

namespace intarsia::importer {

/// The user's options for the import of a model.
struct ImportOptions {
  std::optional<int64_t> context;  ///< maximal tokens of a text of a language model
  std::vector<std::string> shapes; ///< of inputs, in place of the model's: "x=1x3xHxW"
  std::vector<std::string> values; ///< of inputs that are constants: "axes=[1,2]", "axes=@file.npy"
};

/// What an importer reports of a model, in addition to the module that it makes.
struct ImportReport {
  /// Nodes of one op.
  struct Op {
    std::string name, domain; ///< the domain is empty for the standard's
    int64_t version = 0;      ///< of the operator set
    uint64_t count = 0;
    std::string firstNode;
    uint64_t refused = 0; ///< of these nodes
    std::string reason;   ///< why they are refused; several reasons with "; " between them
  };

  std::vector<Op> ops;
  std::string problem; ///< why nothing is imported, if no op is the reason, or what failed after the import
};

/// The arguments of an importer.
struct ImportRequest {
  llvm::StringRef path; ///< of the model
  const ImportOptions &options;
  mlir::MLIRContext *context;     ///< the dialects that the importer emits are loaded into it
  llvm::SourceMgr &sources;       ///< empty; gets the text that locations of the module are in, if there is one
  ImportReport *report = nullptr; ///< filled, also where nothing is imported, by importers that take it
};

/// A kind of model: what it lies in, and how it is read.
struct Importer {
  llvm::StringRef name;                    ///< "GGUF file"; of a directory who writes it, "Hugging Face"
  llvm::StringRef described;               ///< in a list of all kinds: "a file named .gguf"
  std::vector<llvm::StringRef> extensions; ///< of the file, with their dots; none for directories
  std::vector<llvm::StringRef> marks;      ///< files one of which makes a directory one of this kind: "config.json"
  bool isIR = false;                       ///< true for IR, which may have been through phases
  /// Returns the module. Weights are named, not read: nn.archive ops hold file names relative to the model's folder.
  /// The error says what is wrong, in which file, and what to try; it may be empty after diagnostics.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> (*import)(const ImportRequest &request) = nullptr;
  bool needsLegalize = false; ///< true if the module has ops of other compilers, as IR may have
  /// Returns the ops that it imports, each with its least version. Null for models that are no graphs of ops; of others
  /// the importer takes shapes and values of inputs too, and fills a report.
  std::vector<ImportReport::Op> (*knownOps)() = nullptr;

  bool isDirectory() const { return extensions.empty(); }
  /// Returns "GGUF file", "Hugging Face model directory", for messages.
  std::string title() const { return (isDirectory() ? name + " model directory" : name).str(); }
  /// Returns the title with its article: "a GGUF file", "an ONNX file".
  std::string titleWithArticle() const;
  /// True for a path of this kind, which exists.
  bool recognizes(llvm::StringRef path) const;
  /// Returns the files by which a model of this kind is known.
  std::vector<std::string> filesOf(llvm::StringRef path) const;
};

/// All kinds.
llvm::ArrayRef<Importer> importers();

/// Returns the importer of a model that exists. The error names a path of no kind and lists those that there are, or a
/// directory of several kinds.
llvm::Expected<const Importer *> findImporter(llvm::StringRef path, llvm::ArrayRef<Importer> among = importers());

/// Returns "a Hugging Face directory (config.json and *.safetensors), a file named .gguf or …".
std::string listKinds(llvm::ArrayRef<Importer> among = importers());
/// Returns "a Hugging Face directory, a .gguf, … or .mlirbc file", for a line of help.
std::string listKindsBriefly(llvm::ArrayRef<Importer> among = importers());
/// Returns "a model directory or a GGUF file": what the import phase reads, which is all but IR.
std::string listImported(llvm::ArrayRef<Importer> among = importers());

} // namespace intarsia::importer

#endif
