//===- ModelFiles.h - The files of a model directory that is written --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_MODELS_MODELFILES_H
#define INTARSIA_LIB_QUANTIZE_MODELS_MODELFILES_H

#include "lib/Support/File.h"
#include "lib/Support/Json.h"
#include "lib/Weights/TemporaryFiles.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace intarsia::quantize {

/// Writes the files of a model directory that is made of another one. They appear under their names at keep(), all of
/// them.
class ModelFiles {
public:
  /// Reads from the directory `model`, writes to the directory `output`.
  ModelFiles(std::string model, std::string output) : model(std::move(model)), output(std::move(output)) {}

  /// Returns the path of a file of the directory that is written.
  std::string pathOf(llvm::StringRef name) const;
  /// Makes a file of safetensors that appears at `final`, with its header.
  llvm::Expected<std::unique_ptr<OutputFile>> create(const std::string &final, const Json &header);
  /// Makes a file with a text that appears at `final`.
  llvm::Error writeText(const std::string &final, const std::string &text);
  /// Reads a file of the model.
  llvm::Expected<Json> readJson(const std::string &name) const;
  /// Copies what belongs to a model beside its weights: settings, tokenizers, templates, licences, and the settings in
  /// the folders of sentence-transformers.
  llvm::Error copyOthers() { return copyFolder(""); }
  /// Gives all files their names.
  llvm::Error keep();
  /// Returns the error with the final names of files.
  llvm::Error named(llvm::Error error) const { return files.named(std::move(error)); }

private:
  llvm::Error copyFolder(const std::string &folder);

  std::string model, output;
  weights::TemporaryFiles files;
  std::vector<std::pair<std::string, std::string>> written; ///< temporary path, final path
};

} // namespace intarsia::quantize

#endif
