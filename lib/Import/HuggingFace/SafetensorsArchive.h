//===- SafetensorsArchive.h - The weights of a model folder ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_SAFETENSORSARCHIVE_H
#define INTARSIA_IMPORT_HUGGINGFACE_SAFETENSORSARCHIVE_H

#include "lib/Import/HuggingFace/Config.h"
#include "lib/Runtime/Core/Safetensors.h"
#include "llvm/ADT/StringMap.h"
#include <memory>
#include <string>
#include <vector>

namespace intarsia::importer {

/// All weights of a folder: `model.safetensors`, or the files that `model.safetensors.index.json` lists. Only headers
/// are read.
class SafetensorsArchive {
public:
  struct File {
    std::string name;   // relative to the model's directory: "model.safetensors", "2_Dense/model.safetensors"
    std::string symbol; // of the nn.archive op
    std::unique_ptr<runtime::SafetensorsFile> contents;
  };
  struct Tensor {
    const File *file;
    const runtime::SafetensorsEntry *entry;
  };

  /// Opens the weights in `directory`/`folder` (`folder` may be ""). Reports and returns null on failure.
  static std::unique_ptr<SafetensorsArchive> open(llvm::StringRef directory, llvm::StringRef folder, Errors &errors);

  std::optional<Tensor> find(llvm::StringRef key) const;
  /// All keys that begin with `prefix`, sorted.
  std::vector<llvm::StringRef> keys(llvm::StringRef prefix) const;
  /// What to call the archive in a message about a tensor that it lacks.
  llvm::StringRef name() const { return displayName; }

private:
  bool openFile(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef file, llvm::StringRef symbol,
                Errors &errors);
  bool openIndex(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef symbol, Errors &errors);

  std::vector<std::unique_ptr<File>> files;
  llvm::StringMap<Tensor> tensors;
  std::string displayName;
};

} // namespace intarsia::importer

#endif
