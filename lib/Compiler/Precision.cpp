//===- Precision.cpp - Formats that a file beside the weights names ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/Precision.h"

#include "intarsia/Quantize/MixedInputs.h"
#include "lib/Quantize/Models/CompressedTensors.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace intarsia::compiler {

static std::string pathIn(StringRef directory) {
  SmallString<128> path(directory);
  llvm::sys::path::append(path, precisionFileName);
  return path.str().str();
}

/// Returns why activations cannot be what the user asks for without what `intarsia quantize` finds out; success if they
/// can be.
static llvm::Error checkKnown(StringRef activations, const PrecisionFile &file) {
  bool isMixed = activations == mixedActivations && file.inputs.empty();
  bool isStatic = activations == staticScales && file.staticInputs.empty();
  if (!isMixed && !isStatic)
    return llvm::Error::success();
  return llvm::createStringError(llvm::formatv(
      "--quantize-activations={0} needs to know {1}, which takes a step of its own: `intarsia quantize MODEL -o "
      "DIRECTORY --quantize={2} --quantize-activations={0} --calibration=TEXT.txt` writes a model directory, and this "
      "program compiles that for any target",
      activations, isMixed ? "which features of inputs are outliers" : "the range of each feature of inputs",
      isMixed ? "int4" : "int8"));
}

llvm::Expected<std::optional<PrecisionFile>> findPrecision(ModuleOp module, StringRef archiveDirectory,
                                                           const std::string &given, const QuantizeOptions &options) {
  std::string path = given.empty() ? pathIn(archiveDirectory) : given;
  if (given.empty() && !llvm::sys::fs::exists(path)) {
    if (llvm::Error error = checkKnown(options.activations, {}))
      return std::move(error);
    return std::nullopt;
  }
  llvm::Expected<PrecisionFile> file = PrecisionFile::read(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = checkKnown(options.activations, *file))
    return std::move(error);
  auto named = [&](llvm::Error error) {
    return llvm::createStringError(path + ": " + llvm::toString(std::move(error)));
  };
  MLIRContext context(MLIRContext::Threading::DISABLED);
  if (llvm::Error error = parseTensorFormats(file->tensorOptions(), &context).takeError())
    return named(std::move(error));
  if (llvm::Error error = checkCacheFormats(file->cacheOptions()))
    return named(std::move(error));
  if (llvm::Error error = parseMixedInputs(file->inputOptions()).takeError())
    return named(std::move(error));
  if (llvm::Error error = parseStaticInputs(file->staticInputOptions()).takeError())
    return named(std::move(error));
  if (llvm::Error error = checkPrecisionFile(*file, path, module, archiveDirectory))
    return std::move(error);
  return std::move(*file);
}

QuantizeOptions withPrecision(QuantizeOptions options, const std::optional<PrecisionFile> &file) {
  if (!file)
    return options;
  if (options.activations.empty() && !file->inputs.empty())
    options.activations = mixedActivations.str();
  else if (options.activations.empty() && !file->staticInputs.empty())
    options.activations = staticScales.str();
  options.tensors = file->tensorOptions();
  options.inputs = file->inputOptions();
  options.staticInputs = file->staticInputOptions();
  std::vector<std::string> caches = file->cacheOptions();
  caches.insert(caches.end(), options.caches.begin(), options.caches.end());
  options.caches = std::move(caches);
  return options;
}

/// Returns true if a directory holds values of a format in more bits than the format has.
static bool isStoredWider(StringRef name, MLIRContext *context) {
  llvm::Expected<nn::BlockFormatAttr> format = parseWeightFormat(name, context);
  if (format)
    return *format && quantize::isStoredWider(format->getElement());
  llvm::consumeError(format.takeError()); // a name of no format, such as none
  return false;
}

PrecisionFile takeRest(ModuleOp module, std::optional<PrecisionFile> &file) {
  PrecisionFile rest;
  if (!file)
    return rest;
  llvm::StringSet<> compressed;
  for (const std::string &entry : compressedEntries(module, *file))
    compressed.insert(entry);
  std::vector<std::pair<std::string, std::string>> stored;
  for (const auto &[key, format] : file->tensors) {
    bool isStored = compressed.contains(key + "=" + format), isNarrow = isStoredWider(format, module.getContext());
    if (isStored)
      stored.emplace_back(key, format);
    if (!isStored || isNarrow)
      rest.tensors.emplace_back(key, format);
  }
  file->tensors = std::move(stored);
  rest.caches = std::move(file->caches);
  file->caches.clear();
  return rest;
}

llvm::Error writeRest(ModuleOp module, PrecisionFile rest, const std::string &directory) {
  if (!rest.tensors.empty() || !rest.caches.empty())
    return writePrecisionFile(std::move(rest), module, directory);
  std::string path = pathIn(directory);
  std::error_code code = llvm::sys::fs::remove(path);
  return code ? llvm::createStringError(path + ": cannot be removed: " + code.message()) : llvm::Error::success();
}

} // namespace intarsia::compiler
