//===- onnx-import.cpp - Fuzz the import of ONNX files ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/Registration.h"
#include "lib/Import/Onnx/OnnxImport.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace intarsia;

static DialectRegistry registry() {
  DialectRegistry all;
  registerAllIntarsia(all);
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const DialectRegistry dialects = registry();
  // A context keeps the attributes of all models that it has seen.
  MLIRContext context(dialects, MLIRContext::Threading::DISABLED);
  context.getDiagEngine().registerHandler([](Diagnostic &) { return success(); });
  int file = memfd_create("model", 0);
  if (file < 0 || write(file, data, bytes) != ssize_t(bytes))
    __builtin_trap();
  std::string path = "/proc/self/fd/" + std::to_string(file);
  importer::ImportOptions options;
  importer::ImportReport report;
  llvm::SourceMgr sources;
  {
    auto module = importer::importOnnx({path, options, &context, sources, &report});
    if (!module) {
      if (toString(module.takeError()).empty())
        __builtin_trap();
    } else if (failed(verify(**module))) {
      __builtin_trap();
    }
  }
  // What is refused is said of an op, or of the model.
  for (const importer::ImportReport::Op &op : report.ops)
    if (op.refused > op.count || (op.refused != 0) != !op.reason.empty())
      __builtin_trap();
  close(file);
  return 0;
}
