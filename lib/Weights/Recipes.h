//===- Recipes.h - The recipe of a constant as a tree of sources --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_RECIPES_H
#define INTARSIA_LIB_WEIGHTS_RECIPES_H

#include "dialects/Rt/Rt.h"
#include "lib/Weights/Archives.h"
#include "lib/Weights/TensorSource.h"

namespace intarsia::weights {

/// A recipe as the packer interprets it.
struct Recipe {
  SharedSource source;
  std::string name;                           ///< of the tensor in the packed file, without that of its layout
  std::vector<const ArchiveTensor *> tensors; ///< the tensors of archives that it reads
  std::vector<std::pair<const ArchiveTensor *, const GgmlType *>> blocks; ///< those that are blocks of ggml
  bool hasConstants = false;                                              ///< it reads data of the IR
  bool isQuantized = false;                                               ///< it quantizes what it reads
};

/// Opens the archives of a constant's recipe and compares the types of their tensors.
llvm::Expected<Recipe> readRecipe(rt::ConstantOp constant, Archives &archives);

} // namespace intarsia::weights

#endif
