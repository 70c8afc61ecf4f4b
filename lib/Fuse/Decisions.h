//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_DECISIONS_H
#define INTARSIA_LIB_FUSE_DECISIONS_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace intarsia::fuse {

/// Name of the user's module that an op comes from: the name of its location, else file:line, else "".
std::string locationName(mlir::Location location);

/// True if `pattern` is the id, or a pattern that matches it.
bool matchesDecision(llvm::StringRef pattern, llvm::StringRef id);

/// Both sides of one choice.
struct Choice {
  mlir::Operation *root; ///< what the kernel is built around
  KernelRoot rootKind;
  std::string subject; ///< what joins the root or stays apart, such as "nn.gelu"
  double insideUs;
  double apartUs;
  std::string reason; ///< what the cheaper side saves
};

/// Takes decisions of one pass over one function and records them. They live in the function's attribute
/// `nn.decisions` (functions are rewritten in parallel, so no state is shared), until fuse-record-decisions writes
/// them out.
class Decisions {
public:
  Decisions(mlir::func::FuncOp function, llvm::StringRef pass, llvm::ArrayRef<std::string> flip);

  /// True if the subject joins the root: it is the cheaper side, or the decision is flipped. Appends to `why`.
  bool joins(const Choice &choice, std::string &why);
  /// Appends what was decided to the function's attribute.
  void record();

private:
  mlir::func::FuncOp function;
  std::string pass;
  std::vector<std::string> flip;
  llvm::StringMap<unsigned> uses; ///< of each id, so that equal ones get a number
  llvm::SmallVector<mlir::Attribute> taken;
};

} // namespace intarsia::fuse

#endif
