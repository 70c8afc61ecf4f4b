//===- DumpAfterEach.h - The IR after each pass, in numbered files -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COMPILER_DUMPAFTEREACH_H
#define INTARSIA_LIB_COMPILER_DUMPAFTEREACH_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include <memory>
#include <string>

namespace intarsia::compiler {

/// Writes the module to `<directory>/<number>-<name>.mlir`, with locations: any of the files can be compiled further
/// with --start-from, those with objects if their bytes are kept.
class Dumper {
public:
  Dumper(std::string directory, bool elidesObjects) : directory(std::move(directory)), elidesObjects(elidesObjects) {}
  void dump(mlir::ModuleOp module, llvm::StringRef name);
  /// Dumps after each pass of a pass manager, whose context must not be multi-threaded.
  std::unique_ptr<mlir::PassInstrumentation> instrumentation();
  /// Returns true if a path ends like the path of a dump.
  static bool isDump(llvm::StringRef path);
  const std::string &problem() const { return firstProblem; }

private:
  std::string directory, firstProblem;
  bool elidesObjects;
  unsigned number = 0;
};

/// Writes into a module the form of IR that it is in, and the version of this compiler.
void stateForm(mlir::ModuleOp module);

/// Prints with locations, which carry the names of the user's model; bytecode if the name ends in .mlirbc. Text leaves
/// the bytes of objects out if `elidesObjects`.
bool writeIR(mlir::ModuleOp module, const std::string &path, bool elidesObjects, std::string &problem);

} // namespace intarsia::compiler

#endif
