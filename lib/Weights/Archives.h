//===- Archives.h - The files of weights of a module --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_ARCHIVES_H
#define INTARSIA_LIB_WEIGHTS_ARCHIVES_H

#include "dialects/Nn/Nn.h"
#include "lib/Formats/Archive.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace intarsia::weights {

/// The archives of a module, opened when they are first asked for.
class Archives {
public:
  Archives(mlir::ModuleOp module, llvm::StringRef directory) : module(module), directory(directory) {}
  /// Returns the tensor that `archive` (an nn.archive) holds under `key`.
  llvm::Expected<const ArchiveTensor *> find(mlir::FlatSymbolRefAttr archive, mlir::StringAttr key);
  llvm::Expected<Archive *> open(mlir::FlatSymbolRefAttr archive);
  /// Returns the archive if it is a file of safetensors. The error of another says `why` it has to be one.
  llvm::Expected<Archive *> openSafetensors(mlir::FlatSymbolRefAttr archive, llvm::StringRef why);

private:
  mlir::ModuleOp module;
  std::string directory;
  llvm::StringMap<std::unique_ptr<Archive>> files;
};

/// Finds the tensor that a weight reads. The error of another type than the weight's names both.
llvm::Expected<const ArchiveTensor *> findWeight(nn::WeightOp weight, Archives &archives);

/// True if the weight is a tensor that the module holds itself: in memory that is no mapping of an archive.
bool isHeldByModule(nn::WeightOp weight);

/// Returns "F32 [2, 3]".
std::string typeText(llvm::StringRef dtype, llvm::ArrayRef<int64_t> shape);

/// Returns the safetensors format's name of a type, "F32" for f32; empty for types that it lacks.
llvm::StringRef safetensorsDtype(mlir::Type elementType);

} // namespace intarsia::weights

#endif
