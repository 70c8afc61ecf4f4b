//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/OptMain.h"
#include "intarsia/Registration/Registration.h"
#include "intarsia/Version.h"

#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Support/Arguments.h"
#include "lib/Support/StackGuard.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

int intarsia::optMain(int argc, char **argv, llvm::StringRef tool, llvm::function_ref<void()> registerMore) {
  llvm::InitLLVM init(argc, argv); // before the guard, which hands other faults to it
  if (std::string problem = flagWithoutValue(argc, argv); !problem.empty()) {
    llvm::WithColor::error(llvm::errs(), tool) << problem << '\n';
    return 1;
  }
  hideLibraryFlags();
  llvm::cl::AddExtraVersionPrinter(
      [](llvm::raw_ostream &out) { out << "Intarsia " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  mlir::registerAllPasses();
  registerIntarsiaPasses();
  registerMore();
  mlir::DialectRegistry registry;
  registerAllIntarsia(registry);
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv,
      "Runs passes of Intarsia and of MLIR on a file.\n\n"
      "  intarsia-opt model.mlir --canonicalize --intarsia-fuse --mlir-print-debuginfo\n\n"
      "Reads standard input without a file, writes standard output without -o. The passes of a phase start with its\n"
      "name (fuse-…, lower-…); --intarsia-<phase> runs the whole phase",
      registry);
  // A file that cannot be opened is refused below. Standard input is read once, and has only the guard.
  if (auto buffer = llvm::MemoryBuffer::getFile(input); input != "-" && buffer)
    if (llvm::Error error = llvm::joinErrors(checkForm(**buffer), checkNesting(**buffer))) {
      llvm::WithColor::error(llvm::errs(), tool) << llvm::toString(std::move(error)) << '\n';
      return 1;
    }
  StackGuard guard((tool + ": error: " + tooDeepMessage(input)).str());
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
