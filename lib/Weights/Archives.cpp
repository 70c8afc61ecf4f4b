//===- Archives.cpp - Files of weights ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/Archives.h"

#include "lib/Support/FileVersions.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"
#include <sys/mman.h>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::weights {

llvm::StringRef safetensorsDtype(Type type) {
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case([](Float64Type) { return "F64"; })
      .Case([](Float32Type) { return "F32"; })
      .Case([](Float16Type) { return "F16"; })
      .Case([](BFloat16Type) { return "BF16"; })
      .Case([](Float8E4M3FNType) { return "F8_E4M3"; })
      .Case([](Float8E5M2Type) { return "F8_E5M2"; })
      .Case([](IntegerType integer) -> StringRef {
        bool isUnsigned = integer.isUnsigned();
        switch (integer.getWidth()) {
        case 1:
          return "BOOL";
        case 8:
          return isUnsigned ? "U8" : "I8";
        case 16:
          return isUnsigned ? "U16" : "I16";
        case 32:
          return isUnsigned ? "U32" : "I32";
        case 64:
          return isUnsigned ? "U64" : "I64";
        default:
          return "";
        }
      })
      .Default([](Type) { return ""; });
}

llvm::Expected<std::unique_ptr<Archive>> Archive::open(const std::string &path) {
  auto archive = std::make_unique<Archive>();
  FileVersions::note(path);
  bool isGguf = StringRef(path).ends_with(".gguf");
  Status status =
      isGguf ? gguf::File::open(path, path, archive->gguf) : SafetensorsFile::open(path, archive->safetensors);
  if (!status.ok())
    return createStringError(status.message());
  // Reads ahead in large steps: tensors are read once, from their beginning to their end.
  const uint8_t *data = isGguf ? archive->gguf->data() : archive->safetensors->data();
  uint64_t bytes = isGguf ? archive->gguf->size() : archive->safetensors->size();
  madvise(const_cast<uint8_t *>(data), bytes, MADV_SEQUENTIAL);
  return archive;
}

const SafetensorsEntry *Archive::find(StringRef key) const {
  std::string_view name(key.data(), key.size());
  if (!gguf)
    return safetensors->find(name);
  const gguf::Tensor *tensor = gguf->find(name);
  return tensor ? &tensor->raw : nullptr;
}

llvm::Expected<Archive *> Archives::open(FlatSymbolRefAttr archive) {
  std::unique_ptr<Archive> &file = files[archive.getValue()];
  if (file)
    return file.get();
  auto op = SymbolTable::lookupNearestSymbolFrom<nn::ArchiveOp>(module, archive);
  if (!op)
    return createStringError("the module has no nn.archive @" + archive.getValue());
  SmallString<128> path(directory);
  llvm::sys::path::append(path, op.getFile());
  auto opened = Archive::open(path.str().str());
  if (!opened)
    return opened.takeError();
  file = std::move(*opened);
  return file.get();
}

llvm::Expected<const SafetensorsEntry *> Archives::find(FlatSymbolRefAttr archive, StringAttr key) {
  auto file = open(archive);
  if (!file)
    return file.takeError();
  const SafetensorsEntry *entry = (*file)->find(key.getValue());
  if (!entry)
    return createStringError((*file)->name() + ": has no tensor '" + key.getValue() +
                             "', which the model reads (it has " + Twine((*file)->tensorCount()) + " tensors)");
  return entry;
}

} // namespace intarsia::weights
