//===- CarriedFiles.h - Files that an artifact carries beside its weights ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_CARRIEDFILES_H
#define INTARSIA_LIB_WEIGHTS_CARRIEDFILES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia::weights {

struct CarriedFile {
  std::string name;
  std::vector<char> bytes;
};

/// Reads the files that nn.files of a module names, from `directory`; from a GGUF file the tokenizer metadata.
llvm::Expected<std::vector<CarriedFile>> readCarriedFiles(mlir::ModuleOp module, llvm::StringRef directory);

} // namespace intarsia::weights

#endif
