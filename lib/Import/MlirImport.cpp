//===- MlirImport.cpp - Import IR
//----------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/MlirImport.h"

#include "lib/Import/Mlir/MlirFile.h"
#include "lib/Support/FileVersions.h"

using namespace mlir;
using llvm::createStringError;

namespace intarsia::importer {

llvm::Expected<OwningOpRef<ModuleOp>> importMlir(const ImportRequest &request) {
  FileVersions::note(request.path.str());
  auto buffer = llvm::MemoryBuffer::getFile(request.path);
  if (!buffer)
    return createStringError(request.path + ": cannot be read: " + buffer.getError().message());
  std::string hint = invalidHint(**buffer);
  auto module = parseMlir(std::move(*buffer), request.sources, ParserConfig(request.context));
  if (module && !*module)
    return createStringError(request.path + ": is not valid IR" + hint);
  return module;
}

} // namespace intarsia::importer
