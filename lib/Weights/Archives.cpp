//===- Archives.cpp - Files of weights ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/Archives.h"

#include "dialects/Nn/Ops/Constants/Constants.h"
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

namespace {
/// The tensors of an nn.constants op.
class ModuleConstants : public Archive {
public:
  explicit ModuleConstants(nn::ConstantsOp op) : title(("@" + op.getSymName()).str()) {
    for (NamedAttribute attribute : op.getTensors()) {
      auto elements = cast<DenseResourceElementsAttr>(attribute.getValue());
      ArrayRef<char> data = elements.getRawHandle().getBlob()->getData();
      auto tensor = std::make_unique<ArchiveTensor>();
      tensor->name = attribute.getName().str();
      tensor->dtype = safetensorsDtype(elements.getType().getElementType());
      tensor->shape.assign(elements.getType().getShape().begin(), elements.getType().getShape().end());
      tensor->end = data.size();
      tensor->data = data.data();
      byName[tensor->name] = tensor.get();
      entries.push_back(std::move(tensor));
    }
  }
  const std::string &name() const override { return title; }
  std::vector<const ArchiveTensor *> tensors() const override {
    std::vector<const ArchiveTensor *> result;
    for (const auto &tensor : entries)
      result.push_back(tensor.get());
    return result;
  }
  const ArchiveTensor *find(std::string_view key) const override { return byName.lookup(key); }
  /// None: pages of the memory cannot be dropped, which may be no file's.
  std::vector<std::span<const uint8_t>> mappings() const override { return {}; }

private:
  std::string title;
  std::vector<std::unique_ptr<ArchiveTensor>> entries;
  llvm::StringMap<const ArchiveTensor *> byName;
};
} // namespace

llvm::Expected<Archive *> Archives::open(FlatSymbolRefAttr archive) {
  std::unique_ptr<Archive> &file = files[archive.getValue()];
  if (file)
    return file.get();
  Operation *symbol = SymbolTable::lookupNearestSymbolFrom(module, archive);
  if (auto constants = dyn_cast_if_present<nn::ConstantsOp>(symbol)) {
    file = std::make_unique<ModuleConstants>(constants);
    return file.get();
  }
  auto op = dyn_cast_if_present<nn::ArchiveOp>(symbol);
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

bool isHeldByModule(nn::WeightOp weight) {
  return SymbolTable::lookupNearestSymbolFrom<nn::ConstantsOp>(weight, weight.getArchiveAttr()) != nullptr;
}

llvm::Expected<Archive *> Archives::openSafetensors(FlatSymbolRefAttr archive, StringRef why) {
  llvm::Expected<Archive *> file = open(archive);
  if (!file)
    return file;
  const ArchiveKind *kind = findArchiveKind((*file)->name());
  if (kind && kind->extension == ".safetensors")
    return file;
  return createStringError((*file)->name() + ": is a " + StringRef(kind ? kind->name : "table of constants") + "; " +
                           why);
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
