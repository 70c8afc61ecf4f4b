//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/Registration.h"
#include "intarsia/Version.h"

#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Support/Arguments.h"
#include "lib/Support/StackGuard.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tools/Limits.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  if (std::string problem = intarsia::flagWithoutValue(argc, argv); !problem.empty()) {
    llvm::WithColor::error(llvm::errs(), "intarsia-lsp-server") << problem << '\n';
    return 1;
  }
  intarsia::explainLimits();
  intarsia::hideLibraryFlags();
  llvm::cl::AddExtraVersionPrinter(
      [](llvm::raw_ostream &out) { out << "Intarsia " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  mlir::DialectRegistry registry;
  intarsia::registerAllIntarsia(registry);
  // Only the server's own loop reads the messages with text, so its nesting cannot be checked before it is parsed.
  intarsia::StackGuard guard("intarsia-lsp-server: error: " + intarsia::tooDeepMessage("a document"));
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
