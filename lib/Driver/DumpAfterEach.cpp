//===- DumpAfterEach.cpp - The IR after each pass, in numbered files
//-------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Driver/DumpAfterEach.h"

#include "lib/Assemble/TemporaryFiles.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace intarsia::driver {

static bool printIR(ModuleOp module, StringRef name, llvm::raw_ostream &stream) {
  if (name.ends_with(".mlirbc"))
    return succeeded(writeBytecodeToFile(module, stream));
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  return true;
}

bool writeIR(ModuleOp module, const std::string &path, std::string &problem) {
  if (path == "-") {
    printIR(module, path, llvm::outs());
    return true;
  }
  // A device or a pipe is written in place: a rename would replace it.
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path)) {
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code, llvm::sys::fs::CD_OpenExisting);
    if (!code)
      printIR(module, path, stream);
    else
      problem = path + ": cannot be written: " + code.message();
    return !code;
  }
  assemble::TemporaryFiles files;
  auto temporary = files.make(path);
  if (!temporary) {
    problem = llvm::toString(temporary.takeError());
    return false;
  }
  std::error_code code;
  {
    llvm::raw_fd_ostream stream(*temporary, code);
    if (!code && !printIR(module, path, stream))
      code = std::make_error_code(std::errc::invalid_argument);
    stream.close();
    if (!code && stream.has_error())
      code = stream.error();
    stream.clear_error();
  }
  if (code) {
    problem = path + ": cannot be written: " + code.message();
    return false;
  }
  if (llvm::Error error = files.keep(*temporary, path)) {
    problem = llvm::toString(std::move(error));
    return false;
  }
  return true;
}

void Dumper::dump(ModuleOp module, StringRef name) {
  char prefix[16];
  snprintf(prefix, sizeof(prefix), "%02u-", number++);
  SmallString<128> path(directory);
  llvm::sys::path::append(path, prefix + name.str() + ".mlir");
  std::string problem;
  if (!writeIR(module, path.str().str(), problem) && firstProblem.empty())
    firstProblem = problem;
}

namespace {
class DumpInstrumentation : public PassInstrumentation {
public:
  explicit DumpInstrumentation(Dumper &dumper) : dumper(dumper) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    StringRef name = pass->getArgument();
    if (name.empty()) // a collection of passes on functions, which were dumped one by one
      return;
    Operation *module = op;
    while (module->getParentOp())
      module = module->getParentOp();
    // A pass on functions is done when it has run on the last one.
    Operation *next = op == module ? nullptr : op->getNextNode();
    while (next && next->getName() != op->getName())
      next = next->getNextNode();
    if (!next)
      dumper.dump(cast<ModuleOp>(module), name);
  }

private:
  Dumper &dumper;
};
} // namespace

std::unique_ptr<PassInstrumentation> Dumper::instrumentation() { return std::make_unique<DumpInstrumentation>(*this); }

} // namespace intarsia::driver
