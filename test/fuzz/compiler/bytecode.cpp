//===- bytecode.cpp - Fuzz models and agents as MLIR's bytecode ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/Registration.h"
#include "lib/Import/Mlir/MlirFile.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const mlir::DialectRegistry registry = [] {
    mlir::DialectRegistry all;
    intarsia::registerAllIntarsia(all);
    return all;
  }();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  bool isReported = false;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &) { isReported = true; });
  llvm::SourceMgr sources;
  llvm::StringRef text(reinterpret_cast<const char *>(data), bytes);
  auto module = intarsia::parseMlir(llvm::MemoryBuffer::getMemBufferCopy(text, "m.mlirbc"), sources, &context);
  if (!module) {
    consumeError(module.takeError());
    return 0;
  }
  if (!*module && !isReported)
    __builtin_trap();
  if (*module)
    llvm::nulls() << **module;
  return 0;
}
