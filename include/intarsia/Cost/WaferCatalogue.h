//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The catalogue of wafers: meshes of cores with the constants of their timing model, each figure with its source and
// date.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_WAFERCATALOGUE_H
#define INTARSIA_COST_WAFERCATALOGUE_H

#include "intarsia/Cost/Catalogue.h"

namespace intarsia {

struct CatalogueWafer {
  std::string name;
  std::map<std::string, Figure>
      figures;                  ///< all that a wafer has; "watts" and those of its system only where they are known
  std::vector<int64_t> defects; ///< columns and rows of cores that do not work, in turn; a user's own

  /// Reads a file of catalogue/wafers or a user's own. Errors name the line: unknown keys, figures that are missing,
  /// without a source, or implausible in their unit.
  static llvm::Expected<CatalogueWafer> parse(llvm::StringRef yaml, llvm::StringRef file);
};

/// Looks up a wafer of the catalogue by its name; the error lists those that there are.
llvm::Expected<CatalogueWafer> findWafer(llvm::StringRef name);

} // namespace intarsia

#endif
