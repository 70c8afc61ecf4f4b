//===- ExplainFunctions.cpp - Resources of kernels in the file of --explain ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/ExplainFunctions.h"

#include "intarsia/Target/Target.h"
#include "lib/Support/File.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace intarsia::compiler {

/// Writes the functions of all objects, a line each. Returns true if there are any.
static Expected<bool> writeTable(mlir::ModuleOp module, raw_ostream &stream) {
  bool any = false;
  for (const target::ArtifactObjects &artifact : target::objectsOf(module))
    for (const target::DeviceObjects &device : artifact.devices)
      for (rt::ObjectOp object : device.objects) {
        auto functions = target::listFunctions(*device.target, object);
        if (!functions)
          return functions.takeError();
        for (const target::KernelFunction &function : *functions) {
          stream << (any ? ",\n    " : "\n    ");
          any = true;
          json::OStream json(stream);
          json.object([&] {
            json.attribute("device", object.getDevice());
            json.attribute("variant", object.getVariant().getName());
            target::writeFunction(json, object, function);
          });
        }
      }
  return any;
}

Error explainFunctions(mlir::ModuleOp module, const std::string &file) {
  std::string table;
  raw_string_ostream stream(table);
  auto any = writeTable(module, stream);
  if (!any)
    return any.takeError();
  // Only a file can be read again: a pipe has passed its text on.
  if (!*any || !sys::fs::is_regular_file(file))
    return Error::success();
  auto decisions = MemoryBuffer::getFile(file);
  if (!decisions)
    return createStringError(file + ": cannot be read again: " + decisions.getError().message());
  // The decisions are one JSON object, whose members keep their order and their digits: the table follows the last one.
  StringRef text = (*decisions)->getBuffer().rtrim();
  if (!text.consume_back("}"))
    return createStringError(file + ": was changed while the model was compiled");
  std::string result = (text.rtrim() + ",\n  \"functions\": [" + table + "\n  ]\n}\n").str();
  std::unique_ptr<AtomicFile> output;
  Status status = AtomicFile::create(file, output);
  if (status.ok())
    status = output->write(result.data(), result.size());
  if (status.ok())
    status = output->commit();
  return status.ok() ? Error::success() : createStringError("cannot write decisions: " + status.message());
}

} // namespace intarsia::compiler
