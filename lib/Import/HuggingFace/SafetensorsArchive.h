//===- SafetensorsArchive.h - The weights of a model folder ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_SAFETENSORSARCHIVE_H
#define INTARSIA_IMPORT_HUGGINGFACE_SAFETENSORSARCHIVE_H

#include "lib/Import/Builder/WeightArchive.h"
#include "lib/Import/HuggingFace/Config.h"
#include <memory>

namespace intarsia::importer {

/// All weights of a folder: `model.safetensors`, or the files that `model.safetensors.index.json` lists; those of
/// diffusers are named `diffusion_pytorch_model`. Only headers are read.
class SafetensorsArchive : public WeightArchive {
public:
  /// Opens the weights in `directory`/`folder` (`folder` may be ""). Reports and returns null on failure.
  static std::unique_ptr<SafetensorsArchive> open(llvm::StringRef directory, llvm::StringRef folder, Errors &errors);

private:
  struct OpenFile : File {
    std::unique_ptr<SafetensorsFile> contents;
  };

  bool openFile(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef file, llvm::StringRef symbol,
                Errors &errors);
  bool openIndex(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef symbol, Errors &errors);

  std::vector<std::unique_ptr<OpenFile>> files;
};

} // namespace intarsia::importer

#endif
