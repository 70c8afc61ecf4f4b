//===- DumpAfterEach.cpp - The IR after each pass, in numbered files ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/DumpAfterEach.h"

#include "dialects/Nn/Ops/Constants/Constants.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Version.h"
#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Support/File.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace intarsia::compiler {

void stateForm(ModuleOp module) {
  Builder builder(module.getContext());
  module->setAttr(rt::formAttr, builder.getI64IntegerAttr(irForm));
  module->setAttr(rt::producerAttr, builder.getStringAttr("intarsia " INTARSIA_VERSION));
}

static std::string textOf(ModuleOp module, StringRef path, bool elidesObjects) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (path.ends_with(".mlirbc")) {
    std::string producer = bytecodeProducer("intarsia " INTARSIA_VERSION);
    BytecodeWriterConfig config(producer);
    (void)writeBytecodeToFile(module, stream, config); // fails only for old versions of the format
    return text;
  }
  OpPrintingFlags flags;
  flags.enableDebugInfo();
  // Data of other ops is never left out: a model would lose it.
  if (elidesObjects && !module.getOps<rt::ObjectOp>().empty() && module.getOps<nn::ConstantsOp>().empty())
    flags.elideLargeResourceString();
  module.print(stream, flags);
  return text;
}

static Status writeText(const std::string &path, StringRef text) {
  std::unique_ptr<AtomicFile> file;
  ITX_RETURN_IF_ERROR(AtomicFile::create(path, file));
  ITX_RETURN_IF_ERROR(file->write(text.data(), text.size()));
  return file->commit();
}

bool writeIR(ModuleOp module, const std::string &path, bool elidesObjects, std::string &problem) {
  std::string text = textOf(module, path, elidesObjects);
  if (path == "-") {
    llvm::outs() << text;
    llvm::outs().flush();
    if (llvm::outs().has_error())
      problem = "standard output cannot be written: " + llvm::outs().error().message();
    llvm::outs().clear_error();
    return problem.empty();
  }
  Status status = writeText(path, text);
  problem = status.message();
  return status.ok();
}

bool Dumper::isDump(StringRef path) {
  StringRef name = llvm::sys::path::filename(path);
  return name.size() > 3 && llvm::isDigit(name[0]) && llvm::isDigit(name[1]) && name[2] == '-' &&
         name.ends_with(".mlir");
}

void Dumper::dump(ModuleOp module, StringRef name) {
  char prefix[16];
  snprintf(prefix, sizeof(prefix), "%02u-", number++);
  SmallString<128> path(directory);
  llvm::sys::path::append(path, prefix + name.str() + ".mlir");
  std::string problem;
  if (!writeIR(module, path.str().str(), elidesObjects, problem) && firstProblem.empty())
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

} // namespace intarsia::compiler
