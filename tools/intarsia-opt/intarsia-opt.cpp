//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration.h"
#include "intarsia/Version.h"

#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Support/StackGuard.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv); // before the guard, which hands other faults to it
  intarsia::hideLibraryFlags();
  llvm::cl::AddExtraVersionPrinter(
      [](llvm::raw_ostream &out) { out << "Intarsia " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  mlir::registerAllPasses();
  intarsia::registerIntarsiaPasses();
  mlir::DialectRegistry registry;
  intarsia::registerAllIntarsia(registry);
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv,
      "Runs passes of Intarsia and of MLIR on a file.\n\n"
      "  intarsia-opt model.mlir --canonicalize --intarsia-fuse --mlir-print-debuginfo\n\n"
      "Reads standard input without a file, writes standard output without -o. The passes of a phase start with its\n"
      "name (fuse-…, lower-…); --intarsia-<phase> runs the whole phase",
      registry);
  // A file that cannot be opened is refused below. Standard input is read once, and has only the guard.
  if (auto buffer = llvm::MemoryBuffer::getFile(input); input != "-" && buffer)
    if (llvm::Error error = intarsia::checkNesting(**buffer)) {
      llvm::WithColor::error(llvm::errs(), "intarsia-opt") << llvm::toString(std::move(error)) << '\n';
      return 1;
    }
  intarsia::StackGuard guard("intarsia-opt: error: " + intarsia::tooDeepMessage(input));
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
