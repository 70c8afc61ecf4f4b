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

llvm::Expected<Archive *> Archives::open(FlatSymbolRefAttr archive) {
  std::unique_ptr<Archive> &file = files[archive.getValue()];
  if (file)
    return file.get();
  auto op = SymbolTable::lookupNearestSymbolFrom<nn::ArchiveOp>(module, archive);
  if (!op)
    return createStringError("the module has no nn.archive @" + archive.getValue());
  SmallString<128> path(directory);
  llvm::sys::path::append(path, op.getFile());
  FileVersions::note(path.str().str());
  if (Status status = Archive::open(path.str().str(), file); !status.ok())
    return createStringError(status.message());
  // Reads ahead in large steps: tensors are read once, from their beginning to their end.
  for (std::span<const uint8_t> memory : file->mappings())
    madvise(const_cast<uint8_t *>(memory.data()), memory.size(), MADV_SEQUENTIAL);
  return file.get();
}

llvm::Expected<Archive *> Archives::openSafetensors(FlatSymbolRefAttr archive, StringRef why) {
  llvm::Expected<Archive *> file = open(archive);
  if (!file)
    return file;
  const ArchiveKind *kind = findArchiveKind((*file)->name());
  if (kind->extension == ".safetensors")
    return file;
  return createStringError((*file)->name() + ": is a " + StringRef(kind->name) + "; " + why);
}

llvm::Expected<const ArchiveTensor *> Archives::find(FlatSymbolRefAttr archive, StringAttr key) {
  auto file = open(archive);
  if (!file)
    return file.takeError();
  const ArchiveTensor *entry = (*file)->find(std::string_view(key.getValue()));
  if (!entry)
    return createStringError((*file)->name() + ": has no tensor '" + key.getValue() +
                             "', which the model reads (it has " + Twine((*file)->tensors().size()) + " tensors)");
  return entry;
}

} // namespace intarsia::weights
