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
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

/// Checks attributes of the pieces of a file, which MlirOptMain verifies. What does not parse is left to it.
static llvm::LogicalResult checkPieces(llvm::MemoryBufferRef buffer, const mlir::DialectRegistry &registry) {
  llvm::StringRef text = buffer.getBuffer();
  for (size_t begin = 0, end = 0; begin != text.size(); begin = end) {
    end = std::min(text.find("\n// -----", begin + 1), text.size());
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.allowUnregisteredDialects();
    // Empty lines keep the numbers of the others.
    std::string piece(text.take_front(begin).count('\n'), '\n');
    if (piece.empty() && mlir::isBytecode(buffer))
      end = text.size();
    piece += text.slice(begin, end);
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(piece, buffer.getBufferIdentifier()), llvm::SMLoc());
    mlir::OwningOpRef<mlir::ModuleOp> module;
    {
      mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic &) { return llvm::success(); });
      module = mlir::parseSourceFile<mlir::ModuleOp>(sources, {&context, /*verifyAfterParse=*/false});
    }
    mlir::SourceMgrDiagnosticHandler handler(sources, &context);
    if (module && failed(intarsia::checkAttributes(*module)))
      return llvm::failure();
  }
  return llvm::success();
}

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
  auto buffer = llvm::MemoryBuffer::getFile(input);
  bool isFile = input != "-" && buffer;
  if (isFile)
    if (llvm::Error error = llvm::joinErrors(checkForm(**buffer), checkNesting(**buffer))) {
      llvm::WithColor::error(llvm::errs(), tool) << llvm::toString(std::move(error)) << '\n';
      return 1;
    }
  StackGuard guard((tool + ": error: " + tooDeepMessage(input)).str());
  if (isFile && failed(checkPieces(**buffer, registry)))
    return 1;
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
